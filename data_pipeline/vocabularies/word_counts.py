"""Counts the words of a corpus: those that a tokenizer spells with its tokens."""

import collections
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from contract import errors
from data_pipeline.tables import file_patterns
from data_pipeline.text import bpe_graph, elmo, normalization
from data_pipeline.vocabularies import byte_ranges

GROUP_BYTES = 1 << 22  # of a group of ranges, which a worker counts at a time
# Different words in memory, about 150 bytes each, before the rarest are dropped.
MAX_WORDS = 4_000_000


# These are sent to workers, and equal ones share a compiled function.
@dataclasses.dataclass(frozen=True)
class Words:
    """Splits a text, a string scalar, into the words of BertTokenizer, [W]."""

    do_lower_case: bool

    def __call__(self, content: tf.Tensor) -> tf.Tensor:
        lines = tf.strings.split(content, "\n")
        rules = normalization.WordRules.usual(self.do_lower_case)
        normalized = normalization.normalize(lines, rules)
        return normalization.split(normalized, rules).flat_values


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Splits a text into the pieces that Gpt2Tokenizer spells with byte pairs."""

    def __call__(self, content: tf.Tensor) -> tf.Tensor:
        return bpe_graph.split(bpe_graph.clean(content[tf.newaxis]))[0]


@dataclasses.dataclass(frozen=True)
class Spaced:
    """Splits a text into the words of ElmoTokenizer."""

    split_words: str  # one of normalization.SPLITS

    def __call__(self, content: tf.Tensor) -> tf.Tensor:
        return elmo.separate_words(content[tf.newaxis], self.split_words)[0]


Split = Words | Pieces | Spaced


@dataclasses.dataclass
class WordCounts:
    """How often words and characters occur in a corpus."""

    words: dict[str, int]  # save for those dropped as too rare
    characters: dict[str, int]  # also in words that were dropped
    num_words: int  # running words of the corpus
    dropped_below: int  # below it, words were dropped to save memory; 0: none was
    num_too_long: int = 0  # running words that no word pieces spell, beside num_words
    num_lines: int = 0
    num_invalid_lines: int = 0  # lines that are not UTF-8


def count_files(
    files: list[str], executor: futures.Executor, num_workers: int, **settings: Any
) -> WordCounts:
    """`count` of files, of which those of gzip are unpacked while it lasts."""
    with tempfile.TemporaryDirectory() as directory:
        packed = {path: "" for path in files if byte_ranges.is_packed(path)}
        for index, path in enumerate(packed):
            packed[path] = os.path.join(directory, f"{index}.txt")
        list(executor.map(byte_ranges.unpack, packed.keys(), packed.values()))
        plain = [packed.get(path, path) for path in files]
        sizes = file_patterns.sizes(plain)
        boundaries = byte_ranges.find_boundaries(plain, sizes)
        corpus = byte_ranges.Corpus.from_files(plain, sizes, boundaries)
        return count(corpus, executor, num_workers, **settings)


def count(
    corpus: byte_ranges.Corpus,
    executor: futures.Executor,
    num_workers: int,
    *,
    split: Split,
    report: Callable[..., None],
) -> WordCounts:
    """Counts the words of a corpus on all workers; the result does not depend on them.

    Memory is bounded: of more than MAX_WORDS different words, the rarest are dropped
    until at most half as many are left, as in lossy counting; their characters stay
    counted. Each of `num_workers` has two groups of ranges at most. `report` is called
    with ranges done, of how many, MB=... and words=....
    """
    table: collections.Counter[bytes] = collections.Counter()
    rare: collections.Counter[str] = collections.Counter()
    num_words = num_ranges = num_bytes = dropped_below = 0
    others = np.zeros(3, np.int64)
    total = len(corpus.range_files)
    sizes = corpus.range_sizes()
    groups = corpus.groups(np.arange(total), GROUP_BYTES)
    report(0, total, MB=0, words=0)
    parts = (executor.submit(count_ranges, corpus.part(g), split) for g in groups)
    counted = _ahead(parts, 2 * num_workers)
    for group, (words, numbers) in zip(groups, counted, strict=True):
        others += numbers
        table.update(words)
        if len(table) > MAX_WORDS:
            table, least = _without_rare(table, rare, MAX_WORDS // 2)
            dropped_below = max(dropped_below, least)
        num_words += words.total()
        num_ranges += len(group)
        num_bytes += int(sizes[group].sum())
        report(num_ranges, total, MB=num_bytes // 10**6, words=num_words)
    if not num_words:
        raise errors.InputError(
            f"--input_file: no word in {len(corpus.files)} files; give UTF-8 text"
        )
    decoded = {word.decode("utf-8"): number for word, number in table.items()}
    characters = rare + characters_of(decoded)
    return WordCounts(
        decoded, dict(characters), num_words, dropped_below, *others.tolist()
    )


def _ahead(submitted: Iterable[futures.Future], count: int) -> Iterator[Any]:
    """The results of tasks in order; at most `count` others have been submitted."""
    running: collections.deque[futures.Future] = collections.deque()
    for future in submitted:
        running.append(future)
        if len(running) > count:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def count_ranges(
    corpus: byte_ranges.Corpus, split: Split
) -> tuple[collections.Counter[bytes], tuple[int, int, int]]:
    """How often each word occurs in a corpus; too long words, lines, invalid lines."""
    counts: collections.Counter[bytes] = collections.Counter()
    count_text = _counter(split)
    num_too_long = num_lines = num_invalid = 0
    for index in range(len(corpus.range_files)):
        text = corpus.read(index)
        lines, invalid = byte_ranges.count_lines(text)
        num_lines, num_invalid = num_lines + lines, num_invalid + invalid
        words, times = count_text(text)
        counts.update(dict(zip(words.numpy(), times.numpy().tolist(), strict=True)))
    if isinstance(split, Words):
        too_long = [word for word in counts if len(word) > normalization.MAX_WORD_BYTES]
        num_too_long = sum(counts.pop(word) for word in too_long)
    return counts, (num_too_long, num_lines, num_invalid)


@functools.cache
def _counter(split: Split) -> Callable:

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def count(content):
        with tf.device("CPU:0"):
            unique, _, counts = tf.unique_with_counts(split(content))
            return unique, counts

    return count


def _without_rare(table, rare, limit):
    """The table without its rarest words, and the lowest count that stays."""
    numbers = np.fromiter(table.values(), np.int64, len(table))
    least = int(np.partition(numbers, len(table) - limit)[len(table) - limit]) + 1
    dropped = {w.decode("utf-8"): n for w, n in table.items() if n < least}
    rare.update(characters_of(dropped))
    kept = {word: number for word, number in table.items() if number >= least}
    return collections.Counter(kept), least


def characters_of(words: Mapping[str, int]) -> collections.Counter[str]:
    """How often each character occurs in words, given how often those do."""
    characters: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for char in word:
            characters[char] += count
    return characters


_SPECIAL = (elmo.BEGIN, elmo.END, elmo.UNKNOWN)


def learn_words(
    counts: WordCounts, vocab_size: int, split_words: str
) -> elmo.ElmoTokenizer:
    """The tokenizer of <S>, </S>, <UNK> and words, at most `vocab_size` together.

    The most frequent come first, as a sampled softmax wants; of equals, by characters.
    """
    words = sorted(counts.words.keys() - {*_SPECIAL})
    words.sort(key=counts.words.__getitem__, reverse=True)
    vocab = [*_SPECIAL, *words[: vocab_size - len(_SPECIAL)]]
    return elmo.ElmoTokenizer(vocab, split_words)
