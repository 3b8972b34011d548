"""A model of vectors of texts as an export that takes raw text."""

from collections.abc import Callable, Iterable

import tensorflow as tf

from serving import export


class TextEmbedder(export.ServedModel):
    """Signatures `embed`, which is `serving_default`, and `ids`: `vector` [B, W].

    Args:
        encoder: without `served`, `ids` is the only signature.
        forward: features -> `vectors` float32 [B, W].
        limits: see `export.ids_function`.
    """

    def __init__(
        self,
        encoder: export.TextEncoder,
        forward: Callable,
        variables: Iterable[tf.Variable],
        limits: export.Limits | None = None,
    ):
        def finish(_, outputs):
            return {"vector": outputs["vectors"]}

        encode, shape = encoder.served, encoder.ids_shape
        ids = export.ids_function(
            lambda grids: finish((), forward(grids)), shape, limits
        )
        if encode is None:
            super().__init__(variables, ids=ids)
            return
        stages = export.Stages(
            encoder.text_names, lambda text: (encode(text), ()), forward, finish, shape
        )
        embed = export.text_function(stages.answer, *encoder.text_names)
        super().__init__(variables, stages, serving_default=embed, embed=embed, ids=ids)
        self.encoder = encoder
