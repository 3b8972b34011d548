import json

import pytest

from data_pipeline import findings, head_classes, label_maps
from data_pipeline.classification import labels
from data_pipeline.tagging import schemes
from loading import model_directory
from modeling.configs import config
from tests import tiny

CLASSES = [
    labels.Labels(("bad", "good")),
    labels.Labels(("a",), "multi_label", ";"),
    labels.Labels((), "regression"),
    schemes.TagNames(("O", "B-X", "I-X"), "BIO"),
]


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_classes_are_read_as_they_were_written(tmp_path, classes):
    path = tmp_path / "label_map.json"
    path.write_text(label_maps.text(classes), encoding="utf-8")
    assert head_classes.read(path, len(classes.names) or 1) == classes
    with pytest.raises(ValueError, match="but the head has 7 classes"):
        head_classes.read(path, 7)
    assert label_maps.find(str(tmp_path)) == str(path)
    assert label_maps.find(f"{tmp_path}/model.ckpt-10") == str(path)
    assert label_maps.find("") == label_maps.find(f"{tmp_path}/a/b") == ""


@pytest.mark.parametrize("text", ["{", "[]", '{"0": "a", "2": "b"}'])
def test_what_is_no_label_map(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a label map"):
        head_classes.read(path, 2)
    path.write_text(json.dumps({"0": "O", "1": "B-X", "tag_scheme": "none"}))
    with pytest.raises(ValueError, match="not a label map"):
        head_classes.read(path, 2)


def test_classes_from_names_alone():
    assert head_classes.named(["a", "b"], "multi_label") == labels.Labels(
        ("a", "b"), "multi_label"
    )
    assert head_classes.named(["B-X", "I-X", "O"], "").scheme == "BIO"
    assert head_classes.named(["O", "B-X", "E-X", "S-X"], "").scheme == "BIOES"
    assert head_classes.named(["NOUN", "VERB"], "").scheme == "plain"
    # A placeholder does not hide the scheme of the others, nor do letters make one.
    assert head_classes.named(["PAD", "O", "B-X", "I-X"], "").scheme == "BIO"
    assert head_classes.named(["X", "S", "B"], "").scheme == "plain"
    with pytest.raises(ValueError, match=r"are called \['O'\]: .*2 tags or more"):
        head_classes.named(["O"], "")
    with pytest.raises(ValueError, match=r"\['a', 'a'\]: label 'a' is named more"):
        head_classes.named(["a", "a"], "classification")


def test_without_a_label_map_the_config_has_the_classes():
    def read_config(head, count=2, **extra):
        shape = config.BertConfig(vocab_size=9, extra=extra)
        files = model_directory.ModelFiles()
        opened = model_directory.ModelDirectory(files, shape)
        return opened.read_head(head, count).classes

    pair, several = {"0": "a", "1": "b"}, "multi_label_classification"
    labelled = read_config("classifier", id2label=pair, problem_type=several)
    assert labelled.problem_type == "multi_label" and labelled.names == ("a", "b")
    assert read_config("tagger", id2label=pair).scheme == "plain"
    assert read_config("classifier") is None  # placeholders
    assert read_config("classifier", 1).names == ()
    assert read_config("tagger", 1) is None


def test_tags_that_mean_a_scheme_but_are_not_of_it_are_named(capsys):
    tags = head_classes.named(["O", "B_x", "I_x"], "")
    assert tags.scheme == "plain"
    note = "labels: ['B_x', 'I_x'] are not of the scheme BIO\n"
    assert capsys.readouterr().out == note
    head_classes.named(["O", "B-x", "I-x"], "")
    head_classes.named(["NOUN", "VERB", "X"], "")
    head_classes.named(["X", "S", "B"], "")
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ("abc", "cab", "abc"),
        ("Abc", "CaB", "aBC"),
        ("aA", "Aa", "aA"),
        ("aAb", "abB", None),  # exact names differ, and by letters a is A
        ("ab", "abc", None),
        ("abc", "ab", None),
        ("", "", ""),
    ],
)
def test_names_are_matched_by_letters_where_that_is_certain(theirs, ours, expected):
    actual = label_maps.match(tuple(theirs), tuple(ours))
    assert actual == (expected if expected is None else tuple(expected))


def follow(head, names, trains=True, kind="classification"):
    wanted = labels.Labels(tuple(names), kind)
    how = {"trains": trains, "show": findings.show}
    return label_maps.follow(head, wanted, "--labels", **how)


STORED = tiny.head_of(labels.Labels(("pos", "neg")))
UNNAMED = STORED._replace(
    source="w",
    problem_type="",
    names=("LABEL_0", "LABEL_1"),
    is_named=False,
    classes=None,
)
LISTED = STORED._replace(source="hf/config.json", problem_type="")
ORDERED = "in the order of ['pos', 'neg'] of run/label_map.json; --labels has"
NEW = "a new head for classification "


@pytest.mark.parametrize(
    ("head", "names", "expected", "line"),
    [
        (None, "a b", "a b", ""),
        (STORED, "pos neg", "pos neg", ""),
        (STORED, "neg pos", "pos neg", f"['pos', 'neg'], {ORDERED} ['neg', 'pos']"),
        (STORED, "NEG Pos", "Pos NEG", f"['Pos', 'NEG'], {ORDERED} ['NEG', 'Pos']"),
        (STORED, "POS NEG", "POS NEG", f"['POS', 'NEG'], {ORDERED} ['POS', 'NEG']"),
        (
            STORED,
            "a b",
            "a b",
            f"{NEW}['a', 'b']; that of run/label_map.json is for cl",
        ),
        (STORED, "0 1", "0 1", f"{NEW}['0', '1']; that of run"),
        (UNNAMED, "b a", "b a", "['LABEL_0', 'LABEL_1'] of w are assumed to be ['b', "),
        (UNNAMED, "LABEL_1 LABEL_0", "LABEL_0 LABEL_1", "['LABEL_0', 'LABEL_1'], in"),
        (UNNAMED, "a b c", "a b c", f"{NEW}['a', 'b', 'c']; that of w is for classes"),
        (LISTED, "neg pos", "pos neg", "['pos', 'neg'], in the order of"),
        (LISTED, "0 1", "0 1", "['pos', 'neg'] of hf/config.json are assumed to be"),
        (LISTED, "1 0", "1 0", f"{NEW}['1', '0']; that of hf/config.json"),
        (LISTED._replace(names=("0", "1")), "b a", "b a", "are assumed to be ['b', 'a"),
    ],
)
def test_order_and_spelling_are_those_of_the_head(head, names, expected, line, capsys):
    assert follow(head, names.split()).names == tuple(expected.split())
    out = capsys.readouterr().out
    assert line in out and out.count("labels: ") == out.count("\n") == bool(line)


def test_a_run_that_starts_no_head_refuses_other_classes():
    stored = tiny.head_of(labels.Labels(("a", "b")))
    for head, trains in ((stored, False), (stored._replace(goes_on=True), True)):
        assert follow(head, "ba", trains).names == ("a", "b")
        for names, kind in (("bc", "classification"), ("ab", "multi_label")):
            with pytest.raises(ValueError, match=r"--labels: .* leave the flag out, "):
                follow(head, names, trains, kind)
    assert follow(stored, "ab", kind="multi_label").problem_type == "multi_label"


def test_rows_of_a_choice_and_of_numbers_have_no_order(capsys):
    choice = tiny.head_of(labels.Labels(("0", "1"), "choice"))
    assert follow(choice, "10", kind="choice").names == ("1", "0")
    with pytest.raises(ValueError, match=r"\['1', '0'\] are not the labels"):
        follow(choice, "10", trains=False, kind="choice")
    numbers = tiny.head_of(labels.Labels((), "regression"))
    assert follow(numbers, (), kind="regression").names == ()
    assert capsys.readouterr().out == ""
    assert follow(numbers, "ab", kind="choice").names == ("a", "b")
    assert "new head for choice ['a', 'b']; that of run/label_map.json is for regr" in (
        capsys.readouterr().out
    )


def test_a_number_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "label_map.json").write_text('{"0": "a", "1": "b", "1": "c"}')
    with pytest.raises(ValueError, match=r"label_map.json: not a label map .*'1' is t"):
        head_classes.read(str(tmp_path / "label_map.json"), 2)
