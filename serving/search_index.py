"""The files of an index: shards of vectors and texts, and index.json.

A shard has `vectors.npy` float32 [N, W], of length 1; with int8 also `int8.npy`, N
records of `scale` float32 and `values` int8 [W], whose products are the vectors;
`rows.npy` int64 [N, 2], the line of a text and the end of its row in `texts.jsonl`,
which is [id, text], or [id, passage, start]; and `shard.json`, written last, with
sizes, checksums and the number of texts that are cut. All shards but the last of a
build, and of each addition, have equally many texts.
"""

import bisect
import contextlib
import functools
import itertools
import json
import os
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from contract import atomic_files, errors, json_files, locks, remote_files
from contract.tensorflow_later import tf
from data_pipeline.embedding import corpora
from data_pipeline.tables import text_rows
from serving import search_encoders, search_passages
from terminal import progress

FORMAT_VERSION = 1
INDEX, BUILDING, GRAPH = "index.json", "building.json", "graph.faiss"
QUANTIZATIONS = ("none", "int8")
TEXTS_PER_SHARD = 1 << 14  # what a killed build computes again, at most
VECTORS, QUANTIZED, ROWS, TEXTS = "vectors.npy", "int8.npy", "rows.npy", "texts.jsonl"
_RECORD = "shard.json"
_CHUNK_TEXTS = 2048  # encoded at once
_BLOCK_ROWS = 4096  # of int8 that become float32 at once
_LARGEST = np.float32(127)  # of int8
# What two builds of one index have in common.
_SAME = ("texts", "vectors", "prompts", "quantization", "texts_per_shard", "passages")
_SHARD_REMEDY = "remove {}, and run the build again, which writes this shard anew"
_ADDED_REMEDY = "build the index again without {}, which an addition wrote"
_REMEDY = "remove the directory, and build the index again"
_COUNT = range(1, 1 << 32)
_SIZE, _CHECKSUM = range(1 << 62), range(1 << 32)
_TEXTS = {"num_texts": _COUNT, "digest": str}
_PASSAGES = {"tokens": _COUNT, "stride": _COUNT, "num_passages": _COUNT}
# The forms of index.json and building.json; see json_files.check.
_PLAN = {
    "format_version": range(FORMAT_VERSION, FORMAT_VERSION + 1),
    "file": str,
    "model": {
        "pretrained": (str, None),
        "export_dir": (str, None),
        "pooling": (str, None),
        "max_seq_length": (_COUNT, None),
    },
    "texts": _TEXTS,
    "passages": (dict, None),
    "added": (list, None),
    "vectors": {
        "digest": str,
        "width": _COUNT,
        "pooling": (str, None),
        "is_normalized": (bool, None),
        "max_seq_length": (_COUNT, None),
        "similarity": (str, None),
    },
    "prompts": {"query": str, "passage": str},
    "quantization": QUANTIZATIONS,
    "texts_per_shard": _COUNT,
}


def has_content(text: str) -> bool:
    """Whether a text has a letter, digit, punctuation mark or symbol, so a token."""
    return any(unicodedata.category(character)[0] in "LNPS" for character in text)


class Row(NamedTuple):
    """A text of an index, or a passage of it, which begins at the character `start`."""

    line: int  # of its file, from 1
    text_id: str
    text: str
    start: int | None = None


Cut = Callable[[Iterable[Row]], Iterator[Row]]  # texts to their passages


def _scan(path):
    """The number and digest of the texts of a file; prints the lines left out."""
    left_out = first = 0
    rows = corpora.read_texts(path)
    if text_rows.is_jsonl(path):
        rows = corpora.with_own_ids(path, rows)

    def with_content():
        nonlocal left_out, first
        for row in rows:
            if has_content(row.text):
                yield row
            else:
                left_out += 1
                first = first or row.line

    texts = _summary(with_content())
    if not texts["num_texts"]:
        raise errors.InputError(
            f"--input_file={path}: has no text with a token; give a file with a text a "
            "line"
        )
    if left_out:
        print(f"left out: {left_out} without a token, the first is line {first}")
    return texts


def _summary(rows):
    digest = count = 0
    for line, text_id, text, *_ in rows:
        count += 1
        digest = zlib.crc32(f"{line}\t{text_id}\t{text}\n".encode(), digest)
    return {"num_texts": count, "digest": f"{digest:08x}"}


def read_plan(index_dir: str, name: str = INDEX) -> dict[str, Any] | None:
    """The content of index.json or building.json; None where there is none.

    Raises:
        InputError: it is damaged, or of another version.
    """
    path = os.path.join(index_dir, name)
    if not os.path.exists(path):
        return None
    plan = json_files.read_object(path, remedy=_REMEDY)
    if plan.get("format_version") != FORMAT_VERSION:
        raise errors.InputError(
            f"{path}: format_version={plan.get('format_version')!r:.20} is not that of "
            f"an index of this version, {FORMAT_VERSION}; {_REMEDY}"
        )
    json_files.check(path, plan, _PLAN, remedy=_REMEDY)
    pretrained, export_dir = map(plan["model"].get, ("pretrained", "export_dir"))
    if bool(pretrained) == bool(export_dir):
        reason = "model has not one of pretrained and export_dir"
        raise errors.InputError(f"{path}: {reason}; {_REMEDY}")
    forms: list[tuple[str, Any, dict[str, Any]]] = [
        (f"added[{number}]", part, {"file": str, **_TEXTS})
        for number, part in enumerate(plan.get("added") or ())
    ]
    if (passages := plan.get("passages")) is not None:
        forms.append(("passages", passages, _PASSAGES))
    for name, part, form in forms:
        json_files.check(path, part, form, remedy=_REMEDY, name=name)
    return plan


def _differences(before, plan, place=""):
    """Descriptions of the fields that differ, as `width=3, not 4`."""
    if isinstance(before, dict) and isinstance(plan, dict):
        for key in {**plan, **before}:
            parts = before.get(key), plan.get(key)
            yield from _differences(*parts, f"{place}.{key}" if place else key)
    elif before != plan:
        yield f"{place}={before!r:.60}, not {plan!r:.60}"


def check_directory(index_dir: str) -> None:
    """Raises InputError where a directory holds something else, or is remote."""
    reason = ""
    names = {*os.listdir(index_dir)} if os.path.isdir(index_dir) else {}
    names = {name for name in names if not name.endswith(atomic_files.SUFFIX)}
    if remote_files.is_remote(index_dir):
        reason = "is remote, and an index is mapped into memory"
    elif os.path.exists(index_dir) and not os.path.isdir(index_dir):
        reason = "is a file"
    elif names and not {INDEX, BUILDING} & names:
        reason = f"holds no index but {min(names)}"
    if reason:
        raise errors.InputError(
            f"--index_dir={index_dir} {reason}; name a new or empty directory"
        )


def build(
    index_dir: str,
    input_file: str,
    source: search_encoders.Source,
    *,
    quantization: str = "none",
    prompts: Mapping[str, str | None] | None = None,
    passages: search_passages.Size | None = None,
    texts_per_shard: int = TEXTS_PER_SHARD,
) -> dict[str, Any]:
    """Writes an index, or what a build before has left open; returns its index.json.

    Args:
        input_file: as in corpora.read_texts.
        prompts: texts to put before a "query" or "passage"; None for the model's.
        passages: of what size texts are searched; None for whole texts.

    Raises:
        InputError: the directory holds another index or something else, or the file
            has no text, or there is no such model.
    """
    check_directory(index_dir)
    texts = _scan(input_file)
    encoder = search_encoders.open_source(source)
    _check_unknown(input_file, encoder, texts["num_texts"])
    own = {k: v for k, v in (prompts or {}).items() if v is not None}
    plan = {
        "format_version": FORMAT_VERSION,
        "file": input_file,
        "model": source.with_absolute_paths()._asdict(),
        "texts": texts,
        "vectors": dict(encoder.identity),
        "prompts": {**encoder.prompts, **own},
        "quantization": quantization,
        "texts_per_shard": texts_per_shard,
    }
    if passages:
        search_passages.check(passages, encoder, plan["prompts"]["passage"])
        plan["passages"] = passages._asdict()
        num_passages = _summary(_rows(input_file, plan, encoder))["num_texts"]
        plan["passages"]["num_passages"] = num_passages
    with locks.directory(index_dir, f"--index_dir={index_dir}"):
        _write(index_dir, plan, encoder)
    return plan


def _write(index_dir, plan, encoder):
    """Writes the shards of a plan that are not there, and adds what was added."""
    input_file = plan["file"]
    whole, open_plan = (read_plan(index_dir, name) for name in (INDEX, BUILDING))
    for before in filter(None, (whole, open_plan)):
        both = [{key: each.get(key) for key in _SAME} for each in (before, plan)]
        if differences := [*_differences(*both)]:
            raise errors.InputError(
                f"--index_dir={index_dir} holds another index, of {before['file']}: "
                f"{'; '.join(differences)}; name a new directory, or remove this one, "
                "or --add texts to it"
            )
    if not whole:
        atomic_files.write_json(os.path.join(index_dir, BUILDING), plan)
    _write_shards(index_dir, plan, encoder, _rows(input_file, plan, encoder))
    added = (whole or {}).get("added")
    plan |= {"added": added} if added else {}
    atomic_files.write_json(os.path.join(index_dir, INDEX), plan)
    if not whole or (open_plan or {}).get("added") == added:  # else one is unfinished
        atomic_files.remove(os.path.join(index_dir, BUILDING))


def add(
    shards: "Shards", encoder: search_encoders.Encoder, input_file: str
) -> dict[str, Any]:
    """Adds the texts of a file that an index lacks; returns its new index.json.

    The index is searched as before until all of them are there. A line of another
    file than that of the build has the id FILE:LINE.

    Raises:
        InputError: the index has another text with the id of one of them, or another
            process writes it.
    """
    index_dir = shards.index_dir
    with locks.directory(index_dir, f"--index_dir={index_dir}"):
        # Another process may have added texts.
        return _add(Shards(index_dir), encoder, input_file)


def _add(shards, encoder, input_file):
    index_dir, before = shards.index_dir, shards.plan
    num_texts, known = _scan(input_file)["num_texts"], dict[str, int]()
    _check_unknown(input_file, encoder, num_texts)
    for begin in range(0, len(shards), _BLOCK_ROWS):
        block = range(begin, min(begin + _BLOCK_ROWS, len(shards)))
        for _, text_id, text, _ in shards.texts(block).values():
            known[text_id] = zlib.crc32(text.encode(), known.get(text_id, 0))

    def new_rows():
        rows = _rows(input_file, before, encoder)
        for text_id, parts in itertools.groupby(rows, lambda row: row.text_id):
            first, *others = parts
            checksum = zlib.crc32("".join(r.text for r in (first, *others)).encode())
            if known.get(text_id, checksum) != checksum:
                raise errors.InputError(
                    f"{input_file}:{first.line}: {index_dir} has another text with the "
                    f"id {text_id!r:.60}; give this one another, or build a new index"
                )
            if text_id not in known:
                yield from (first, *others)

    part = {"file": input_file, **_summary(new_rows())}
    if not part["num_texts"]:
        print(f"{index_dir} has all texts of {input_file}")
        return before
    earlier = before.get("added") or []
    plan = before | {"added": [*earlier, part]}
    first = sum(1 for _ in _sizes(before))
    if (open_plan := read_plan(index_dir, BUILDING)) != plan:
        added = (open_plan or {}).get("added") or []
        if added not in ([], earlier):  # the latter was killed at its end
            print(f"{index_dir}: drops the unfinished shards of {added[-1]['file']}")
        _remove_shards(index_dir, first)
        atomic_files.write_json(os.path.join(index_dir, BUILDING), plan)
    _write_shards(index_dir, plan, encoder, new_rows(), first)
    atomic_files.write_json(os.path.join(index_dir, INDEX), plan)
    atomic_files.remove(os.path.join(index_dir, BUILDING))
    return plan


def _remove_shards(index_dir, first):
    for name in sorted(os.listdir(index_dir)):
        number = name.partition(".")[0]
        if number.isdecimal() and int(number) >= first:
            atomic_files.remove(os.path.join(index_dir, name))


def _check_unknown(input_file, encoder, num_texts):
    """Prints the share of unknown words; InputError where most are such."""
    if encoder.tokenizer:
        encoder.tokenizer.refuses_unknown = False  # no flag of the build allows it
        rows = itertools.islice(corpora.read_texts(input_file), _CHUNK_TEXTS)
        ids = [*itertools.chain(*encoder.tokenizer.to_ids([row.text for row in rows]))]
        counts = encoder.tokenizer.count_unknown(ids)
        if share := encoder.tokenizer.describe_unknown(input_file, counts):
            print(f"texts: of the first {min(_CHUNK_TEXTS, num_texts)}{share}")


def _rows(input_file, plan, encoder):
    """Yields the rows of an index: the texts of a file, or their passages."""
    texts = filter(lambda row: has_content(row.text), corpora.read_texts(input_file))
    name, of_build = os.path.basename(input_file), os.path.basename(plan["file"])
    if name != of_build and not text_rows.is_jsonl(input_file):
        texts = (row._replace(text_id=f"{name}:{row.line}") for row in texts)
    if not plan.get("passages"):
        yield from (Row(line, text_id, text) for line, text_id, text in texts)
        return
    size = search_passages.Size(plan["passages"]["tokens"], plan["passages"]["stride"])
    while chunk := [*itertools.islice(texts, _CHUNK_TEXTS)]:
        places = search_passages.cut([r.text for r in chunk], encoder.tokenizer, size)
        for (line, text_id, text), spans in zip(chunk, places, strict=True):
            for start, end in spans:
                if has_content(text[start:end]):
                    yield Row(line, text_id, text[start:end], start)


def _sizes(plan):
    """Yields the number of rows of each shard: those of the build, then the others."""
    most, counts = plan["texts_per_shard"], [_num_built(plan)]
    counts += [part["num_texts"] for part in plan.get("added") or ()]
    for count in counts:
        for begin in range(0, count, most):
            yield min(most, count - begin)


def _num_built(plan):
    """The rows of the build, without additions."""
    passages = plan.get("passages")
    return passages["num_passages"] if passages else plan["texts"]["num_texts"]


def _write_shards(index_dir, plan, encoder, rows, first_shard=0):
    """Writes the shards from one on that are not there, and counts texts that are cut.

    `rows` are those of these shards.
    """
    sizes = [*itertools.islice(_sizes(plan), first_shard, None)]
    total, before, done, num_cut = sum(sizes), plan["prompts"]["passage"], 0, 0
    with progress.Progress("encoding: text") as report:

        def report_batch(first, texts):
            report(first + texts, total)

        for number, size in enumerate(sizes, start=first_shard):
            shard = [*itertools.islice(rows, size)]
            with contextlib.suppress(errors.InputError):
                record = _read_record(index_dir, number, size, plan)
                num_cut += record.get("num_cut") or 0
                done += size
                continue
            # Equal texts are encoded once, so that they have equal vectors.
            places = {text: i for i, text in enumerate({row.text: 0 for row in shard})}
            prompted, parts, cut = [before + text for text in places], [], 0
            for first in range(0, len(prompted), _CHUNK_TEXTS):
                report(done + first, total)
                advance = functools.partial(report_batch, done + first)
                part = prompted[first : first + _CHUNK_TEXTS]
                vectors, num = encoder.encode(part, advance)
                parts.append(vectors)
                cut += num
            vectors = np.concatenate(parts)[[places[row.text] for row in shard]]
            _write_shard(index_dir, number, shard, vectors, plan["quantization"], cut)
            num_cut += cut
            done += size
        report(total, total)
    if num_cut:
        length = plan["vectors"]["max_seq_length"]
        print(f"texts: {num_cut} cut to {length} tokens (--max_seq_length)")


def quantize(vectors: np.ndarray) -> np.ndarray:
    """Records [N] of `scale` and int8 `values` [W], near float32 vectors [N, W]."""
    scales = np.abs(vectors).max(axis=1) / _LARGEST
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    records: np.ndarray = np.empty(len(vectors), _int8_type(vectors.shape[1]))
    records["scale"], records["values"] = scales, np.rint(vectors / divisors)
    return records


def _int8_type(width):
    return np.dtype([("scale", "<f4"), ("values", "i1", (width,))])


def _write_shard(index_dir, number, texts, vectors, quantization, num_cut):
    if not (is_finite := np.isfinite(vectors).all(axis=1)).all():
        raise errors.InputError(
            f"line {texts[is_finite.argmin()].line}: its vector is not finite; check "
            "the weights of the model"
        )
    lines = [
        json.dumps([v for v in row[1:] if v is not None], ensure_ascii=False).encode()
        + b"\n"
        for row in texts
    ]
    ends = np.cumsum([len(line) for line in lines])
    places = np.stack([[row.line for row in texts], ends], axis=1)
    arrays = {VECTORS: vectors, ROWS: places.astype("<i8")}
    if quantization == "int8":
        arrays[QUANTIZED] = quantize(vectors)
    names = (*arrays, TEXTS, _RECORD)
    paths = [_path(index_dir, number, name) for name in names]
    with atomic_files.replacing(*paths) as temporary:
        files = dict(zip(names, temporary, strict=True))
        for name, array in arrays.items():
            with tf.io.gfile.GFile(files[name], "wb") as file:
                np.save(file, array)
        with tf.io.gfile.GFile(files[TEXTS], "wb") as file:
            file.write(b"".join(lines))
        record = files.pop(_RECORD)
        num_bytes = {name: os.path.getsize(path) for name, path in files.items()}
        checksums = {name: zlib.crc32(array) for name, array in arrays.items()}
        checksums[TEXTS] = zlib.crc32(b"".join(lines))
        values = {"num_bytes": num_bytes, "checksums": checksums, "num_cut": num_cut}
        with tf.io.gfile.GFile(record, "w") as file:
            file.write(json.dumps(values, sort_keys=True))


def _path(index_dir, number, name):
    return os.path.join(index_dir, f"{number:05d}.{name}")


def _arrays(plan, count):
    """{file: (dtype, shape)} of the arrays of a shard of `count` rows."""
    width = plan["vectors"]["width"]
    arrays = {VECTORS: ("<f4", (count, width)), ROWS: ("<i8", (count, 2))}
    if plan["quantization"] == "int8":
        arrays[QUANTIZED] = (_int8_type(width), (count,))
    return arrays


def _remedy(number, plan):
    is_built = number * plan["texts_per_shard"] < _num_built(plan)
    text = _SHARD_REMEDY if is_built else _ADDED_REMEDY
    return text.format(_path("", number, _RECORD))


def _read_record(index_dir, number, count, plan):
    """The record of a shard; InputError where one of its files is missing or cut."""
    path = _path(index_dir, number, _RECORD)
    arrays, remedy = _arrays(plan, count), _remedy(number, plan)
    record = json_files.read_object(path, remedy=remedy)
    form = {
        "num_bytes": dict.fromkeys([*arrays, TEXTS], _SIZE),
        # Earlier versions wrote no checksum of texts, and did not count those cut.
        "checksums": {**dict.fromkeys(arrays, _CHECKSUM), TEXTS: (_CHECKSUM, None)},
        "num_cut": (_SIZE, None),
    }
    json_files.check(path, record, form, remedy=remedy)
    for name, wanted in record["num_bytes"].items():
        file = _path(index_dir, number, name)
        size = os.path.getsize(file) if os.path.isfile(file) else "no file"
        if size != wanted:
            raise errors.InputError(f"{file}: num_bytes={wanted}, but {size}; {remedy}")
    return record


class Shards:
    """The shards of a whole index; files are mapped while they are read.

    Raises:
        InputError: there is no whole index, or one of its files is missing or damaged.
    """

    def __init__(self, index_dir: str):
        check_directory(index_dir)
        plan = read_plan(index_dir)
        if plan is None:
            raise errors.InputError(
                f"--index_dir={index_dir}: there is no whole index; build it by "
                "--input_file=FILE and --pretrained=DIR"
            )
        self.index_dir, self.plan = index_dir, plan
        sizes, self._records = list[int](), list[dict[str, Any]]()
        for number, size in enumerate(_sizes(plan)):
            self._records.append(_read_record(index_dir, number, size, plan))
            sizes.append(size)
        self._sizes, self._starts = sizes, np.cumsum([0, *sizes])
        self._checked: set[tuple[int, str]] = set()
        for number, size in enumerate(sizes):
            for name in _arrays(plan, size):
                self._map(number, name)
        is_added = os.path.exists(os.path.join(index_dir, BUILDING))  # not all of them
        if os.path.exists(_path(index_dir, len(sizes), _RECORD)) and not is_added:
            reason = f"num_texts={len(self)}, but there are more; {_REMEDY}"
            raise errors.InputError(f"{os.path.join(index_dir, INDEX)}: {reason}")
        if not all(TEXTS in record["checksums"] for record in self._records):
            reason = "an earlier version wrote no checksums of texts"
            logging.warning("%s: %s; build it again", index_dir, reason)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph of the vectors, which may be shorter."""
        return os.path.exists(os.path.join(self.index_dir, GRAPH))

    def _fail(self, number, name, reason):
        path, remedy = _path(self.index_dir, number, name), _remedy(number, self.plan)
        raise errors.InputError(f"{path}: {reason}; {remedy}")

    def _map(self, number, name):
        """A file of a shard as a memory map; bytes of texts."""
        path = _path(self.index_dir, number, name)
        try:
            if name == TEXTS:
                return np.memmap(path, np.uint8, "r")
            array = np.lib.format.open_memmap(path, "r")
        except (OSError, ValueError, EOFError) as error:
            self._fail(number, name, f"cannot be read ({error})")
        dtype, shape = _arrays(self.plan, self._sizes[number])[name]
        if (array.dtype, array.shape) != (dtype, shape) or not array.flags.c_contiguous:
            kind = f"{array.dtype}"[:20]
            self._fail(number, name, f"has {kind} of {array.shape}, not {shape}")
        return array

    def _read(self, number, name):
        """As `_map`; the checksum is compared once, when a file is first read."""
        array = self._map(number, name)
        if (number, name) not in self._checked:
            checksum = self._records[number]["checksums"].get(name)
            if checksum is not None and zlib.crc32(array) != checksum:
                self._fail(number, name, "is damaged, its checksum is wrong")
            numbers = array["scale"] if name == QUANTIZED else array
            if name in (VECTORS, QUANTIZED) and not np.isfinite(numbers).all():
                self._fail(number, name, "has a number that is not finite")
            self._checked.add((number, name))
        return array

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all vectors, float32 [B, W]; those of int8 where there are such.

        Raises:
            InputError: a file is damaged.
        """
        is_int8 = self.plan["quantization"] == "int8"
        for number in range(len(self._records)):
            array = self._read(number, QUANTIZED if is_int8 else VECTORS)
            if not is_int8:
                yield array
                continue
            for first in range(0, len(array), _BLOCK_ROWS):
                part = array[first : first + _BLOCK_ROWS]
                scales = part["scale"][:, None]
                yield np.multiply(part["values"], scales, dtype=np.float32)

    def gather(self, indices: np.ndarray) -> np.ndarray:
        """The float32 vectors [N, W] of int [N] indices, ascending."""
        numbers = np.searchsorted(self._starts, indices, "right") - 1
        places = indices - self._starts[numbers]
        shards = ((n, places[numbers == n]) for n in np.unique(numbers).tolist())
        return np.concatenate([self._read(n, VECTORS)[rows] for n, rows in shards])

    def texts(self, indices: Sequence[int]) -> dict[int, Row]:
        """{index: row} of some texts."""
        texts: dict[int, Row] = {}
        for index in sorted({*indices}):
            number = bisect.bisect_right(self._starts, index) - 1
            place = index - self._starts[number]
            rows = self._read(number, ROWS)
            line, end = rows[place].tolist()
            start = rows[place - 1, 1].item() if place else 0
            content = self._read(number, TEXTS)[start:end].tobytes()
            try:
                text_id, text, *start = json_files.parse(content)
                texts[index] = Row(line, text_id, text, *start)
            except (ValueError, TypeError) as error:
                self._fail(number, TEXTS, f"is damaged ({error})")
        return texts
