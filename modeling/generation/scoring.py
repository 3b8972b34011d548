"""How likely a network finds the tokens of texts."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def scorer(
    model: Any,
) -> Callable[[Mapping[str, tf.Tensor]], tuple[np.ndarray, np.ndarray]]:
    """A function of features [B, S]: losses and hits of the next tokens [B, S - 1].

    See models.LanguageModel; what stands at padding means nothing.
    """

    @tf.function(reduce_retracing=True, autograph=False)
    def compute(features):
        outputs = model(features, training=False)
        return outputs["next_token_losses"], outputs["next_token_hits"]

    def score(features):
        losses, hits = compute(dict(features))
        return losses.numpy(), hits.numpy()

    return score
