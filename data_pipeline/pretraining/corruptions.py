"""Texts with noise, and what restores them (T5 section 3.3, BART section 2.2).

For N texts at a time. Chance comes in as numbers 0..1; a row depends on its own alone.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from contract import errors, features

RANDOM_SPANS, INFILLING = "random_spans", "infilling"  # of T5 and of BART
# The share of tokens that are noise, in the papers.
NOISE_DENSITY = {RANDOM_SPANS: 0.15, INFILLING: 0.3}
MEAN_NOISE_SPAN_LENGTH = 3.0  # of both, in tokens
# [CLS] and [SEP] around a source, and the end after a target.
AROUND_SOURCE, AFTER_TARGET = 2, 1
# No longer text fits, for its noise or the rest of it is half of it at least.
_TIMES_LONGER = 2


@dataclasses.dataclass(frozen=True)
class Rule:
    """How texts are corrupted.

    Attributes:
        corruption: RANDOM_SPANS or INFILLING.
        noise_density: share of tokens that are noise, between 0 and 1.
        mean_noise_span_length: in tokens, from 1.
        roll_noise: whether random spans are shifted around, so that all places of a
            text are noise as often. Without, as T5 was trained, its end always is.
    """

    corruption: str
    noise_density: float
    mean_noise_span_length: float
    roll_noise: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.noise_density < 1:
            raise errors.InputError(
                f"--noise_density={self.noise_density} makes noise of nothing or of "
                f"all; give a share such as {NOISE_DENSITY[self.corruption]}"
            )
        if self.roll_noise and self.corruption != RANDOM_SPANS:
            raise errors.InputError(
                f"--roll_noise is for --corruption={RANDOM_SPANS}, but it is "
                f"{self.corruption}"
            )
        if self.mean_noise_span_length < 1:
            raise errors.InputError(
                f"--mean_noise_span_length={self.mean_noise_span_length} is below 1 "
                f"token; {MEAN_NOISE_SPAN_LENGTH} is usual"
            )


def rule(
    corruption: str,
    noise_density: float | None = None,
    mean_noise_span_length: float | None = None,
    roll_noise: bool = False,
) -> Rule:
    """Makes a Rule; None stands for the value of the corruption's paper."""
    if noise_density is None:
        noise_density = NOISE_DENSITY[corruption]
    if mean_noise_span_length is None:
        mean_noise_span_length = MEAN_NOISE_SPAN_LENGTH
    return Rule(corruption, noise_density, mean_noise_span_length, roll_noise)


class MaxLengths(NamedTuple):
    """The longest results of texts of so many tokens, ints or arrays of them."""

    source: Any  # tokens, without those around it
    target: Any  # the same
    sentinels: Any


class NoiseTokens(NamedTuple):
    """The tokens that replace noise."""

    mask_id: int | None  # None where the vocabulary has none
    sentinels: np.ndarray  # int32 [K], in the order in which a text has them


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


def replace_spans(texts: Texts, is_noise: np.ndarray, sentinels: np.ndarray) -> Texts:
    """Texts in which each run of noise is one token, the next of sentinels, int [K]."""
    is_noise = is_noise & texts.is_real
    begins = is_noise.copy()
    begins[:, 1:] &= ~is_noise[:, :-1]
    run = np.cumsum(begins, axis=1) - 1  # the last one so far
    ids = texts.ids.copy()
    ids[begins] = sentinels[run[begins]]
    return keep(ids, texts.is_real & (begins | ~is_noise))


def span_counts(lengths, density, mean_length):
    """How many tokens are noise, and in how many spans: int64, as `lengths`.

    As T5's random_spans_noise_mask; a single token is none.
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
    """As many tokens and spans as `span_counts`, at random places; bool [N, W].

    A text begins with tokens that are no noise and ends with noise, unless it `rolls`:
    then each text is shifted by a random number of tokens, its end to its beginning, as
    by T5's random_roll; a span may be cut in two. `uniform` is float [N, 2, W]: where
    the text between the spans is cut, and where the noise.
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

    All ways are as likely. Beyond the parts of a row there are totals.
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

    Spans are drawn until they hold as many tokens as `span_counts`, the last one being
    cut, and lie between the other tokens at random places; one may be empty. There are
    at most as many spans as tokens to hide: so no source is longer than its text.
    `uniform` is float [N, 2, W]: lengths of spans, and their places.

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


def corrupt(
    texts: Texts, rule: Rule, tokens: NoiseTokens, uniform: np.ndarray
) -> tuple[Texts, Texts]:
    """Sources and targets of N texts, without the tokens around them.

    Random spans become a sentinel each in the source, and so does the text between them
    in the target. Infilling has [MASK] for each span, and the whole text as target.
    `uniform` is float [N, 2, W] in 0..1.
    """
    share, mean_length = rule.noise_density, rule.mean_noise_span_length
    if rule.corruption == RANDOM_SPANS:
        is_noise = random_spans(
            texts.lengths, share, mean_length, uniform, rolls=rule.roll_noise
        )
        source = replace_spans(texts, is_noise, tokens.sentinels)
        return source, replace_spans(texts, ~is_noise, tokens.sentinels)
    places, counts = infilling(texts.lengths, share, mean_length, uniform)
    ids = np.take_along_axis(
        texts.ids, np.clip(places, 0, texts.ids.shape[1] - 1), axis=1
    )
    ids[places < 0] = tokens.mask_id
    return Texts(ids, counts), texts


def max_lengths(width: int, rule: Rule) -> MaxLengths:
    """The longest results of texts of at most `width` tokens, ints from 0."""
    lengths = _max_lengths(np.arange(width + 1), rule)
    return MaxLengths._make(int(np.max(values)) for values in lengths)


def _max_lengths(widths, rule):
    """MaxLengths of texts of exactly so many tokens, int [N] each."""
    if rule.corruption == INFILLING:
        return MaxLengths(widths, widths, np.zeros_like(widths))
    hidden, spans = span_counts(widths, rule.noise_density, rule.mean_noise_span_length)
    # A single token is text, and its target is the sentinel in place of it.
    runs = np.maximum(spans, np.minimum(widths, 1))
    if rule.roll_noise:  # the two ends of a text may cut a run of either kind in two
        spans, runs = spans + (spans > 0), runs + (spans > 0)
    source, target = widths - hidden + spans, hidden + runs
    return MaxLengths(np.minimum(source, widths), np.minimum(target, widths), runs)


def longest_text(
    most: int,
    rule: Rule,
    *,
    around_source: int = AROUND_SOURCE,
    after_target: int = AFTER_TARGET,
) -> int:
    """Tokens of the longest text whose source and target have at most `most`.

    T5's random_spans_helper gives one token more where it counts no span.
    """
    widths = np.arange(_TIMES_LONGER * most + 1)
    lengths = _max_lengths(widths, rule)
    fits = np.maximum.accumulate(lengths.source) + around_source <= most
    fits &= np.maximum.accumulate(lengths.target) + after_target <= most
    return int(np.flatnonzero(fits).max(initial=0))
