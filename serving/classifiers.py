"""What is served of a classifier, by how it reads a text."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from data_pipeline.classification import labels
from modeling import losses
from serving import export, windowed


def served(
    encode: export.TextEncoder,
    label_set: labels.Labels,
    model: Any,
    variables: Iterable[tf.Variable],
) -> export.ServedModel:
    """Raw text in, label and probabilities out."""
    names = label_set.names if label_set.has_one_label else ()
    kind = label_set.shares_as
    if not label_set.windows:
        forward = losses.WithProbabilities(kind, model)
        return export.TextClassifier(encode, forward, variables, names, model.config)
    how = kind, label_set.window_logits
    return windowed.LongTextClassifier(encode, model, variables, names, *how)
