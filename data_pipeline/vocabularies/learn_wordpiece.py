"""Learns a WordPiece vocabulary, for which google-research/bert published no code.

Top-down: substrings of words are counted and visited from long to short. One that
occurs often enough becomes a piece, and its occurrences no longer count for its own
prefixes. In the first pass substrings begin anywhere; in later ones, only where a piece
begins when words are cut with the pieces of the pass before. The threshold decides the
size of the vocabulary, so it is searched.

TensorFlow Text also subtracts the occurrences of substrings that become no piece, so
hardly any prefix of a word stays: its 8,000 entries need 1.369 pieces a word of other
English text, those learned here 1.314.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from contract import errors
from data_pipeline.text import base, wordpiece
from data_pipeline.vocabularies import word_counts

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Entries between [PAD], 0, and [UNK], 100, in the released vocabularies.
UNUSED_BEFORE_UNK = 99
# In memory: 3 million, those of 70,000 English words, take 150 MB, and 2 seconds for
# each threshold that is tried.
MAX_SUBSTRINGS = 20_000_000
_PASSES = 3  # over the words for one threshold; more change hardly anything
MAX_PIECE_CHARS = 50  # of longer words only the characters count
_CLOSE = 1.03  # with so many times the pieces wanted, the search ends
_MAX_GUESSES = 6
_BATCH_WORDS = 1 << 16  # spelled at a time


def learn(
    counts: word_counts.WordCounts,
    vocab_size: int,
    *,
    num_unused_tokens: int = UNUSED_BEFORE_UNK,
    min_character_frequency: int = 1,
    report: Callable[[str], None] = print,
) -> list[str]:
    """Makes a vocabulary of at most `vocab_size`, in the order of the released ones.

    [PAD] is 0; then come up to 99 unused tokens, [UNK], [CLS], [SEP], [MASK], further
    unused tokens, all characters by code point, first as the beginning of a word and
    then as its continuation, and last the pieces, the most frequent first. Words with a
    character below the minimum frequency are [UNK].
    """
    unused = [f"[unused{number}]" for number in range(num_unused_tokens)]
    before, after = unused[:UNUSED_BEFORE_UNK], unused[UNUSED_BEFORE_UNK:]
    fixed = ["[PAD]", *before, *SPECIAL, *after]
    least, numbers = min_character_frequency, counts.characters
    chars = {char for char, number in numbers.items() if number >= least}
    if counts.characters and not chars:
        raise errors.InputError(
            f"--min_character_frequency={min_character_frequency} leaves no character; "
            f"lower it to {max(counts.characters.values())} or less"
        )
    alphabet = _alphabet(chars)
    room = vocab_size - len(fixed) - len(alphabet)
    if room < 0:
        raise errors.InputError(
            f"--vocab_size={vocab_size} has no room for {len(alphabet)} characters; "
            f"raise it above {vocab_size - room}, or --min_character_frequency"
        )
    words = sorted(
        (
            (word, count)
            for word, count in counts.words.items()
            if 1 < len(word) <= MAX_PIECE_CHARS and chars.issuperset(word)
        ),
        key=lambda pair: (-pair[1], pair[0]),
    )
    if not (room and words):
        return [*fixed, *alphabet]
    lengths = np.array([len(word) for word, _ in words], np.int64)
    substrings = np.cumsum(lengths * (lengths + 1) // 2)
    learned = words[: int(np.searchsorted(substrings, MAX_SUBSTRINGS))]
    report(f"learning from {len(learned)} of {len(words)} different words")
    return [*fixed, *alphabet, *_search(learned, room, report)[:room]]


def _alphabet(chars: set[str]) -> list[str]:
    """All characters as beginnings of words, then those that can continue one."""
    if not chars:
        return []
    inner = [f"{wordpiece.CONTINUATION}{char}" for char in sorted(chars)]
    return [*sorted(chars), *itertools.compress(inner, wordpiece.are_pieces(inner))]


def _search(
    words: list[tuple[str, int]], wanted: int, report: Callable[[str], None]
) -> list[str]:
    """Pieces of the highest threshold that gives enough, the most frequent first."""
    numbers = [count for _, count in words]
    substrings = _count_substrings(words, (range(len(word)) for word, _ in words))
    # Thresholds that are still possible.
    lowest, highest = numbers[-1], max(max(t.values()) for t in substrings if t)
    guess = 2 * numbers[min(wanted, len(numbers) - 1)]  # right for English
    sizes: dict[int, int] = {}
    enough: list[str] = []
    pieces: list[str] = []
    while lowest <= highest:
        guess = min(max(guess, lowest), highest)
        pieces = _pieces(words, substrings, guess)
        report(f"{len(pieces)} pieces occur {guess} times or more; wanted: {wanted}")
        sizes[guess] = len(pieces)
        if len(pieces) < wanted:
            highest = guess - 1
        else:
            enough, lowest = pieces, guess + 1
            if len(pieces) <= wanted * _CLOSE:
                break
        if len(sizes) < _MAX_GUESSES:
            guess = _next_guess(sizes, wanted * (1 + _CLOSE) / 2)
        else:  # small numbers follow no law: halve what is left
            guess = math.isqrt(lowest * max(lowest, highest))
    return enough or pieces


def _next_guess(sizes: Mapping[int, int], wanted: float) -> int:
    """A threshold for a number of pieces, which is about a power of the threshold."""
    distance = {t: math.log(max(size, 1) / wanted) for t, size in sizes.items()}
    nearest, *others = sorted(sizes, key=lambda t: (abs(distance[t]), t))
    power = -0.5  # of English words; two points say better what it is
    if others:
        rise = distance[nearest] - distance[others[0]]
        power = min(max(rise / math.log(nearest / others[0]), -2.0), -0.25)
    return round(nearest * math.exp(-distance[nearest] / power))


class _Substrings(NamedTuple):
    """How often each substring of two characters or more occurs: prefixes, others."""

    initial: dict[str, int]
    inner: dict[str, int]


def _pieces(
    words: Sequence[tuple[str, int]], substrings: _Substrings, threshold: int
) -> list[str]:
    kept = _keep(substrings, threshold)
    for _ in range(_PASSES - 1):
        starts = (_piece_starts(word, kept) for word, _ in words)
        kept = _keep(_count_substrings(words, starts), threshold)
    mark = wordpiece.CONTINUATION
    pieces = kept.initial | {f"{mark}{s}": n for s, n in kept.inner.items()}
    return sorted(pieces, key=lambda piece: (-pieces[piece], piece))


def _count_substrings(
    words: Iterable[tuple[str, int]], starts_of_words: Iterable[Iterable[int]]
) -> _Substrings:
    substrings = _Substrings({}, {})
    for (word, count), starts in zip(words, starts_of_words, strict=True):
        for start in starts:
            table = substrings.inner if start else substrings.initial
            for end in range(start + 2, len(word) + 1):
                substring = word[start:end]
                table[substring] = table.get(substring, 0) + count
    return substrings


def _keep(substrings: _Substrings, threshold: int) -> _Substrings:
    """The frequent ones, without the occurrences in longer ones that are kept."""
    return _Substrings(*(_keep_longest(table, threshold) for table in substrings))


def _keep_longest(table: Mapping[str, int], threshold: int) -> dict[str, int]:
    left = {s: count for s, count in table.items() if count >= threshold}
    kept = {}
    for substring in sorted(left, key=len, reverse=True):
        if (count := left[substring]) >= threshold:
            kept[substring] = count
            for end in range(2, len(substring)):
                left[substring[:end]] -= count
    return kept


def _piece_starts(word: str, kept: _Substrings) -> list[int]:
    """Where the pieces of a word begin, the longest being taken first."""
    starts, start = [], 0
    while start < len(word):
        starts.append(start)
        table, end = kept.inner if start else kept.initial, len(word)
        while end > start + 1 and word[start:end] not in table:
            end -= 1
        start = end
    return starts


class Coverage(NamedTuple):
    """How a vocabulary spells running words: shares that are one piece, or [UNK]."""

    whole_share: float  # 0..1
    unknown_share: float
    pieces_per_word: float


def coverage(tokenizer: base.Tokenizer, counts: word_counts.WordCounts) -> Coverage:
    """Spells every word with the tokens of a tokenizer; too long ones are [UNK]."""
    unk_id = -1 if tokenizer.unk_id is None else tokenizer.unk_id
    words = list(counts.words)
    times = np.fromiter(counts.words.values(), np.int64, len(words))
    if tokenizer.token_shape:  # a word is one token, listed or not
        listed = np.isin(words, tokenizer.vocab)
        share = float(times[listed].sum() / max(times.sum(), 1))
        return Coverage(share, 1 - share, 1.0)
    whole, unknown, pieces = 0, counts.num_too_long, counts.num_too_long
    for start in range(0, len(words), _BATCH_WORDS):
        ids = tokenizer.tokenize(words[start : start + _BATCH_WORDS])  # [B, (S)]
        lengths = ids.row_lengths().numpy()
        times_here = times[start : start + _BATCH_WORDS]
        is_unknown = (ids[:, :1].flat_values == unk_id).numpy()
        whole += int(times_here[(lengths == 1) & ~is_unknown].sum())
        unknown += int(times_here[is_unknown].sum())
        pieces += int(times_here @ lengths)
    total = max(int(times.sum()) + counts.num_too_long, 1)
    return Coverage(whole / total, unknown / total, pieces / total)
