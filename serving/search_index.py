"""The files of an index: shards of vectors and texts, and index.json.

A shard has `vectors.npy` float32 [N, W], of length 1; with int8 also `int8.npy`, N
records of `scale` float32 and `values` int8 [W], whose products are the vectors;
`rows.npy` int64 [N, 2], the line of a text and the end of its row in `texts.jsonl`,
which is [id, text]; and `shard.json`, written last, with sizes and checksums. All
shards but the last have equally many texts.
"""

import itertools
import json
import os
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import atomic_files, errors, json_files, remote_files
from data_pipeline.embedding import corpora
from serving import search_encoders
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
_SAME = ("texts", "vectors", "prompts", "quantization", "texts_per_shard")
_REMEDY = "build the index again"


def has_content(text: str) -> bool:
    """Whether a text has a letter, digit, punctuation mark or symbol, so a token."""
    return any(unicodedata.category(character)[0] in "LNPS" for character in text)


def _scan(path):
    """The number and digest of the texts of a file; prints the lines left out."""
    digest = count = left_out = first = 0
    for line, text_id, text in corpora.read_texts(path):
        if has_content(text):
            count += 1
            digest = zlib.crc32(f"{line}\t{text_id}\t{text}\n".encode(), digest)
        else:
            left_out += 1
            first = first or line
    if not count:
        raise errors.InputError(
            f"--input_file={path}: has no text with a token; give a file with a text a "
            "line"
        )
    if left_out:
        print(f"left out: {left_out} without a token, the first is line {first}")
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
    if plan.get("format_version") != FORMAT_VERSION or not {*_SAME} <= plan.keys():
        raise errors.InputError(
            f"{path}: format_version={plan.get('format_version')!r:.20} is not that of "
            f"a whole index of this version, {FORMAT_VERSION}; {_REMEDY}"
        )
    return plan


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
    texts_per_shard: int = TEXTS_PER_SHARD,
) -> dict[str, Any]:
    """Writes an index, or what a build before has left open; returns its index.json.

    Args:
        input_file: as in corpora.read_texts.
        prompts: texts to put before a "query" or "passage"; None for the model's.

    Raises:
        InputError: the directory holds another index or something else, or the file
            has no text, or there is no such model.
    """
    check_directory(index_dir)
    texts = _scan(input_file)
    encoder = search_encoders.open_source(source)
    if encoder.tokenizer:
        encoder.tokenizer.refuses_unknown = False  # no flag of the build allows it
        rows = itertools.islice(corpora.read_texts(input_file), _CHUNK_TEXTS)
        ids = [*itertools.chain(*encoder.tokenizer.to_ids([row.text for row in rows]))]
        counts = encoder.tokenizer.count_unknown(ids)
        if share := encoder.tokenizer.describe_unknown(input_file, counts):
            print(f"texts: of the first {min(_CHUNK_TEXTS, texts['num_texts'])}{share}")
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
    for before in filter(None, (read_plan(index_dir, n) for n in (INDEX, BUILDING))):
        for key in _SAME:
            if before[key] != plan[key]:
                raise errors.InputError(
                    f"--index_dir={index_dir} holds another index, whose {key} are "
                    f"{json.dumps(before[key])} and not {json.dumps(plan[key])}; name "
                    "a new directory"
                )
    if not os.path.exists(os.path.join(index_dir, INDEX)):
        atomic_files.write_json(os.path.join(index_dir, BUILDING), plan)
    all_rows = filter(lambda row: has_content(row.text), corpora.read_texts(input_file))
    total, before = texts["num_texts"], plan["prompts"]["passage"]
    with progress.Progress("encoding: text") as report:
        for done in range(0, total, texts_per_shard):
            number = done // texts_per_shard
            shard = [*itertools.islice(all_rows, texts_per_shard)]
            if _read_record(index_dir, number) is not None:
                continue
            # Equal texts are encoded once, so that they have equal vectors.
            places = {text: i for i, text in enumerate({row.text: 0 for row in shard})}
            prompted, parts = [before + text for text in places], []
            for first in range(0, len(prompted), _CHUNK_TEXTS):
                report(done + first, total)
                parts.append(encoder.embed(prompted[first : first + _CHUNK_TEXTS]))
            vectors = np.concatenate(parts)[[places[row.text] for row in shard]]
            _write_shard(index_dir, number, shard, vectors, quantization)
    atomic_files.write_json(os.path.join(index_dir, INDEX), plan)
    atomic_files.remove(os.path.join(index_dir, BUILDING))
    return plan


def quantize(vectors: np.ndarray) -> np.ndarray:
    """Records [N] of `scale` and int8 `values` [W], near float32 vectors [N, W]."""
    scales = np.abs(vectors).max(axis=1) / _LARGEST
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    kind = [("scale", "<f4"), ("values", "i1", (vectors.shape[1],))]
    records: np.ndarray = np.empty(len(vectors), kind)
    records["scale"], records["values"] = scales, np.rint(vectors / divisors)
    return records


def _write_shard(index_dir, number, texts, vectors, quantization):
    lines = [
        json.dumps([row.text_id, row.text], ensure_ascii=False).encode() + b"\n"
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
            with open(files[name], "wb") as file:
                np.save(file, array)
        with open(files[TEXTS], "wb") as file:
            file.writelines(lines)
        record = files.pop(_RECORD)
        num_bytes = {name: os.path.getsize(path) for name, path in files.items()}
        checksums = {name: zlib.crc32(array) for name, array in arrays.items()}
        with open(record, "w") as file:
            values = {"num_bytes": num_bytes, "checksums": checksums}
            json.dump(values, file, sort_keys=True)


def _path(index_dir, number, name):
    return os.path.join(index_dir, f"{number:05d}.{name}")


def _read_record(index_dir, number):
    """The record of a shard whose files are all there; else None."""
    try:
        record = json_files.read_object(_path(index_dir, number, _RECORD))
        sizes = record["num_bytes"].items()
        paths = [(_path(index_dir, number, name), size) for name, size in sizes]
        is_whole = all(os.path.getsize(path) == size for path, size in paths)
    except (OSError, ValueError, KeyError):
        return None
    return record if is_whole else None


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
        self._per_shard = plan["texts_per_shard"]
        self._records = []
        for number in range(-(-len(self) // self._per_shard)):
            if (record := _read_record(index_dir, number)) is None:
                self._fail(number, _RECORD, "a file of this shard is missing or cut")
            self._records.append(record)
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return self.plan["texts"]["num_texts"]

    def _fail(self, number, name, reason):
        path = _path(self.index_dir, number, name)
        record = os.path.basename(_path("", number, _RECORD))
        raise errors.InputError(
            f"{path}: {reason}; remove {record}, and run the build again, which writes "
            "this shard anew"
        )

    def _map(self, number, name):
        """An array of a shard as a memory map."""
        try:
            return np.load(_path(self.index_dir, number, name), mmap_mode="r")
        except (OSError, ValueError) as error:
            self._fail(number, name, f"cannot be read ({error})")

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all vectors, float32 [B, W]; those of int8 where there are such.

        Raises:
            InputError: the checksum of a shard is wrong; it is compared once.
        """
        is_int8 = self.plan["quantization"] == "int8"
        name = QUANTIZED if is_int8 else VECTORS
        for number, record in enumerate(self._records):
            array = self._map(number, name)
            if number not in self._checked:
                if zlib.crc32(array) != record["checksums"].get(name):
                    self._fail(number, name, "is damaged, its checksum is wrong")
                self._checked.add(number)
            if not is_int8:
                yield array
                continue
            for first in range(0, len(array), _BLOCK_ROWS):
                part = array[first : first + _BLOCK_ROWS]
                scales = part["scale"][:, None]
                yield np.multiply(part["values"], scales, dtype=np.float32)

    def gather(self, indices: np.ndarray) -> np.ndarray:
        """The float32 vectors [N, W] of int [N] indices, ascending."""
        numbers, places = np.divmod(indices, self._per_shard)
        shards = ((n, places[numbers == n]) for n in np.unique(numbers).tolist())
        return np.concatenate([self._map(n, VECTORS)[rows] for n, rows in shards])

    def texts(self, indices: Sequence[int]) -> dict[int, corpora.Text]:
        """{index: text} of some texts."""
        texts = {}
        for index in sorted({*indices}):
            number, place = divmod(index, self._per_shard)
            rows = self._map(number, ROWS)
            line, end = rows[place].tolist()
            start = rows[place - 1, 1].item() if place else 0
            try:
                with open(_path(self.index_dir, number, TEXTS), "rb") as file:
                    file.seek(start)
                    text_id, text = json_files.parse(file.read(end - start))
            except (OSError, ValueError, TypeError) as error:
                self._fail(number, TEXTS, f"is damaged ({error})")
            texts[index] = corpora.Text(line, text_id, text)
        return texts
