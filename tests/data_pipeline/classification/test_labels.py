"""Tests of data_pipeline/classification/labels.py."""

import json
import re

import numpy as np
import pytest

from data_pipeline.classification import labels, tables
from data_pipeline.tables import label_files


def table(*values, lines=None, path="dev.tsv"):
    return tables.Table(
        path=path,
        text_a=["a"] * len(values),
        text_b=None,
        labels=list(values),
        example_ids=[str(n) for n in range(len(values))],
        lines=lines or list(range(2, len(values) + 2)),
    )


def refused(*parts):
    """Expects a one-line ValueError that holds the parts in this order."""
    return pytest.raises(
        ValueError, match="^[^\n]*" + "[^\n]*".join(map(re.escape, parts)) + "[^\n]*$"
    )


SENTIMENT = labels.Labels(("negative", "positive"))


def test_classification_encodes_ids_in_the_order_of_names():
    ids = SENTIMENT.encode(table("positive", "negative", "positive"))
    assert (ids.dtype, ids.tolist()) == (np.int32, [1, 0, 1])
    swapped = labels.Labels(("positive", "negative"))
    assert swapped.encode(table("positive", "negative")).tolist() == [0, 1]
    assert SENTIMENT.num_outputs == 2


def test_unknown_label_names_place_set_and_closest():
    with refused(
        "dev.tsv:17: label 'positve' is not one of ['negative', 'positive']; closest: "
        "'positive'; correct the row or name every label with --labels"
    ):
        SENTIMENT.encode(table("negative", "positve", lines=[2, 17]))
    with pytest.raises(ValueError, match="label '42' is not one of") as caught:
        SENTIMENT.encode(table("42"))
    assert "closest" not in str(caught.value)
    assert "header" not in str(caught.value)
    with refused("dev.tsv:1: label 'label'", "pass --has_header=true"):
        SENTIMENT.encode(table("label", lines=[1]))


def test_messages_about_many_labels_stay_short():
    many = labels.Labels(tuple(f"label{n}" for n in range(10_000)))
    with pytest.raises(ValueError, match=r"'label19' and 9980 more\]") as caught:
        many.encode(table("x" * 10_000))
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("bad", [(), ("positive",), ("positive", "negative")])
def test_list_of_labels_needs_multi_label(bad):
    with refused(f"dev.tsv:2: {list(bad)} is a list", "--problem_type=multi_label"):
        SENTIMENT.encode(table(bad))


def test_multi_label_encodes_sets():
    label_set = labels.Labels(("a", "b", "c d"), "multi_label")
    encoded = label_set.encode(table("a", "c d, a", "", " ", "b,b", ("c d", "b"), ()))
    assert encoded.dtype == np.float32
    assert encoded.tolist() == [
        [1, 0, 0],
        [1, 0, 1],
        [0, 0, 0],
        [0, 0, 0],
        [0, 1, 0],
        [0, 1, 1],
        [0, 0, 0],
    ]
    assert label_set.num_outputs == 3
    with refused("dev.tsv:3: label 'd' is not one of ['a', 'b', 'c d']"):
        label_set.encode(table("a", "b,d"))
    with refused("dev.tsv:2: label '' is not one of"):
        label_set.encode(table("a,,b"))


def test_multi_label_separator_and_json_lists_that_hold_it():
    label_set = labels.Labels(("a,b", "c"), "multi_label", "|")
    assert label_set.encode(table("c|a,b", "a,b")).tolist() == [[1, 1], [1, 0]]
    comma = labels.Labels(("a,b", "c"), "multi_label", ",")
    assert comma.encode(table(("a,b",))).tolist() == [[1, 0]]


def test_regression_keeps_the_numbers_of_the_file():
    label_set = labels.Labels((), "regression")
    values = label_set.encode(table("5.000", "-3", "1e-3", " 0.25 "))
    assert values.dtype == np.float32
    assert values.tolist() == np.array([5, -3, 1e-3, 0.25], np.float32).tolist()
    assert label_set.num_outputs == 1


@pytest.mark.parametrize(
    "bad", ["", "high", "nan", "inf", "-inf", "1e39", "1,5", ("1",)]
)
def test_regression_refuses_what_is_no_finite_float32(bad):
    shown = list(bad) if isinstance(bad, tuple) else bad
    with refused(f"dev.tsv:3: {shown!r} is not a finite number", "correct the row"):
        labels.Labels((), "regression").encode(table("1", bad))


@pytest.mark.parametrize("problem_type", labels.PROBLEM_TYPES)
def test_table_without_labels_is_refused(problem_type):
    names = () if problem_type == "regression" else ("a", "b")
    unlabelled = tables.Table(
        path="test.tsv",
        text_a=["a"],
        text_b=None,
        labels=None,
        example_ids=["0"],
        lines=[1],
    )
    with refused("test.tsv: has no labels; pass --label_column"):
        labels.Labels(names, problem_type).encode(unlabelled)
    if problem_type != "regression":
        with refused("test.tsv: has no labels; pass --label_column"):
            labels.find_labels(unlabelled, problem_type)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((("a", "b"), "ranking"), ("--problem_type=ranking", "classification, choice")),
        ((("a",),), ("classification needs 2 labels or more, not ['a']", "--labels")),
        (((), "multi_label"), ("multi_label needs 1 labels or more, not []",)),
        ((("a",), "regression"), ("regression has no labels, but ['a'] are given",)),
        ((("a", "b", "a"),), ("label 'a' is named more than once",)),
        ((("a",), "multi_label", ""), ("set --label_separator",)),
    ],
)
def test_label_sets_that_do_not_fit_together(arguments, parts):
    with refused(*parts):
        labels.Labels(*arguments)


@pytest.mark.parametrize(
    ("values", "problem_type", "found"),
    [
        (["b", "a", "B", "a"], "classification", ("B", "a", "b")),
        (["10", "9", "-1", "9"], "classification", ("-1", "9", "10")),
        (["1.5", "1", "01"], "classification", ("01", "1", "1.5")),
        (["10", "9", "x"], "classification", ("10", "9", "x")),
        (["a,b", "a , c", ""], "multi_label", ("a", "b", "c")),
        ([("a,b",), ("10",), ("9",)], "multi_label", ("10", "9", "a,b")),
        (["10,9", "2"], "multi_label", ("2", "9", "10")),
        (["1.0", "2.0"], "regression", ()),
    ],
)
def test_found_labels_are_sorted(values, problem_type, found):
    assert labels.find_labels(table(*values), problem_type, ",") == found


@pytest.mark.parametrize(
    ("value", "problem_type"),
    [("", "classification"), (("a",), "classification"), ("a,,b", "multi_label")],
)
def test_labels_that_are_none_are_not_found(value, problem_type):
    with refused("dev.tsv:3: label", "is not one label; correct the row"):
        labels.find_labels(table("a", value), problem_type, ",")


def test_one_number_is_not_two_classes():
    with refused("dev.tsv:4: label '1.0' is the number of the class '1' (line 2)"):
        labels.find_labels(table("1", "0", "1.0"), "classification")


def test_labels_between_commas_keep_their_order():
    assert label_files.read_labels("positive, negative,neutral") == (
        "positive",
        "negative",
        "neutral",
    )
    assert label_files.read_labels("yes/no,other") == ("yes/no", "other")
    with refused("--labels=a,,b: label 2 is empty"):
        label_files.read_labels("a,,b")
    with refused("--labels=a,b,a: label 'a' is already label 1"):
        label_files.read_labels("a,b,a")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labels_from_a_file(tmp_path, end):
    path = tmp_path / "names"
    text = f"\ufeffz, y{end}a\u2028b{end}好{end}{end}"
    path.write_bytes(text.encode("utf-8"))
    assert label_files.read_labels(str(path)) == ("z, y", "a\u2028b", "好")


def test_bad_label_files(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("a\nb\na\n")
    with refused("names.txt:3: label 'a' is already label 1"):
        label_files.read_labels(str(path))
    path.write_text("a\n\nb\n")
    with refused("names.txt:2: label 2 is empty"):
        label_files.read_labels(str(path))
    path.write_bytes(b"caf\xe9\n")
    with refused("names.txt: byte 4 is not UTF-8"):
        label_files.read_labels(str(path))
    for missing in ("nowhere.txt", "some/where"):
        with pytest.raises(FileNotFoundError, match=f"--labels={missing}: no such fi"):
            label_files.read_labels(missing)


@pytest.mark.parametrize(
    "label_set",
    [
        labels.Labels(("negative", "好 positive")),
        labels.Labels(tuple(f"l{n}" for n in range(12))),
        labels.Labels(("a", "b"), "multi_label", "|"),
        labels.Labels((), "regression"),
    ],
)
def test_label_map_round_trip(tmp_path, label_set):
    path = tmp_path / "label_map.json"
    path.write_text(labels.label_map_text(label_set), encoding="utf-8")
    assert labels.read_label_map(str(path)) == label_set


def test_label_map_content(tmp_path):
    path = tmp_path / "label_map.json"
    assert json.loads(labels.label_map_text(SENTIMENT)) == {
        "0": "negative",
        "1": "positive",
        "problem_type": "classification",
    }
    path.write_text('{"1": "b", "0": "a"}')
    assert labels.read_label_map(str(path)) == labels.Labels(("a", "b"))


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"0": "a", "2": "b"}', '{"0": "a"}', '{"problem_type": "x"}']
)
def test_bad_label_maps(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_text(text)
    with refused("label_map.json: not a label map", "train again"):
        labels.read_label_map(str(path))


def test_missing_label_map(tmp_path):
    path = str(tmp_path / "label_map.json")
    with pytest.raises(FileNotFoundError, match=r"label_map\.json: no such file"):
        labels.read_label_map(path)


def test_balanced_class_weights_equal_scikit_learns():
    class_weight = pytest.importorskip("sklearn.utils.class_weight")
    label_set = labels.Labels(("a", "b", "c"))
    ids = np.array([0, 0, 0, 1, 2, 2, 0], np.int32)
    weights = labels.class_weights("balanced", ids, label_set)
    expected = class_weight.compute_class_weight(
        "balanced", classes=np.arange(3), y=ids
    )
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_allclose(weights, [7 / 12, 7 / 3, 7 / 6], rtol=1e-6)


def test_class_weights_as_numbers():
    weights = labels.class_weights("1, 2.5", np.zeros(3, np.int32), SENTIMENT)
    assert (weights.dtype, weights.tolist()) == (np.float32, [1.0, 2.5])


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("balanced", ("class 'positive' has no training example", "--labels")),
        ("1,2,3", ("--class_weights=1,2,3 has 3 numbers for 2", "['negative', 'pos")),
        ("1,x", ("--class_weights=1,x: 'x' is not a positive number",)),
        ("1,1e300", ("--class_weights=1,1e300: '1e300' is not a positive number",)),
        ("1,1e-50", ("--class_weights=1,1e-50: '1e-50' is not a positive number",)),
        ("1,0", ("--class_weights=1,0: '0' is not a positive number",)),
        ("1,inf", ("'inf' is not a positive number",)),
        ("even", ("--class_weights=even has 1 numbers for 2 classes",)),
    ],
)
def test_bad_class_weights(spec, parts):
    with refused(*parts):
        labels.class_weights(spec, np.zeros(3, np.int32), SENTIMENT)


def test_class_weights_need_a_classification():
    label_set = labels.Labels((), "regression")
    with refused("--class_weights=balanced needs a classification, not regression"):
        labels.class_weights("balanced", np.zeros(3), label_set)
