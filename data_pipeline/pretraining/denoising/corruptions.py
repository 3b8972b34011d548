"""The corruptions that a network learns to undo, as rows of a table.

Names are those of table 3 in T5's paper, but for BART's infilling.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from contract import errors
from data_pipeline.pretraining.denoising import noise

MEAN_NOISE_SPAN_LENGTH = 3.0  # of T5 and BART alike, in tokens
MASK_SHARE = 0.9  # of noise that becomes [MASK] in BERT's style; the rest, any entry
# [CLS] and [SEP] around a source, and the end after a target.
AROUND_SOURCE, AFTER_TARGET = 2, 1
# No longer text fits, for its noise or the rest of it is half of it at least.
_TIMES_LONGER = 2


@dataclasses.dataclass(frozen=True)
class Rule:
    """How texts are corrupted.

    Attributes:
        corruption: a key of CORRUPTIONS.
        noise_density: share of tokens that are noise, between 0 and 1.
        mean_noise_span_length: in tokens, from 1; 0.0 of a corruption without spans.
        roll_noise: whether random spans are shifted around, so that all places of a
            text are noise as often. Without, as T5 was trained, its end always is.
    """

    corruption: str
    noise_density: float
    mean_noise_span_length: float
    roll_noise: bool = False


def rule(
    corruption: str,
    noise_density: float | None = None,
    mean_noise_span_length: float | None = None,
    roll_noise: bool = False,
) -> Rule:
    """Makes a Rule; None stands for the value of the corruption's paper.

    Raises:
        ValueError: noise is everything or nothing, or spans are too short or not there.
    """
    row = CORRUPTIONS[corruption]
    if noise_density is None:
        noise_density = row.noise_density
    if not 0 < noise_density < 1:
        raise errors.InputError(
            f"--noise_density={noise_density} makes noise of nothing or of all; give "
            f"a share between 0 and 1, such as {row.noise_density}"
        )
    if roll_noise and corruption != "random_spans":
        raise errors.InputError(
            f"--roll_noise is for --corruption=random_spans, but it is {corruption}"
        )
    if not row.has_spans:
        if mean_noise_span_length is not None:
            named = " or ".join(name for name, c in CORRUPTIONS.items() if c.has_spans)
            raise errors.InputError(
                f"--mean_noise_span_length={mean_noise_span_length} is for "
                f"--corruption={named}, but it is {corruption}; leave it out"
            )
        return Rule(corruption, noise_density, 0.0)
    if mean_noise_span_length is None:
        mean_noise_span_length = MEAN_NOISE_SPAN_LENGTH
    if mean_noise_span_length < 1:
        raise errors.InputError(
            f"--mean_noise_span_length={mean_noise_span_length} is below 1 token; "
            f"{MEAN_NOISE_SPAN_LENGTH} is usual"
        )
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
    vocab_size: int


class Corruption(NamedTuple):
    """One row: `uniform` is float [N, numbers, W], and both results are Texts."""

    noise_density: float
    numbers: int  # 0..1 that each token needs
    corrupt: Callable[..., tuple[noise.Texts, noise.Texts]]
    max_lengths: Callable[[np.ndarray, Rule], MaxLengths]
    has_mask: bool = False
    has_spans: bool = False


def corrupt(
    texts: noise.Texts, rule: Rule, tokens: NoiseTokens, uniform: np.ndarray
) -> tuple[noise.Texts, noise.Texts]:
    """Sources and targets of N texts, without the tokens around them.

    `uniform` is float [N, numbers, W] in 0..1; a row depends on its own numbers alone.
    """
    return CORRUPTIONS[rule.corruption].corrupt(texts, rule, tokens, uniform)


def draw(rows: int, width: int, rule: Rule, random: np.random.Generator) -> np.ndarray:
    """The `uniform` of `corrupt`, float64 [rows, numbers, width]."""
    return random.random((rows, CORRUPTIONS[rule.corruption].numbers, width))


def max_lengths(width: int, rule: Rule) -> MaxLengths:
    """The longest results of texts of at most `width` tokens, ints from 0."""
    lengths = CORRUPTIONS[rule.corruption].max_lengths(np.arange(width + 1), rule)
    return MaxLengths(*(int(np.max(values)) for values in lengths))


def longest_text(
    most: int,
    rule: Rule,
    *,
    around_source: int = AROUND_SOURCE,
    after_target: int = AFTER_TARGET,
) -> int:
    """Tokens of the longest text whose source and target have at most `most`.

    Both get so many tokens besides. T5's random_spans_helper; it takes short texts for
    ones without a span, if spans are longer than their noise, and gives one token more.
    """
    widths = np.arange(_TIMES_LONGER * most + 1)
    lengths = CORRUPTIONS[rule.corruption].max_lengths(widths, rule)
    fits = np.maximum.accumulate(lengths.source) + around_source <= most
    fits &= np.maximum.accumulate(lengths.target) + after_target <= most
    return int(np.flatnonzero(fits).max(initial=0))


def _iid(texts, rule, uniform):
    return noise.iid(texts.lengths, rule.noise_density, uniform[:, 0])


def _bert(texts, rule, tokens, uniform):
    """T5's "BERT-style": [MASK] or, for a tenth of the noise, any entry."""
    is_noise = _iid(texts, rule, uniform)
    random = (uniform[:, 1] * tokens.vocab_size).astype(np.int32)
    hidden = np.where(uniform[:, 2] < MASK_SHARE, tokens.mask_id, random)
    return noise.replace(texts, is_noise, hidden), texts


def _mass(texts, rule, tokens, uniform):
    """T5's "MASS-style": [MASK] for all of the noise."""
    return noise.replace(texts, _iid(texts, rule, uniform), tokens.mask_id), texts


def _replace_spans(texts, rule, tokens, uniform):
    """Each run of i.i.d. noise becomes a sentinel; the target has the noise."""
    return _with_sentinels(texts, _iid(texts, rule, uniform), tokens)


def _random_spans(texts, rule, tokens, uniform):
    """The same of spans, as T5 was trained in the end."""
    is_noise = noise.random_spans(
        texts.lengths,
        rule.noise_density,
        rule.mean_noise_span_length,
        uniform,
        rolls=rule.roll_noise,
    )
    return _with_sentinels(texts, is_noise, tokens)


def _with_sentinels(texts, is_noise, tokens):
    return (
        noise.replace_spans(texts, is_noise, tokens.sentinels),
        noise.replace_spans(texts, ~is_noise, tokens.sentinels),
    )


def _drop(texts, rule, tokens, uniform):
    """The noise is left out of the source, and is the target."""
    is_noise = _iid(texts, rule, uniform)
    return noise.drop_noise(texts, is_noise), noise.drop_noise(texts, ~is_noise)


def _infilling(texts, rule, tokens, uniform):
    """BART's: [MASK] for each span, of which some have no token."""
    places, counts = noise.infilling(
        texts.lengths, rule.noise_density, rule.mean_noise_span_length, uniform
    )
    is_span = places < 0
    places = np.clip(places, 0, texts.ids.shape[1] - 1)
    source = noise.Texts(np.take_along_axis(texts.ids, places, axis=1), counts)
    return noise.replace(source, is_span, tokens.mask_id), texts


def _whole(widths, rule):
    return MaxLengths(widths, widths, np.zeros_like(widths))


def _lengths_of_replace_spans(widths, rule):
    """A source without noise is the longest; a target, with all noise apart."""
    most = noise.most_tokens(widths, rule.noise_density)
    runs = np.minimum(most + 1, (widths + 1) // 2)
    return MaxLengths(widths, np.minimum(2 * most + 1, widths), runs)


def _lengths_of_random_spans(widths, rule):
    counts = noise.span_counts(widths, rule.noise_density, rule.mean_noise_span_length)
    hidden, spans = counts
    # A single token is text, and its target is the sentinel in place of it.
    runs = np.maximum(spans, np.minimum(widths, 1))
    if rule.roll_noise:  # the two ends of a text may cut a run of either kind in two
        spans, runs = spans + (spans > 0), runs + (spans > 0)
    source, target = widths - hidden + spans, hidden + runs
    return MaxLengths(np.minimum(source, widths), np.minimum(target, widths), runs)


def _lengths_of_drop(widths, rule):
    most = noise.most_tokens(widths, rule.noise_density)
    return MaxLengths(widths, most, np.zeros_like(widths))


CORRUPTIONS = {
    "bert": Corruption(0.15, 3, _bert, _whole, has_mask=True),
    "mass": Corruption(0.15, 1, _mass, _whole, has_mask=True),
    "replace_spans": Corruption(0.15, 1, _replace_spans, _lengths_of_replace_spans),
    "random_spans": Corruption(
        0.15, 2, _random_spans, _lengths_of_random_spans, has_spans=True
    ),
    "drop": Corruption(0.15, 1, _drop, _lengths_of_drop),
    "infilling": Corruption(0.3, 2, _infilling, _whole, has_mask=True, has_spans=True),
}
