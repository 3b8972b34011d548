"""Hard negatives: texts that are near to a first text, and are not its second one.

Chosen as in NV-Retriever (Moreira et al., 2024, arXiv:2407.15831): a negative is less
near than the pair by a margin, since nearer ones may be right and unlabelled.
"""

from collections.abc import Sequence

import numpy as np

from contract import errors
from data_pipeline.embedding import search

_LOOKED_AT = 100  # neighbours of a first text beyond those that are asked for
_PAIRED = 400  # and beyond its own, as far as memory of all rows goes


def mine(
    texts: Sequence[tuple[str, ...]],
    vectors: np.ndarray,
    count: int,
    *,
    margin: float,
    seed: int,
) -> tuple[list[tuple[str, ...]], int]:
    """Negatives of pairs, from among all second texts.

    A text is none for a first text that it is equal to, or that it is paired with in
    any row. Of the others the nearest are taken whose cosine is at most 1 - margin of
    that of the pair; where these are too few, or lie behind too many others, others
    follow by chance.

    Args:
        texts: N pairs.
        vectors: float32 [N, 2, W] of them, of the length 1.
        count: negatives of a row.
        margin: share of the pair's cosine, 0 to 1.
        seed: draws those by chance.

    Returns:
        `count` texts for each row, the nearest first, and how many are by chance.

    Raises:
        InputError: a first text has fewer other texts than `count`.
    """
    firsts, others = zip(*texts, strict=True)
    places: dict[str, int] = {}
    rows = [places.setdefault(text, len(places)) for text in others]
    corpus = [*places]
    _, which = np.unique(rows, return_index=True)
    paired: dict[str, set[int]] = {first: set() for first in firsts}
    for first, place in zip(firsts, rows, strict=True):
        paired[first].add(place)
        paired[first].add(places.get(first, place))
    if (least := len(corpus) - max(map(len, paired.values()))) < count:
        raise errors.InputError(
            f"--hard_negatives={count}, and there are {max(least, 0)} other texts for "
            "some first text; lower it, or give more rows"
        )
    own = min(_PAIRED, max(map(len, paired.values())))
    looked_at = min(len(corpus), count + _LOOKED_AT + own)
    near, cosines = search.nearest(vectors[:, 0], vectors[which, 1], looked_at)
    limits = (1 - margin) * np.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
    rng, negatives, by_chance = np.random.default_rng(seed), [], 0
    for row, first in enumerate(firsts):
        allowed = near[row][cosines[row] <= limits[row]].tolist()
        chosen = [place for place in allowed if place not in paired[first]][:count]
        by_chance += count - len(chosen)
        while len(chosen) < count:
            place = int(rng.integers(len(corpus)))
            if place not in paired[first] and place not in chosen:
                chosen.append(place)
        negatives.append(tuple(corpus[place] for place in chosen))
    return negatives, by_chance
