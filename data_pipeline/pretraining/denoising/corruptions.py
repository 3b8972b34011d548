"""The corruptions that a network learns to undo, as rows of a table.

Names are those of table 3 in T5's paper, but for BART's infilling.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from contract import errors
from data_pipeline.pretraining.denoising import noise, transforms

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
    """

    corruption: str
    noise_density: float
    mean_noise_span_length: float


def rule(
    corruption: str,
    noise_density: float | None = None,
    mean_noise_span_length: float | None = None,
) -> Rule:
    """A Rule; None is what the corruption's paper has.

    Raises:
        ValueError: noise is everything or nothing, or spans are too short or not there.
    """
    known = CORRUPTIONS[corruption]
    if noise_density is None:
        noise_density = known.noise_density
    if not 0 < noise_density < 1:
        raise errors.InputError(
            f"--noise_density={noise_density} makes noise of nothing or of all; give "
            f"a share between 0 and 1, such as {known.noise_density}"
        )
    if not known.has_spans:
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
    return Rule(corruption, noise_density, mean_noise_span_length)


class Sizes(NamedTuple):
    """The most that texts of so many tokens lead to, ints or arrays of them."""

    source: Any  # tokens, without those around it
    target: Any  # the same
    sentinels: Any


class Entries(NamedTuple):
    """What takes the place of noise."""

    mask_id: int | None  # None where no corruption asks for it
    sentinels: np.ndarray  # int32 [K], in the order in which a text has them
    vocab_size: int


class Corruption(NamedTuple):
    """One row: chance is float [N, numbers, W], and both results are Texts."""

    noise_density: float
    numbers: int  # 0..1 that each token needs
    corrupt: Callable[..., tuple[transforms.Texts, transforms.Texts]]
    sizes: Callable[[np.ndarray, Rule], Sizes]
    has_mask: bool = False
    has_spans: bool = False


def corrupt(
    texts: transforms.Texts, rule: Rule, entries: Entries, chance: np.ndarray
) -> tuple[transforms.Texts, transforms.Texts]:
    """Sources and targets of N texts, without the tokens around them.

    `chance` is float [N, numbers, W] in 0..1; a row depends on its own numbers alone.
    """
    return CORRUPTIONS[rule.corruption].corrupt(texts, rule, entries, chance)


def draw(rows: int, width: int, rule: Rule, random: np.random.Generator) -> np.ndarray:
    """The chance that `corrupt` needs, float64 [rows, numbers, width]."""
    return random.random((rows, CORRUPTIONS[rule.corruption].numbers, width))


def sizes(width: int, rule: Rule) -> Sizes:
    """The most that texts of at most `width` tokens lead to, ints from 0."""
    found = CORRUPTIONS[rule.corruption].sizes(np.arange(width + 1), rule)
    return Sizes(*(int(np.max(values)) for values in found))


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
    found = CORRUPTIONS[rule.corruption].sizes(widths, rule)
    fits = np.maximum.accumulate(found.source) + around_source <= most
    fits &= np.maximum.accumulate(found.target) + after_target <= most
    return int(np.flatnonzero(fits).max(initial=0))


def _bert(texts, rule, entries, chance):
    """T5's "BERT-style": [MASK] or, for a tenth of the noise, any entry."""
    is_noise = noise.iid(texts.lengths, rule.noise_density, chance[:, 0])
    random = (chance[:, 1] * entries.vocab_size).astype(np.int32)
    hidden = np.where(chance[:, 2] < MASK_SHARE, entries.mask_id, random)
    return transforms.replaced(texts, is_noise, hidden), texts


def _mass(texts, rule, entries, chance):
    """T5's "MASS-style": [MASK] for all of the noise."""
    is_noise = noise.iid(texts.lengths, rule.noise_density, chance[:, 0])
    return transforms.replaced(texts, is_noise, entries.mask_id), texts


def _replace_spans(texts, rule, entries, chance):
    """Each run of i.i.d. noise becomes a sentinel; the target has the noise."""
    is_noise = noise.iid(texts.lengths, rule.noise_density, chance[:, 0])
    return _with_sentinels(texts, is_noise, entries)


def _random_spans(texts, rule, entries, chance):
    """The same of spans, as T5 was trained in the end."""
    is_noise = noise.random_spans(
        texts.lengths, rule.noise_density, rule.mean_noise_span_length, chance
    )
    return _with_sentinels(texts, is_noise, entries)


def _with_sentinels(texts, is_noise, entries):
    return (
        transforms.spans_replaced(texts, is_noise, entries.sentinels),
        transforms.spans_replaced(texts, ~is_noise, entries.sentinels),
    )


def _drop(texts, rule, entries, chance):
    """The noise is left out of the source, and is the target."""
    is_noise = noise.iid(texts.lengths, rule.noise_density, chance[:, 0])
    return transforms.without(texts, is_noise), transforms.without(texts, ~is_noise)


def _infilling(texts, rule, entries, chance):
    """BART's: [MASK] for each span, of which some have no token."""
    tokens, counts = noise.infilling(
        texts.lengths, rule.noise_density, rule.mean_noise_span_length, chance
    )
    places = np.clip(tokens, 0, texts.ids.shape[1] - 1)
    ids = np.take_along_axis(texts.ids, places, axis=1)
    source = transforms.Texts(ids, counts)
    return transforms.replaced(source, tokens < 0, entries.mask_id), texts


def _whole(widths, rule):
    return Sizes(widths, widths, np.zeros_like(widths))


def _sizes_of_replace_spans(widths, rule):
    """A source without noise is the longest; a target, with all noise apart."""
    most = noise.most_tokens(widths, rule.noise_density)
    runs = np.minimum(most + 1, (widths + 1) // 2)
    return Sizes(widths, np.minimum(2 * most + 1, widths), runs)


def _sizes_of_random_spans(widths, rule):
    counts = noise.span_counts(widths, rule.noise_density, rule.mean_noise_span_length)
    hidden, spans = counts
    # A single token is text, and its target is the sentinel in place of it.
    runs = np.maximum(spans, np.minimum(widths, 1))
    return Sizes(widths - hidden + spans, hidden + runs, runs)


def _sizes_of_drop(widths, rule):
    most = noise.most_tokens(widths, rule.noise_density)
    return Sizes(widths, most, np.zeros_like(widths))


CORRUPTIONS = {
    "bert": Corruption(0.15, 3, _bert, _whole, has_mask=True),
    "mass": Corruption(0.15, 1, _mass, _whole, has_mask=True),
    "replace_spans": Corruption(0.15, 1, _replace_spans, _sizes_of_replace_spans),
    "random_spans": Corruption(
        0.15, 2, _random_spans, _sizes_of_random_spans, has_spans=True
    ),
    "drop": Corruption(0.15, 1, _drop, _sizes_of_drop),
    "infilling": Corruption(0.3, 2, _infilling, _whole, has_mask=True, has_spans=True),
}
