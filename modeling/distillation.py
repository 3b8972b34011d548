"""What a student learns from the outputs of a teacher (Hinton et al., 2015)."""

from keras import ops

from contract import features as names
from modeling import losses


def soft_losses(problem_type, logits, teacher_logits, temperature):
    """How far a student's logits are from its teacher's, both [B, C]; float32.

    At temperature T, T^2 times the cross-entropy of both softmaxes [B] for
    classification, and of both sigmoids [B, C] for multi_label. T^2 keeps gradients of
    one size, whatever T is. Squared difference [B], without T, for regression.
    """
    if problem_type == "regression":
        return losses.classifier_losses(problem_type, logits, teacher_logits[:, 0])
    logits = ops.cast(logits, "float32") / temperature
    teacher_logits = ops.cast(teacher_logits, "float32") / temperature
    if problem_type == "classification":
        shares = ops.softmax(teacher_logits)  # [B, C]
        each = ops.categorical_crossentropy(shares, logits, from_logits=True)
    else:
        shares = ops.sigmoid(teacher_logits)  # [B, C]
        each = losses.classifier_losses(problem_type, logits, shares)
    return temperature**2 * each


def classifier(problem_type, temperature, weight, class_weights=None):
    """The objective of a student: `weight` * soft loss + (1 - `weight`) * label loss.

    Both are added up a row and divided by the number of all rows, so what a row counts
    depends on no other row of its batch. A row without a label has no label loss. The
    metrics soft_loss, of all rows, and label_loss, of those with a label, are means
    without these weights; the latter is what `losses.classifier` minimises.

    Features: label_ids as there, teacher_logits [B, C], is_labelled [B] float of 0 and
    1. Outputs: logits [B, C].
    """
    labelled = losses.classifier(problem_type, class_weights)

    def soft_total(features, outputs):
        given = features[names.TEACHER_LOGITS]
        each = soft_losses(problem_type, outputs["logits"], given, temperature)
        return ops.sum(each)

    def has_label(features, each):
        rows = features[names.IS_LABELLED]  # [B]
        return rows[:, None] if len(each.shape) == 2 else rows

    def label_total(features, outputs):
        each = losses.weighted_losses(
            problem_type, outputs["logits"], features["label_ids"], class_weights
        )
        return ops.sum(each * has_label(features, each))

    def totals(features, outputs):
        soft = weight * soft_total(features, outputs)
        return {"classifier_loss": soft + (1 - weight) * label_total(features, outputs)}

    def metrics(features, outputs):
        (count,) = labelled.counts(features).values()
        share = ops.mean(features[names.IS_LABELLED])
        return {
            "soft_loss": (soft_total(features, outputs), count),
            "label_loss": (label_total(features, outputs), share * count),
        }

    return losses.Objective(labelled.counts, totals, metrics)
