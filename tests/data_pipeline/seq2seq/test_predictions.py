"""Tests of data_pipeline/seq2seq/predictions.py and text_outcomes.py."""

import json

import numpy as np
import pytest

from data_pipeline.seq2seq import outcomes, predictions, split
from data_pipeline.seq2seq import scores as text_scores
from data_pipeline.tables import text_rows

TEXTS = ["1", "2\n6\r\n\u2028\x85-", ""]


@pytest.fixture
def scored(load):
    """A PairSet, and what was written for it."""
    data = load({"dev": 'One\t1\n"two"\t26-1\nsix\t6\n'})["dev"]
    rows = text_scores.count(data.spelled, TEXTS)
    scores = text_scores.score(data.spelled, TEXTS, rows)
    losses = np.array([0.125, 1.0000004, 3.0])
    written = split.Written(TEXTS, np.array([1, 4, 0]), rows, losses, 1.0, scores)
    return data, written


def test_each_text_has_one_line(scored, tmp_path):
    """Or whatever is behind it would belong to other rows."""
    data, written = scored
    paths = predictions.write_all(str(tmp_path), data, written)
    assert [path.rpartition("/")[2] for path in paths] == [
        "test_predictions.txt",
        "test_predictions.jsonl",
    ]
    text = (tmp_path / "test_predictions.txt").read_bytes().decode()
    assert text == "1\n2 6   -\n\n"
    assert len(text.splitlines()) == 3 < len("".join(TEXTS).splitlines()) + 1
    rows = [row for _, row in text_rows.file_rows(paths[1], "jsonl")]
    assert [row["prediction"] for row in rows] == TEXTS


def test_objects_hold_what_is_known(scored, load):
    data, written = scored
    first, second, third = map(json.loads, predictions.object_lines(data, written))
    assert first == {
        **{"source": "One", "target": "1", "prediction": "1", "exact_match": True},
        **{"rouge1": 1.0, "rouge2": 0.0, "rougeL": 1.0, "loss": 0.125},
    }
    assert (second["source"], second["target"]) == ('"two"', "26-1")
    assert second["loss"] == 1.0 and second["exact_match"] is False
    assert third["rouge1"] == 0.0
    sources = load({"test": "one\ntwo\nsix\n"})["test"]
    unscored = split.Written(TEXTS, np.array([1, 4, 0]))
    lines = list(predictions.object_lines(sources, unscored))
    assert json.loads(lines[0]) == {"source": "one", "prediction": "1"}
    assert outcomes.collect(sources, unscored) is None


def test_a_report_gets_rows_and_their_scores(scored):
    data, written = scored
    found = outcomes.collect(data, written)
    assert found["texts"] == [("One",), ('"two"',), ("six",)]
    assert found["expected"] == ["1", "26 - 1", "6"]
    assert found["predicted"] == TEXTS
    assert found["is_correct"].tolist() == [True, False, False]
    again = found["rescore"](np.arange(3))
    assert again == pytest.approx({n: written.scores[n] for n in again})
    assert set(found["scores"]) - set(again) == {"chrf"}
    assert found["rescore"](np.array([0, 0]))["exact_match"] == 1.0
    assert found["histograms"]["words, written"].tolist() == [1, 3, 0]
    assert found["histograms"]["words, wanted"].tolist() == [1, 3, 1]
