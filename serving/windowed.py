"""SavedModels that cut texts of any length into windows, for all kinds of heads.

The network takes the windows slice by slice.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from modeling import losses, sequences
from serving import export


class QuestionAnswerer(export.ServedModel):
    """Signatures of a question answerer: `serving_default` takes text, `ids` features.

    Args:
        encode: question [B], context [B] -> windows, whose `features` are
            {input_ids, input_mask, segment_ids} int32 [N, S], as in training; of
            characters, input_ids are [N, S, C].
        forward: features -> {start_logits, end_logits} float32 [N, S].
        choose: windows, start_logits, end_logits -> the answers, a dict of [B].
        ids_shape, limits: see `export.Stages` and `export.ids_function`.
    """

    def __init__(
        self,
        encode: Callable,
        forward: Callable,
        choose: Callable,
        variables: Iterable[tf.Variable],
        ids_shape: Sequence[int | None] = (None,),
        limits: export.Limits | None = None,
    ):
        def cut(question, context):
            windows = encode(question, context)
            return windows.features, windows

        def finish(windows, logits):
            return choose(windows, logits["start_logits"], logits["end_logits"])

        texts = ("question", "context")
        stages = export.Stages(texts, cut, forward, finish, ids_shape)
        default = export.text_function(stages.answer, *texts)
        ids = export.ids_function(forward, ids_shape, limits)
        super().__init__(variables, stages, serving_default=default, ids=ids)


class WordTagger(export.ServedModel):
    """Signatures of a tagger: `serving_default` takes text, `ids` features.

    `words` takes texts that are split into words already.

    Args:
        split: text [B] -> {words [B, W] string, starts, ends [B, W] int32}.
        encode: words [B, W], "" for none -> windows, whose `features` are
            {input_ids, input_mask, segment_ids} int32 [N, S], as in training.
        forward: features -> {logits} float32 [N, S, C].
        choose: windows, logits -> {tags string, probabilities float32}, [B, W].
        ids_shape, limits: see `export.Stages` and `export.ids_function`.
    """

    def __init__(
        self,
        split: Callable,
        encode: Callable,
        forward: Callable,
        choose: Callable,
        variables: Iterable[tf.Variable],
        ids_shape: Sequence[int | None] = (None,),
        limits: export.Limits | None = None,
    ):
        def cut(text):
            words = split(text)
            windows = encode(words["words"])
            return windows.features, (words, windows)

        def finish(state, outputs):
            words, windows = state
            return {**words, **choose(windows, outputs["logits"])}

        stages = export.Stages(("text",), cut, forward, finish, ids_shape)

        def tag_words(words):
            windows = encode(words)
            logits = stages.run(windows.features)["logits"]
            return {"words": words, **choose(windows, logits)}

        spec = tf.TensorSpec([None, None], tf.string, name="words")
        super().__init__(
            variables,
            stages,
            serving_default=export.text_function(stages.answer, "text"),
            words=tf.function(tag_words, [spec], autograph=False),
            ids=export.ids_function(forward, ids_shape, limits),
        )


class LongTextClassifier(export.ServedModel):
    """Signatures of a classifier: `serving_default` takes text, `ids` windows.

    The latter returns `logits` float32 [N, C] of each window.

    Args:
        encoder: whose `served` is of windows; without it, `ids` is the only signature.
        model: features int32 [N, S] -> {logits} float32 [N, C].
        label_names: as of `export.TextClassifier`.
        problem_type: as of `losses.probabilities`.
        window_logits: as of `sequences.join_counted`.
    """

    def __init__(
        self,
        encoder: export.TextEncoder,
        model: Any,
        variables: Iterable[tf.Variable],
        label_names: Sequence[str],
        problem_type: str,
        window_logits: str,
    ):
        name, shape = export.namer(label_names), encoder.ids_shape

        def forward(features):
            return {"logits": model(features, training=False)["logits"]}

        def finish(counts, outputs):
            logits = sequences.join_counted(outputs["logits"], counts, window_logits)
            return name(losses.probabilities(problem_type, logits))

        ids = export.ids_function(forward, shape, model.config)
        if encoder.served is None:
            super().__init__(variables, ids=ids)
            return
        names = encoder.text_names
        stages = export.Stages(names, encoder.served, forward, finish, shape)
        default = export.text_function(stages.answer, *names)
        super().__init__(variables, stages, serving_default=default, ids=ids)
