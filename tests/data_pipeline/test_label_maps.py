"""Tests of data_pipeline/label_maps.py."""

import json

import pytest

from data_pipeline import label_maps
from data_pipeline.classification import label_sets
from data_pipeline.tagging import tags

CLASSES = [
    label_sets.LabelSet(("bad", "good")),
    label_sets.LabelSet(("a",), "multi_label", ";"),
    label_sets.LabelSet((), "regression"),
    tags.TagSet(("O", "B-X", "I-X"), "BIO"),
]


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_classes_are_read_as_they_were_written(tmp_path, classes):
    path = tmp_path / "label_map.json"
    path.write_text(label_maps.text(classes), encoding="utf-8")
    assert label_maps.read(str(path), len(classes.names) or 1) == classes
    with pytest.raises(ValueError, match="but the head has 7 classes"):
        label_maps.read(str(path), 7)
    assert label_maps.is_of_tags(str(path)) is isinstance(classes, tags.TagSet)


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"0": "a", "2": "b"}'])
def test_what_is_no_label_map(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_text(text)
    assert not label_maps.is_of_tags(str(path))
    with pytest.raises(ValueError, match="not a label map"):
        label_maps.read(str(path), 2)
    path.write_text(json.dumps({"0": "O", "1": "B-X", "tag_scheme": "none"}))
    with pytest.raises(ValueError, match="not a map of tags"):
        label_maps.read(str(path), 2)


def test_classes_from_names_alone():
    assert label_maps.named(["a", "b"], "multi_label") == label_sets.LabelSet(
        ("a", "b"), "multi_label"
    )
    assert label_maps.named(["B-X", "I-X", "O"], "").scheme == "BIO"
    assert label_maps.named(["O", "B-X", "E-X", "S-X"], "").scheme == "BIOES"
    assert label_maps.named(["NOUN", "VERB"], "").scheme == "plain"
    # A placeholder does not hide the scheme of the others, nor do letters make one.
    assert label_maps.named(["PAD", "O", "B-X", "I-X"], "").scheme == "BIO"
    assert label_maps.named(["X", "S", "B"], "").scheme == "plain"
    with pytest.raises(ValueError, match=r"are called \['O'\]: .*2 tags or more"):
        label_maps.named(["O"], "")
    with pytest.raises(ValueError, match=r"\['a', 'a'\]: label 'a' is named more"):
        label_maps.named(["a", "a"], "classification")
