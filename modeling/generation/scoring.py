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


def score_tokens(model: Any, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The losses alone, float32 [B, S - 1], of ids and their mask int32 [B, S]."""
    values = (ids, mask, tf.zeros_like(ids))
    features = dict(zip(feature_names.ENCODER_INPUTS, values, strict=True))
    return model(features, training=False)["next_token_losses"]
