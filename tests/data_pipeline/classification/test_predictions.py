"""Tests of data_pipeline/classification/predictions.py."""

import json

import numpy as np
import pytest

from data_pipeline.classification import label_sets, predictions, tables
from reports import examined
from tests import full_disk, tiny

CLASSES = label_sets.LabelSet(("no", "yes", "ja"))
TOPICS = label_sets.LabelSet(("a", "b"), "multi_label")
NUMBERS = label_sets.LabelSet((), "regression")


def table(**changes):
    columns = {
        "path": "test.tsv",
        "text_a": ["Füße", "two"],
        "text_b": None,
        "labels": None,
        "example_ids": ["test-1", "test-2"],
        "lines": [1, 2],
    }
    return tables.Table(**{**columns, **changes})


def scored(probabilities, decisions):
    return predictions.Scored(
        np.array(probabilities, np.float32), np.array(decisions), {}
    )


def test_the_most_probable_class_is_predicted():
    probabilities = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
    decided = predictions.decide(CLASSES, probabilities, threshold=0.9)
    assert decided.tolist() == [1, 0] and decided.dtype == np.int32


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.5, [[1, 1], [0, 0]]), (0.6, [[1, 0], [0, 0]]), (0.0, [[1, 1], [1, 1]])],
)
def test_labels_are_predicted_from_the_threshold_on(threshold, expected):
    probabilities = np.array([[0.9, 0.5], [0.4, 0.1]])
    decided = predictions.decide(TOPICS, probabilities, threshold)
    assert decided.tolist() == expected and decided.dtype == np.float32


def test_regression_predicts_the_number():
    decided = predictions.decide(NUMBERS, np.array([[-1.5], [3.0]]), 0.5)
    assert decided.tolist() == [-1.5, 3.0]


def test_results_carry_their_split():
    part = predictions.Scored(np.zeros(1), np.zeros(1), {"accuracy": 0.5, "loss": 2})
    assert part.results("eval") == {"eval_accuracy": 0.5, "eval_loss": 2}


def test_test_results_are_the_originals_text():
    """run_classifier.py writes str() of each float32, a tab between, no header."""
    part = scored([[0.1, 0.9], [1 / 3, 2 / 3], [1e-7, 1]], [1, 1, 1])
    text = "".join(predictions.result_lines(part))
    assert text == "0.1\t0.9\n0.33333334\t0.6666667\n1e-07\t1.0\n"


def lines(tmp_path, rows, label_set, part):
    predictions.write(str(tmp_path), rows, label_set, part)
    text = (tmp_path / "test_predictions.jsonl").read_text("utf-8")
    assert text.endswith("\n") and text.count("\n") == len(rows.text_a)
    return text.splitlines()


def test_predictions_of_a_classification(tmp_path):
    part = scored([[0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]], [1, 0])
    first, second = lines(tmp_path, table(labels=["yes", "yes"]), CLASSES, part)
    assert first == (
        '{"id": "test-1", "text_a": "Füße", "label": "yes", '
        '"probabilities": {"no": 0.25, "yes": 0.5, "ja": 0.25}, "given": "yes"}'
    )
    assert json.loads(second)["probabilities"]["no"] == 0.333333
    assert json.loads(second)["label"] == "no"


def test_predictions_of_pairs_without_labels(tmp_path):
    part = scored([[0.25, 0.5, 0.25], [1, 0, 0]], [1, 0])
    rows = table(text_b=["three", "four"])
    first, second = map(json.loads, lines(tmp_path, rows, CLASSES, part))
    assert list(first) == ["id", "text_a", "text_b", "label", "probabilities"]
    assert second["text_b"] == "four" and second["label"] == "no"


def test_predictions_of_several_labels(tmp_path):
    part = scored([[0.75, 0.5], [0.25, 0.125]], [[1, 1], [0, 0]])
    rows = table(labels=[("a", "b"), ""])
    first, second = map(json.loads, lines(tmp_path, rows, TOPICS, part))
    assert first["labels"] == ["a", "b"] and second["labels"] == []
    assert second["probabilities"] == {"a": 0.25, "b": 0.125}
    assert first["given"] == ["a", "b"] and second["given"] == ""


def test_predictions_of_a_regression(tmp_path):
    part = scored([[-1.5], [3.0]], [-1.5, 3.0])
    first, second = map(json.loads, lines(tmp_path, table(), NUMBERS, part))
    assert first == {"id": "test-1", "text_a": "Füße", "score": -1.5}
    assert second["score"] == 3.0


def test_all_files_are_written_and_those_of_rows_are_named(tmp_path, capsys):
    part = scored([[0.25, 0.5, 0.25], [1, 0, 0]], [1, 0])
    predictions.write(str(tmp_path), table(), CLASSES, part)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "label_map.json",
        "test_predictions.jsonl",
        "test_results.tsv",
    ]
    assert capsys.readouterr().out == (
        f"predictions: {tmp_path}/test_results.tsv\n"
        f"predictions: {tmp_path}/test_predictions.jsonl\n"
    )
    predictions.write(str(tmp_path), table(), CLASSES, scored(np.eye(3)[:2], [1, 1]))
    assert "warning: every example is predicted as 'yes'" in capsys.readouterr().out


def test_what_is_not_whole_replaces_nothing(tmp_path):
    part = scored([[0.25, 0.5, 0.25], [1, 0, 0]], [1, 0])
    predictions.write(str(tmp_path), table(), CLASSES, part)
    before = tiny.listing(tmp_path)
    other = scored([[1, 0, 0], [0, 1, 0]], [0, 1])
    with (
        full_disk.full_disk(after=20),
        pytest.raises(OSError, match="cannot be written"),
    ):
        predictions.write(str(tmp_path), table(), CLASSES, other)
    assert tiny.listing(tmp_path) == before
    predictions.write(str(tmp_path), table(), CLASSES, other)
    assert tiny.listing(tmp_path).keys() == before.keys()
    assert tiny.listing(tmp_path) != before


@pytest.mark.parametrize(
    ("label_set", "decisions", "warns"),
    [
        (CLASSES, [2, 2, 2], True),
        (CLASSES, [2, 2, 1], False),
        (CLASSES, [2], False),
        (CLASSES, np.zeros(0, np.int32), False),
        (TOPICS, [[1, 1], [1, 1]], False),
        (NUMBERS, [2.0, 2.0], False),
        (NUMBERS, [0.0, 0.0], False),
    ],
)
def test_lone_class_is_noticed(label_set, decisions, warns):
    part = predictions.Scored(np.zeros((len(decisions), 3)), np.array(decisions), {})
    warning = predictions.lone_class_warning(label_set, part)
    assert (warning is not None) == warns
    if warning:
        assert warning.startswith("every example is predicted as 'ja'; train longer")


def test_no_label_at_all_is_noticed():
    part = predictions.Scored(np.zeros((2, 2)), np.zeros((2, 2)), {})
    warning = predictions.lone_class_warning(TOPICS, part)
    assert warning == (
        "no example gets a label; train longer, or lower --multi_label_threshold"
    )


def test_labelled_rows_of_one_prediction_are_warned_of_beside_their_scores(
    tmp_path, capsys
):
    part = scored([[0.2, 0.7, 0.1]] * 2, [1, 1])
    labelled = part._replace(losses=np.ones(2, np.float32))

    def outcomes(*labels):
        rows = table(labels=list(labels))
        return predictions.outcomes(rows, CLASSES, labelled, compute=lambda *_: {})

    assert outcomes("yes", "no")["warning"].startswith("every example is predicted as")
    assert outcomes("yes", "yes")["warning"] is None  # rightly
    assert outcomes("yes", "no")["shares"] == {"accuracy": 1.0}
    predictions.write(str(tmp_path), table(labels=["yes", "no"]), CLASSES, labelled)
    assert "warning" not in capsys.readouterr().out  # the report's to print
    predictions.write(str(tmp_path), table(), CLASSES, part)
    said = capsys.readouterr().out
    assert "warning: every example is predicted as 'yes'; train longer" in said


def test_rows_become_what_reports_look_at():
    rows = table(text_b=["three", "four"], labels=["yes", "no"])
    part = scored([[0.25, 0.5, 0.25], [0.2, 0.1, 0.7]], [1, 2])._replace(
        scores={"accuracy": 0.5, "loss": 1.0, "batch_loss": 3.0},
        losses=np.array([0.25, 2.25], np.float32),
    )
    found = predictions.outcomes(
        rows,
        CLASSES,
        part,
        compute=lambda labels, chosen: {"accuracy": float(np.mean(labels == chosen))},
    )
    seen = examined.of("dev", found)
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


def test_rows_of_several_labels_are_right_when_all_are():
    rows = table(labels=["a", "b"])
    part = scored([[0.9, 0.8], [0.1, 0.7]], [[1, 1], [0, 1]])
    part = part._replace(losses=np.zeros(2, np.float32))
    found = predictions.outcomes(rows, TOPICS, part, compute=lambda *_: {})
    seen = examined.of("dev", found)
    assert seen.is_correct.tolist() == [False, True]
    assert seen.predicted == ["a,b", "b"]
    assert seen.decisions.is_multi_label and seen.decisions.confidences is None
    assert seen.decisions.labels.tolist() == [[1, 0], [0, 1]]


def test_rows_of_a_regression_keep_their_numbers():
    rows = table(labels=["-1", "3.5"])
    part = scored([[-1.5], [3.0]], [-1.5, 3.0])._replace(losses=np.ones(2))
    found = predictions.outcomes(rows, NUMBERS, part, compute=lambda *_: {})
    seen = examined.of("dev", found)
    assert seen.decisions is None and seen.predicted == ["-1.5", "3"]
    assert seen.numbers.labels.tolist() == [-1.0, 3.5]
    assert seen.numbers.predictions.tolist() == [-1.5, 3.0]


def test_rows_without_labels_show_nothing():
    part = scored([[0.25, 0.5, 0.25], [1, 0, 0]], [1, 0])
    found = predictions.outcomes(table(), CLASSES, part, compute=lambda *_: {})
    assert found is None and examined.of("test", found) is None


def test_rows_with_labels_say_whether_they_are_right(tmp_path):
    chances = [[0.25, 0.5, 0.25], [0.2, 0.1, 0.7]]
    part = scored(chances, [1, 2])._replace(losses=np.ones(2))
    found = lines(tmp_path, table(labels=["yes", "no"]), CLASSES, part)
    assert [json.loads(line)["correct"] for line in found] == [True, False]
    several = scored([[0.9, 0.8], [0.1, 0.7]], [[1, 1], [0, 1]])
    several = several._replace(losses=np.ones(2))
    found = lines(tmp_path, table(labels=["a", "b"]), TOPICS, several)
    assert [json.loads(line)["correct"] for line in found] == [False, True]
    # twins: a number, and labels that the model does not have
    number = scored([[-1.5], [3.0]], [-1.5, 3.0])._replace(losses=np.ones(2))
    for rows, kind, said in (
        (table(labels=["-1.5", "3"]), NUMBERS, number),
        (table(labels=["yes", "unheard"]), CLASSES, scored(chances, [1, 2])),
    ):
        assert "correct" not in lines(tmp_path, rows, kind, said)[0]
