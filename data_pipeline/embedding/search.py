"""Exact nearest neighbours of vectors, in blocks of queries and of the corpus."""

from collections.abc import Iterable

import numpy as np

from contract import errors

_QUERY_ROWS, _CORPUS_ROWS = 1024, 4096  # of one product of matrices
_SIGN = np.uint32(1 << 31)
_INDEX_BITS, _LAST_INDEX = np.uint64(32), np.uint64((1 << 32) - 1)


def normalize(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors [..., W] by their norms, float32; one of zeros stays zero."""
    vectors = np.asarray(vectors, np.float32)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(norms > 0, norms, np.float32(1))


def nearest(
    queries: np.ndarray,
    corpus: np.ndarray | Iterable[np.ndarray],
    count: int,
    *,
    left_out: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vectors of a corpus with the highest products, the highest first.

    Of equal products the lower index comes first. A corpus of blocks is read once.

    Args:
        queries: float32 [Q, W].
        corpus: float32 [N, W], or blocks [B, W] of any sizes; N is at most 2**32.
        count: neighbours of a query, at least 1.
        left_out: int [Q], for each query an index that is no neighbour; -1 for none.

    Returns:
        Indices int64 and products float32, both [Q, min(count, N)], or [Q, min(count,
        N - 1)] where each query has one left out. If some have, it is the last of N.
    """
    queries, size = np.asarray(queries, np.float32), 0
    _check("query", queries, 0, queries.shape[1])
    best = np.zeros([len(queries), count], np.uint64)  # 0 is below every sort key
    for block in [corpus] if isinstance(corpus, np.ndarray) else corpus:
        for begin in range(0, len(block), _CORPUS_ROWS):
            part = np.asarray(block[begin : begin + _CORPUS_ROWS], np.float32)
            _check("corpus", part, size, queries.shape[1])
            # Of one shape for all parts, so that equal vectors have equal products.
            missing = _CORPUS_ROWS - len(part)
            whole = np.pad(part, ((0, missing), (0, 0))) if missing else part
            for first in range(0, len(queries), _QUERY_ROWS):
                rows = slice(first, first + _QUERY_ROWS)
                products = (queries[rows] @ whole.T)[:, : len(part)]
                if left_out is not None:
                    places = np.asarray(left_out[rows], np.int64) - size
                    inside = np.flatnonzero((places >= 0) & (places < len(part)))
                    products[inside, places[inside]] = -np.inf
                keys = _candidates(products, best[rows], size)
                merged = np.concatenate([best[rows], keys], axis=1)
                merged.partition(keys.shape[1], axis=1)
                best[rows] = merged[:, keys.shape[1] :]
            size += len(part)
    best.sort(axis=1)
    lacks_one = left_out is not None and bool(np.all(np.asarray(left_out) >= 0))
    available = max(size - lacks_one, 0)
    return _decode(best[:, ::-1][:, : min(count, available)])


def _check(name: str, vectors: np.ndarray, first: int, width: int) -> None:
    finite = np.isfinite(vectors).all(axis=1)
    if vectors.shape[1] != width or not finite.all():
        raise errors.InputError(
            f"{name} vector {first + int(np.argmin(finite))}, counted from 0, has not "
            f"{width} finite numbers as the queries have; check the checkpoints"
        )


def _candidates(products: np.ndarray, best: np.ndarray, first: int) -> np.ndarray:
    """Sort keys of the products [Q, B] that are above the lowest of the best.

    They are uint64 [Q, at most B], padded with 0, and few after the first blocks.
    """
    _, lowest = _decode(best.min(axis=1, keepdims=True))
    # A key of 0 has the product NaN, and no product is at most NaN.
    rows, columns = np.nonzero(~(products <= lowest))
    counts = np.bincount(rows, minlength=len(products))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = np.zeros([len(products), counts.max(initial=0)], np.uint64)
    keys[rows, places] = _encode(products[rows, columns], columns + first)
    return keys


def _encode(products: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Sort keys uint64, all different and above 0, in the order of neighbours.

    The high half orders as the products do: the bits of a float32, all inverted below
    zero, and else only the sign. The low half falls with the index.
    """
    bits = (products + np.float32(0)).view(np.uint32)  # the sum makes 0.0 of -0.0
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(np.uint64)
    return (ordered << _INDEX_BITS) | (_LAST_INDEX - indices.astype(np.uint64))


def _decode(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices int64 and products float32 of sort keys."""
    ordered = (keys >> _INDEX_BITS).astype(np.uint32)
    bits = np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered)
    return (_LAST_INDEX - (keys & _LAST_INDEX)).astype(np.int64), bits.view(np.float32)
