"""A pretrained network as a SavedModel that takes raw text; for TF Serving."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import tensorflow as tf

from contract import features as feature_names
from serving import export


class MaskFiller(NamedTuple):
    """Fills the [MASK] of texts.

    Attributes:
        encode: text [B] -> clozes, whose `features` are those of the encoder and
            masked_lm_positions int32 [B, M].
        forward: features -> {masked_lm_logits} float32 [B, M, V].
        choose: clozes, logits -> tokens for each mask, a dict of [B, M, ...].
    """

    encode: Callable
    forward: Callable
    choose: Callable


class PretrainedModel(export.ServedModel):
    """Signatures of a pretrained network: `fill_mask`, `embed`, `embed_tokens`, `ids`.

    `serving_default` is `fill_mask`, or `embed` where nothing fills masks.

    Args:
        encode: text [B] -> {input_ids, input_mask, segment_ids} int32 [B, S].
        embed: features, `pools` -> vectors of texts, float32 [B, ..., W], or where it
            does not pool of tokens, [B, S, ..., W].
        spell: features -> tokens, string [B, S].
        filler: None where no head was trained for masks.
        limits: see `export.ids_function`.
    """

    def __init__(
        self,
        encode: Callable,
        embed: Callable,
        spell: Callable,
        variables: Iterable[tf.Variable],
        filler: MaskFiller | None = None,
        limits: export.Limits | None = None,
    ):
        def fill(text):
            assert filler is not None
            clozes = filler.encode(text)
            outputs = filler.forward(clozes.features)
            return filler.choose(clozes, outputs["masked_lm_logits"])

        def embed_features(features):
            return {"vector": embed(features, pools=True)}

        def embed_text(text):
            return embed_features(encode(text))

        def embed_tokens(text):
            features = encode(text)
            vectors = embed(features, pools=False)
            is_token = features[feature_names.INPUT_MASK] > 0
            for _ in vectors.shape[2:]:
                is_token = is_token[..., tf.newaxis]
            vectors = tf.where(is_token, vectors, 0.0)
            return {"tokens": spell(features), "vectors": vectors}

        functions = {
            "embed": export.text_function(embed_text, "text"),
            "embed_tokens": export.text_function(embed_tokens, "text"),
            "ids": export.ids_function(embed_features, limits=limits),
        }
        if filler is not None:
            functions["fill_mask"] = export.text_function(fill, "text")
        default = functions.get("fill_mask", functions["embed"])
        super().__init__(variables, serving_default=default, **functions)
