"""SavedModels that cut texts of any length into windows: question answerers, taggers.

The network takes the windows slice by slice.
"""

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

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
