"""How likely a network finds the tokens of texts."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contract import features as feature_names


def make_scorer(model: Any) -> Callable[[Mapping[str, tf.Tensor]], np.ndarray]:
    """A function of features [B, S]: losses of the next tokens, float32 [B, S - 1].

    See pretrainers.LanguageModel; what stands at padding means nothing.
    """
    spec = {
        name: tf.TensorSpec([None, None], tf.int32)
        for name in feature_names.ENCODER_INPUTS
    }

    @tf.function(input_signature=[spec], autograph=False)
    def compute(features):
        return model(features, training=False)["next_token_losses"]

    return lambda features: compute(dict(features)).numpy()


def make_token_scorer(model: Any) -> Callable[[Mapping[str, tf.Tensor]], np.ndarray]:
    """A function of features to the natural logarithms of probabilities [B, P].

    Features are those of pretrainers.BertPretrainer, and masked_lm_ids int32 [B, P],
    which are predicted at masked_lm_positions; a LanguageModel predicts them from what
    stands before. Results are float32.
    """
    places, ids = feature_names.MASKED_LM_POSITIONS, feature_names.MASKED_LM_IDS
    fills_masks = places in model.features_spec()
    spec = {
        name: tf.TensorSpec([None, None], tf.int32)
        for name in (*feature_names.ENCODER_INPUTS, places, ids)
    }

    @tf.function(input_signature=[spec], autograph=False)
    def compute(features):
        inputs = {name: value for name, value in features.items() if name != ids}
        if fills_masks:
            logits = model(inputs, training=False)["masked_lm_logits"]
            wanted = features[ids]
            return -tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
        losses = model(inputs, training=False)["next_token_losses"]
        return -tf.gather(losses, features[places] - 1, batch_dims=1)

    return lambda features: compute(dict(features)).numpy()


def score_tokens(model: Any, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The losses alone, float32 [B, S - 1], of ids and their mask int32 [B, S]."""
    values = (ids, mask, tf.zeros_like(ids))
    features = dict(zip(feature_names.ENCODER_INPUTS, values, strict=True))
    return model(features, training=False)["next_token_losses"]
