"""Scores of vectors of texts: pairs, retrieval, and classes from few labels."""

from collections.abc import Mapping, Sequence

import numpy as np

from contract import errors
from data_pipeline.embedding import search

RANKED = 100  # passages that scores of retrieval look at
_DEPTH = 10


def pair_scores(labels: np.ndarray, cosines: np.ndarray) -> dict[str, float]:
    """Scores of cosines [N] that separate pairs of label 1 from pairs of label 0.

    As sentence-transformers' BinaryClassificationEvaluator, with thresholds halfway
    between neighbouring cosines, above all or the lowest; the highest of equally good.
    """
    cosines = np.asarray(cosines, np.float64)
    order = np.argsort(-cosines)
    ordered = cosines[order]
    count, total = len(ordered), int(np.sum(labels))
    # Predictions of 1 for each threshold, and how many of them are right.
    predicted = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [count]])
    right = np.append(0, np.cumsum(np.asarray(labels)[order]))[predicted]
    thresholds = (ordered[predicted - 1] + ordered[predicted % count]) / 2
    thresholds[0], thresholds[-1] = np.nextafter(ordered[0], np.inf), ordered[-1]
    precisions = right / np.maximum(predicted, 1)
    scores = {"average_precision": float(np.diff(right / total) @ precisions[1:])}
    for name, curve in (
        ("accuracy", (2 * right - predicted + count - total) / count),
        ("f1", 2 * right / (predicted + total)),
    ):
        best = int(np.argmax(curve))
        scores[name] = float(curve[best])
        scores[f"{name}_threshold"] = float(thresholds[best])
    return scores


def retrieval_scores(
    ranked: np.ndarray, relevant: Sequence[Mapping[int, float]]
) -> dict[str, float]:
    """Means over queries of scores of ranked passages.

    As sentence-transformers' InformationRetrievalEvaluator, with gains as in
    trec_eval's NDCG. The average precision is over min(100, relevant passages).

    Args:
        ranked: int [Q, R], the best passages first; RANKED or the whole corpus.
        relevant: {passage: gain above 0} of each query, one at least.
    """
    gained = np.zeros([len(ranked), max(ranked.shape[1], _DEPTH)])
    ideal = np.zeros([len(ranked), _DEPTH])
    for row, best, passages, gains in zip(gained, ideal, ranked, relevant, strict=True):
        row[: len(passages)] = [gains.get(index, 0.0) for index in passages.tolist()]
        highest = sorted(gains.values(), reverse=True)[:_DEPTH]
        best[: len(highest)] = highest
    hits, totals = gained > 0, np.array([len(gains) for gains in relevant])
    firsts = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    precisions = hits * np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    discounts = 1 / np.log2(np.arange(2, _DEPTH + 2))
    values = {
        "mrr_at_10": np.where(firsts <= _DEPTH, 1 / firsts, 0.0),
        "ndcg_at_10": gained[:, :_DEPTH] @ discounts / (ideal @ discounts),
        "map_at_100": precisions[:, :RANKED].sum(axis=1) / np.minimum(totals, RANKED),
    }
    for depth in (1, 10, 100):
        values[f"recall_at_{depth}"] = hits[:, :depth].sum(axis=1) / totals
    return {name: float(np.mean(value)) for name, value in values.items()}


def nearest_label_accuracy(
    vectors: np.ndarray,
    labels: np.ndarray,
    test_vectors: np.ndarray | None = None,
    test_labels: np.ndarray | None = None,
) -> float:
    """Share of texts with the label of the nearest text, by vectors of length 1.

    Without test vectors [M, W], those [N, W] are each predicted from all others.
    """
    left_out = None
    if test_vectors is None:
        test_vectors, test_labels = vectors, labels
        left_out = np.arange(len(vectors))
    indices, _ = search.nearest(test_vectors, vectors, 1, left_out=left_out)
    return float(np.mean(np.asarray(labels)[indices[:, 0]] == test_labels))


def logistic_regression(
    train_vectors: np.ndarray, train_labels: np.ndarray, test_vectors: np.ndarray
) -> np.ndarray:
    """Predicts labels [M] of float [M, W] by a regression on labelled float [N, W]."""
    import sklearn.linear_model  # which takes time

    if len(np.unique(train_labels)) == 1:
        return np.repeat(train_labels[:1], len(test_vectors))
    model = sklearn.linear_model.LogisticRegression(tol=1e-8, max_iter=1000)
    model.fit(np.asarray(train_vectors, np.float64), train_labels)
    return model.predict(np.asarray(test_vectors, np.float64))


def few_labels(
    vectors: np.ndarray,
    labels: np.ndarray,
    test_vectors: np.ndarray,
    test_labels: np.ndarray,
    *,
    num_labelled: int,
    draws: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Accuracies on test texts if `num_labelled` texts of each class had labels.

    A draw is a function of labels, seed and its number, so that all models get the same
    texts. Vectors have the length 1.

    Returns:
        "mean" and sample "deviation" over draws of "logistic_regression" and of
        "nearest_label".
    """
    classes, ids, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if sizes.min() < num_labelled:
        raise errors.InputError(
            f"label {classes[sizes.argmin()]} has {sizes.min()} texts, fewer than the "
            f"{num_labelled} of a draw; lower that number, or add texts"
        )
    accuracies = np.zeros([2, draws])
    for draw in range(draws):
        # The first texts of each class in a random order of all.
        order = np.random.default_rng([seed, draw]).permutation(len(ids))
        firsts = [order[ids[order] == i][:num_labelled] for i in range(len(classes))]
        chosen = np.concatenate(firsts)
        train, test = (vectors[chosen], labels[chosen]), (test_vectors, test_labels)
        predictions = logistic_regression(*train, test_vectors)
        accuracies[0, draw] = np.mean(predictions == test_labels)
        accuracies[1, draw] = nearest_label_accuracy(*train, *test)
    return {
        name: {"mean": float(row.mean()), "deviation": float(row.std(ddof=1))}
        for name, row in zip(
            ("logistic_regression", "nearest_label"), accuracies, strict=True
        )
    }
