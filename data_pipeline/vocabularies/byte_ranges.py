"""A text corpus: UTF-8 files, one sentence a line, a blank line between documents.

A corpus is cut into ranges of 256 KB, which move to the next beginning of a document
when they are read: any worker can read any range. Where files are the documents, ranges
have 4 MB, so that most files are one. A file of long documents is read once before, for
their beginnings.
"""

import codecs
import concurrent.futures
import dataclasses
import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, remote_files
from data_pipeline.tables import file_patterns, text_rows

RANGE_BYTES = 1 << 18
# A longer document is cut, at the end of a line or else of a word, if there is one.
MAX_DOCUMENT_BYTES = 1 << 22
_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_BLOCK_BYTES = 1 << 20
_FIRST_BLOCK_BYTES = 1 << 13  # most documents end within it
_BLANK_LINE_BYTES = 256  # of one that lies in two blocks
# Where a text without line feeds is cut: before white space, or else a character.
_WHITE_SPACE, _CHARACTER = re.compile(rb"[ \t\r\f\v]"), re.compile(rb"[^\x80-\xbf]")
_PROBED_BYTES = 1 << 24  # of a file, for each place where documents may be long
MAX_INVALID_SHARE = 0.01  # of lines


def find_files(patterns: str) -> list[str]:
    """The text files that --input_file names; InputError for none, and for UTF-16."""
    wanted = "text files, separated by commas, or globs such as corpus/*.txt"
    files = file_patterns.find(patterns, flag="input_file", wanted=wanted)
    with concurrent.futures.ThreadPoolExecutor(file_patterns.READERS) as pool:
        list(pool.map(text_rows.check_beginning, files))
    return files


def count_lines(text: bytes) -> tuple[int, int]:
    """Lines, and how many of them are not UTF-8."""
    # Six times as fast as bytes.count.
    lines = int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))
    lines += text[-1:] not in (b"", b"\n")
    if _is_utf8(text):
        return lines, 0
    return lines, sum(not _is_utf8(line) for line in text.split(b"\n"))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_lines(files: Sequence[str], lines: int, invalid: int) -> str:
    """One line on lines that are not UTF-8, "" for none; InputError for too many."""
    if not invalid:
        return ""
    text = f"{invalid} of {lines} lines of --input_file are not UTF-8"
    if invalid <= MAX_INVALID_SHARE * lines:
        return f"{text}; their invalid bytes are left out"
    try:
        for file in files:
            for _ in text_rows.lines(file):
                pass
    except errors.InputError as error:
        text = f"{text}: {error}"
    raise errors.InputError(f"{text}, or drop the bytes by iconv -c -f UTF-8")


def is_packed(path: str) -> bool:
    """Whether a file is gzip, which can only be read from its beginning."""
    return text_rows.is_packed(path)


def unpack(path: str, destination: str) -> None:
    """Unpacks a gzip file, whole or not at all; InputError where it is damaged."""
    try:
        with (
            atomic_files.replacing(destination, shared=True) as (temporary,),
            tf.io.gfile.GFile(path, "rb") as packed,
            gzip.GzipFile(fileobj=packed) as source,
            tf.io.gfile.GFile(temporary, "wb") as sink,
        ):
            sink.write(b"")  # without any writing there would be no file
            while block := source.read(_BLOCK_BYTES):
                sink.write(block)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise errors.InputError(
            f"{path}: not a whole gzip file ({error}); copy it again"
        ) from error


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Plain text files and their sizes in bytes, cut into R ranges."""

    files: tuple[str, ...]
    sizes: tuple[int, ...]
    range_files: np.ndarray  # int32 [R], index of the file of each range
    range_starts: np.ndarray  # int64 [R], in bytes, before moving to a document
    range_bytes: int
    range_ends: np.ndarray  # int64 [R, 2], after moving to one; -1 if not known yet
    whole_files: bool  # whether blank lines end no document

    @classmethod
    def from_files(
        cls,
        files: Sequence[str],
        sizes: Sequence[int] | None = None,
        boundaries: Mapping[str, Sequence[int]] | None = None,
        *,
        whole_files: bool = False,
    ) -> "Corpus":
        """Cuts files without reading them; `boundaries` are of `find_boundaries`."""
        sizes = file_patterns.sizes(files) if sizes is None else sizes
        step = MAX_DOCUMENT_BYTES if whole_files else RANGE_BYTES
        counts = [-(-size // step) for size in sizes]
        starts = [step * np.arange(count, dtype=np.int64) for count in counts]
        ends = np.full([sum(counts), 2], -1, np.int64)
        first = np.cumsum([0, *counts])
        for index, places in (boundaries or {}).items():
            of_file = ends[first[int(index)] : first[int(index) + 1]]
            of_file[:] = np.stack([[0, *places], [*places, sizes[int(index)]]], axis=1)
        return cls(
            tuple(files),
            tuple(sizes),
            np.repeat(np.arange(len(files), dtype=np.int32), counts),
            np.concatenate([np.zeros(0, np.int64), *starts]),
            step,
            ends,
            whole_files,
        )

    def part(self, chosen: np.ndarray) -> "Corpus":
        """The ranges chosen, int [K], with their files alone, to send to a worker."""
        numbers, files = np.unique(self.range_files[chosen], return_inverse=True)
        return dataclasses.replace(
            self,
            files=tuple(self.files[number] for number in numbers),
            sizes=tuple(self.sizes[number] for number in numbers),
            range_files=files.astype(np.int32),
            range_starts=self.range_starts[chosen],
            range_ends=self.range_ends[chosen],
        )

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes)

    def range_sizes(self, chosen: Any = slice(None)) -> np.ndarray:
        """int64 [R], bytes of all ranges or those chosen, give or take a document."""
        sizes = [self.sizes[file] for file in self.range_files[chosen].tolist()]
        left = np.array(sizes, np.int64) - self.range_starts[chosen]
        return np.minimum(left, self.range_bytes)

    def groups(self, order: np.ndarray, max_bytes: int) -> list[np.ndarray]:
        """Cuts ranges, int [K], into non-empty groups of about `max_bytes` at most."""
        ends = np.cumsum(self.range_sizes(order))
        if not len(ends):
            return []
        count = -(-int(ends[-1]) // max_bytes)
        # In floating point, because the product may not fit 64 bits.
        numbers = ((ends - 1) / float(ends[-1]) * count).astype(np.int64)
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        return np.split(order, cuts)

    def read(self, index: int) -> bytes:
        """The documents of a range, each being in exactly one; there may be none."""
        number = int(self.range_files[index])
        start, size = int(self.range_starts[index]), self.sizes[number]
        begin, end = self.range_ends[index].tolist()
        boundary = _line_boundary if self.whole_files else _boundary
        with remote_files.open_file(self.files[number]) as file:
            if begin < 0:
                begin = boundary(file, start, size)
                end = boundary(file, start + self.range_bytes, size)
            file.seek(begin)
            text = bytes(file.read(end - begin))
        return text if begin else text.removeprefix(codecs.BOM_UTF8)


def _boundary(file, offset: int, size: int) -> int:
    """Where the next document begins; it grows with the offset, so ranges meet."""
    if offset == 0 or offset >= size:
        return min(offset, size)
    file.seek(offset)
    buffer, wanted = b"", _FIRST_BLOCK_BYTES
    while len(buffer) < MAX_DOCUMENT_BYTES:
        block = file.read(min(wanted, MAX_DOCUMENT_BYTES - len(buffer)))
        if not block:
            return size
        start = max(len(buffer) - _BLANK_LINE_BYTES, 0)
        buffer += block
        wanted = min(2 * wanted, _BLOCK_BYTES)
        if blank := _BLANK_LINE.search(buffer, start):
            return offset + blank.end()
    return offset + _cut(buffer)


def _cut(buffer: bytes) -> int:
    """Where a part of a text may begin within bytes: a line, a word or a character."""
    if line := buffer.find(b"\n") + 1:
        return line
    place = _WHITE_SPACE.search(buffer) or _CHARACTER.search(buffer)
    return place.start() if place else 0


def find_boundaries(files: Sequence[str], sizes: Sequence[int]) -> dict[str, list[int]]:
    """{index: `_boundary` of each range but the first} of files of long documents.

    Each of them is read once; otherwise each range would look far for its ends.
    """
    longer = [i for i, size in enumerate(sizes) if size > RANGE_BYTES]
    with concurrent.futures.ThreadPoolExecutor(file_patterns.READERS) as pool:
        boundaries = pool.map(
            _boundaries, [files[i] for i in longer], [sizes[i] for i in longer]
        )
        return {
            str(i): ends for i, ends in zip(longer, boundaries, strict=True) if ends
        }


def _boundaries(path: str, size: int) -> list[int]:
    """Boundaries in one file; [] where blank lines lie near all places tried."""
    with remote_files.open_file(path) as file:
        probes = 1 + min(size // _PROBED_BYTES, 3)
        places = (size * (2 * probe + 1) // (2 * probes) for probe in range(probes))
        if all(_is_blank_near(file, place) for place in places):
            return []
        file.seek(RANGE_BYTES)
        boundaries: list[int] = []
        buffer, start = bytes(file.read(MAX_DOCUMENT_BYTES)), 0
        for offset in range(RANGE_BYTES, size, RANGE_BYTES):
            if blank := _BLANK_LINE.search(buffer, start):
                boundaries.append(offset + blank.end())
                start = blank.start()
            else:
                is_end = len(buffer) < MAX_DOCUMENT_BYTES
                boundaries.append(size if is_end else offset + _cut(buffer))
                start = len(buffer) - _BLANK_LINE_BYTES
            start = max(start - RANGE_BYTES, 0)
            buffer = buffer[RANGE_BYTES:] + file.read(RANGE_BYTES)
    return boundaries


def _is_blank_near(file, place: int) -> bool:
    file.seek(place)
    block = file.read(_FIRST_BLOCK_BYTES)
    return bool(_BLANK_LINE.search(block) or _BLANK_LINE.search(file.read(RANGE_BYTES)))


def _line_boundary(file, offset: int, size: int) -> int:
    """Where the next line, word or character begins."""
    if offset == 0 or offset >= size:
        return min(offset, size)
    file.seek(offset)
    return offset + _cut(file.read(RANGE_BYTES))
