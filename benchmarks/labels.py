r"""Calibration, promises and turned labels of --recipe=vectors on a table of your own.

    python -m benchmarks.labels models/minilm TABLE.tsv 200

200 rows of the columns text and label are learned, the next 1,000 are new texts. Folds,
regression, temperature, promises and label_errors.csv are those of the recipe.
"""

import sys

import numpy as np
import scipy.special

import bert_reborn as bert
from data_pipeline.classification import folds, review_tables
from data_pipeline.tables import labelled
from reports.measures import diagnostics, selective
from training import linear_head

_NEW, _BINS, _SPLITS, _KNOWN, _TURNED, _ROUNDS = 1000, 15, 200, 250, 0.05, 5


def _logits(vectors, ids, count, others):
    kernel, bias = linear_head.fit(vectors, ids, "classification", count)
    return others @ kernel.T + bias


def _held_out(vectors, ids, count):
    """Logits [N, C] of rows that models of the three other quarters have not seen."""
    places, logits = folds.assign(ids, 4, 1), np.empty([len(ids), count])
    for left in (places == fold for fold in range(4)):
        logits[left] = _logits(vectors[~left], ids[~left], count, vectors[left])
    return logits


def _show_promises(shares, ids, rng):
    """Promises by some of the new texts, and the shares of errors of the others."""
    sure, is_right = shares.max(axis=1).round(6), shares.argmax(axis=1) == ids
    seen: dict[float, list[tuple[float, float]]] = {s: [] for s in selective.SHARES}
    for _ in range(_SPLITS):
        known, new = np.split(rng.permutation(len(ids)), [_KNOWN])
        for row in selective.promises(sure[known], is_right[known]):
            if row["threshold"] is not None:
                alone = new[sure[new] >= row["threshold"]]
                wrong = 1 - is_right[alone].mean() if len(alone) else 0.0
                seen[row["wrong_at_most"]].append((wrong, len(alone) / len(new)))
    for share, pairs in seen.items():
        wrong, alone = np.array(pairs or [(0.0, 0.0)]).T
        print(f"{share:.0%}: made in {len(pairs)} of {_SPLITS} splits", end=", ")
        print(f"{alone.mean():.1%} alone, {wrong.mean():.2%} wrong", end=", ")
        print(f"more than promised in {np.sum(wrong > share)}")


def _hits(vectors, ids, count, rng):
    """Whether the first rows of label_errors.csv, one a turned label, are such."""
    rows, given = rng.permutation(len(ids))[: int(_TURNED * len(ids))], ids.copy()
    given[rows] = (given[rows] + rng.integers(1, count, len(rows))) % count
    shares = scipy.special.softmax(_held_out(vectors, given, count), axis=1)
    sure = review_tables.self_confidence(given, shares)
    sure = np.where(shares.argmax(axis=1) == given, np.inf, sure)
    return np.isin(np.argsort(sure, kind="stable")[: len(rows)], rows)


def main(pretrained, path, size):
    """Prints what is measured."""
    rng, size = np.random.default_rng(1), int(size)
    read = labelled.read_table(path, labelled.Layout(), labels_required=True)
    labels = (read.labels or [])[: size + _NEW]
    names, ids = np.unique(labels, return_inverse=True)
    vectors = bert.load(pretrained, head="none").embed(read.text_a[: len(ids)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    (own, new), (ids, gold) = (np.split(each, [size]) for each in (vectors, ids))
    count = len(names)
    logits, held_out = _logits(own, ids, count, new), _held_out(own, ids, count)
    number = linear_head.temperature(held_out, ids, "classification")
    for divisor in (1.0, number):
        shares = scipy.special.softmax(logits / divisor, axis=1)
        sure, right = shares.max(axis=1), shares.argmax(axis=1) == gold
        error = diagnostics.reliability(sure, right, _BINS).calibration_error
        print(f"temperature {divisor:.3f}: {right.mean():.3f} right, error {error:.3f}")
    _show_promises(shares, gold, rng)
    hits = np.concatenate([_hits(own, ids, count, rng) for _ in range(_ROUNDS)])
    print(f"turned labels: {hits.sum()} of the first {len(hits)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
