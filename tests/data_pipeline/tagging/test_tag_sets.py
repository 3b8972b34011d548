"""Tests of data_pipeline/tagging/tag_sets.py."""

import json

import numpy as np
import pytest

from data_pipeline.tagging import tag_sets, tagged_files

BIO = tag_sets.TagSet(("O", "B-x", "I-x"), "BIO")


def sentences(*tags, has_tags=True):
    tags = [row.split() for row in tags]
    return tagged_files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=[["w"] * len(row) for row in tags],
        tags=tags if has_tags else None,
        documents=np.zeros(len(tags), np.int32),
        lines=[[10 * i + j for j in range(len(row))] for i, row in enumerate(tags)],
    )


LEARNED = ("O", "B-x", "B-y", "I-x", "I-y")


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["I-x O", "B-y B-x I-x"], "BIO"),  # I-y does not occur
        (["I-x O", "I-y"], "IOB1"),  # as in CoNLL-2003: no B
        (["S-x O", "B-y E-y"], "BIOES"),
        (["U-x O", "U-y"], "BILOU"),
    ],
)
def test_types_are_found_and_learned_in_bio(tags, scheme):
    assert tag_sets.find(sentences(*tags)) == tag_sets.TagSet(LEARNED, "BIO", scheme)


def test_plain_tags_are_found_and_sorted():
    for more in ({}, {"train_scheme": "BIOES"}, {"train_scheme": "file"}):
        found = tag_sets.find(sentences("VB NN"), **more)
        assert found == tag_sets.TagSet(("NN", "VB"), "plain", "plain")


def test_scheme_of_training_may_be_chosen():
    given = sentences("I-x O", "I-x B-x")
    found = tag_sets.find(given, train_scheme="file")
    assert found == tag_sets.TagSet(("O", "B-x", "I-x"), "IOB1", "IOB1")
    found = tag_sets.find(given, train_scheme="BMES")
    names = ("O", "B-x", "E-x", "M-x", "S-x")
    assert found == tag_sets.TagSet(names, "BMES", "IOB1")
    found = tag_sets.find(sentences("B-x O"), scheme="IOB1", train_scheme="file")
    assert found.scheme == found.file_scheme == "IOB1"


@pytest.mark.parametrize(
    ("names", "tags", "schemes"),
    [
        ("B-x O I-x", "B-x I-x O", ("BIO", "BIO")),
        ("S-x O B-x E-x", "B-x I-x O", ("BIOES", "BIO")),  # of Hugging Face
        ("O B-x I-x", "I-x O|I-x B-x", ("BIO", "IOB1")),
        ("O B-x I-x", "U-x O|B-x L-x", ("BIO", "BILOU")),
        # With these BIO cannot spell what IOB1 can.
        ("O I-x", "I-x O", ("IOB1", "IOB1")),
        ("O I-x B-y I-y", "I-x O I-y B-y", ("IOB1", "IOB1")),
        ("PAD O I-x", "B-x O", ("IOB1", "BIO")),
        ("O E-x", "B-x I-x", ("BIOES", "BIO")),  # not whole: encode says what lacks
        ("NN O VB", "VB NN", ("plain", "plain")),
    ],
)
def test_given_names_keep_their_ids_and_scheme(names, tags, schemes):
    names = names.split()
    found = tag_sets.find(sentences(*tags.split("|")), names=names)
    assert found == tag_sets.TagSet(tuple(names), *schemes)


def test_given_names_of_another_scheme_are_refused():
    given = sentences("B-x O")
    names = ["O", "B-x", "I-x"]
    assert tag_sets.find(given, names=names, train_scheme="IOB1").scheme == "IOB1"
    message = "--train_scheme=BIOES: tag 'L-x' of --labels is not of the scheme BIOES"
    with pytest.raises(ValueError, match=message):
        tag_sets.find(given, names=["PAD", "O", "L-x"], train_scheme="BIOES")
    with pytest.raises(ValueError, match="'L-x' is not of the scheme BIO "):
        tag_sets.find(given, names=["O", "L-x", "S-x"])


def test_nothing_to_learn_is_refused():
    message = r"a\.conll: every word has the tag 'O', and there is nothing to learn"
    for scheme in ("", "BIO"):
        with pytest.raises(ValueError, match=message):
            tag_sets.find(sentences("O O", "O"), scheme=scheme)


def test_placeholders_keep_their_ids_and_are_outside():
    """PAD and UNK head the list of tags of many published data sets."""
    names = ["PAD", "O", "B-x", "[CLS]"]
    found = tag_sets.find(sentences("B-x O"), names=names)
    assert found == tag_sets.TagSet(tuple(names), "BIO")
    assert found.placeholders() == ("PAD", "[CLS]")
    assert found.encode(sentences("O B-x")).tolist() == [1, 2]
    assert found.decode([[0, 1, 2, 3]]) == [["O", "O", "B-x", "O"]]
    # Where each tag is for itself, all are tags.
    plain = tag_sets.TagSet(tuple(names), "plain")
    assert plain.placeholders() == () and plain.decode([[0, 3]]) == [["PAD", "[CLS]"]]


def test_ids_follow_the_names():
    ids = BIO.encode(sentences("B-x I-x O", "O"))
    assert ids.tolist() == [1, 2, 0, 0] and ids.dtype == np.int32
    assert BIO.decode([[1, 2, 0], [0]]) == [["B-x", "I-x", "O"], ["O"]]


def test_unknown_tags_are_refused_with_their_place():
    message = r"a\.conll:11: tag 'B-xx' is not one of .*'I-x'\]; closest: 'B-x'"
    with pytest.raises(ValueError, match=message):
        BIO.encode(sentences("O O", "O B-xx"))
    with pytest.raises(ValueError, match=r"a\.conll: has no tags"):
        BIO.encode(sentences("O", has_tags=False))


def test_unknown_tags_may_be_accepted_for_scoring():
    scored = {"is_training": False, "accepts_unknown": True}
    assert BIO.encode(sentences("O B-y"), **scored).tolist() == [0, -1]
    plain = tag_sets.TagSet(("NN", "VB"), "plain")
    assert plain.encode(sentences("VB X"), **scored).tolist() == [1, -1]
    with pytest.raises(ValueError, match=r"a\.conll:1: tag 'B-y' is not one of"):
        BIO.encode(sentences("O B-y"), accepts_unknown=True)


def test_known_types_are_scored_where_no_name_spells_them():
    iob1 = tag_sets.TagSet(("PAD", "O", "I-x", "I-y", "B-y"), "IOB1")
    given = sentences("I-x B-x O", "I-y B-y")
    assert iob1.encode(given, is_training=False).tolist() == [2, -1, 1, 3, 4]
    message = (
        r"a\.conll:1: --labels lacks 'B-x', by which its scheme, IOB1, spells the tag "
        "'B-x'; add it, or leave the flag out"
    )
    with pytest.raises(ValueError, match=message):
        iob1.encode(given)
    for unknown in ("B-z", "I-PAD"):  # a placeholder is no type
        message = rf"a\.conll:1: tag '{unknown}' is not one of"
        with pytest.raises(ValueError, match=message):
            iob1.encode(sentences(f"I-x {unknown}"), is_training=False)
    # Where O is not named it is unknown: it has no type.
    with pytest.raises(ValueError, match="tag 'O' is not one of"):
        tag_sets.TagSet(("B-x", "I-x"), "BIO").encode(given, is_training=False)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BIO", "B-x I-x B-x O B-y"),
        ("IOB1", "I-x I-x B-x O I-y"),
        ("BIOES", "B-x E-x S-x O S-y"),
    ],
)
def test_files_and_ids_may_differ_in_scheme(scheme, tags):
    tag_set = tag_sets.TagSet(LEARNED, "BIO", scheme)
    ids = [1, 3, 1, 0, 2]
    assert tag_set.encode(sentences(tags)).tolist() == ids
    assert tag_set.decode([ids, [3, 4]])[0] == tags.split()


def test_unknown_tags_are_compared_with_those_of_the_files():
    tag_set = tag_sets.TagSet(("O", "B-loc", "I-loc"), "BIO", "BIOES")
    known = r"\['O', 'B-loc', 'E-loc', 'I-loc', 'S-loc'\]; closest: 'S-loc'"
    message = rf"a\.conll:1: tag 'S-lok' is not one of {known}; correct it, check"
    with pytest.raises(ValueError, match=message):
        tag_set.encode(sentences("O S-lok"), is_training=False)
    message = "lacks 'S-x', by which its scheme, BIOES, spells the tag 'B-x'"
    with pytest.raises(ValueError, match=message):
        tag_sets.TagSet(("O", "B-x", "E-x"), "BIOES", "BIO").encode(sentences("B-x O"))


@pytest.mark.parametrize(
    ("names", "scheme", "message"),
    [
        (["O"], "BIO", r"needs 2 tags of BIO or more, not \['O'\]"),
        (["NN"], "plain", r"needs 2 tags or more, not \['NN'\]"),
        (["NN", "VB", "O"], "BIO", r"needs 2 tags of BIO or more, not \['NN', 'VB'"),
        (["O", "B-x", "B-x"], "BIO", r"tag 'B-x' is named more than once \(2 times\)"),
        (["O", "E-x"], "BIO", "'E-x' is not of the scheme BIO"),
        (["O", "B-x"], "bio", "--tag_scheme=bio is not one of BIO, IOB1"),
        (["O", "B-x"], ("BIO", "bio"), "--tag_scheme=bio is not one of BIO, IOB1"),
        (["O", "B-x"], ("BIO", "plain"), "scheme BIO cannot be spelled by plain"),
        (["O", "B-x"], ("plain", "BIO"), "scheme plain cannot be spelled by BIO"),
    ],
)
def test_bad_sets_are_refused(names, scheme, message):
    schemes = (scheme,) if isinstance(scheme, str) else scheme
    with pytest.raises(ValueError, match=message):
        tag_sets.TagSet(tuple(names), *schemes)


def test_map_is_read_as_written(tmp_path):
    path = tmp_path / "label_map.json"
    tag_set = tag_sets.TagSet(("O", "B-été", "I-été"), "IOB1")
    path.write_text(tag_sets.map_text(tag_set), "utf-8")
    assert tag_sets.read_map(path) == tag_set
    assert '"1": "B-été"' in path.read_text("utf-8")


def test_map_says_where_files_have_another_scheme(tmp_path):
    path = tmp_path / "label_map.json"
    tag_set = tag_sets.TagSet(BIO.names, "BIO", "IOB1")
    path.write_text(tag_sets.map_text(tag_set))
    assert tag_sets.read_map(path) == tag_set != BIO
    content = json.loads(path.read_text())
    assert (content["tag_scheme"], content.pop("file_scheme")) == ("BIO", "IOB1")
    # As written by older runs and by conversions: of both.
    path.write_text(json.dumps(content))
    assert tag_sets.read_map(path) == BIO == tag_sets.TagSet(BIO.names, "BIO", "BIO")
    assert json.loads(tag_sets.map_text(BIO)) == content


@pytest.mark.parametrize(
    "text",
    [
        '{"0": "a", "1": "b", "problem_type": "classification"}',
        '{"0": "O", "2": "B-x", "problem_type": "tagging", "tag_scheme": "BIO"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging", "tag_scheme": "BIO", '
        '"file_scheme": "plain"}',
        "[]",
        "{",
        b"\xff",
    ],
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"label_map\.json: not a map of tags"):
        tag_sets.read_map(path)
