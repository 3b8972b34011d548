"""Files of vectors, written as they come; docs/embeddings.md has readers."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import shutil
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import tensorflow as tf

from contract import atomic_files, errors, features

# Names beside those of features.py; the original spells linex_index so.
LINE = "linex_index"
VALUES = "values"
SPLITS = "splits"
LAYERS = "layers"
_TOKENS_IN_MEMORY = 1 << 16  # as JSON; a network of characters has no end of them

Write = Callable[[Sequence[Any]], None]
Spell = Callable[[np.ndarray], list[str]]  # ids of tokens [S] or [S, C] to the tokens


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorLayout:
    """The content of a file to write."""

    num_lines: int  # N
    num_tokens: int  # T, of all lines together
    layers: tuple[int | str, ...]  # K: indices, or what a combination is called
    width: int  # W, values of a vector
    of_tokens: bool  # vectors of each token, or of each line
    spell: Spell

    def cut(self, values: np.ndarray, length: int) -> np.ndarray:
        """A line's values [S, K, W] without padding; [K, W] as they are."""
        return values[:length] if self.of_tokens else values

    @property
    def values_per_token(self) -> int:
        """At most, while a line waits for those before it."""
        return len(self.layers) * self.width


@contextlib.contextmanager
def writer(
    path: str, output_format: str, layout: VectorLayout, *, shared: bool = False
) -> Iterator[Write]:
    """Opens a file in one of `FORMATS`; as `atomic_files.replacing`.

    Yields a function that takes the next lines, and writes them while the caller goes
    on: objects with unique_id, the number of the line, input_ids int32 [S] or [S, C],
    and values float32 [S, K, W] or, of lines, [K, W]. Other numbers of lines or tokens
    than the layout has are refused, and nothing stays.
    """
    num_lines = num_tokens = 0
    callers: BaseException | None = None

    def write(write_line, lines):
        nonlocal num_lines, num_tokens
        try:
            for line in lines:  # one by one: text is three times the size of values
                write_line(line)
                num_lines += 1
                num_tokens += len(line.input_ids)
        except tf.errors.OpError as error:
            raise atomic_files.unwritable(path, error) from error

    try:
        with (
            atomic_files.replacing(path, shared=shared) as (temporary,),
            FORMATS[output_format](temporary, layout) as write_line,
        ):
            with _in_background(functools.partial(write, write_line)) as write_later:
                try:
                    yield write_later
                except tf.errors.OpError as error:
                    callers = error
                    raise
            if (num_lines, num_tokens) != (layout.num_lines, layout.num_tokens):
                raise errors.InputError(
                    f"{path}: {num_lines} lines of {num_tokens} tokens, not "
                    f"{layout.num_lines} of {layout.num_tokens}: the input has changed;"
                    " run the command again"
                )
    except OSError as error:
        if callers and error.__cause__ is callers:  # of a device, not of this file
            raise callers from None
        raise


@contextlib.contextmanager
def _in_background(write: Write) -> Iterator[Write]:
    """`write` in a thread, at most one call behind."""
    pending: list[concurrent.futures.Future] = []

    def write_later(lines):
        if pending:
            pending.pop().result()
        pending.append(thread.submit(write, lines))

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        yield write_later
        if pending:
            pending.pop().result()


@contextlib.contextmanager
def _jsonl(path, layout):
    """The original's: an object a line, as json.dumps writes it."""
    names = [json.dumps(name) for name in layout.layers]
    heads = [f'{{"index": {name}, "values": ['.encode() for name in names]
    dumped = functools.lru_cache(_TOKENS_IN_MEMORY)(lambda t: json.dumps(t).encode())

    def vectors(rows):
        layers = [head + row + b"]}" for head, row in zip(heads, rows, strict=True)]
        return b'"layers": [' + b", ".join(layers) + b"]}"

    def line_of(extracted):
        rows = rows_of_text(extracted.values.reshape(-1, layout.width))
        start = f'{{"{LINE}": {extracted.unique_id}, '.encode()
        if not layout.of_tokens:
            return start + vectors(rows) + b"\n"
        starts = range(0, len(rows), len(heads))
        per_token = [
            b'{"token": ' + dumped(token) + b", " + vectors(rows[at : at + len(heads)])
            for token, at in zip(layout.spell(extracted.input_ids), starts, strict=True)
        ]
        return start + b'"features": [' + b", ".join(per_token) + b"]}\n"

    with tf.io.gfile.GFile(path, "wb") as file:
        yield lambda extracted: file.write(line_of(extracted))


@contextlib.contextmanager
def _npz(path, layout):
    """Arrays: values, layers, and of tokens input_ids and splits as in packing.Packed.

    Values are written as they come; ids, a thousandth of them, wait in temporary files.
    """
    num_rows = layout.num_tokens if layout.of_tokens else layout.num_lines
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tf.io.gfile.GFile(path, "wb"))
        # zipfile needs no more; a GFile cannot go back to bytes that are written.
        stream: Any = types.SimpleNamespace(
            write=lambda data: file.write(data) or len(data), flush=file.flush
        )
        archive = stack.enter_context(zipfile.ZipFile(stream, "w"))
        ids, ends = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        num_tokens, token_shape = 0, ()

        values_shape = num_rows, len(layout.layers), layout.width
        with _member(archive, VALUES, np.float32, values_shape) as member:

            def write_line(extracted):
                nonlocal num_tokens, token_shape
                token_shape = extracted.input_ids.shape[1:]
                member.write(extracted.values.astype("<f4", copy=False).tobytes())
                ids.write(extracted.input_ids.astype("<i4", copy=False).tobytes())
                num_tokens += len(extracted.input_ids)
                ends.write(np.int64(num_tokens).astype("<i8").tobytes())

            yield write_line
        names = np.array(list(map(str, layout.layers)))
        with _member(archive, LAYERS, names.dtype, names.shape) as member:
            member.write(names.tobytes())
        if not layout.of_tokens:
            return
        ids_shape = layout.num_tokens, *token_shape
        with _member(archive, features.INPUT_IDS, np.int32, ids_shape) as member:
            ids.seek(0)
            shutil.copyfileobj(ids, member)
        with _member(archive, SPLITS, np.int64, (layout.num_lines + 1,)) as member:
            ends.seek(0)
            member.write(bytes(8))
            shutil.copyfileobj(ends, member)


@contextlib.contextmanager
def _member(archive, name, dtype, shape):
    """An array of an .npz file, opened for its bytes."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        head = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, head)
        yield member


FORMATS: dict[str, Callable[[str, VectorLayout], Any]] = {
    "jsonl": _jsonl,
    "npz": _npz,
}

DIGITS = 6  # after the point, as extract_features.py of the original rounds
# Between these, and for 0, orjson and json.dumps spell a number alike.
_SPELLED_ALIKE = 1e-4, 1e15


def rows_of_text(values: np.ndarray) -> list[bytes]:
    """Each row of float32 [R, C] as json.dumps writes it, without brackets.

    Each text equals json.dumps([round(float(x), 6) for x in row])[1:-1].
    """
    if not values.size:
        return [b""] * len(values)
    # A product of 24 bits of the number and 20 of 10^6 is exact in a double, so halves
    # go where Python's round sends them.
    rounded = np.round(values.astype(np.float64), DIGITS)
    text = orjson.dumps(rounded, option=orjson.OPT_SERIALIZE_NUMPY)
    rows = text[2:-2].replace(b",", b", ").split(b"], [")
    size, (least, most) = np.abs(rounded), _SPELLED_ALIKE
    is_alike = ((size >= least) & (size < most)) | (size == 0)
    for i in np.flatnonzero(~is_alike.all(axis=1)):  # few
        rows[i] = json.dumps(rounded[i].tolist())[1:-1].encode()
    return rows
