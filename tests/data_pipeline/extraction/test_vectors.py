import dataclasses
import json
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.extraction import vectors as vector_files

VOCAB = ["[PAD]", "[CLS]", "[SEP]", "é", '"', "##s"]


class Line(NamedTuple):
    unique_id: int
    input_ids: np.ndarray
    values: np.ndarray


def make(lengths, layers, width, of_tokens=True):
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
    actual = json.loads(text.splitlines()[0])["features"]
    assert [token["token"] for token in actual] == [f"{a}+{b}" for a, b in ids[:3]]


@pytest.mark.parametrize("output_format", vector_files.FORMATS)
def test_half_a_file_never_appears(tmp_path, output_format):
    lines, layout = make([3, 6, 2], (-1,), 5)
    path = tmp_path / "a"
    path.write_text("of an earlier run")
    error = tf.errors.ResourceExhaustedError(None, None, "of a GPU")
    with (
        pytest.raises(tf.errors.ResourceExhaustedError, match="of a GPU"),
        vector_files.writer(str(path), output_format, layout) as writer,
    ):
        writer(lines[:1])
        raise error  # of the caller, which is no error of the file
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "of an earlier run"
    write(path, output_format, lines, layout)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() != b"of an earlier run"
    with pytest.raises(OSError, match=r"a/b: cannot be written \([^;]*; name"):
        write(path / "b", output_format, lines, layout)


def test_wrong_lines_are_refused(tmp_path):
    lines, layout = make([3, 6, 2], (-1,), 5)
    more = dataclasses.replace(layout, num_lines=4, num_tokens=15)
    with pytest.raises(ValueError, match="3 lines of 11 tokens, not 4 of 15"):
        write(tmp_path / "a", "npz", lines, more)
    assert list(tmp_path.iterdir()) == []
    wrong = [line._replace(input_ids=np.array([9, 9, 9])) for line in lines[:1]]
    with pytest.raises(IndexError):
        write(tmp_path / "a", "jsonl", [*wrong, *lines[1:]], layout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", [1e-7, 1e-4, 1e-2, 1.0, 500.0, 1e5, 1e20])
def test_text_is_that_of_json(scale):
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(9, 200)) * scale).astype(np.float32)
    halves = np.arange(-299, 301, 2) / 128  # that round() sends to even neighbours
    edges = [0.0, -0.0, -1e-7, 1e-6, 9.9e-5, 1e-4, 2.0, 999.5, -1000.0, np.nan, -np.inf]
    assert np.all(halves * 1e6 % 1 == 0.5)
    for array in (values, np.float32([halves]), np.float32([[1.5, x] for x in edges])):
        rows = [[round(float(x), vector_files.DIGITS) for x in row] for row in array]
        expected = [json.dumps(row)[1:-1].encode() for row in rows]
        assert vector_files.rows_of_text(array) == expected
