"""Hides tokens for the masked-LM task (BERT section 3.1, Task #1).

As create_masked_lm_predictions of the original, for thousands of sequences at a time.
Tokens are chosen in groups: single word pieces, the pieces of a word, or runs of words.
Groups are taken in random order; a word that exceeds what is left of the number to
predict is skipped, so the last run is cut.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from contract import errors, features

# Of the chosen tokens: what becomes [MASK], what becomes any entry, and what stays.
PROPORTIONS = (0.8, 0.1, 0.1)

# How many words a group has, as weights of 1, 2, ... words; None: word pieces alone.
GROUP_LENGTHS: dict[str, tuple[float, ...] | None] = {
    "word_piece": None,
    "whole_word": (1.0,),
    # SpanBERT: geometric with p = 0.2, of at most 10 words (section 3.1 there).
    "span": tuple(0.2 * 0.8**i for i in range(10)),
    # ALBERT: 1/n for n of at most 3 words (section 4.1 there).
    "ngram": (1.0, 1 / 2, 1 / 3),
}
_MANY_CHARACTERS = 0.5  # of a sample, a share


@dataclasses.dataclass(frozen=True)
class Rule:
    """Which tokens are predicted, how many, and what stands in their place."""

    kind: str  # a key of GROUP_LENGTHS
    masked_lm_prob: float  # share of a sequence's tokens, [CLS] and [SEP] counted
    max_predictions_per_seq: int  # P
    proportions: tuple[float, float, float] = PROPORTIONS  # add up to 1

    def counts(self, lengths):
        """Tokens to predict, int [N], of [N] each; halves are rounded to even."""
        wanted = np.rint(np.asarray(lengths) * self.masked_lm_prob).astype(np.int32)
        return np.minimum(self.max_predictions_per_seq, np.maximum(1, wanted))


@dataclasses.dataclass(frozen=True)
class MaskingVocab:
    """The special ids and continuations in a vocabulary of V entries."""

    cls_id: int
    sep_id: int
    mask_id: int
    vocab_size: int  # V
    is_continuation: np.ndarray  # bool [V], whether an entry continues a word
    special_ids: tuple[int, ...] = ()  # ascending, that are not drawn

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "MaskingVocab":
        if tokenizer.mask_id is None:
            raise errors.InputError(
                f"the vocabulary of {tokenizer.vocab_size} tokens lacks "
                f"{tokenizer.mask_token}; give another, such as one of build_vocab.py"
            )
        return cls(
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            tokenizer.vocab_size,
            tokenizer.continues_word(),
            tokenizer.special_ids,
        )


def warn_of_characters(ids: np.ndarray, tokenizer: Any) -> None:
    """Warns where whole words are Chinese characters, which no ## joins to words."""
    is_chinese = [len(t) == 1 and "\u3400" <= t <= "\u9fff" for t in tokenizer.vocab]
    share = np.sum(np.array(is_chinese)[ids]) / max(len(ids), 1)
    if share > _MANY_CHARACTERS:
        logging.warning(
            "--masking=whole_word: %.0f %% of the tokens are Chinese characters, each a"
            " word; separate words, set create_pretraining_data.py --segmented_words",
            100 * share,
        )


class Draws(NamedTuple):
    """The random numbers for N sequences of S tokens, whatever they hold."""

    run_lengths: np.ndarray | None  # float64 [N, S], 0..1; None without runs of words
    order: np.ndarray  # uint32 [N, S], the groups of the lowest are taken first
    replacement: np.ndarray  # float32 [N, P], 0..1: [MASK], any entry or the token
    entries: np.ndarray  # int32 [N, P], of the vocabulary

    def take(self, rows: slice) -> "Draws":
        runs = None if self.run_lengths is None else self.run_lengths[rows]
        return Draws(runs, self.order[rows], self.replacement[rows], self.entries[rows])


def draw(
    shape: tuple[int, int], rule: Rule, vocab: MaskingVocab, rng: np.random.Generator
) -> Draws:
    """Draws for sequences [N, S]; resumed runs depend on the order of these calls."""
    predictions = (shape[0], rule.max_predictions_per_seq)
    num_entries = vocab.vocab_size - len(vocab.special_ids)
    draws = Draws(
        rng.random(shape) if _has_runs(rule) else None,
        rng.integers(1 << 31, size=shape, dtype=np.uint32),
        rng.random(predictions, np.float32),
        rng.integers(num_entries, size=predictions, dtype=np.int32),
    )
    for index in vocab.special_ids:  # the entries from it on are one place further
        np.add(draws.entries, draws.entries >= index, out=draws.entries)
    return draws


def _has_runs(rule):
    return len(GROUP_LENGTHS[rule.kind] or ()) > 1


def mask(
    input_ids: np.ndarray,
    lengths: np.ndarray,
    rule: Rule,
    vocab: MaskingVocab,
    draws: Draws,
    continues_word: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Hides part of each sequence: packed int32 [N, S], with int [N] tokens each.

    Of the chosen positions, never of [CLS] or [SEP], the rule's proportions become
    [MASK] or any vocabulary entry; the others keep their token. A row depends on its
    own draws alone. `continues_word`, bool [N, S], are the tokens that belong to the
    word before; None for those of the vocabulary.

    Returns:
        {input_ids int32 [N, S], masked_lm_positions int32 [N, P], ascending,
        masked_lm_ids int32 [N, P], masked_lm_weights float32 [N, P]}; the last three
        are 0 beyond the chosen ones.
    """
    rows, width = input_ids.shape
    is_candidate = np.arange(width) < np.asarray(lengths)[:, None]
    is_candidate &= (input_ids != vocab.cls_id) & (input_ids != vocab.sep_id)
    wanted = rule.counts(lengths)
    if GROUP_LENGTHS[rule.kind] is None:
        positions, counts = _choose_pieces(is_candidate, wanted, rule, draws)
    else:
        if continues_word is None:
            continues_word = vocab.is_continuation[input_ids]
        words = _words(is_candidate, continues_word)
        positions, counts = _choose_words(words, is_candidate, wanted, rule, draws)
    is_chosen = np.arange(rule.max_predictions_per_seq) < counts[:, None]  # [N, P]
    row = np.arange(rows)[:, None]
    chosen_ids = np.where(is_chosen, input_ids[row, positions], 0)
    mask_share, any_share, _ = rule.proportions
    # Bounded from above by 1, so that rounding gives no entry where none is wanted.
    hidden = np.where(draws.replacement < 1 - any_share, chosen_ids, draws.entries)
    hidden = np.where(draws.replacement < mask_share, np.int32(vocab.mask_id), hidden)
    masked = input_ids.copy()
    row, column = np.nonzero(is_chosen)
    masked[row, positions[row, column]] = hidden[row, column]
    return {
        features.INPUT_IDS: masked,
        features.MASKED_LM_POSITIONS: np.where(is_chosen, positions, 0),
        features.MASKED_LM_IDS: chosen_ids,
        features.MASKED_LM_WEIGHTS: is_chosen.astype(np.float32),
    }


def _random_order(is_candidate, count, draws):
    """Per row `count` columns, candidates first, in random order; how many are, [N]."""
    width = is_candidate.shape[1]
    # Random bits above and the column below: one sort of plain integers gives both.
    bits = max(width - 1, 1).bit_length()
    keys = draws.order >> np.uint32(bits)
    keys <<= np.uint32(bits)
    keys |= np.arange(width, dtype=np.uint32)
    keys |= np.where(is_candidate, np.uint32(0), np.uint32(1 << 31))
    if count < width // 2:
        keys = np.partition(keys, count - 1, axis=1)[:, :count]
    keys.sort(axis=1)
    columns = (keys & np.uint32((1 << bits) - 1)).astype(np.int32)
    return columns[:, :count], is_candidate.sum(axis=1)


def _choose_pieces(is_candidate, wanted, rule, draws):
    """Ascending positions [N, P] and their number [N]; single word pieces."""
    width = is_candidate.shape[1]
    limit = rule.max_predictions_per_seq
    columns, available = _random_order(is_candidate, min(limit, width), draws)
    counts = np.minimum(wanted, available).astype(np.int32)
    is_taken = np.arange(columns.shape[1]) < counts[:, None]
    columns = np.where(is_taken, columns, width)  # so that they sort to the end
    columns.sort(axis=1)
    positions = np.zeros((len(columns), limit), np.int32)
    positions[:, : columns.shape[1]] = np.where(is_taken, columns, 0)
    return positions, counts


def _words(is_candidate, continues_word):
    """int32 [N, S], each candidate's word from 0; ## continues even across a [SEP]."""
    begins = is_candidate & ~continues_word
    first = is_candidate.argmax(axis=1)
    rows = np.arange(len(first))
    begins[rows, first] = is_candidate[rows, first]
    return np.cumsum(begins, axis=1, dtype=np.int32) - 1


def _order_of_runs(is_word, weights, draws):
    """As `_random_order`, but neighbouring words follow each other, in runs.

    The words of a row are a ring: runs of random lengths tile it from a random word on,
    and are taken in random order. So all places of a row are as likely.
    """
    rows, width = is_word.shape
    # As rng.choice(p=weights), of numbers 0..1 that are drawn for more rows than these.
    shares = np.cumsum(np.asarray(weights) / np.sum(weights))
    sizes = np.searchsorted(shares / shares[-1], draws.run_lengths, side="right") + 1
    ends = np.cumsum(sizes, axis=1)  # places in the ring at which each run ends
    starts_run = np.zeros((rows, width), np.int32)
    row, column = np.nonzero(ends < width)
    starts_run[row, ends[row, column]] = 1
    run = np.cumsum(starts_run, axis=1, dtype=np.int32)
    order_of_runs = np.take_along_axis(draws.order, run, axis=1)
    order, count = _random_order(is_word, width, draws._replace(order=order_of_runs))
    # The last number is of no run, for [CLS] and [SEP] are no words.
    first = (draws.run_lengths[:, -1] * count).astype(np.int32)[:, None]
    ring = np.maximum(count, 1)[:, None]
    return np.where(order < count[:, None], (order + first) % ring, order), count


def _choose_words(words, is_candidate, wanted, rule, draws):
    """Ascending positions [N, P] and their number [N]; whole words that fit."""
    rows, width = words.shape
    row = np.arange(rows)
    flat = (row[:, None] * width + words)[is_candidate]
    sizes = np.bincount(flat, minlength=rows * width).reshape(rows, width)
    if _has_runs(rule):
        order, available = _order_of_runs(sizes > 0, GROUP_LENGTHS[rule.kind], draws)
    else:
        order, available = _random_order(sizes > 0, width, draws)
    sizes_in_order = np.take_along_axis(sizes, order, axis=1)
    counts = np.zeros(rows, np.int64)
    is_taken = np.zeros((rows, width), bool)  # by number of the word
    for step in range(int(available.max(initial=0))):
        size = sizes_in_order[:, step]
        fits = (step < available) & (counts + size <= wanted)
        is_taken[row, order[:, step]] = fits
        counts += np.where(fits, size, 0)
        if step % 16 == 15 and np.all(counts >= wanted):
            break
    is_chosen = is_candidate & np.take_along_axis(is_taken, np.maximum(words, 0), 1)
    positions = np.zeros((rows, rule.max_predictions_per_seq), np.int32)
    chosen_row, chosen_column = np.nonzero(is_chosen)  # by row, ascending
    place = np.arange(len(chosen_row)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions[chosen_row, place] = chosen_column
    return positions, counts.astype(np.int32)
