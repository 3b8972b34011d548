"""A trained tagger as a SavedModel that takes raw text or words; for TF Serving."""

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from serving import export


class WordTagger(export.ServedModel):
    """Signatures of a tagger: `serving_default` takes text, `ids` features.

    `words` takes what is split into words already. The graph cuts sentences of any
    length into windows, which the network takes slice by slice.

    Args:
        split: text [B] -> {words [B, W] string, starts, ends [B, W] int32}.
        encode: words [B, W], "" for none -> windows, whose `features` are
            {input_ids, input_mask, segment_ids} int32 [N, S], as in training.
        forward: features -> {logits} float32 [N, S, C].
        choose: windows, logits -> {tags string, probabilities float32}, [B, W].
        ids_shape: as of `export.Stages`.
        limits: as of `export.ids_function`.
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

        def finish(kept, outputs):
            words, windows = kept
            return {**words, **choose(windows, outputs["logits"])}

        stages = export.Stages(("text",), cut, forward, finish, ids_shape)

        def tag_words(words):
            windows = encode(words)
            logits = stages.run(windows.features)["logits"]
            return {"words": words, **choose(windows, logits)}

        words = tf.TensorSpec([None, None], tf.string, name="words")
        super().__init__(
            variables,
            stages,
            serving_default=export.text_function(stages.answer, *stages.text_names),
            words=tf.function(tag_words, input_signature=[words]),
            ids=export.ids_function(forward, ids_shape, limits),
        )
