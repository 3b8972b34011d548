"""A trained question answerer as a SavedModel that takes raw text; for TF Serving."""

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from serving import export


class QuestionAnswerer(export.ServedModel):
    """Signatures of a question answerer: `serving_default` takes text, `ids` features.

    The graph cuts contexts of any length into windows, which the network takes slice
    by slice.

    Args:
        encode: question [B], context [B] -> windows, whose `features` are
            {input_ids, input_mask, segment_ids} int32 [N, S], as in training; of
            characters, input_ids are [N, S, C].
        forward: features -> {start_logits, end_logits} float32 [N, S].
        choose: windows, start_logits, end_logits -> the answers, a dict of [B].
        ids_shape: as of `export.Stages`.
        limits: as of `export.ids_function`.
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
        super().__init__(
            variables,
            stages,
            serving_default=export.text_function(stages.answer, *stages.text_names),
            ids=export.ids_function(forward, ids_shape, limits),
        )
