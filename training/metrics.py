"""Scores that people report, from arrays; no TensorFlow.

Labels and predictions are class ids, numbers, or [N, C] zeros and ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contract import errors


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> Any:
    """Share of examples with all labels right, float32 as the original prints it."""
    right = labels == predictions
    return np.float32(np.mean(right.all(axis=-1) if right.ndim > 1 else right))


def mean_loss(losses: np.ndarray, batch_size: int) -> Any:
    """The mean of the batches' means of float [N], float32; an Estimator's `loss`."""
    starts = range(0, len(losses), batch_size)
    return np.float32(np.mean([np.mean(losses[s : s + batch_size]) for s in starts]))


def perplexities(
    loss: float, num_predictions: int = 0, num_words: int = 0, num_bytes: int = 0
) -> dict[str, Any]:
    """Scores of a language model from its mean loss in nats a predicted token.

    `perplexity` is by token. Where it is known how many words and bytes of text the
    predicted tokens are, `word_perplexity` and `bits_per_byte` do not depend on how a
    tokenizer cuts the text.
    """
    nats = np.float64(loss)
    scores = {"perplexity": np.exp(nats)}
    if num_predictions and num_words:
        scores["word_perplexity"] = np.exp(nats * num_predictions / num_words)
    if num_predictions and num_bytes:
        scores["bits_per_byte"] = nats * num_predictions / num_bytes / np.log(2.0)
    return {name: np.float32(value) for name, value in scores.items()}


def score_tokens(name: str, texts: Any, scores: Mapping[str, float]) -> dict[str, Any]:
    """Scores of a model of texts, with perplexities; `loss` is not a mean over batches.

    Args:
        name: the mean over all tokens is the score `name`_loss.
        texts: has num_predictions, num_words and num_text_bytes of what was evaluated;
            or None.
    """
    loss = scores[f"{name}_loss"]
    counts: tuple[int, ...] = ()
    if texts is not None:
        counts = texts.num_predictions, texts.num_words, texts.num_text_bytes
    return {**scores, "loss": loss, **perplexities(loss, *counts)}


def score_both_directions(scores: Mapping[str, float]) -> dict[str, Any]:
    """Scores of two language models, with perplexities of each and of the mean loss.

    `scores` have next_token_loss, the mean of both, forward_loss and backward_loss.
    `loss` is that mean over all words, not over batches.
    """
    both = score_tokens("next_token", None, scores)
    for name in ("forward", "backward"):
        (value,) = perplexities(scores[f"{name}_loss"]).values()
        both[f"{name}_perplexity"] = value
    return both


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1 (the GLUE score of MRPC and QQP)."""
    actual, predicted = labels == 1, predictions == 1
    right = np.count_nonzero(actual & predicted)
    return 2.0 * right / max(np.count_nonzero(actual) + np.count_nonzero(predicted), 1)


def f1_macro(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Mean of the F1 of every class."""
    right, actual, predicted = _class_counts(labels, predictions)
    return float(np.mean(2.0 * right / np.maximum(actual + predicted, 1.0)))


def f1_micro(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of all label decisions together; of interest for several labels a text."""
    right, actual, predicted = map(np.sum, _class_counts(labels, predictions))
    return float(2.0 * right / max(actual + predicted, 1.0))


def mcc(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews correlation coefficient (the GLUE score of CoLA)."""
    right, actual, predicted = _class_counts(labels, predictions)
    count = actual.sum()
    product = (count**2 - actual @ actual) * (count**2 - predicted @ predicted)
    if product == 0:
        return 0.0
    return float((right.sum() * count - actual @ predicted) / np.sqrt(product))


def _class_counts(labels, predictions):
    """How often each class, or label [N, C], is right, actual and predicted.

    Classes that do not occur are left out.

    scikit-learn gives the same scores and takes a hundred times as long, mostly for
    looking at its arguments; a bootstrap calls it a thousand times.
    """
    if labels.ndim > 1:
        both = labels > 0, predictions > 0
        chosen = (both[0] & both[1], *both)
        return [np.count_nonzero(i, axis=0).astype(np.float64) for i in chosen]
    classes, ids = np.unique(np.stack([labels, predictions]), return_inverse=True)
    ids = ids.reshape(2, -1)
    chosen = (ids[0][ids[0] == ids[1]], ids[0], ids[1])
    return [np.bincount(i, minlength=len(classes)).astype(np.float64) for i in chosen]


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Linear correlation (STS-B); nan where labels or predictions are all equal."""
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return math.nan
    import scipy.stats  # which takes time

    return float(scipy.stats.pearsonr(labels, predictions)[0])


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Rank correlation (STS-B); nan where labels or predictions are all equal."""
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return math.nan
    import scipy.stats  # which takes time

    return float(scipy.stats.spearmanr(labels, predictions)[0])


METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "accuracy": accuracy,
    "f1": f1,
    "f1_macro": f1_macro,
    "f1_micro": f1_micro,
    "mcc": mcc,
    "pearson": pearson,
    "spearman": spearman,
}
# For tasks that name no metrics; the first decides which checkpoint is best.
DEFAULTS = {
    "classification": ("accuracy", "f1_macro", "mcc"),
    "choice": ("accuracy",),
    "multi_label": ("f1_micro", "f1_macro", "accuracy"),
    "regression": ("pearson", "spearman"),
}


def compute(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """{name: score}, in the order of the names; unknown ones raise ValueError."""
    for name in names:
        if name not in METRICS:
            raise errors.InputError(
                f"metric {name!r} is unknown; choose from {sorted(METRICS)}"
            )
    return {name: METRICS[name](labels, predictions) for name in names}


def sign(metric: str) -> float:
    """1, or -1 for a loss: the higher a score is times this, the better."""
    return -1.0 if metric.endswith("loss") else 1.0


def summarize(runs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and sample standard deviation of every score over several seeds."""
    names = sorted(set.intersection(*(set(run) for run in runs)))
    summary = {}
    for name in names:
        values = np.array([run[name] for run in runs], np.float64)
        deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        summary[name] = {"mean": float(values.mean()), "deviation": deviation}
    return summary
