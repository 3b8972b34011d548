"""Scores of vectors of texts: pairs, retrieval, and classes from few labels."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import scipy.optimize
import scipy.special

from contract import errors
from data_pipeline.embedding import search

_DEPTH, _MAP_DEPTH = 10, 100


def pair_scores(labels: np.ndarray, cosines: np.ndarray) -> dict[str, float]:
    """Scores of cosines [N] that separate pairs of label 1 from pairs of label 0.

    Definitions are those of sentence-transformers' BinaryClassificationEvaluator. A
    threshold is halfway between two neighbouring cosines, above all or the lowest, and
    pairs from it on have the prediction 1. Of equally good ones the highest is taken.

    Returns:
        accuracy, accuracy_threshold, f1, f1_threshold and average_precision.

    Raises:
        ValueError: the labels are not 0 and 1.
    """
    if (values := np.unique(labels).tolist()) != [0, 1]:
        raise errors.InputError(
            f"labels of pairs are {values[:5]}, not 0 and 1; give pairs of both kinds"
        )
    cosines = np.asarray(cosines, np.float64)
    order = np.argsort(-cosines)
    ordered = cosines[order]
    count, total = len(ordered), int(np.sum(labels))
    # Predictions of 1 for each threshold, and how many of them are right.
    predicted = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [count]])
    right = np.append(0, np.cumsum(np.asarray(labels)[order]))[predicted]
    thresholds = (ordered[predicted - 1] + ordered[predicted % count]) / 2
    thresholds[0], thresholds[-1] = np.nextafter(ordered[0], np.inf), ordered[-1]
    accuracies = (2 * right - predicted + count - total) / count
    scores = {}
    for name, curve in (
        ("accuracy", accuracies),
        ("f1", 2 * right / (predicted + total)),
    ):
        best = int(np.argmax(curve))
        scores[name] = float(curve[best])
        scores[f"{name}_threshold"] = float(thresholds[best])
    average_precision = np.diff(right / total) @ (right / np.maximum(predicted, 1))[1:]
    return {**scores, "average_precision": float(average_precision)}


def retrieval_scores(
    ranked: np.ndarray,
    relevant: Sequence[Collection[int] | Mapping[int, float]],
    at: Sequence[int] = (1, 3, 5, 10, 100),
) -> dict[str, float]:
    """Means over queries of scores of ranked passages.

    Definitions are those of sentence-transformers' InformationRetrievalEvaluator, with
    gains as in trec_eval's NDCG: a passage adds its gain / log2(rank + 1). The average
    precision of a query is over min(100, its relevant passages).

    Args:
        ranked: int [Q, R], the best passages first; 100 or the whole corpus.
        relevant: passages of each query, or their gains, of which those above 0 are
            relevant. A query without any is left out.
        at: depths of accuracy (one passage at least is relevant) and of recall.

    Returns:
        mrr_at_10, ndcg_at_10, map_at_100, and accuracy_at_k and recall_at_k.

    Raises:
        ValueError: no query has a relevant passage.
    """
    gains = [_positive_gains(passages) for passages in relevant]
    kept = [query for query, passages in enumerate(gains) if passages]
    if not kept:
        raise errors.InputError(
            f"none of {len(gains)} queries has a relevant passage; give one at least"
        )
    gained = np.zeros([len(kept), max(ranked.shape[1], _DEPTH)])
    ideal = np.zeros([len(kept), _DEPTH])
    for place, query in enumerate(kept):
        row = [gains[query].get(index, 0.0) for index in ranked[query].tolist()]
        gained[place, : len(row)] = row
        highest = sorted(gains[query].values(), reverse=True)[:_DEPTH]
        ideal[place, : len(highest)] = highest
    hits, totals = gained > 0, np.array([len(gains[query]) for query in kept])
    firsts = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    precisions = hits * np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    discounts = 1 / np.log2(np.arange(2, _DEPTH + 2))
    values = {
        f"mrr_at_{_DEPTH}": np.where(firsts <= _DEPTH, 1 / firsts, 0.0),
        f"ndcg_at_{_DEPTH}": gained[:, :_DEPTH] @ discounts / (ideal @ discounts),
        f"map_at_{_MAP_DEPTH}": precisions[:, :_MAP_DEPTH].sum(axis=1)
        / np.minimum(totals, _MAP_DEPTH),
    }
    for depth in at:
        values[f"accuracy_at_{depth}"] = firsts <= depth
        values[f"recall_at_{depth}"] = hits[:, :depth].sum(axis=1) / totals
    return {name: float(np.mean(value)) for name, value in values.items()}


def _positive_gains(passages) -> dict[int, float]:
    if not isinstance(passages, Mapping):
        return dict.fromkeys(passages, 1.0)
    return {index: gain for index, gain in passages.items() if gain > 0}


def nearest_label_accuracy(
    vectors: np.ndarray,
    labels: np.ndarray,
    neighbours: int = 1,
    *,
    test_vectors: np.ndarray | None = None,
    test_labels: np.ndarray | None = None,
) -> float:
    """Share of texts with the most frequent label of their neighbours by cosine.

    Of equally frequent labels, that of the nearest neighbour is taken. Without float
    test vectors [M, W], each row of the vectors [N, W] is predicted from all others.
    """
    vectors, truths = search.normalize(vectors), labels
    if test_vectors is None:
        places = np.arange(len(vectors))
        indices, _ = search.nearest(vectors, vectors, neighbours, left_out=places)
    else:
        assert test_labels is not None
        queries, truths = search.normalize(test_vectors), test_labels
        indices, _ = search.nearest(queries, vectors, neighbours)
    voters = np.asarray(labels)[indices]
    votes = [np.sum(voters == column[:, None], axis=1) for column in voters.T]
    winners = voters[np.arange(len(voters)), np.argmax(votes, axis=0)]
    return float(np.mean(winners == np.asarray(truths)))


def logistic_regression(
    train_vectors: np.ndarray, train_labels: np.ndarray, test_vectors: np.ndarray
) -> np.ndarray:
    """Predicts labels [M] of float [M, W] by a regression on labelled float [N, W].

    It minimizes the sum of cross-entropies plus half the squared weights without the
    biases, in float64: scikit-learn's LogisticRegression with its default C=1, which
    has one vector of weights for two classes, half of whose square is twice ours.
    """
    classes, ids = np.unique(train_labels, return_inverse=True)
    inputs, tests = _with_ones(train_vectors), _with_ones(test_vectors)
    shape, targets = (inputs.shape[1], len(classes)), np.eye(len(classes))[ids]
    decay = np.full([shape[0], 1], 2.0 if len(classes) == 2 else 1.0)
    decay[-1] = 0.0  # biases

    def loss_and_gradient(flat):
        weights = flat.reshape(shape)
        log_probabilities = scipy.special.log_softmax(inputs @ weights, axis=1)
        loss = np.sum(decay * weights**2) / 2 - np.sum(targets * log_probabilities)
        gradient = inputs.T @ (np.exp(log_probabilities) - targets) + decay * weights
        return loss, gradient.ravel()

    fit = scipy.optimize.minimize(
        loss_and_gradient,
        np.zeros(decay.size * len(classes)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1000, "ftol": 0.0, "gtol": 1e-5},
    )
    return classes[np.argmax(tests @ fit.x.reshape(shape), axis=1)]


def _with_ones(vectors: np.ndarray) -> np.ndarray:
    return np.pad(np.asarray(vectors, np.float64), [(0, 0), (0, 1)], constant_values=1)


def few_labels(
    vectors: np.ndarray,
    labels: np.ndarray,
    test_vectors: np.ndarray,
    test_labels: np.ndarray,
    num_labelled: int,
    draws: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Accuracies on test texts if `num_labelled` texts of each class had labels.

    A draw of them is a function of the labels, the seed and its number, so that all
    models get the same texts.

    Returns:
        "mean" and sample "deviation" over draws (0 for one) of "logistic_regression"
        and of "nearest_label", which takes the label of the nearest text.

    Raises:
        ValueError: a class has fewer texts.
    """
    classes, ids, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if sizes.min() < num_labelled:
        raise errors.InputError(
            f"label {classes[sizes.argmin()]} has {sizes.min()} texts, fewer than the "
            f"{num_labelled} of a draw; lower that number, or add texts"
        )
    accuracies = np.zeros([draws, 2])
    for draw, row in enumerate(accuracies):
        # The first texts of each class in a random order of all.
        order = np.random.default_rng([seed, draw]).permutation(len(ids))
        firsts = [order[ids[order] == i][:num_labelled] for i in range(len(classes))]
        chosen = np.concatenate(firsts)
        train = vectors[chosen], np.asarray(labels)[chosen]
        row[0] = np.mean(logistic_regression(*train, test_vectors) == test_labels)
        row[1] = nearest_label_accuracy(
            *train, test_vectors=test_vectors, test_labels=test_labels
        )
    means = accuracies.mean(axis=0).tolist()
    deviations = (accuracies.std(axis=0, ddof=1) if draws > 1 else np.zeros(2)).tolist()
    return {
        name: {"mean": means[i], "deviation": deviations[i]}
        for i, name in enumerate(("logistic_regression", "nearest_label"))
    }
