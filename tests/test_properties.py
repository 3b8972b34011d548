"""Rules that hold for any input; hypothesis makes it, and shrinks what breaks one."""

import csv
import io
import json
import pathlib
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, stateful
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from contract import atomic_files
from data_pipeline.tables import text_rows
from serving import streaming
from serving.protocol import json_tensors

SHAPES = arrays.array_shapes(max_dims=3, max_side=3)
NUMBERS = [tf.float32, tf.float64, tf.int32, tf.int64, tf.bool]


@given(st.data(), st.sampled_from(NUMBERS))
def test_tensors_come_back_from_json(data, dtype):
    kind = dtype.as_numpy_dtype
    tensor = data.draw(arrays.arrays(kind, SHAPES))
    text = json_tensors.by_column({"y": tensor})
    actual = json_tensors.array(json.loads(text), dtype)
    assert actual.dtype == kind
    np.testing.assert_array_equal(actual, tensor)


@given(st.lists(st.binary(max_size=9), min_size=1))
def test_bytes_come_back_from_json(values):
    text = json_tensors.by_column({"y_bytes": np.array(values, object)})
    assert json_tensors.array(json.loads(text), tf.string).tolist() == values


@given(st.lists(st.binary(min_size=1), max_size=9))
def test_lines_do_not_depend_on_blocks(blocks):
    waiting = iter(blocks)
    lines = list(streaming.split(lambda: next(waiting, b"")))
    *wanted, tail = b"".join(blocks).split(b"\n")
    assert lines == [*wanted, tail] if tail else lines == wanted


# As spreadsheets write them: text without control characters but for ends of lines.
CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n"))


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n))))
def test_cells_come_back_from_csv(rows):
    header = tuple(f"column {i}" for i in range(len(rows[0]) if rows else 2))
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        pathlib.Path(file.name).write_text(text.getvalue(), "utf-8", newline="\n")
        actual = [tuple(row) for _, row in text_rows.file_rows(file.name, "csv") if row]
    assert actual == [header, *rows]


class Files(stateful.RuleBasedStateMachine):
    """Files that are written together, in a directory that is compared with a dict."""

    names = st.sets(st.sampled_from(["a", "b", "new/c"]), min_size=1)

    def __init__(self):
        super().__init__()
        self._place = tempfile.TemporaryDirectory()
        self.wanted = {}

    def paths(self, texts):
        return {f"{self._place.name}/{name}": texts[name] for name in texts}

    @stateful.rule(names=names, text=st.text("ab\n"))
    def write(self, names, text):
        texts = {name: f"{name}{text}" for name in names}
        atomic_files.write(self.paths(texts))
        self.wanted |= texts

    @stateful.rule(names=names, last=st.sampled_from(["a", "b", "new/c"]))
    def fail(self, names, last):
        def broken():
            yield "half"
            raise KeyError("here")

        texts = {name: ["other"] for name in sorted(names - {last})} | {last: broken()}
        with pytest.raises(KeyError):
            atomic_files.write(self.paths(texts))

    @stateful.rule(name=st.sampled_from(["a", "b", "new/c"]))
    def remove(self, name):
        atomic_files.remove(f"{self._place.name}/{name}")
        self.wanted.pop(name, None)

    @stateful.invariant()
    def check(self):
        root = pathlib.Path(self._place.name)
        paths = filter(pathlib.Path.is_file, root.rglob("*"))
        actual = {str(path.relative_to(root)): path.read_text() for path in paths}
        assert actual == self.wanted

    def teardown(self):
        self._place.cleanup()


test_files_are_whole_or_as_before = Files.TestCase
Files.TestCase.settings = settings(max_examples=30, stateful_step_count=12)
