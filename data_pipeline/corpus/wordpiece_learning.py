"""Learns a WordPiece vocabulary, for which google-research/bert published no code.

Top-down: parts of words are counted, and looked at from long to short. One that occurs
often enough is kept, and what it occurs no longer counts for its own beginnings. Parts
begin first anywhere, then where the words, cut with what was kept before, have pieces.
How often is enough decides the size, so that threshold is searched.

TensorFlow Text describes this algorithm and its code does something else: it takes the
occurrences of every part from its beginnings, also of parts that are not kept, so that
hardly any beginning of a word stays. On English text of another source than it learned
from, its 8,000 entries need 1.369 pieces a word, and those learned here 1.314.
"""

import bisect
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.corpus import word_counts
from data_pipeline.text import normalization, tokenization

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
# In the released vocabularies so many places lie between [PAD], 0, and [UNK], 100.
UNUSED_BEFORE_UNK = 99
# Parts of words in memory: 3 million, those of 70,000 English words, take 150 MB, and 2
# seconds for each threshold that is tried.
MAX_PARTS = 20_000_000
_PASSES = 3  # over the words for one threshold; more change hardly anything
MAX_PIECE_CHARS = 50  # longer words are not learned from, only their characters
_CLOSE = 1.03  # so many more pieces than wanted are trimmed without another search
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
    """Makes a vocabulary in the order of the released ones.

    [PAD] is 0; then come up to 99 places for tokens of one's own, [UNK], [CLS], [SEP],
    [MASK], further such places, all characters by code point, at the beginning of a
    word and then inside of one, and last the pieces, the most frequent first.

    Args:
        counts: of `word_counts.count`.
        vocab_size: most entries; fewer where the corpus has no more pieces.
        num_unused_tokens: entries [unused0], [unused1], ... of the vocabulary.
        min_character_frequency: characters that occur less often are no entries, so
            words that contain them become [UNK].
        report: gets a line now and then.

    Returns:
        At most `vocab_size` different entries, every one of which a text can contain.

    Raises:
        ValueError: the characters and special tokens are more than `vocab_size`, or no
            character occurs often enough.
    """
    fixed = _special_tokens(num_unused_tokens)
    chars = {c for c, n in counts.characters.items() if n >= min_character_frequency}
    if counts.characters and not chars:
        raise ValueError(
            f"--min_character_frequency={min_character_frequency} leaves no character, "
            f"for the most frequent occurs {max(counts.characters.values())} times; "
            "lower it"
        )
    alphabet = _alphabet(chars)
    if len(fixed) + len(alphabet) > vocab_size:
        raise ValueError(
            _too_many_characters(counts, len(fixed), len(alphabet), vocab_size)
        )
    room = vocab_size - len(fixed) - len(alphabet)
    words = sorted(
        (
            (word, count)
            for word, count in counts.words.items()
            if 1 < len(word) <= MAX_PIECE_CHARS and chars.issuperset(word)
        ),
        key=lambda pair: (-pair[1], pair[0]),
    )
    pieces = _search(_bounded(words, report), room, report) if room and words else []
    return [*fixed, *alphabet, *pieces[:room]]


def _special_tokens(num_unused_tokens: int) -> list[str]:
    unused = [f"[unused{number}]" for number in range(num_unused_tokens)]
    return [
        *("[PAD]", *unused[:UNUSED_BEFORE_UNK]),
        *(*SPECIAL, *unused[UNUSED_BEFORE_UNK:]),
    ]


def _alphabet(chars: set[str]) -> list[str]:
    """Characters alone and inside of words, without those that stand there never."""
    inside = [f"{tokenization.CONTINUATION}{char}" for char in sorted(chars)]
    if not inside:
        return []
    is_found = tf.strings.regex_full_match(inside, normalization.WORD_PIECE).numpy()
    found = [entry for entry, is_one in zip(inside, is_found, strict=True) if is_one]
    return [*sorted(chars), *found]


def _too_many_characters(
    counts: word_counts.WordCounts,
    num_special: int,
    num_characters: int,
    vocab_size: int,
) -> str:
    """Says which smallest frequency of characters would leave room for pieces."""

    def fits(frequency):
        chars = {c for c, n in counts.characters.items() if n >= frequency}
        return num_special + len(_alphabet(chars)) <= vocab_size

    frequencies = sorted(set(counts.characters.values()))
    place = bisect.bisect_left(frequencies, True, key=fits)
    remedy = f"raise it above {num_special + num_characters}"
    if place < len(frequencies):
        remedy += (
            f", or set --min_character_frequency={frequencies[place]}, so that rarer "
            "ones become [UNK]"
        )
    return (
        f"--vocab_size={vocab_size} has no room for {num_characters} characters, alone "
        f"and inside of words, and {num_special} special tokens, with those of "
        f"--num_unused_tokens; {remedy}"
    )


def _bounded(
    words: list[tuple[str, int]], report: Callable[[str], None]
) -> list[tuple[str, int]]:
    """The most frequent words, as many as there is memory for."""
    lengths = np.array([len(word) for word, _ in words], np.int64)
    count = int(np.searchsorted(np.cumsum(lengths * (lengths + 1) // 2), MAX_PARTS))
    report(f"learning from {count} of {len(words)} different words")
    return words[:count]


def _search(
    words: list[tuple[str, int]], wanted: int, report: Callable[[str], None]
) -> list[str]:
    """Pieces of the highest threshold that gives enough of them.

    Returns:
        The pieces, the most frequent first; fewer than wanted if there are no more.
    """
    numbers = [count for _, count in words]
    parts = _count_parts(words, (range(len(word)) for word, _ in words))
    # Thresholds that are still in question.
    lowest, highest = numbers[-1], max(max(table.values()) for table in parts if table)
    guess = 2 * numbers[min(wanted, len(numbers) - 1)]  # as it is for English
    sizes: dict[int, int] = {}
    found: list[str] = []
    pieces: list[str] = []
    while lowest <= highest:
        guess = min(max(guess, lowest), highest)
        pieces = _pieces(words, parts, guess)
        report(f"{len(pieces)} pieces occur {guess} times or more; wanted: {wanted}")
        sizes[guess] = len(pieces)
        if len(pieces) < wanted:
            highest = guess - 1
        else:
            found, lowest = pieces, guess + 1
            if len(pieces) <= wanted * _CLOSE:
                break
        if len(sizes) < _MAX_GUESSES:
            guess = _next_guess(sizes, wanted * (1 + _CLOSE) / 2)
        else:  # small numbers follow no law: halve what is left
            guess = math.isqrt(lowest * max(lowest, highest))
    return found or pieces


def _next_guess(sizes: Mapping[int, int], wanted: float) -> int:
    """A threshold for a number of pieces, which is about a power of it."""
    distance = {t: math.log(max(size, 1) / wanted) for t, size in sizes.items()}
    nearest, *others = sorted(sizes, key=lambda t: (abs(distance[t]), t))
    power = -0.5  # of English words; two points say better what it is
    if others:
        rise = distance[nearest] - distance[others[0]]
        power = min(max(rise / math.log(nearest / others[0]), -2.0), -0.25)
    return round(nearest * math.exp(-distance[nearest] / power))


class _Parts(NamedTuple):
    """Occurrences by part of two characters or more: of beginnings, and of others."""

    first: dict[str, int]
    inner: dict[str, int]


def _pieces(
    words: Sequence[tuple[str, int]], parts: _Parts, threshold: int
) -> list[str]:
    """The entries of more than one character for a threshold, most frequent first.

    Args:
        words: with their counts.
        parts: all parts of all words.
        threshold: occurrences that an entry needs.
    """
    kept = _Parts(*(_keep(table, threshold) for table in parts))
    for _ in range(_PASSES - 1):
        parts = _count_parts(words, (_starts(word, kept) for word, _ in words))
        kept = _Parts(*(_keep(table, threshold) for table in parts))
    entries = {
        **kept.first,
        **{f"{tokenization.CONTINUATION}{p}": n for p, n in kept.inner.items()},
    }
    return sorted(entries, key=lambda entry: (-entries[entry], entry))


def _count_parts(
    words: Iterable[tuple[str, int]], starts_of_words: Iterable[Iterable[int]]
) -> _Parts:
    """Counts the parts of words that begin at certain places of them."""
    parts = _Parts({}, {})
    for (word, count), starts in zip(words, starts_of_words, strict=True):
        for start in starts:
            table = parts.inner if start else parts.first
            for end in range(start + 2, len(word) + 1):
                part = word[start:end]
                table[part] = table.get(part, 0) + count
    return parts


def _keep(table: Mapping[str, int], threshold: int) -> dict[str, int]:
    """The frequent parts, counting none where it begins a longer one that is kept."""
    left = {part: count for part, count in table.items() if count >= threshold}
    kept = {}
    for part in sorted(left, key=len, reverse=True):
        if (count := left[part]) >= threshold:
            kept[part] = count
            for end in range(2, len(part)):
                left[part[:end]] -= count
    return kept


def _starts(word: str, kept: _Parts) -> list[int]:
    """Where the pieces of a word begin, the longest being taken first."""
    starts, start = [], 0
    while start < len(word):
        starts.append(start)
        table, end = kept.inner if start else kept.first, len(word)
        while end > start + 1 and word[start:end] not in table:
            end -= 1
        start = end
    return starts


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How a vocabulary spells the words that it was learned from.

    Attributes:
        whole_share: share of them that are one piece, 0..1.
        unknown_share: share of them that are [UNK], 0..1.
        pieces_per_word: mean number of pieces.
    """

    whole_share: float
    unknown_share: float
    pieces_per_word: float


def coverage(
    vocab: list[str], counts: word_counts.WordCounts, do_lower_case: bool
) -> Coverage:
    """Spells every counted word with a vocabulary."""
    tokenizer = tokenization.BertTokenizer(vocab, do_lower_case)
    words = list(counts.words)
    times = np.fromiter(counts.words.values(), np.int64, len(words))
    whole = unknown = pieces = 0
    for start in range(0, len(words), _BATCH_WORDS):
        ids = tokenizer.tokenize(words[start : start + _BATCH_WORDS])  # [B, (S)]
        lengths = ids.row_lengths().numpy()
        times_here = times[start : start + _BATCH_WORDS]
        is_unknown = (ids[:, :1].flat_values == tokenizer.unk_id).numpy()
        whole += int(times_here[(lengths == 1) & ~is_unknown].sum())
        unknown += int(times_here[is_unknown].sum())
        pieces += int(times_here @ lengths)
    total = max(int(times.sum()), 1)
    return Coverage(whole / total, unknown / total, pieces / total)
