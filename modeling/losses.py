"""Objectives: functions of features and outputs, not of a model class.

An objective has named parts. Each part has a count, known from the features alone,
and a total over the batch; the loss is the sum over parts of total / count. Totals and
counts of parts of a batch (replicas, micro-batches) add up, so the training loop can
divide by the count of the whole batch before it takes gradients.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from contract import features as feature_names

EXCLUDED = -1e9  # the logit of what a softmax is to leave out
MASKED_LM_EPSILON = 1e-5  # for a batch without predictions; run_pretraining.py


class Objective(NamedTuple):
    """The loss that a run minimises; its functions return float32 scalars.

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


def one_part(name, count, total, *metrics):
    """The objective of one part: its count, of features, and total, of outputs too."""
    return Objective(
        lambda features: {name: count(features)},
        lambda features, outputs: {name: total(features, outputs)},
        *metrics,
    )


def together(*objectives):
    """The objective with the parts and the metrics of several, whose names differ."""

    def of_each(field):
        functions = [getattr(each, field) for each in objectives]
        return lambda *given: {k: v for f in functions for k, v in f(*given).items()}

    return Objective(*map(of_each, Objective._fields))


def weighted_mean(name, weights, losses, hits=None, epsilon=0.0):
    """The objective that is sum(losses * weights) / (sum(weights) + epsilon).

    Args:
        name: of the part, without its ending _loss; that of the metric ends with
            _accuracy.
        weights: features -> numbers, or whether a loss counts, of the losses' shape.
        losses: features, outputs -> float32 of any shape.
        hits: features, outputs -> 0 or 1 as float32, whose mean is the metric, without
            the epsilon; None for no metric.
    """

    def weigh(features):
        return ops.cast(weights(features), "float32")

    def count(features):
        number = ops.sum(weigh(features))
        return number + epsilon if epsilon else number

    def total(features, outputs):
        return ops.sum(losses(features, outputs) * weigh(features))

    def metrics(features, outputs):
        weights = weigh(features)
        right = ops.sum(hits(features, outputs) * weights)
        return {f"{name}_accuracy": (right, ops.sum(weights))}

    return one_part(f"{name}_loss", count, total, *((metrics,) if hits else ()))


def size(values):
    """How many numbers a tensor has, float32."""
    return ops.cast(ops.size(values), "float32")


def cross_entropy(logits, labels, smoothing=0.0):
    """-log softmax(logits)[labels]: [..., C] float, [...] int -> [...] float32.

    `smoothing` is the share of the mean of this over all labels (Szegedy et al., 2016,
    section 7).
    """
    logits = ops.cast(logits, "float32")
    # One operation forward and backward: half the time of log_softmax and a gather.
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    if not smoothing:
        return losses
    mean = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
    return (1.0 - smoothing) * losses + smoothing * mean


def is_best(logits, labels):
    """1.0 where no logit [..., C] exceeds the label's; far faster than ops.argmax."""
    own = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)  # [..., 1]
    best = ops.max(logits, axis=-1, keepdims=True)
    return ops.cast(ops.squeeze(own >= best, -1), "float32")


def classifier_losses(problem_type, logits, label_ids, smoothing=0.0):
    """Float32 losses before class weights; run_classifier.py's create_model.

    Softmax cross-entropy [B] for classification and choice (label_ids [B] int), squared
    error [B] for regression ([B] float), and binary cross-entropy [B, C] for
    multi_label ([B, C] float of 0 and 1). `smoothing` is that of the first.
    """
    if problem_type in feature_names.ONE_OF_SEVERAL:
        return cross_entropy(logits, label_ids, smoothing)
    logits = ops.cast(logits, "float32")
    if problem_type == "regression":
        return ops.square(logits[:, 0] - label_ids)
    # max(x, 0) - x * z + log(1 + exp(-|x|)), which does not overflow.
    return ops.relu(logits) - logits * label_ids + ops.softplus(-ops.abs(logits))


def probabilities(problem_type, logits):
    """Softmax or, for multi_label, sigmoid of [B, C]; the number of a regression."""
    if problem_type in feature_names.ONE_OF_SEVERAL:
        return ops.softmax(logits)
    return ops.sigmoid(logits) if problem_type == "multi_label" else logits


@dataclasses.dataclass(frozen=True)
class WithProbabilities:
    """A function of features: a classifier's outputs, and its `probabilities`."""

    problem_type: str
    model: Any

    def __call__(self, features: dict[str, Any]) -> dict[str, Any]:
        outputs = self.model(features, training=False)
        shares = probabilities(self.problem_type, outputs["logits"])
        return {"probabilities": shares, **outputs}


def weighted_losses(problem_type, logits, label_ids, class_weights=None, smoothing=0.0):
    """`classifier_losses`, each times one of `class_weights` [C].

    They multiply the loss of an example by the weight of its class, and of a
    multi_label label by that of its column.
    """
    losses = classifier_losses(problem_type, logits, label_ids, smoothing)
    if class_weights is None:
        return losses
    weights = ops.convert_to_tensor(class_weights, "float32")
    if problem_type == "classification":
        weights = ops.take(weights, label_ids)  # [B]
    return losses * weights


def classifier(problem_type, class_weights=None, smoothing=0.0):
    """The objective of `models.BertClassifier`: the mean of `weighted_losses`.

    The sum is divided by the number of losses, not by the sum of weights, so that a
    batch of one class is weighted too.

    Features: label_ids. Outputs: logits [B, C].
    """

    def total(features, outputs):
        given = outputs["logits"], features["label_ids"], class_weights
        return ops.sum(weighted_losses(problem_type, *given, smoothing))

    return one_part("classifier_loss", _count_labels, total)


def _count_labels(features):
    return size(features["label_ids"])


def soft_losses(problem_type, logits, teacher_logits, temperature):
    """How far a student's logits are from its teacher's, both [B, C]; float32.

    At temperature T, T^2 times the cross-entropy of both softmaxes [B] for
    classification, and of both sigmoids [B, C] for multi_label. T^2 keeps gradients of
    one size, whatever T is. Squared difference [B], without T, for regression.
    """
    if problem_type == "regression":
        return classifier_losses(problem_type, logits, teacher_logits[:, 0])
    logits = ops.cast(logits, "float32") / temperature
    teacher_logits = ops.cast(teacher_logits, "float32") / temperature
    if problem_type == "classification":
        shares = ops.softmax(teacher_logits)  # [B, C]
        losses = ops.categorical_crossentropy(shares, logits, from_logits=True)
    else:
        losses = classifier_losses(problem_type, logits, ops.sigmoid(teacher_logits))
    return temperature**2 * losses


def distillation(problem_type, temperature, weight, class_weights=None):
    """The objective of a student (Hinton et al., 2015).

    `weight` * soft loss + (1 - `weight`) * label loss: both are added up a row and
    divided by the number of all rows, so what a row counts depends on no other row of
    its batch. A row without a label has no label loss. The metrics soft_loss, of all
    rows, and label_loss, of those with a label, are means without these weights; the
    latter is what `classifier` minimises.

    Features: label_ids as there, teacher_logits [B, C], is_labelled [B] float of 0 and
    1. Outputs: logits [B, C].
    """

    def soft_total(features, outputs):
        teacher_logits = features[feature_names.TEACHER_LOGITS]
        losses = soft_losses(
            problem_type, outputs["logits"], teacher_logits, temperature
        )
        return ops.sum(losses)

    def label_total(features, outputs):
        losses = weighted_losses(
            problem_type, outputs["logits"], features["label_ids"], class_weights
        )
        has_label = features[feature_names.IS_LABELLED]  # [B]
        return ops.sum(
            losses * (has_label if len(losses.shape) == 1 else has_label[:, None])
        )

    def total(features, outputs):
        soft = weight * soft_total(features, outputs)
        return soft + (1 - weight) * label_total(features, outputs)

    def metrics(features, outputs):
        count = _count_labels(features)
        share = ops.mean(features[feature_names.IS_LABELLED])
        return {
            "soft_loss": (soft_total(features, outputs), count),
            "label_loss": (label_total(features, outputs), share * count),
        }

    return one_part("classifier_loss", _count_labels, total, metrics)


def span():
    """Half of start plus end cross-entropy, mean over the batch; run_squad.py.

    Features: start_positions, end_positions [B] int. Outputs: start_logits,
    end_logits [B, S].
    """

    def total(features, outputs):
        start = cross_entropy(outputs["start_logits"], features["start_positions"])
        end = cross_entropy(outputs["end_logits"], features["end_positions"])
        return ops.sum(start + end) / 2.0

    return one_part("span_loss", lambda each: size(each["start_positions"]), total)


def tag_losses(logits, label_ids, smoothing=0.0):
    """Cross-entropy [B, S] of logits [B, S, C]; 0 where label_ids are negative."""
    losses = cross_entropy(logits, ops.maximum(label_ids, 0), smoothing)
    return ops.where(label_ids >= 0, losses, 0.0)


def tagger(smoothing=0.0):
    """Mean cross-entropy of the tokens that have a label (BERT section 5.3).

    Features: label_ids [B, S] int, negative where a token has no label. Outputs:
    logits [B, S, C].
    """
    return weighted_mean(
        "tagger",
        lambda features: features["label_ids"] >= 0,
        lambda features, outputs: tag_losses(
            outputs["logits"], features["label_ids"], smoothing
        ),
    )


def next_token():
    """Mean cross-entropy of each token but the first, given those before it (GPT).

    Features: input_mask [B, S]. Outputs: next_token_losses and next_token_hits
    [B, S - 1], of pretrainers.LanguageModel.
    """
    return _predicted_tokens(
        "next_token", lambda features: features["input_mask"][:, 1:]
    )


def target_token():
    """Mean cross-entropy of each token of a target, given its source and those before.

    Features: decoder_mask [B, T]. Outputs: next_token_losses and next_token_hits
    [B, T], of decoding.SequenceToSequence.
    """
    return _predicted_tokens("target_token", lambda features: features["decoder_mask"])


def _predicted_tokens(name, token_mask):
    return weighted_mean(
        name,
        token_mask,
        lambda features, outputs: outputs["next_token_losses"],
        lambda features, outputs: outputs["next_token_hits"],
    )


def with_next_tokens(objective, weight):
    """Another objective + `weight` * that of a language model (GPT section 3.2, L3).

    The latter is the mean over sequences of the mean over a sequence's tokens, special
    ones included, from the second on. The metric lm_loss is that without the weight.

    Features: input_mask [B, S], or [B, G, S]. Outputs: next_token_losses [..., S - 1].
    """
    if not weight:
        return objective

    def count(features):
        return size(features["input_mask"][..., 0])

    def total(features, outputs):
        is_real = ops.cast(features["input_mask"][..., 1:], "float32")
        sums = ops.sum(outputs["next_token_losses"] * is_real, axis=-1)
        return ops.sum(sums / ops.maximum(ops.sum(is_real, axis=-1), 1.0))

    def weighted(features, outputs):
        return weight * total(features, outputs)

    def metrics(features, outputs):
        return {"lm_loss": (total(features, outputs), count(features))}

    return together(objective, one_part("weighted_lm_loss", count, weighted, metrics))


def pretraining(has_sentence_task=True):
    """Masked-LM loss plus next-sentence loss (run_pretraining.py), and accuracies.

    Without `has_sentence_task` neither next_sentence_labels nor next_sentence_logits is
    read.

    Features: masked_lm_ids [B, P] int, masked_lm_weights [B, P] float,
    next_sentence_labels [B] or [B, 1] int, below 0 where none counts. Outputs:
    masked_lm_logits [B, P, V], next_sentence_logits [B, 2].
    """
    words = _prediction(
        "masked_lm",
        lambda features: features["masked_lm_ids"],
        lambda features: features["masked_lm_weights"],
        MASKED_LM_EPSILON,
    )
    if not has_sentence_task:
        return words

    def labels(features):
        return ops.reshape(features["next_sentence_labels"], (-1,))  # [B]

    order = _prediction(
        "next_sentence",
        lambda features: ops.maximum(labels(features), 0),
        lambda features: labels(features) >= 0,
    )
    return together(words, order)


def _prediction(name, labels, weights, epsilon=0.0):
    """The mean cross-entropy of labels by the outputs `name`_logits, and accuracy."""

    def of(function):
        return lambda features, outputs: function(
            outputs[f"{name}_logits"], labels(features)
        )

    return weighted_mean(name, weights, of(cross_entropy), of(is_best), epsilon)
