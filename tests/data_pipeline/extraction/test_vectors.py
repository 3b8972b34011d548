"""data_pipeline/extraction/vectors.py: written, read back and compared."""

import dataclasses
import io
import json
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.extraction import vectors as vector_files
from tests import full_disk

VOCAB = ["[PAD]", "[CLS]", "[SEP]", "é", '"', "##s"]


class Line(NamedTuple):
    unique_id: int
    input_ids: np.ndarray
    values: np.ndarray


def make(lengths, layers, width, of_tokens=True):
    """Lines and their layout."""
    rng = np.random.default_rng(2)
    lines = []
    for number, length in enumerate(lengths):
        ids = np.array([1, *rng.integers(3, 6, length - 2), 2], np.int32)
        shape = (*([length] if of_tokens else []), len(layers), width)
        lines.append(Line(number, ids, rng.normal(size=shape).astype(np.float32)))
    layout = vector_files.VectorLayout(
        num_lines=len(lengths),
        num_tokens=sum(lengths),
        layers=layers,
        width=width,
        of_tokens=of_tokens,
        spell=lambda ids: [VOCAB[i] for i in ids],
    )
    return lines, layout


def write(path, output_format, lines, layout):
    with vector_files.writer(str(path), output_format, layout) as writer:
        for start in range(0, len(lines), 2):
            writer(lines[start : start + 2])
    return path


def layers_of(vectors, names):
    return [
        {"index": name, "values": [round(float(x), 6) for x in vector]}
        for name, vector in zip(names, vectors, strict=True)
    ]


def test_json_lines_are_the_originals_to_the_letter(tmp_path):
    lines, layout = make([3, 6, 2], (-1, 0), 5)
    path = write(tmp_path / "a.jsonl", "jsonl", lines, layout)
    wanted = ""
    for line in lines:
        found = [
            {"token": VOCAB[index], "layers": layers_of(vectors, (-1, 0))}
            for index, vectors in zip(line.input_ids, line.values, strict=True)
        ]
        wanted += json.dumps({"linex_index": line.unique_id, "features": found}) + "\n"
    assert path.read_text("ascii") == wanted


def test_arrays_of_tokens_are_read_back(tmp_path):
    lines, layout = make([3, 6, 2], (-1, -2), 5)
    with np.load(write(tmp_path / "a.npz", "npz", lines, layout)) as arrays:
        assert set(arrays) == {"values", "layers", "input_ids", "splits"}
        assert arrays["layers"].tolist() == ["-1", "-2"]
        assert arrays["splits"].tolist() == [0, 3, 9, 11]
        ids, values = arrays["input_ids"], arrays["values"]
        assert (ids.dtype, values.dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(ids, np.concatenate([a.input_ids for a in lines]))
        np.testing.assert_array_equal(values, np.concatenate([a.values for a in lines]))


def test_hdf5_has_a_data_set_a_line(tmp_path):
    lines, layout = make([3, 6, 2], ("embedding", 0, 1), 5)
    with h5py.File(write(tmp_path / "a", "hdf5", lines, layout)) as file:
        assert set(file) == {"0", "1", "2"}
        for line in lines:
            found = file[str(line.unique_id)]
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, line.values[1:-1].swapaxes(0, 1))
        assert file["2"].shape == (3, 0, 5)
    # Twins: where nothing stands around a text, and one vector a text.
    bare = dataclasses.replace(layout, frame=(0, 0))
    with h5py.File(write(tmp_path / "b", "hdf5", lines, bare)) as file:
        assert [file[str(i)].shape[1] for i in range(3)] == [3, 6, 2]
    lines, layout = make([3, 6, 2], (-1, 0), 5, of_tokens=False)
    with h5py.File(write(tmp_path / "c", "hdf5", lines, layout)) as file:
        np.testing.assert_array_equal(file["1"], lines[1].values)


def test_full_disk_ends_hdf5_quietly(tmp_path):
    lines, layout = make([3, 60, 2], (-1, 0), 500)
    said = r"/a: cannot be written \(File too large\); make room there"
    with full_disk.full_disk(after=9000), pytest.raises(OSError, match=said):
        write(tmp_path / "a", "hdf5", lines, layout)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "a", "hdf5", lines, layout)


def test_characters_are_spelled_and_stored(tmp_path):
    lines, layout = make([3, 6, 2], (-1,), 5)
    lines = [
        line._replace(input_ids=np.stack([line.input_ids, 7 * line.input_ids], 1))
        for line in lines
    ]
    layout = dataclasses.replace(layout, spell=lambda ids: [f"{a}+{b}" for a, b in ids])
    with np.load(write(tmp_path / "a", "npz", lines, layout)) as arrays:
        ids = np.concatenate([line.input_ids for line in lines])
        np.testing.assert_array_equal(arrays["input_ids"], ids)
    text = write(tmp_path / "b", "jsonl", lines, layout).read_text()
    found = json.loads(text.splitlines()[0])["features"]
    assert [token["token"] for token in found] == [f"{a}+{b}" for a, b in ids[:3]]
    path = str(write(tmp_path / "c", "tfrecord", lines, layout))
    record = next(tf.data.TFRecordDataset(path).as_numpy_iterator())
    example = tf.train.Example.FromString(record).features.feature
    assert list(example["input_ids"].int64_list.value) == ids[:3].ravel().tolist()


@pytest.mark.parametrize("of_tokens", [True, False])
@pytest.mark.parametrize("width", [3, 40, 3000])  # lengths of one to three bytes
def test_records_are_read_back(tmp_path, of_tokens, width):
    lines, layout = make([3, 6, 2], (-1, -2), width, of_tokens=of_tokens)
    path = write(tmp_path / "a.tfrecord", "tfrecord", lines, layout)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    for line, record in zip(lines, records, strict=True):
        example = tf.train.Example.FromString(record).features.feature
        assert list(example["linex_index"].int64_list.value) == [line.unique_id]
        assert tuple(example["shape"].int64_list.value) == line.values.shape
        values = np.array(example["values"].float_list.value, np.float32)
        np.testing.assert_array_equal(values, line.values.ravel())
        assert ("input_ids" in example) == of_tokens
        ids = list(example["input_ids"].int64_list.value)
        assert ids == (line.input_ids.tolist() if of_tokens else [])


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_same_lines_give_the_same_bytes(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1,), 5)
    one = write(tmp_path / "a", output_format, lines, layout)
    two = write(tmp_path / "b", output_format, lines, layout)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_half_a_file_never_appears(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1,), 5)
    path = tmp_path / "a"
    path.write_text("of an earlier run")
    with (
        pytest.raises(RuntimeError, match="stopped"),
        vector_files.writer(str(path), output_format, layout) as writer,
    ):
        writer(lines[:1])
        raise RuntimeError("stopped")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "of an earlier run"
    write(path, output_format, lines, layout)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() != b"of an earlier run"


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_other_lines_than_were_counted_are_refused(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1,), 5)
    more = dataclasses.replace(layout, num_lines=4, num_tokens=15)
    with pytest.raises(ValueError, match="3 lines with 11 tokens came, 4 with 15"):
        write(tmp_path / "a", output_format, lines, more)
    assert list(tmp_path.iterdir()) == []


def test_error_of_the_thread_reaches_the_caller(tmp_path):
    lines, layout = make([3, 6, 2], (-1,), 5)
    wrong = [line._replace(input_ids=np.array([9, 9, 9])) for line in lines[:1]]
    with pytest.raises(IndexError):
        write(tmp_path / "a", "jsonl", [*wrong, *lines[1:]], layout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_error_of_the_caller_stays_what_it_is(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1,), 5)
    error = tf.errors.ResourceExhaustedError(None, None, "of a GPU")
    with (
        pytest.raises(tf.errors.ResourceExhaustedError, match="of a GPU"),
        vector_files.writer(str(tmp_path / "a"), output_format, layout) as writer,
    ):
        writer(lines)
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_unwritable_place_is_named(tmp_path, output_format):
    lines, layout = make([3], (-1,), 5)
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "a"
    with pytest.raises(OSError, match=r"file/a: cannot be written \(.*make room"):
        write(path, output_format, lines, layout)


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_files_elsewhere_are_those_here(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1, 0), 5)
    here = write(tmp_path / "a", output_format, lines, layout)
    write("ram://elsewhere/a", output_format, lines, layout)
    with tf.io.gfile.GFile("ram://elsewhere/a", "rb") as file:
        found = file.read()
    if output_format == "npz":  # which has the time in it
        found, wanted = np.load(io.BytesIO(found)), np.load(here)
        assert {n: v.tolist() for n, v in found.items()} == {
            name: values.tolist() for name, values in wanted.items()
        }
    elif output_format == "hdf5":
        with h5py.File(io.BytesIO(found)) as found, h5py.File(here) as wanted:
            assert (found["0"][:] == wanted["0"][:]).all() and len(found) == len(wanted)
    else:
        assert found == here.read_bytes()


# Numbers as text.


def python_text(values):
    rows = [[round(float(x), vector_files.DIGITS) for x in row] for row in values]
    return [json.dumps(row)[1:-1].encode() for row in rows]


@pytest.mark.parametrize("scale", [1e-7, 1e-5, 1e-4, 1e-2, 1.0, 30.0, 1e3, 1e5, 1e20])
def test_text_is_that_of_json(scale):
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(9, 200)) * scale).astype(np.float32)
    assert vector_files.rows_of_text(values) == python_text(values)


def test_halves_go_where_round_sends_them():
    values = (np.arange(-2999, 3001, 2) / 128).astype(np.float32).reshape(3, -1)
    millionths = values.astype(np.float64) * 1e6
    assert np.any(millionths % 1 == 0.5)
    assert vector_files.rows_of_text(values) == python_text(values)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1e-7, "-0.0"),
        (1e-6, "1e-06"),
        (-1.2e-5, "-1.2e-05"),
        (9.9e-5, "9.9e-05"),
        (1e-4, "0.0001"),
        (2.0, "2.0"),
        (-0.25, "-0.25"),
        (999.5, "999.5"),
        (-1000.0, "-1000.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_edges_are_written_as_python_does(number, text):
    values = np.array([[1.5, number]], np.float32)
    assert vector_files.rows_of_text(values) == [f"1.5, {text}".encode()]
