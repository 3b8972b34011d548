"""Files of sentences, one a line, how many words each line has, and the words' ids."""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from contract import errors, features, wording
from data_pipeline.tables import file_patterns, text_rows
from data_pipeline.text import elmo, normalization

# A file is read for both directions at once, and at its end they are not in step.
_FILES_IN_MEMORY = 2
_CHUNK_LINES = 1 << 13  # of a file, as text; a string takes twice what its bytes do


@dataclasses.dataclass(frozen=True)
class SentenceFiles:
    """Files of sentences; `lengths` are the words of their lines, int32 [lines] each.

    Words are found by `split_words`, one of normalization.SPLITS. A line without a word
    is no sentence, and is passed over.

    Differs from bilm-tf: a line without a word is passed over; there it is begin and
    end of a sentence.
    """

    files: tuple[str, ...]
    lengths: tuple[np.ndarray, ...]
    split_words: str = normalization.WHITESPACE

    @property
    def count(self) -> int:
        """Sentences: lines that have a word."""
        return sum(int(np.count_nonzero(lengths)) for lengths in self.lengths)

    @property
    def num_words(self) -> int:
        """Words, without begin and end of sentences."""
        return sum(int(lengths.sum()) for lengths in self.lengths)

    @property
    def num_empty(self) -> int:
        """Lines that have no word."""
        return sum(map(len, self.lengths)) - self.count

    def name(self, file: int, line: int) -> str:
        """The name of a line in messages; both are counted from 0."""
        return f"{self.files[file]}:{line + 1}"


class Reader:
    """The words of sentences; keeps the text of the two files that it read last."""

    def __init__(self, sentences: SentenceFiles) -> None:
        self._sentences = sentences
        self._text = functools.lru_cache(_FILES_IN_MEMORY)(self._read)

    def _read(self, file: int) -> tuple[bytes, np.ndarray]:
        """The lines in UTF-8, end to end, and where each ends: int64 [lines + 1]."""
        parts: list[bytes] = []
        lengths = [0]
        sentences = self._sentences
        for lines in _read_lines(sentences.files[file], sentences.split_words):
            encoded = [line.encode() for line in lines]
            parts.append(b"".join(encoded))
            lengths += map(len, encoded)
        return b"".join(parts), np.cumsum(lengths)

    def words(self, file: int, line: int) -> list[str]:
        """The words of a line, both counted from 0.

        Raises:
            ValueError, OSError: the file cannot be read, or is not what it was.
        """
        text, ends = self._text(file)
        words = []
        if line < len(ends) - 1:
            words = text[ends[line] : ends[line + 1]].decode().split()
        expected = int(self._sentences.lengths[file][line])
        if len(words) != expected:
            raise errors.InputError(
                f"{self._sentences.name(file, line)}: {len(words)} words, where there "
                f"were {expected} when the run began; leave the files alone while they "
                "are trained on, and run the same command again with those from before"
            )
        return words


def open_files(spec: str, flag: str, split_words: str) -> SentenceFiles:
    """Finds the files of a flag and counts their words, for which each is read once.

    Raises:
        ValueError, OSError: there is no such file, it cannot be read or is not UTF-8
            (file and line are named), or no line has a word.
    """
    wanted = "files of sentences, one a line, or globs such as text/*.txt"
    files = file_patterns.find(spec, flag=flag, wanted=wanted)
    lengths = [_count(_read_lines(file, split_words)) for file in files]
    sentences = SentenceFiles(tuple(files), tuple(lengths), split_words)
    if not sentences.count:
        raise errors.InputError(
            f"--{flag}: there is no word in {wording.first_of(files, 1)}; give {wanted}"
        )
    return sentences


def _read_lines(file: str, split_words: str) -> Iterator[list[str]]:
    """The lines, some at a time, with white space between their words."""
    lines = text_rows.lines(file)
    while texts := [text for _, text in itertools.islice(lines, _CHUNK_LINES)]:
        yield elmo.space_words(texts, split_words)


def _count(chunks: Iterable[list[str]]) -> np.ndarray:
    return np.fromiter(
        (len(text.split()) for lines in chunks for text in lines), np.int32
    )


class WordIds:
    """Ids of words as lookups in a table of the whole vocabulary.

    Args:
        tokenizer: an ELMo tokenizer, whose `tokenize_words` gives what the network
            reads of a word, int [50] or an int, 0 being padding.

    Raises:
        ValueError: the tokenizer has no vocabulary.
    """

    def __init__(self, tokenizer: elmo.ElmoTokenizer | None) -> None:
        if not (tokenizer and tokenizer.vocab):
            raise errors.InputError(
                "--vocab_file is missing; its words are what is predicted: see "
                "docs/elmo.md on how to count them"
            )
        self.split_words = tokenizer.split
        self._tokenizer = tokenizer
        self._rows = {word: row for row, word in enumerate(tokenizer.vocab)}
        self._table = self._read(list(tokenizer.vocab))  # [V, 50] or [V]

    def _read(self, words: Sequence[str]) -> np.ndarray:
        return self._tokenizer.tokenize_words(words).values.numpy()

    @property
    def count(self) -> int:
        """Lines of the vocabulary, a word's repetitions included."""
        return len(self._tokenizer.vocab)

    def digest(self) -> str:
        """16 hexadecimal digits of the words."""
        return hashlib.sha256("\n".join(self._rows).encode("utf-8")).hexdigest()[:16]

    def target_ids(self, words: Sequence[str]) -> np.ndarray:
        """Their rows of the vocabulary, that of <UNK> for others: int32 [N]."""
        other = self._rows[elmo.UNKNOWN]
        return np.array([self._rows.get(w, other) for w in words], features.INTEGER)

    def input_ids(self, words: Sequence[str]) -> np.ndarray:
        """The network's input for distinct words, [N, 50] or [N].

        Words out of the vocabulary have their characters, too.
        """
        ids = self._table[self.target_ids(words)]
        places = [i for i, word in enumerate(words) if word not in self._rows]
        if places:
            ids[places] = self._read([words[i] for i in places])
        return ids
