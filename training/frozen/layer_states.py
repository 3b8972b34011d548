"""The layer states of all rows of a split, in one array: in memory, or in a file.

Sequences lie end to end without padding, in the order of the rows. A file is NumPy's
.npy, mapped into memory when it is read, and whole or absent.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from contract import atomic_files, errors

DTYPE = np.dtype(np.float32)
# What this process may take, and what the machine has to spare, where Linux says it.
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
_MEMORY = "/proc/meminfo"
# Takes which rows of an array [T, K, W] these are.
Put = Callable[[slice, np.ndarray], None]


class Places(NamedTuple):
    """Where the states of N examples, of G sequences each, begin, and their number."""

    starts: np.ndarray  # int64 [N, G]
    counts: np.ndarray  # int64 [N, G]

    @property
    def total(self) -> int:
        """The states of all sequences."""
        return int(self.counts.sum())

    def fill(self, batches: Iterable[tuple[np.ndarray, np.ndarray]], put: Put) -> None:
        """Puts every sequence where it belongs.

        `batches` are of examples int [B], -1 for none, and float32 [B, G, S, K, W].
        """
        for indices, values in batches:
            for index, example in zip(indices, values, strict=True):
                if index < 0:
                    continue
                pairs = zip(self.starts[index], self.counts[index], strict=True)
                for (start, count), sequence in zip(pairs, example, strict=True):
                    put(slice(start, start + count), sequence[:count])


def places(counts: np.ndarray) -> Places:
    """The places of sequences end to end, with int [N, G] states each."""
    counts = counts.astype(np.int64)
    return Places(np.cumsum(counts).reshape(counts.shape) - counts, counts)


class States(NamedTuple):
    """K vectors of each token of a split, or of each text.

    Attributes:
        values: float32 [T, K, W], in memory or a numpy.memmap.
        places: those of the sequences.
    """

    values: np.ndarray
    places: Places

    @property
    def are_of_texts(self) -> bool:
        """Whether every sequence has one."""
        return bool(np.all(self.places.counts == 1))

    def padded(self, indices: np.ndarray, length: int) -> np.ndarray:
        """The states of examples int [B], -1 for any, as float32 [B, G, S, K, W].

        Sequences are filled up with zeros to S = `length`.
        """
        indices = np.maximum(indices, 0)
        starts = self.places.starts[indices][..., np.newaxis]  # [B, G, 1]
        counts = self.places.counts[indices][..., np.newaxis]
        columns = np.arange(length)
        rows = starts + np.minimum(columns, counts - 1)
        found = np.take(self.values, rows, axis=0)
        found[columns >= counts] = 0.0
        return found


@contextlib.contextmanager
def written(path: str, shape: tuple[int, ...], *, shared: bool) -> Iterator[Put]:
    """Yields what puts rows into a new file, of an array float32 of this shape.

    Set `shared` where another process may be writing the same file.

    Raises:
        OSError: it cannot be written, or has no room.
    """
    directory = os.path.dirname(path)
    needed = int(np.prod(shape)) * DTYPE.itemsize
    os.makedirs(directory, exist_ok=True)
    if (free := shutil.disk_usage(directory).free) < needed:
        raise OSError(
            f"{path}: what the frozen network says of all rows takes {needed / 1e9:.1f}"
            f" GB, and {free / 1e9:.1f} GB are free; make room there, name another "
            "place with --feature_cache_dir, or have the network run in each step: "
            "--feature_cache=none"
        )
    with atomic_files.replacing(path, shared=shared) as (temporary,):
        try:
            # Not mapped: on a disk that is full after all, that kills the process.
            with open(temporary, "wb") as file:
                header = {"descr": DTYPE.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                begin = file.tell()
                row_bytes = int(np.prod(shape[1:])) * DTYPE.itemsize

                def put(where: slice, rows: np.ndarray) -> None:
                    file.seek(begin + where.start * row_bytes)
                    file.write(np.ascontiguousarray(rows, DTYPE).data)

                yield put
        except OSError as error:
            raise atomic_files.unwritable(path, error) from error


def opened(path: str, num_rows: int) -> np.ndarray | None:
    """Maps a file that `written` wrote into memory; None if there is none.

    Raises:
        ValueError: it is damaged, or not of so many rows.
    """
    if not os.path.exists(path):
        return None
    try:
        values = np.load(path, mmap_mode="r")
        if len(values) != num_rows:
            raise errors.InputError(f"it has {len(values)} rows, not {num_rows}")
    except (ValueError, EOFError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); remove it"
        ) from error
    return values


def free_memory() -> int:
    """Bytes of memory that are free, as far as the system says; else all it has."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int(_text(path)) for path in _CGROUP)
        found.append(limit - used)
    with contextlib.suppress(OSError):
        matched = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(_MEMORY), re.M)
        found += [int(matched[1]) * 1024] if matched else []
    return (
        min(found)
        if found
        else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    )


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
