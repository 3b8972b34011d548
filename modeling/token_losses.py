"""Objectives of pretraining: hidden tokens and the next sentence; the next token."""

from keras import ops

from modeling import losses

MASKED_LM_EPSILON = 1e-5  # for a batch without predictions; run_pretraining.py


def pretraining(has_sentence_task=True):
    """Masked-LM loss plus next-sentence loss (run_pretraining.py), and accuracies.

    Without `has_sentence_task` neither next_sentence_labels nor next_sentence_logits is
    read.

    Features: masked_lm_ids [B, P] int, masked_lm_weights [B, P] float,
    next_sentence_labels [B] or [B, 1] int, below 0 where none counts. Outputs:
    masked_lm_logits [B, P, V], next_sentence_logits [B, 2].
    """

    def counts(features):
        words = ops.sum(features["masked_lm_weights"]) + MASKED_LM_EPSILON
        if not has_sentence_task:
            return {"masked_lm_loss": words}
        _, is_known = _sentences(features)
        return {"masked_lm_loss": words, "next_sentence_loss": ops.sum(is_known)}

    def totals(features, outputs):
        words = losses.cross_entropy(
            outputs["masked_lm_logits"], features["masked_lm_ids"]
        )
        words = ops.sum(words * features["masked_lm_weights"])
        if not has_sentence_task:
            return {"masked_lm_loss": words}
        labels, is_known = _sentences(features)
        order = losses.cross_entropy(outputs["next_sentence_logits"], labels)  # [B]
        order = ops.sum(order * is_known)
        return {"masked_lm_loss": words, "next_sentence_loss": order}

    def metrics(features, outputs):
        weights = features["masked_lm_weights"]
        right = losses.is_best(outputs["masked_lm_logits"], features["masked_lm_ids"])
        words = (ops.sum(right * weights), ops.sum(weights))
        if not has_sentence_task:
            return {"masked_lm_accuracy": words}
        labels, is_known = _sentences(features)
        right = losses.is_best(outputs["next_sentence_logits"], labels)
        order = (ops.sum(right * is_known), ops.sum(is_known))
        return {"masked_lm_accuracy": words, "next_sentence_accuracy": order}

    return losses.Objective(counts, totals, metrics)


def _sentences(features):
    """Labels int [B], 0 where there is none, and float32 [B], 1 where there is one."""
    labels = ops.reshape(features["next_sentence_labels"], (-1,))
    return ops.maximum(labels, 0), ops.cast(labels >= 0, "float32")


def next_token():
    """Mean cross-entropy of each token but the first, given those before it (GPT).

    Features: input_mask [B, S]. Outputs: next_token_losses and next_token_hits
    [B, S - 1], of pretrainers.LanguageModel.
    """
    return _of_tokens("next_token", lambda features: features["input_mask"][:, 1:])


def target_token():
    """Mean cross-entropy of each token of a target, given its source and those before.

    Features: decoder_mask [B, T]. Outputs: next_token_losses and next_token_hits
    [B, T], of sequence_to_sequence.SequenceToSequence.
    """
    return _of_tokens("target_token", lambda features: features["decoder_mask"])


def _of_tokens(name, mask_of):
    """The mean over all tokens of a batch for which mask_of(features) has a 1."""

    def weights(features):
        return ops.cast(mask_of(features), "float32")

    def counts(features):
        return {f"{name}_loss": ops.sum(weights(features))}

    def totals(features, outputs):
        total = ops.sum(outputs["next_token_losses"] * weights(features))
        return {f"{name}_loss": total}

    def metrics(features, outputs):
        real = weights(features)
        right = ops.sum(outputs["next_token_hits"] * real)
        return {f"{name}_accuracy": (right, ops.sum(real))}

    return losses.Objective(counts, totals, metrics)
