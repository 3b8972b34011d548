import dataclasses
import json
import re

import numpy as np
import pytest

from data_pipeline import head_classes, label_maps
from data_pipeline.classification import labels
from data_pipeline.tables import label_files, labelled
from tests.refusals import refused


def table(*values, lines=None, path="dev.tsv"):
    return labelled.Table(
        path=path,
        text_a=["a"] * len(values),
        text_b=None,
        labels=list(values),
        example_ids=[str(n) for n in range(len(values))],
        lines=lines or list(range(2, len(values) + 2)),
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
    with refused("dev.tsv:1: label 'label'", "--labels"):
        SENTIMENT.encode(table("label", lines=[1]))
    with refused("dev.tsv:2: ['x', 'y'] is a list", "--problem_type=multi_label"):
        SENTIMENT.encode(table(("x", "y")))
    with refused("test.tsv: has no labels; pass --label_column"):
        SENTIMENT.encode(dataclasses.replace(table(path="test.tsv"), labels=None))


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
    bars = labels.Labels(("a,b", "c"), "multi_label", "|")
    encoded = bars.encode(table("c|a,b", ("a,b",)))  # a JSON list may hold separators
    assert encoded.tolist() == [[1, 1], [1, 0]]


def test_regression_keeps_finite_numbers():
    label_set = labels.Labels((), "regression")
    values = label_set.encode(table("5.000", "-3", "1e-3", " 0.25 "))
    assert values.dtype == np.float32 and label_set.num_outputs == 1
    assert values.tolist() == np.array([5, -3, 1e-3, 0.25], np.float32).tolist()
    for bad in ("", "high", "nan", "-inf", "1e39", ("1",)):
        with refused(f"dev.tsv:3: {bad!r} is not a finite number", "correct the row"):
            label_set.encode(table("1", bad))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((("a", "b"), "ranking"), ("--problem_type=ranking", "'classification',")),
        ((("a",),), ("classification needs 2 labels or more, not ['a']", "--labels")),
        (((), "multi_label"), ("multi_label needs 1 labels or more, not []",)),
        ((("a",), "regression"), ("regression has no ['a']; leave --labels out",)),
        ((("a", "b", "a"),), ("label 'a' is named more than once",)),
        ((("a",), "multi_label", ""), ("set --label_separator",)),
    ],
)
def test_label_sets_that_do_not_fit_together(arguments, parts):
    with refused(*parts):
        labels.Labels(*arguments)


@pytest.mark.parametrize(
    ("values", "problem_type", "wanted"),
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
def test_found_labels_are_sorted(values, problem_type, wanted):
    assert labels.find_labels(table(*values), problem_type, ",") == wanted


@pytest.mark.parametrize(
    ("value", "problem_type", "part"),
    [
        ("", "classification", "'' has an empty name; remove it"),
        (("a",), "classification", "is not one label; correct it"),
        ("1,,b", "multi_label", "'1,,b' has an empty name; remove it"),
    ],
)
def test_labels_that_are_none_are_refused(value, problem_type, part):
    with refused("dev.tsv:3: label", part):
        labels.find_labels(table("1", value), problem_type, ",")


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
    path.write_text(label_maps.text(label_set), encoding="utf-8")
    assert head_classes.read(str(path)) == label_set
    content = json.loads(path.read_text("utf-8"))
    assert content["problem_type"] == label_set.problem_type
    assert all(content[str(i)] == name for i, name in enumerate(label_set.names))
    path.write_text('{"1": "b", "0": "a"}')
    assert head_classes.read(str(path)) == labels.Labels(("a", "b"))
    path.write_text('{"problem_type": "x"}')
    with refused("label_map.json: not a label map", "train again"):
        head_classes.read(str(path))


@pytest.mark.parametrize(
    ("spec", "weights"),
    [("balanced", [7 / 12, 7 / 3, 7 / 6]), ("1, 2.5,3", [1.0, 2.5, 3.0])],
)
def test_class_weights(spec, weights):
    label_set = labels.Labels(("a", "b", "c"))
    ids = np.array([0, 0, 0, 1, 2, 2, 0], np.int32)
    actual = labels.class_weights(spec, ids, label_set)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("balanced", ("class 'positive'", "give numbers")),
        ("1,2,3", ("--class_weights=1,2,3 has 3 numbers for 2", "['negative', 'pos")),
        ("1,x", ("--class_weights=1,x: 'x' is no positive float32",)),
        ("1,1e300", ("--class_weights=1,1e300: '1e300' is no positive float32",)),
        ("1,1e-50", ("--class_weights=1,1e-50: '1e-50' is no positive float32",)),
        ("1,0", ("--class_weights=1,0: '0' is no positive float32",)),
    ],
)
def test_bad_class_weights(spec, parts):
    with refused(*parts):
        labels.class_weights(spec, np.zeros(3, np.int32), SENTIMENT)
    with refused(f"--class_weights={spec} is not for regression; leave it out"):
        labels.class_weights(spec, np.zeros(3), labels.Labels((), "regression"))


@pytest.mark.parametrize(
    ("spec", "content", "names"),
    [
        ("positive, negative,neutral", None, ("positive", "negative", "neutral")),
        ("yes/no,other", None, ("yes/no", "other")),
        ("a,,b", None, "--labels=a,,b: label 2 is empty"),
        ("names", "\ufeffz, y\na\u2028b\n好\n\n", ("z, y", "a\u2028b", "好")),
        ("names", "z\r\nb\r\n", ("z", "b")),
        ("names", "a\nb\na\n", "names:3: label 'a' is already label 1"),
        ("names", "a\n\nb\n", "names:2: label 2 is empty"),
        ("names", b"caf\xe9\n", "names:1: byte 0xe9, number 4 of the line, is not"),
        ("nowhere.txt", None, "--labels=nowhere.txt: no such file; correct the path"),
        ("some/where", None, "--labels=some/where: no such file"),
    ],
)
def test_labels_of_a_flag_or_file(tmp_path, monkeypatch, spec, content, names):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / spec).write_bytes(data)
    if isinstance(names, tuple):
        assert label_files.read_labels(spec) == names
        return
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(names)):
        label_files.read_labels(spec)
