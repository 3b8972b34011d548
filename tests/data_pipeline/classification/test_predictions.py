import contextlib
import dataclasses
import json

import numpy as np
import pytest

from contract import outcomes as outcomes_lib
from data_pipeline.classification import labels, predictions, split
from data_pipeline.tables import labelled
from tests import full_disk, tiny

CLASSES = labels.Labels(("no", "yes", "ja"))
TOPICS = labels.Labels(("a", "b"), "multi_label")
NUMBERS = labels.Labels((), "regression")


def rows(label_set=CLASSES, **changes):
    columns = {
        "path": "test.tsv",
        "text_a": ["Füße", "two"],
        "text_b": None,
        "labels": None,
        "example_ids": ["test-1", "test-2"],
        "lines": [1, 2],
    }
    table, label_ids = labelled.Table(**{**columns, **changes}), None
    with contextlib.suppress(ValueError):
        label_ids = label_set.encode(table)
    return split.LabelledSplit("test.tsv", None, table, label_ids, label_set)


def scored(probabilities, decisions, **more):
    return outcomes_lib.Scored(
        predictions=np.array(decisions),
        probabilities=np.array(probabilities, np.float32),
        **more,
    )


@pytest.mark.parametrize(
    ("label_set", "probabilities", "threshold", "decisions"),
    [
        (CLASSES, [[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]], 0.9, [1, 0]),
        (TOPICS, [[0.9, 0.5], [0.4, 0.1]], 0.5, [[1, 1], [0, 0]]),
        (TOPICS, [[0.9, 0.5], [0.4, 0.1]], 0.6, [[1, 0], [0, 0]]),
        (NUMBERS, [[-1.5], [3.0]], 0.5, [-1.5, 3.0]),
    ],
)
def test_probabilities_become_decisions(label_set, probabilities, threshold, decisions):
    decided = predictions.decide(label_set, np.array(probabilities), threshold)
    assert decided.tolist() == decisions


TWO = [[0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]]
FIRST = {
    "id": "test-1",
    "text_a": "Füße",
    "label": "yes",
    "probabilities": {"no": 0.25, "yes": 0.5, "ja": 0.25},
}
SEVERAL = {
    "id": "test-1",
    "text_a": "Füße",
    "labels": ["a", "b"],
    "probabilities": {"a": 0.75, "b": 0.5},
    "given": ["a", "b"],
}
NUMBER = {"id": "test-1", "text_a": "Füße", "score": -1.5, "given": "-1.5"}
LOSSES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("data", "part", "first", "second"),
    [
        (
            rows(labels=["yes", "no"]),
            scored(TWO, [1, 2], losses=LOSSES),
            {**FIRST, "given": "yes", "correct": True},
            {
                "probabilities": dict.fromkeys(("no", "yes", "ja"), 0.333333),
                "label": "ja",
                "correct": False,
            },
        ),
        (
            rows(labels=["yes", "unheard"]),  # a label that the model does not have
            scored(TWO, [1, 2]),
            {**FIRST, "given": "yes"},
            {"given": "unheard"},
        ),
        (
            rows(text_b=["three", "four"]),
            scored(TWO, [1, 0]),
            {"id": "test-1", "text_a": "Füße", "text_b": "three", **FIRST},
            {"text_b": "four", "label": "no"},
        ),
        (
            rows(TOPICS, labels=[("a", "b"), "b"]),
            scored([[0.75, 0.5], [0.25, 0.125]], [[1, 1], [0, 0]], losses=LOSSES),
            {**SEVERAL, "correct": True},
            {"labels": [], "given": "b", "correct": False},
        ),
        (
            rows(NUMBERS, labels=["-1.5", "3"]),
            scored([[-1.5], [3.0]], [-1.5, 3.0], losses=LOSSES),
            NUMBER,
            {"score": 3.0},
        ),
    ],
)
def test_predictions_are_objects(data, part, first, second):
    lines = list(predictions.prediction_lines(data, part))
    assert lines[0] == json.dumps(first, ensure_ascii=False) + "\n"
    assert len(lines) == 2 and lines[1].endswith("}\n")
    assert second.items() <= json.loads(lines[1]).items()


ALIKE = "every example is predicted as 'ja'; train longer"
NO_LABEL = "no example gets a label; train longer, or lower --multi_label_threshold"


@pytest.mark.parametrize(
    ("label_set", "decisions", "warning"),
    [
        (CLASSES, [2, 2, 2], ALIKE),
        (CLASSES, [2, 2, 1], ""),
        (CLASSES, [2], ""),
        (TOPICS, [[1, 1], [1, 1]], ""),
        (TOPICS, [[0, 0], [0, 0]], NO_LABEL),
        (NUMBERS, [0.0, 0.0], ""),
    ],
)
def test_lone_class_is_noticed(label_set, decisions, warning):
    part = scored(np.zeros((len(decisions), 3)), decisions)
    actual = predictions.lone_class_warning(label_set, part)
    assert actual.startswith(warning) if warning else actual is None


def outcomes(data, part, compute=lambda *_: {}):
    return predictions.outcomes("dev", data, part, compute)


def test_files_of_equal_predictions(tmp_path, capsys):
    part = scored([[0.2, 0.7, 0.1]] * 2, [1, 1])
    labelled = dataclasses.replace(part, losses=LOSSES)
    mixed = rows(labels=["yes", "no"])
    warning = outcomes(mixed, labelled).warning
    assert warning.startswith("every example is predicted as 'yes'")
    assert outcomes(rows(labels=["yes", "yes"]), labelled).warning is None  # rightly
    predictions.write(str(tmp_path), mixed, labelled)
    assert "warning" not in capsys.readouterr().out  # the report's to print
    predictions.write(str(tmp_path), rows(), part)
    assert capsys.readouterr().out == (
        f"predictions: {tmp_path}/test_results.tsv\n"
        f"predictions: {tmp_path}/test_predictions.jsonl\n"
        f"warning: test rows: {warning}\n"
    )
    # run_classifier.py of the original writes str() of each float32.
    other = scored([[0.1, 0.9], [1 / 3, 2 / 3], [1e-7, 1]], [1, 1, 1])
    text = "".join(predictions.result_lines(other))
    assert text == "0.1\t0.9\n0.33333334\t0.6666667\n1e-07\t1.0\n"
    before = tiny.listing(tmp_path)
    assert len(before) == 3
    with full_disk.full_disk(after=20), pytest.raises(OSError, match="be written"):
        predictions.write(str(tmp_path), rows(labels=["yes", "no"]), part)
    assert tiny.listing(tmp_path) == before


def test_rows_become_outcomes():
    data = rows(text_b=["three", "four"], labels=["yes", "no"])
    part = scored(
        [[0.25, 0.5, 0.25], [0.2, 0.1, 0.7]],
        [1, 2],
        scores={"accuracy": 0.5, "loss": 1.0, "batch_loss": 3.0},
        losses=np.array([0.25, 2.25], np.float32),
    )
    seen = outcomes(data, part, lambda a, b: {"accuracy": float(np.mean(a == b))})
    assert seen.split == "dev" and seen.shares == {"accuracy": 1.0}
    assert seen.texts == [("Füße", "three"), ("two", "four")]
    assert seen.expected == ["yes", "no"] and seen.predicted == ["yes", "ja"]
    assert seen.is_correct.tolist() == [True, False]
    assert seen.scores == {"accuracy": 0.5, "loss": 1.0}
    assert seen.rescore(np.array([1, 1, 0])) == {
        "accuracy": pytest.approx(1 / 3),
        "loss": pytest.approx((2.25 + 2.25 + 0.25) / 3),
    }
    assert seen.decisions.class_names == ("no", "yes", "ja")
    assert seen.decisions.labels.tolist() == [1, 0]
    assert seen.decisions.predictions.tolist() == [1, 2]
    assert seen.decisions.confidences.tolist() == pytest.approx([0.5, 0.7])
    assert not seen.decisions.is_multi_label and seen.numbers is None


def test_outcomes_of_other_problem_types():
    several = scored([[0.9, 0.8], [0.1, 0.7]], [[1, 1], [0, 1]], losses=LOSSES)
    seen = outcomes(rows(TOPICS, labels=["a", "b"]), several)
    assert seen.is_correct.tolist() == [False, True]  # right when all labels are
    assert seen.predicted == ["a,b", "b"]
    assert seen.decisions.is_multi_label and seen.decisions.confidences is None
    assert seen.decisions.labels.tolist() == [[1, 0], [0, 1]]
    number = scored([[-1.5], [3.0]], [-1.5, 3.0], losses=LOSSES)
    seen = outcomes(rows(NUMBERS, labels=["-1", "3.5"]), number)
    assert seen.decisions is None and seen.predicted == ["-1.5", "3"]
    assert seen.numbers.labels.tolist() == [-1.0, 3.5]
    assert seen.numbers.predictions.tolist() == [-1.5, 3.0]
    assert outcomes(rows(), scored(TWO, [1, 0])) is None


def test_pieces_are_joined_and_their_weights_sum():
    tokens = ["[CLS]", "un", "##afford", "##able", "!", "[SEP]"]
    weights = np.array([9.0, 0.5, 0.25, -1.0, 0.125, 9.0, 7.0])  # the last is padding
    words = predictions.word_weights(tokens, weights, second=6)
    assert words == [["unaffordable", -0.25], ["!", 0.125]]
    tokens = ["[CLS]", "a", "[SEP]", "##b", "c", "[SEP]"]  # two texts
    words = predictions.word_weights(tokens, np.arange(6.0), second=3)
    assert words == [["a", 1.0], ["##b", 3.0], ["c", 4.0]]
