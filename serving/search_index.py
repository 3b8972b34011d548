"""The files of an index: index.sqlite, and the vectors of each part.

A build writes part 0, and each addition another one. The rows of a part are texts, or
passages of them. `00000.vectors.npy` has their vectors, float32 [N, W], of length 1;
with int8 also `00000.int8.npy`, N records of `scale` float32 and `values` int8 [W],
whose products are the vectors. `place` counts rows over all parts; a removed one keeps
its place, without id and text. Parts that are whole are searched.
"""

import contextlib
import itertools
import json
import os
import sqlite3
import unicodedata
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from contract import atomic_files, errors, locks, remote_files
from data_pipeline.embedding import corpora
from data_pipeline.tables import text_rows
from serving import search_encoders, search_passages
from terminal import progress

FORMAT_VERSION = 2
INDEX, GRAPH = "index.sqlite", "graph.faiss"
QUANTIZATIONS = ("none", "int8")
VECTORS, QUANTIZED = "vectors.npy", "int8.npy"
_FILES_OF_VERSION_1 = {"index.json", "building.json"}
_ROWS_AT_ONCE = 1 << 14  # committed; what a killed build computes again, at most
_CHUNK_TEXTS = 2048  # encoded at once
_BLOCK_ROWS = 4096  # of vectors that are searched at once
_LARGEST = np.float32(127)  # of int8
_REMEDY = "remove the directory, and build the index again"
_SCHEMA = (
    "CREATE TABLE settings (json TEXT)",
    "CREATE TABLE parts (number INTEGER PRIMARY KEY, file TEXT, num_rows INTEGER, "
    "digest TEXT, num_cut INTEGER DEFAULT 0, is_whole INTEGER DEFAULT 0)",
    "CREATE TABLE rows (place INTEGER PRIMARY KEY, line INTEGER, id TEXT, text TEXT, "
    "start INTEGER)",
    "CREATE INDEX ids ON rows (id)",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
_BEGIN_PART = (
    "INSERT OR IGNORE INTO parts (number, file, num_rows, digest) VALUES (?, ?, ?, ?)"
)
_REMOVE = "UPDATE rows SET id = NULL, text = NULL WHERE place < ? AND id "
# What two builds of one index have in common, beside their texts.
_SAME = ("vectors", "prompts", "quantization", "passages")


class Row(NamedTuple):
    """A text of an index, or a passage of it, which begins at the character `start`."""

    line: int  # of its file, from 1
    text_id: str
    text: str
    start: int | None = None


class _Part(NamedTuple):
    """The rows of a build, or of an addition."""

    number: int
    file: str
    num_rows: int
    digest: str
    num_cut: int = 0
    is_whole: int = 0


def has_content(text: str) -> bool:
    """Whether a text has a letter, digit, punctuation mark or symbol, so a token."""
    return any(unicodedata.category(character)[0] in "LNPS" for character in text)


def check_directory(index_dir: str) -> None:
    """Raises InputError where a directory holds something else, or is remote."""
    reason, remedy = "", "name a new or empty directory"
    names = {*os.listdir(index_dir)} if os.path.isdir(index_dir) else set()
    if remote_files.is_remote(index_dir):
        reason = "is remote, and an index is mapped into memory"
    elif os.path.exists(index_dir) and not os.path.isdir(index_dir):
        reason = "is a file"
    elif names and INDEX not in names:
        reason = f"holds no index but {min(names)}"
        if names & _FILES_OF_VERSION_1:
            reason, remedy = "holds an index of an earlier version", _REMEDY
    if reason:
        raise errors.InputError(f"--index_dir={index_dir} {reason}; {remedy}")


def build(
    index_dir: str,
    input_file: str,
    source: search_encoders.Source,
    *,
    quantization: str = "none",
    prompts: Mapping[str, str | None] | None = None,
    passages: search_passages.Size | None = None,
) -> None:
    """Writes an index, or what a build before has left open.

    Args:
        input_file: as in corpora.read_texts.
        prompts: texts to put before a "query" or "passage"; None for the model's.
        passages: of what size texts are searched; None for whole texts.

    Raises:
        InputError: the directory holds another index or something else, or the file
            has no text, or there is no such model, or another process writes there.
    """
    check_directory(index_dir)
    _check_texts(input_file)
    encoder = search_encoders.open_source(source)
    _check_unknown(input_file, encoder)
    own = {k: v for k, v in (prompts or {}).items() if v is not None}
    settings: dict[str, Any] = {
        "file": input_file,
        "model": source.with_absolute_paths()._asdict(),
        "vectors": dict(encoder.identity),
        "prompts": {**encoder.prompts, **own},
        "quantization": quantization,
        "passages": passages and passages._asdict(),
    }
    if passages:
        search_passages.check(passages, encoder, settings["prompts"]["passage"])
    part = _Part(0, input_file, *_summary(_rows(input_file, settings, encoder)))
    with _writing(index_dir) as db:
        before, parts = _read(index_dir, db)
        if parts:
            both = _identity(before, parts[0]), _identity(settings, part)
            if differences := [*_differences(*both)]:
                raise errors.InputError(
                    f"--index_dir={index_dir} holds another index, of "
                    f"{before['file']}: {'; '.join(differences)}; name a new "
                    "directory, or remove this one, or --add texts to it"
                )
        with db:
            db.execute("BEGIN")
            for statement in () if parts else _SCHEMA:
                db.execute(statement)
            line = json.dumps(settings)  # the model may have another place by now
            db.execute("REPLACE INTO settings (rowid, json) VALUES (1, ?)", [line])
            db.execute(_BEGIN_PART, part[:4])
        _write_part(index_dir, db, encoder, part, _rows(input_file, settings, encoder))


def _identity(settings, part):
    """What two builds of one index have in common."""
    texts = {"num_texts": part.num_rows, "digest": part.digest}
    return {"texts": texts, **{key: settings[key] for key in _SAME}}


def _differences(before, after, place=""):
    """Descriptions of the fields that differ, as `width=3, not 4`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**after, **before}:
            values = before.get(key), after.get(key)
            yield from _differences(*values, f"{place}.{key}" if place else key)
    elif before != after:
        yield f"{place}={before!r:.60}, not {after!r:.60}"


def add(
    store: "Store",
    encoder: search_encoders.Encoder,
    input_file: str,
    *,
    replace: bool = False,
) -> None:
    """Adds the texts of a file that an index lacks.

    The index is searched as before until all of them are there. A line without an id
    of another file than that of the build has the id FILE:LINE.

    Raises:
        InputError: the index has another text with the id of one of them, unless this
            one is to `replace` it, or another process writes there.
    """
    index_dir = store.index_dir
    with _writing(index_dir) as db:
        store = Store(index_dir)  # another process may have added texts
        settings, first = store.settings, store.num_vectors
        _check_texts(input_file)
        _check_unknown(input_file, encoder)
        query = "SELECT text, start FROM rows WHERE id = ? AND place < ? ORDER BY place"

        def new_rows():
            rows = _rows(input_file, settings, encoder)
            for text_id, texts in itertools.groupby(rows, lambda row: row.text_id):
                new = [*texts]
                before = db.execute(query, [text_id, first]).fetchall()
                if before == [(row.text, row.start) for row in new]:
                    continue
                if before and not replace:
                    raise errors.InputError(
                        f"{input_file}:{new[0].line}: {index_dir} has another text "
                        f"with the id {text_id!r:.60}; give this one another, or "
                        "--replace that one"
                    )
                yield from new

        part = _Part(store.num_parts, input_file, *_summary(new_rows()))
        if not part.num_rows:
            print(f"{index_dir} has all texts of {input_file}")
            return
        with db:
            for unfinished in _read(index_dir, db)[1][part.number :]:
                if unfinished[2:4] != part[2:4]:
                    file = unfinished.file
                    print(f"{index_dir}: drops the unfinished texts of {file}")
                    db.execute("DELETE FROM parts WHERE NOT is_whole")
                    db.execute("DELETE FROM rows WHERE place >= ?", [first])
            db.execute(_BEGIN_PART, part[:4])
        _write_part(index_dir, db, encoder, part, new_rows())


def remove(store: "Store", ids: Iterable[str]) -> None:
    """Removes all texts with these ids; their vectors stay, and are not read.

    Raises:
        InputError: the index has no such text, or another process writes there.
    """
    index_dir = store.index_dir
    with _writing(index_dir) as db, db:
        num_rows = Store(index_dir).num_vectors
        for text_id in ids:
            if not db.execute(f"{_REMOVE} = ?", [num_rows, text_id]).rowcount:
                raise errors.InputError(
                    f"{index_dir} has no text with the id {text_id!r:.60}; give one "
                    "that it prints"
                )


def _check_texts(path):
    """InputError for a file without texts; prints how many lines are left out."""
    num_texts = left_out = first = 0
    rows = corpora.read_texts(path)
    if text_rows.is_jsonl(path):
        rows = corpora.with_own_ids(path, rows)
    for row in rows:
        if has_content(row.text):
            num_texts += 1
        else:
            left_out += 1
            first = first or row.line
    if not num_texts:
        raise errors.InputError(
            f"--input_file={path}: has no text with a token; give a file with a text a "
            "line"
        )
    if left_out:
        print(f"left out: {left_out} without a token, the first is line {first}")


def _summary(rows):
    """The number of rows, and a digest."""
    digest = count = 0
    for line, text_id, text, _ in rows:
        count += 1
        digest = zlib.crc32(f"{line}\t{text_id}\t{text}\n".encode(), digest)
    return count, f"{digest:08x}"


def _check_unknown(path, encoder):
    """Prints the share of unknown words; InputError where most are such."""
    if encoder.tokenizer:
        encoder.tokenizer.refuses_unknown = False  # no flag of the build allows it
        texts = [row.text for row in itertools.islice(_texts(path), _CHUNK_TEXTS)]
        ids = [*itertools.chain(*encoder.tokenizer.to_ids(texts))]
        counts = encoder.tokenizer.count_unknown(ids)
        if share := encoder.tokenizer.describe_unknown(path, counts):
            print(f"texts: of the first {len(texts)}{share}")


def _texts(path, prefix=""):
    rows = corpora.read_texts(path, prefix=prefix)
    return (row for row in rows if has_content(row.text))


def _rows(path, settings, encoder):
    """Yields the rows of an index: the texts of a file, or their passages."""
    name, of_build = map(os.path.basename, (path, settings["file"]))
    texts = _texts(path, "" if name == of_build else f"{name}:")
    if not settings["passages"]:
        yield from (Row(*row, None) for row in texts)
        return
    size = search_passages.Size(**settings["passages"])
    while chunk := [*itertools.islice(texts, _CHUNK_TEXTS)]:
        places = search_passages.cut([r.text for r in chunk], encoder.tokenizer, size)
        for (line, text_id, text), spans in zip(chunk, places, strict=True):
            for start, end in spans:
                if has_content(text[start:end]):
                    yield Row(line, text_id, text[start:end], start)


def _write_part(index_dir, db, encoder, part, rows):
    """Writes the rows of a part that are not there, and prints how many are cut."""
    settings, parts = _read(index_dir, db)
    number, total = part.number, part.num_rows
    first = sum(earlier.num_rows for earlier in parts[:number])
    query = "SELECT count(*) FROM rows WHERE place >= ? AND place < ?"
    ((done,),) = db.execute(query, [first, first + total])
    with progress.Progress("encoding: text") as report:
        rows = itertools.islice(rows, done, total)
        while chunk := [*itertools.islice(rows, _ROWS_AT_ONCE)]:

            def advance(texts: int, done: int = done) -> None:
                report(done + texts, total)

            prompt = settings["prompts"]["passage"]
            vectors, num_cut = _encode(chunk, encoder, prompt, advance)
            arrays = {VECTORS: vectors}
            if settings["quantization"] == "int8":
                arrays[QUANTIZED] = quantize(vectors)
            for name, array in arrays.items():
                _write_array(_path(index_dir, number, name), array, done, total)
            values = [(i, *row) for i, row in enumerate(chunk, start=first + done)]
            with db:
                db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", values)
                query = "UPDATE parts SET num_cut = num_cut + ? WHERE number = ?"
                db.execute(query, [num_cut, number])
            done += len(chunk)
        report(total, total)
    if done < total:
        raise errors.InputError(
            f"{part.file} has changed while it was read; run the command again"
        )
    with db:
        if number:  # its texts replace others
            ids = "IN (SELECT id FROM rows WHERE place >= ?)"
            db.execute(f"{_REMOVE} {ids}", [first, first])
        db.execute("UPDATE parts SET is_whole = 1 WHERE number = ?", [number])
    if num_cut := _read(index_dir, db)[1][number].num_cut:
        length = settings["vectors"]["max_seq_length"]
        print(f"texts: {num_cut} cut to {length} tokens (--max_seq_length)")


def _encode(rows, encoder, prompt, advance):
    """The vectors [N, W] of rows, and how many texts are cut."""
    # Equal texts are encoded once, so that they have equal vectors.
    places = {text: i for i, text in enumerate(dict.fromkeys(r.text for r in rows))}
    prompted, parts, num_cut = [prompt + text for text in places], [], 0
    for begin in range(0, len(prompted), _CHUNK_TEXTS):
        advance(begin)
        chunk = prompted[begin : begin + _CHUNK_TEXTS]
        vectors, num = encoder.encode(chunk, lambda n, b=begin: advance(b + n))
        parts.append(vectors)
        num_cut += num
    vectors = np.concatenate(parts)[[places[row.text] for row in rows]]
    if not (is_finite := np.isfinite(vectors).all(axis=1)).all():
        raise errors.InputError(
            f"line {rows[is_finite.argmin()].line}: its vector is not finite; check "
            "the weights of the model"
        )
    return vectors, num_cut


def quantize(vectors: np.ndarray) -> np.ndarray:
    """Records [N] of `scale` and int8 `values` [W], near float32 vectors [N, W]."""
    scales = np.abs(vectors).max(axis=1) / _LARGEST
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    records: np.ndarray = np.empty(len(vectors), _int8_type(vectors.shape[1]))
    records["scale"], records["values"] = scales, np.rint(vectors / divisors)
    return records


def _int8_type(width):
    return np.dtype([("scale", "<f4"), ("values", "i1", (width,))])


def _path(index_dir, number, name):
    return os.path.join(index_dir, f"{number:05d}.{name}")


def _write_array(path, rows, done, total):
    """Writes rows of an array of `total` rows, of which some are done."""
    try:
        shape, mode = (total, *rows.shape[1:]), "r+" if done else "w+"
        array = np.lib.format.open_memmap(path, mode, rows.dtype, shape)
        with open(path, "r+b") as file:  # where a disk is full, a map ends the process
            file.seek(array.offset + done * array.strides[0])
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise atomic_files.unwritable(path, error) from error


def _connect(index_dir):
    # Threads of a server take turns.
    return sqlite3.connect(os.path.join(index_dir, INDEX), check_same_thread=False)


@contextlib.contextmanager
def _explained(index_dir):
    """Names the file where SQLite cannot read or write it."""
    path = os.path.join(index_dir, INDEX)
    try:
        yield
    except sqlite3.OperationalError as error:  # a full disk, say
        raise atomic_files.unwritable(path, error) from error
    except sqlite3.DatabaseError as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); {_REMEDY}"
        ) from error


@contextlib.contextmanager
def _writing(index_dir):
    """The open index.sqlite, which no other process writes meanwhile."""
    with (
        locks.directory(index_dir, f"--index_dir={index_dir}"),
        _explained(index_dir),
        contextlib.closing(_connect(index_dir)) as db,
    ):
        db.execute("PRAGMA secure_delete = 1")  # of what is removed
        yield db


def _read(index_dir, db):
    """The settings and parts; neither of an index that has not begun."""
    ((version,),) = db.execute("PRAGMA user_version")
    if not version:
        return None, []
    if version != FORMAT_VERSION:
        raise errors.InputError(
            f"{os.path.join(index_dir, INDEX)}: user_version={version} is not that of "
            f"an index of this version, {FORMAT_VERSION}; {_REMEDY}"
        )
    ((line,),) = db.execute("SELECT json FROM settings")
    parts = db.execute("SELECT * FROM parts ORDER BY number")
    return json.loads(line), [_Part(*part) for part in parts]


class Store:
    """The rows of a whole index, and their vectors as memory maps.

    Attributes:
        settings: the model, its vectors, prompts, quantization and passages.
        num_parts: those of the build and of all additions.
        num_vectors: those of removed rows included, which `len` does not count.
        removed: the places of these, int64, ascending.

    Raises:
        InputError: there is no whole index, or one of its files is missing or damaged.
    """

    def __init__(self, index_dir: str):
        check_directory(index_dir)
        self.index_dir, parts = index_dir, list[_Part]()
        with _explained(index_dir):
            if os.path.exists(os.path.join(index_dir, INDEX)):
                self._db = _connect(index_dir)
                weakref.finalize(self, self._db.close)
                self.settings, parts = _read(index_dir, self._db)
            parts = [part for part in parts if part.is_whole]
            if not parts:
                raise errors.InputError(
                    f"--index_dir={index_dir}: there is no whole index; build it by "
                    "--input_file=FILE and --pretrained=DIR"
                )
            self._starts = np.cumsum([0, *(part.num_rows for part in parts)])
            self.num_parts, self.num_vectors = len(parts), int(self._starts[-1])
            query = (
                "SELECT place FROM rows WHERE id IS NULL AND place < ? ORDER BY place"
            )
            places = self._db.execute(query, [self.num_vectors]).fetchall()
            self.removed = np.array(places, np.int64).reshape(-1)
        width, floats = self.settings["vectors"]["width"], np.dtype("<f4")
        self._vectors = [self._map(part, VECTORS, floats, width) for part in parts]
        self._searched = self._vectors
        if self.settings["quantization"] == "int8":
            kind = _int8_type(width)
            self._searched = [self._map(part, QUANTIZED, kind) for part in parts]

    def _map(self, part, name, dtype, *shape):
        path, shape = _path(self.index_dir, part.number, name), (part.num_rows, *shape)
        try:
            array = np.lib.format.open_memmap(path, "r")
            if (array.dtype, array.shape) != (dtype, shape):
                form = f"{array.dtype} {array.shape}, not {dtype} {shape}"
                raise ValueError(f"it has {form}")
        except (OSError, ValueError, EOFError) as error:
            reason = f"cannot be read ({error}); {_REMEDY}"
            raise errors.InputError(f"{path}: {reason}") from error
        return array

    def __len__(self) -> int:
        return self.num_vectors - len(self.removed)

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph of the vectors, which may be shorter."""
        return os.path.exists(os.path.join(self.index_dir, GRAPH))

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the vectors of all rows but the removed, float32 [B, W].

        Where there are vectors of int8, it takes those.
        """
        for start, array in zip(self._starts, self._searched, strict=False):
            for begin in range(0, len(array), _BLOCK_ROWS):
                block = array[begin : begin + _BLOCK_ROWS]
                if block.dtype.names:
                    scales = block["scale"][:, None]
                    block = np.multiply(block["values"], scales, dtype=np.float32)
                first = start + begin
                ends = np.searchsorted(self.removed, [first, first + len(block)])
                if len(removed := self.removed[slice(*ends)]):
                    block = np.delete(block, removed - first, axis=0)
                yield block

    def places(self, indices: np.ndarray) -> np.ndarray:
        """The places of rows that `blocks` counts, int64 of any shape."""
        before = self.removed - np.arange(len(self.removed))
        return indices + np.searchsorted(before, indices, "right")

    def gather(self, places: np.ndarray) -> np.ndarray:
        """The float32 vectors [N, W] of places int [N], ascending."""
        numbers = np.searchsorted(self._starts, places, "right") - 1
        parts = [(n, places[numbers == n]) for n in np.unique(numbers).tolist()]
        return np.concatenate([self._vectors[n][p - self._starts[n]] for n, p in parts])

    def texts(self, places: Iterable[int]) -> dict[int, Row]:
        """{place: row} of some rows, without those that were removed meanwhile."""
        query = "SELECT line, id, text, start FROM rows WHERE place = ? AND id NOT NULL"
        texts: dict[int, Row] = {}
        with _explained(self.index_dir):
            for place in sorted({*places}):
                for row in self._db.execute(query, [place]):
                    texts[place] = Row(*row)
        return texts
