import json

import pytest

from data_pipeline import label_maps
from data_pipeline.classification import labels
from data_pipeline.tagging import schemes

CLASSES = [
    labels.Labels(("bad", "good")),
    labels.Labels(("a",), "multi_label", ";"),
    labels.Labels((), "regression"),
    schemes.TagNames(("O", "B-X", "I-X"), "BIO"),
]


def read(path, num_classes):
    def config_is_not_read():
        raise AssertionError

    return label_maps.read_classes(
        str(path), "classifier", num_classes, config_is_not_read
    )


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_classes_are_read_as_they_were_written(tmp_path, classes):
    path = tmp_path / "label_map.json"
    path.write_text(label_maps.text(classes), encoding="utf-8")
    assert read(path, len(classes.names) or 1) == classes
    with pytest.raises(ValueError, match="but the head has 7 classes"):
        read(path, 7)
    assert label_maps.find(str(tmp_path)) == str(path)
    assert label_maps.find(f"{tmp_path}/model.ckpt-10") == str(path)
    assert label_maps.find("") == label_maps.find(f"{tmp_path}/a/b") == ""
    is_tagger = isinstance(classes, schemes.TagNames)
    assert label_maps.find_head(str(path)) == ("tagger" if is_tagger else "auto")


@pytest.mark.parametrize("text", ["{", "[]", '{"0": "a", "2": "b"}'])
def test_what_is_no_label_map(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_text(text)
    assert label_maps.find_head(str(path)) == "auto"
    with pytest.raises(ValueError, match="not a label map"):
        read(path, 2)
    path.write_text(json.dumps({"0": "O", "1": "B-X", "tag_scheme": "none"}))
    with pytest.raises(ValueError, match="not a map of tags"):
        read(path, 2)


def test_classes_from_names_alone():
    assert label_maps.named(["a", "b"], "multi_label") == labels.Labels(
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


def test_without_a_label_map_the_config_has_the_classes():
    def read_config(head, *stated):
        return label_maps.read_classes("", head, 2, lambda: stated)

    pair = ("a", "b")
    assert read_config("classifier", "multi_label", pair).problem_type == "multi_label"
    assert read_config("tagger", "classification", pair).scheme == "plain"
    assert read_config("classifier", "classification", ()) is None  # placeholders
    assert read_config("classifier", "regression", ()).names == ()


def test_tags_that_mean_a_scheme_but_are_not_of_it_are_named(capsys):
    tags = label_maps.named(["O", "B_x", "I_x"], "")
    assert tags.scheme == "plain"
    note = "labels: ['B_x', 'I_x'] are not of the scheme BIO\n"
    assert capsys.readouterr().out == note
    label_maps.named(["O", "B-x", "I-x"], "")
    label_maps.named(["NOUN", "VERB", "X"], "")
    label_maps.named(["X", "S", "B"], "")
    assert not capsys.readouterr().out
