"""Objectives: functions of features and outputs, not of a model class.

An objective has named parts. Each part has a count, known from the features alone,
and a total over the batch; the loss is the sum over parts of total / count. Totals and
counts of parts of a batch (replicas, micro-batches) add up, so the training loop can
divide by the count of the whole batch before it takes gradients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from contract import features


class Objective(NamedTuple):
    """What a run minimises; its functions return float32 scalars.

    Attributes:
        counts: features -> {part: count}.
        totals: features, outputs -> {part: total}.
        metrics: features, outputs -> {name: (total, count)}, reported beside losses.
    """

    counts: Callable[[dict[str, Any]], dict[str, Any]]
    totals: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
    metrics: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] = (
        lambda features, outputs: {}
    )


def cross_entropy(logits, labels):
    """-log softmax(logits)[labels]: [..., C] float, [...] int -> [...] float32."""
    # One operation forward and backward: half the time of log_softmax and a gather.
    return ops.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )


def classifier_losses(problem_type, logits, label_ids):
    """Float32 losses before class weights; run_classifier.py's create_model.

    Softmax cross-entropy [B] for classification and choice (label_ids [B] int), squared
    error [B] for regression ([B] float), and binary cross-entropy [B, C] for
    multi_label ([B, C] float of 0 and 1).
    """
    if problem_type in features.ONE_OF_SEVERAL:
        return cross_entropy(logits, label_ids)
    logits = ops.cast(logits, "float32")
    if problem_type == "regression":
        return ops.square(logits[:, 0] - label_ids)
    # max(x, 0) - x * z + log(1 + exp(-|x|)), which does not overflow.
    return ops.relu(logits) - logits * label_ids + ops.softplus(-ops.abs(logits))


def weighted_losses(problem_type, logits, label_ids, class_weights=None):
    """`classifier_losses`, where `class_weights` [C] say how much each counts.

    They multiply the loss of an example by the weight of its class, and of a
    multi_label label by that of its column.
    """
    losses = classifier_losses(problem_type, logits, label_ids)
    if class_weights is None:
        return losses
    weights = ops.convert_to_tensor(class_weights, "float32")
    if problem_type == "classification":
        weights = ops.take(weights, label_ids)  # [B]
    return losses * weights


def classifier(problem_type, class_weights=None):
    """The objective of `models.BertClassifier`: the mean of `weighted_losses`.

    The sum is divided by the number of losses, not by the sum of weights, so that a
    batch of one class is weighted too.

    Features: label_ids. Outputs: logits [B, C].
    """

    def counts(features):
        return {"classifier_loss": ops.cast(ops.size(features["label_ids"]), "float32")}

    def totals(features, outputs):
        losses = weighted_losses(
            problem_type, outputs["logits"], features["label_ids"], class_weights
        )
        return {"classifier_loss": ops.sum(losses)}

    return Objective(counts, totals)


def span():
    """Half of start plus end cross-entropy, mean over the batch; run_squad.py.

    Features: start_positions, end_positions [B] int. Outputs: start_logits,
    end_logits [B, S].
    """

    def counts(features):
        return {"span_loss": ops.cast(ops.size(features["start_positions"]), "float32")}

    def totals(features, outputs):
        start = cross_entropy(outputs["start_logits"], features["start_positions"])
        end = cross_entropy(outputs["end_logits"], features["end_positions"])
        return {"span_loss": ops.sum(start + end) / 2.0}

    return Objective(counts, totals)


def tag_losses(logits, label_ids):
    """Cross-entropy [B, S] of logits [B, S, C]; 0 where label_ids are negative."""
    losses = cross_entropy(logits, ops.maximum(label_ids, 0))
    return ops.where(label_ids >= 0, losses, 0.0)


def tagger():
    """Mean cross-entropy of the tokens that have a label (BERT section 5.3).

    Features: label_ids [B, S] int, negative where a token has no label. Outputs:
    logits [B, S, C].
    """

    def counts(features):
        is_labelled = features["label_ids"] >= 0  # [B, S]
        return {"tagger_loss": ops.sum(ops.cast(is_labelled, "float32"))}

    def totals(features, outputs):
        losses = tag_losses(outputs["logits"], features["label_ids"])
        return {"tagger_loss": ops.sum(losses)}

    return Objective(counts, totals)


def is_best(logits, labels):
    """1.0 where no logit [..., C] exceeds the label's; far faster than ops.argmax."""
    own = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)  # [..., 1]
    best = ops.max(logits, axis=-1, keepdims=True)
    return ops.cast(ops.squeeze(own >= best, -1), "float32")
