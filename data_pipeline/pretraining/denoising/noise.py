"""Which tokens of texts are noise (T5 section 3.3, BART section 2.2).

For N texts at a time. Chance comes in as numbers 0..1, so whoever draws them decides
what noise follows from; a row depends on its own numbers alone.
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


def keep(ids: np.ndarray, is_kept: np.ndarray) -> Texts:
    """The tokens of [N, W] that are kept, one after another."""
    counts = is_kept.sum(axis=1)
    left = np.zeros(ids.shape, features.INTEGER)
    left[np.arange(ids.shape[1]) < counts[:, None]] = ids[is_kept]
    return Texts(left, counts)


def drop_noise(texts: Texts, is_noise: np.ndarray) -> Texts:
    """Texts without their noise, bool [N, W]."""
    return keep(texts.ids, texts.is_real & ~is_noise)


def replace(texts: Texts, is_noise: np.ndarray, tokens: np.ndarray | int) -> Texts:
    """Texts in which each token of noise is another one: an int, or int32 [N, W]."""
    ids = np.where(is_noise & texts.is_real, tokens, texts.ids)
    return Texts(ids.astype(features.INTEGER), texts.lengths)


def replace_spans(texts: Texts, is_noise: np.ndarray, sentinels: np.ndarray) -> Texts:
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
    return keep(ids, texts.is_real & (begins | ~is_noise))


# Standard deviations between the mean number of i.i.d. noise tokens and the most; one
# text in 10^9 has fewer than it would have, and targets are a quarter as long at most.
_DEVIATIONS = 6


def most_tokens(width, density):
    """The most tokens of a text of `width` that `iid` makes noise, int like `width`."""
    width = np.asarray(width)
    spread = np.sqrt(width * density * (1 - density))
    most = np.ceil(width * density + _DEVIATIONS * spread).astype(np.int64)
    return np.minimum(most, width)


def iid(lengths: np.ndarray, density: float, uniform: np.ndarray) -> np.ndarray:
    """Makes each token noise by itself, with this probability; bool [N, W].

    `lengths` are int [N], in tokens, and `uniform` float [N, W]. What exceeds
    `most_tokens` of W is no noise, so that targets have a bound.
    """
    width = uniform.shape[1]
    is_noise = (uniform < density) & (np.arange(width) < lengths[:, None])
    return is_noise & (np.cumsum(is_noise, axis=1) <= most_tokens(width, density))


def span_counts(lengths, density, mean_length):
    """How many tokens are noise, and in how many spans: int64, as `lengths`.

    T5's random_spans_noise_mask: at least one token is noise and one is none, unless
    there is but one.
    """
    lengths = np.asarray(lengths, np.int64)
    is_divisible = lengths > 1
    single = np.float32  # as there, where it decides what is rounded up
    noise = np.rint(lengths.astype(single) * single(density)).astype(np.int64)
    noise = np.where(is_divisible, np.clip(noise, 1, np.maximum(lengths - 1, 1)), 0)
    spans = np.rint(noise.astype(single) / single(mean_length)).astype(np.int64)
    # Each begins after a token that is none.
    spans = np.minimum(np.maximum(spans, 1), lengths - noise)
    return noise, np.where(is_divisible, spans, 0)


def random_spans(
    lengths: np.ndarray,
    density: float,
    mean_length: float,
    uniform: np.ndarray,
    *,
    rolls: bool = False,
) -> np.ndarray:
    """As many tokens and spans as `span_counts` says, at random places; bool [N, W].

    A text begins with tokens that are no noise and ends with noise, unless it `rolls`:
    then each text is shifted by a random number of tokens, its end to its beginning, as
    by random_roll of T5's random_spans_noise_mask; a span may be cut in two. `uniform`
    is float [N, 2, W]: where the text between the spans is cut, and where the noise.
    """
    rows, _, width = uniform.shape
    noise, spans = span_counts(lengths, density, mean_length)
    text_ends = _ends_of_parts(lengths - noise, spans, uniform[:, 0])  # [N, K]
    noise_ends = _ends_of_parts(noise, spans, uniform[:, 1])  # [N, K]
    noise_starts = np.pad(noise_ends, [(0, 0), (1, 0)])[:, :-1]
    row, span = np.nonzero(np.arange(text_ends.shape[1]) < spans[:, None])
    changes = np.zeros((rows, width + 1), np.int8)
    changes[row, (text_ends + noise_starts)[row, span]] = 1
    changes[row, (text_ends + noise_ends)[row, span]] = -1
    is_noise = np.cumsum(changes[:, :width], axis=1, dtype=np.int8).astype(bool)
    if not rolls:
        return is_noise
    # The last number cuts nothing, for a text has one cut fewer than tokens.
    shift = (uniform[:, 1, -1] * lengths).astype(np.int64)[:, None]
    columns, length = np.arange(width), np.maximum(lengths, 1)[:, None]
    source = np.where(columns < length, (columns - shift) % length, columns)
    return np.take_along_axis(is_noise, source, axis=1)


def _ends_of_parts(totals, parts, uniform):
    """Cuts rows of `totals` tokens into `parts` that are not empty; ends, [N, parts].

    All ways to do it are as likely. Beyond the parts of a row there are totals.
    """
    is_cut = choose(uniform, np.maximum(totals - 1, 0), np.maximum(parts - 1, 0))
    ends = np.repeat(totals[:, None], max(parts.max(initial=0), 1), axis=1)
    row, last = np.nonzero(is_cut)
    ends[row, (np.cumsum(is_cut, axis=1) - 1)[row, last]] = last + 1
    return ends


def choose(uniform: np.ndarray, among: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Chooses `counts` [N] of the first `among` [N] columns of [N, W]; bool [N, W]."""
    columns = np.arange(uniform.shape[1])
    order = np.argsort(np.where(columns < among[:, None], uniform, 2.0), axis=1)
    is_chosen = np.zeros(uniform.shape, bool)
    np.put_along_axis(is_chosen, order, columns < counts[:, None], axis=1)
    return is_chosen


def infilling(
    lengths: np.ndarray, density: float, mean_length: float, uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Spans of Poisson lengths that one token each stands for (BART's text infilling).

    Spans are drawn until they hold as many tokens as `span_counts` says, the last one
    being cut, and lie between the other tokens at random places. A span of no token is
    a place where nothing is missing. There are at most as many spans as tokens to hide,
    the last of which takes what is left: so no source is longer than its text.

    Args:
        lengths: int [N], in tokens.
        density: share of tokens to hide.
        mean_length: of a span, in tokens.
        uniform: float [N, 2, W]: lengths of spans, and their places.

    Returns:
        int64 [N, W], which token of the text stands at each place of the source, or -1
        for a span; and int64 [N], how many places there are.
    """
    columns = np.arange(uniform.shape[2])
    wanted, _ = span_counts(lengths, density, mean_length)
    drawn = _poisson(mean_length, uniform[:, 0])
    drawn = np.where(columns < wanted[:, None] - 1, drawn, wanted[:, None])
    hidden = np.minimum(np.cumsum(drawn, axis=1), wanted[:, None])
    # hidden[i]: tokens hidden by spans 0..i; spans needed to hide `wanted` tokens.
    spans = np.minimum(np.sum(hidden < wanted[:, None], axis=1) + 1, wanted)
    counts = lengths - wanted + spans
    is_span = choose(uniform[:, 1], counts, spans)
    spans_so_far = np.cumsum(is_span, axis=1)
    hidden_so_far = np.take_along_axis(
        np.pad(hidden, [(0, 0), (1, 0)]), spans_so_far, axis=1
    )
    tokens = columns - spans_so_far + hidden_so_far
    return np.where(is_span, -1, tokens), counts


def _poisson(mean, uniform):
    """Poisson numbers, int64, of numbers 0..1."""
    most = int(mean + 12 * np.sqrt(mean) + 12)  # beyond it there is less than 1e-15
    factors = mean / np.arange(1, most + 1)
    shares = np.cumsum(np.exp(-mean) * np.cumprod(np.r_[1.0, factors]))
    return np.searchsorted(shares, uniform, side="right")
