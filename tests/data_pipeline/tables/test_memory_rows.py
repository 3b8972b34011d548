"""Rows in memory as lines of JSON: values of NumPy and TensorFlow, bytes and dates."""

import datetime
import json

import numpy as np
import pytest

from data_pipeline.tables import memory_rows


def test_values_of_other_libraries_become_those_of_json():
    answers = {"text": np.array([b"caf\xc3\xa9"], object), "answer_start": np.arange(1)}
    row = {"context": b"a caf\xc3\xa9", "answers": answers, "score": np.float32(0.5)}
    row |= {"tags": [np.int64(3)], "day": datetime.date(2020, 2, 3), "none": np.nan}
    missing = type("NAType", (), {})(), type("NaTType", (), {})()  # as of pandas
    row |= dict(zip(("na", "nat"), missing, strict=True))
    assert json.loads(memory_rows.lines("rows", [row], {})) == {
        "context": "a café",
        "answers": {"text": ["café"], "answer_start": [0]},
        "score": 0.5,
        "tags": [3],
        "day": "2020-02-03",
        "none": None,
        "na": None,
        "nat": None,
    }


@pytest.mark.parametrize("value", [b"\xff", {"text": [b"\xff"]}])
def test_bytes_that_are_no_text_are_refused(value):
    with pytest.raises(ValueError, match=r"^rows:1: answers: .* is not UTF-8; decode"):
        memory_rows.lines("rows", [{"answers": value}], {})


def test_rows_that_have_no_order_are_dicts():
    with pytest.raises(ValueError, match=r"^rows:1: 'a' has 1 values; give a dict$"):
        list(memory_rows.named("rows", ["a"], {}))
    with pytest.raises(ValueError, match=r"has 2 values; give 1 or a dict$"):
        list(memory_rows.named("rows", [("a", "b")], {1: ("text",)}))
