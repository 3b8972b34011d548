"""Files of sentences, one a line, and how many words each line has."""

import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator

import numpy as np

from contract import errors, wording
from data_pipeline.tables import file_patterns, text_rows
from data_pipeline.text import elmo_tokenizer

# A file is read for both directions at once, and at its end they are not in step.
_FILES_IN_MEMORY = 2
_CHUNK_LINES = 1 << 13  # of a file, as text; a string takes twice what its bytes do


@dataclasses.dataclass(frozen=True)
class SentenceFiles:
    """Files of sentences; `lengths` are the words of their lines, int32 [lines] each.

    Words are found by `split_words`, one of elmo_tokenizer.SPLITS. A line without a
    word is no sentence, and is passed over.

    Differs from bilm-tf: a line without a word is passed over; there it is begin and
    end of a sentence.
    """

    files: tuple[str, ...]
    lengths: tuple[np.ndarray, ...]
    split_words: str = elmo_tokenizer.WHITESPACE

    @property
    def num_sentences(self) -> int:
        """How many lines have a word."""
        return sum(int(np.count_nonzero(found)) for found in self.lengths)

    @property
    def num_words(self) -> int:
        """How many words there are, without begin and end of sentences."""
        return sum(int(found.sum()) for found in self.lengths)

    @property
    def num_empty(self) -> int:
        """How many lines have no word."""
        return sum(map(len, self.lengths)) - self.num_sentences

    def digest(self) -> str:
        """Tells these sentences from others, by file names and lengths."""
        names = [os.path.basename(file) for file in self.files]
        found = hashlib.sha256(repr(names).encode("utf-8"))
        for lengths in self.lengths:
            found.update(lengths.tobytes())
        return f"{self.num_sentences} sentences, digest {found.hexdigest()[:16]}"

    def name(self, file: int, line: int) -> str:
        """How messages name a line, both counted from 0."""
        return f"{self.files[file]}:{line + 1}"

    def reader(self) -> "Reader":
        """Gives the words of sentences; has memory of its own."""
        return Reader(self)


class Reader:
    """The words of sentences; keeps the text of the two files that it read last."""

    def __init__(self, source: SentenceFiles) -> None:
        self._source = source
        self._text = functools.lru_cache(_FILES_IN_MEMORY)(self._read)

    def _read(self, file: int) -> tuple[bytes, np.ndarray]:
        """The lines in UTF-8, end to end, and where each ends: int64 [lines + 1]."""
        parts: list[bytes] = []
        lengths = [0]
        for lines in _read(self._source.files[file], self._source.split_words):
            encoded = [text.encode() for text in lines]
            parts.append(b"".join(encoded))
            lengths += map(len, encoded)
        return b"".join(parts), np.cumsum(lengths)

    def words(self, file: int, line: int) -> list[str]:
        """The words of a line, both counted from 0.

        Raises:
            ValueError, OSError: the file cannot be read, or is not what it was.
        """
        text, ends = self._text(file)
        found = []
        if line < len(ends) - 1:
            found = text[ends[line] : ends[line + 1]].decode().split()
        expected = int(self._source.lengths[file][line])
        if len(found) != expected:
            raise errors.InputError(
                f"{self._source.name(file, line)}: {len(found)} words, where there "
                f"were {expected} when the run began; leave the files alone while they "
                "are trained on, and run the same command again with those from before"
            )
        return found


def open_files(spec: str, flag: str, split_words: str) -> SentenceFiles:
    """Finds the files of a flag and counts their words, for which each is read once.

    Raises:
        ValueError, OSError: there is no such file, it cannot be read or is not UTF-8
            (file and line are named), or no line has a word.
    """
    wanted = "files of sentences, one a line, or globs such as text/*.txt"
    files = file_patterns.find(spec, flag=flag, wanted=wanted)
    lengths = [_count(_read(file, split_words)) for file in files]
    source = SentenceFiles(tuple(files), tuple(lengths), split_words)
    if not source.num_sentences:
        raise errors.InputError(
            f"--{flag}: there is no word in {wording.first_of(files, 1)}; give {wanted}"
        )
    return source


def _read(file: str, split_words: str) -> Iterator[list[str]]:
    """The lines, some at a time, with white space between their words."""
    lines = text_rows.lines(file)
    while texts := [text for _, text in itertools.islice(lines, _CHUNK_LINES)]:
        yield elmo_tokenizer.spaced(texts, split_words)


def _count(chunks: Iterable[list[str]]) -> np.ndarray:
    return np.fromiter(
        (len(text.split()) for lines in chunks for text in lines), np.int32
    )
