"""What becomes of noise: it is left out, or something else takes its place.

As t5/data/preprocessors.py has it, for N texts at a time. A function of the noise makes
the source; with the noise inverted, it makes the target.
"""

from typing import NamedTuple

import numpy as np

from contract import features


class Texts(NamedTuple):
    """N texts of at most W tokens, from the left."""

    ids: np.ndarray  # int32 [N, W]; whatever beyond the tokens
    lengths: np.ndarray  # int64 [N], tokens of each

    @property
    def is_real(self) -> np.ndarray:
        """Which ids are tokens, bool [N, W]."""
        return np.arange(self.ids.shape[1]) < self.lengths[:, None]


def kept(ids: np.ndarray, is_kept: np.ndarray) -> Texts:
    """The tokens of [N, W] that are kept, one after another."""
    counts = is_kept.sum(axis=1)
    found = np.zeros(ids.shape, features.INTEGER)
    found[np.arange(ids.shape[1]) < counts[:, None]] = ids[is_kept]
    return Texts(found, counts)


def without(texts: Texts, is_noise: np.ndarray) -> Texts:
    """Texts without their noise, bool [N, W]."""
    return kept(texts.ids, texts.is_real & ~is_noise)


def replaced(texts: Texts, is_noise: np.ndarray, tokens: np.ndarray | int) -> Texts:
    """Texts in which each token of noise is another one: an int, or int32 [N, W]."""
    ids = np.where(is_noise & texts.is_real, tokens, texts.ids)
    return Texts(ids.astype(features.INTEGER), texts.lengths)


def spans_replaced(texts: Texts, is_noise: np.ndarray, sentinels: np.ndarray) -> Texts:
    """Texts in which one token is in place of each run of noise.

    The first run of a text becomes the first of the sentinels, int [K], and so on;
    no text has more than K runs.
    """
    is_noise = is_noise & texts.is_real
    begins = is_noise.copy()
    begins[:, 1:] &= ~is_noise[:, :-1]
    run = np.cumsum(begins, axis=1) - 1  # the last one so far
    ids = texts.ids.copy()
    ids[begins] = sentinels[run[begins]]
    return kept(ids, texts.is_real & (begins | ~is_noise))
