"""Unmasked records as batches of sources with noise, and of targets.

BERT's vocabularies have no sentinels. Where one has [unused0] and so on, sentinels are
these, which no text has, from the highest id down; else they are the last entries,
from the last one down, as in T5.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.batches import packing
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.text import base, wordpiece

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
    """How texts are corrupted."""

    corruption: str  # RANDOM_SPANS or INFILLING
    noise_density: float  # share of tokens that are noise, between 0 and 1
    mean_noise_span_length: float  # in tokens, from 1

    def __post_init__(self) -> None:
        if not 0 < self.noise_density < 1:
            raise errors.InputError(
                f"--noise_density={self.noise_density} makes noise of nothing or of "
                f"all; give a share such as {NOISE_DENSITY[self.corruption]}"
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
) -> Rule:
    """Makes a Rule; None stands for the value of the corruption's paper."""
    if noise_density is None:
        noise_density = NOISE_DENSITY[corruption]
    if mean_noise_span_length is None:
        mean_noise_span_length = MEAN_NOISE_SPAN_LENGTH
    return Rule(corruption, noise_density, mean_noise_span_length)


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
) -> np.ndarray:
    """As many tokens and spans as `span_counts`, at random places; bool [N, W].

    A text begins with tokens that are no noise and ends with noise, as T5 was trained.
    `uniform` is float [N, 2, W]: where the text between the spans is cut, and where the
    noise.
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
    return np.cumsum(changes[:, :width], axis=1, dtype=np.int8).astype(bool)


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
        is_noise = random_spans(texts.lengths, share, mean_length, uniform)
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


_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK)\]")
_TARGET_FEATURES = (features.DECODER_MASK, features.LABELS)
_NAMES = (*features.ENCODER_INPUTS, *_TARGET_FEATURES)


@dataclasses.dataclass(frozen=True)
class Corruptor:
    """Makes sources and targets of records that have at most W tokens of text."""

    rule: Rule
    noise_tokens: NoiseTokens
    around_source: tuple[int, int]  # the ids of [CLS] and [SEP]
    tokens: features.DecoderTokens
    width: int  # W

    @property
    def lengths(self) -> tuple[int, int]:
        return _lengths(self.width, self.rule)

    def features(
        self, input_ids: np.ndarray, input_mask: np.ndarray, uniform: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Sources and targets of records, int32 [N, W + 2], whose tokens have mask 1.

        [CLS] and [SEP] are none of a text: so the end of a target is the end of all. A
        record without a token gives padding alone. `uniform` is float [N, 2, W].

        Returns:
            int32: input_ids, input_mask, segment_ids [N, S]; decoder_mask, labels
            [N, T].
        """
        is_record = input_mask.any(axis=1)
        is_text = ~np.isin(input_ids, self.around_source)
        ids, lengths = keep(input_ids, is_text & (input_mask > 0))
        # Records of other programs may hold longer texts.
        texts = Texts(ids[:, : self.width], np.minimum(lengths, self.width))
        sources, targets = corrupt(texts, self.rule, self.noise_tokens, uniform)
        longest_source, longest_target = self.lengths
        source_ids, input_mask = self._framed(
            sources, self.around_source, is_record, longest_source
        )
        labels, decoder_mask = self._framed(
            targets, (self.tokens.end,), is_record, longest_target
        )
        arrays = {
            features.INPUT_IDS: source_ids,
            features.INPUT_MASK: input_mask,
            features.SEGMENT_IDS: np.zeros_like(source_ids),
            features.DECODER_MASK: decoder_mask,
            features.LABELS: labels,
        }
        return {name: value.astype(features.INTEGER) for name, value in arrays.items()}

    def _framed(self, texts, around, is_record, length):
        """Ids [N, length] with tokens around those of records, and which are real."""
        *before, after = around
        lengths = np.where(is_record, texts.lengths + len(before) + 1, 0)
        width, first = texts.ids.shape[1], len(before)
        shape = len(lengths), max(length, width + first)
        ids: np.ndarray = np.zeros(shape, features.INTEGER)
        ids[:, :first] = before
        ids[:, first : first + width] = texts.ids
        ids[np.arange(len(lengths)), lengths - 1] = after
        is_real = np.arange(length) < lengths[:, None]
        return np.where(is_real, ids[:, :length], self.tokens.padding), is_real


@dataclasses.dataclass(frozen=True)
class DenoisingSets(record_batches.RecordSets):
    """Records with noise, as batches of Corruptor.features and decoder_input_ids.

    The texts of each epoch have other noise, and held-out ones have always the same.
    """

    train_corruptor: Corruptor
    held_out_corruptor: Corruptor

    def _with_noise(self, records, batches, rows, batch_size, seed, start_step):
        """Sources and targets; rows that fill the last batch are padding alone.

        Noise follows from seed, step and row, and is drawn for all rows of a batch.
        """
        is_train = records == self.train
        corruptor = self.train_corruptor if is_train else self.held_out_corruptor

        def add_noise(step, input_ids, input_mask):
            random = np.random.default_rng([seed, int(step)])
            uniform = random.random((batch_size, 2, corruptor.width))
            arrays = corruptor.features(input_ids, input_mask, uniform[rows])
            return [arrays[name] for name in _NAMES]

        count = rows.stop - rows.start
        longest_source, longest_target = corruptor.lengths
        lengths = dict.fromkeys(features.ENCODER_INPUTS, longest_source)
        lengths |= dict.fromkeys(_TARGET_FEATURES, longest_target)

        def to_features(step, batch):
            inputs = step, batch[features.INPUT_IDS], batch[features.INPUT_MASK]
            values = tf.numpy_function(add_noise, inputs, [tf.int32] * len(_NAMES))
            batch = {
                name: tf.ensure_shape(value, [count, lengths[name]])
                for name, value in zip(_NAMES, values, strict=True)
            }
            is_real = batch[features.DECODER_MASK] > 0
            read = packing.shift_right(
                batch[features.LABELS], is_real, corruptor.tokens
            )
            return {**batch, features.DECODER_INPUT_IDS: read}

        numbered = batches.enumerate(start_step)
        return numbered.map(to_features, num_parallel_calls=1).prefetch(2)

    def describe(self, tokenizer: base.Tokenizer) -> str:
        train = self.train_corruptor
        longest_source, longest_target = train.lengths
        line = (
            f"texts: up to {train.width} tokens; sources up to {longest_source}, "
            f"targets up to {longest_target}"
        )
        sentinels = train.noise_tokens.sentinels
        if len(sentinels):
            first, last = (tokenizer.vocab[sentinels[i]] for i in (0, -1))
            line += f"; sentinels {first} to {last} ({sentinels[0]} to {sentinels[-1]})"
        return line


def load(
    specs: Mapping[str, str],
    tokenizer: base.Tokenizer | None,
    rule: Rule,
    *,
    max_seq_length: int,
    vocab_size: int,
    spare_rows: int,
    tokens: features.DecoderTokens | None = None,
) -> DenoisingSets:
    """Opens the records to train on, and those to evaluate on; as batches.load.

    Sources and targets have at most `max_seq_length` tokens. `tokens` are those of the
    decoder, None for the tokenizer's.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        raise errors.InputError(
            "--objective=denoising needs word pieces; set --vocab_file to the "
            "vocab.txt that the records were made with"
        )
    records = record_batches.load(
        specs,
        tokenizer,
        None,
        max_seq_length=None,
        vocab_size=vocab_size,
        spare_rows=spare_rows,
    )
    corruptors = {}
    for each in dict.fromkeys((records.train, records.held_out)):
        width = _checked_width(each, rule, max_seq_length)
        corruptors[each] = Corruptor(
            rule=rule,
            noise_tokens=noise_tokens(tokenizer, rule, width),
            around_source=(tokenizer.cls_id, tokenizer.sep_id),
            tokens=tokens or features.DecoderTokens.from_tokenizer(tokenizer),
            width=width,
        )
    return DenoisingSets(
        **vars(records),
        train_corruptor=corruptors[records.train],
        held_out_corruptor=corruptors[records.held_out],
    )


def noise_tokens(tokenizer: base.Tokenizer, rule: Rule, width: int) -> NoiseTokens:
    """The tokens that replace noise in texts of at most `width` tokens."""
    if rule.corruption == INFILLING and tokenizer.mask_id is None:
        raise errors.InputError(
            f"the vocabulary of {tokenizer.vocab_size} tokens lacks {wordpiece.MASK}; "
            f"give another --vocab_file, or --corruption={RANDOM_SPANS}"
        )
    needed = max_lengths(width, rule).sentinels
    ids = [i for i, t in enumerate(tokenizer.vocab) if _UNUSED.fullmatch(t)]
    if not ids:
        ids = [i for i, t in enumerate(tokenizer.vocab) if not _SPECIAL.fullmatch(t)]
    if len(ids) < needed:
        raise errors.InputError(
            f"{width} tokens need {needed} sentinels, and --vocab_file has {len(ids)}; "
            "raise --mean_noise_span_length, or --num_unused_tokens of build_vocab.py"
        )
    sentinels = np.array(ids[::-1][:needed], features.INTEGER)
    return NoiseTokens(tokenizer.mask_id, sentinels)


def _checked_width(records, rule, max_seq_length):
    """The tokens of text that records have room for."""
    first_file = wording.first_of(records.files, 1)
    if records.sentence_task != "none":
        raise errors.InputError(
            f"the records of {first_file} are pairs (sentence_task="
            f"{records.sentence_task}); make them again with --objective=left_to_right"
        )
    width = records.max_seq_length - AROUND_SOURCE
    longest = longest_text(max_seq_length, rule)
    if not 1 <= width <= longest:
        fitting = longest + AROUND_SOURCE
        least = max(_lengths(width, rule))
        raise errors.InputError(
            f"{first_file}: records of {records.max_seq_length} tokens do not fit; set "
            f"--max_seq_length={least}, or make records of {fitting}"
        )
    return width


def _lengths(width, rule):
    """Tokens of the longest source and target, with those around them."""
    source, target, _ = max_lengths(width, rule)
    return source + AROUND_SOURCE, target + AFTER_TARGET
