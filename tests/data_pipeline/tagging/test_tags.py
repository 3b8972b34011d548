"""Tests of data_pipeline/tagging/tags.py."""

import json

import numpy as np
import pytest

from data_pipeline.tagging import files
from data_pipeline.tagging import tags as tag_sets

BIO = tag_sets.TagSet(("O", "B-x", "I-x"), "BIO")


def sentences(*tags, has_tags=True):
    tags = [row.split() for row in tags]
    return files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=[["w"] * len(row) for row in tags],
        tags=tags if has_tags else None,
        documents=np.zeros(len(tags), np.int32),
        lines=[[10 * i + j for j in range(len(row))] for i, row in enumerate(tags)],
    )


@pytest.mark.parametrize(
    ("tags", "scheme", "names"),
    [
        ("B-x O|B-y B-x I-x", "BIO", "O B-x B-y I-x I-y"),  # I-y does not occur
        ("S-x O", "BIOES", "O B-x E-x I-x S-x"),
        ("VB NN", "plain", "NN VB"),
        ("NN O", "plain", "O NN"),
    ],
)
def test_tags_are_found_with_all_that_their_scheme_has(tags, scheme, names):
    found = tag_sets.find(sentences(*tags.split("|")), scheme=scheme)
    assert found == tag_sets.TagSet(tuple(names.split()), scheme)


def test_given_names_keep_their_ids():
    names = ["B-x", "O", "I-x", "I-y"]
    found = tag_sets.find(sentences("B-x O"), names=names, scheme="BIO")
    assert found == tag_sets.TagSet(tuple(names), "BIO")
    with pytest.raises(ValueError, match="'L-x' is not of the scheme BIO "):
        tag_sets.find(sentences("B-x O"), names=["O", "L-x", "S-x"], scheme="BIO")


def test_nothing_to_learn_is_refused():
    message = r"a\.conll: every word has the tag 'O', and there is nothing to learn"
    for scheme in ("plain", "BIO"):
        with pytest.raises(ValueError, match=message):
            tag_sets.find(sentences("O O", "O"), scheme=scheme)


def test_placeholders_keep_their_ids_and_are_outside():
    """PAD and UNK head the list of tags of many published data sets."""
    names = ["PAD", "O", "B-x", "[CLS]"]
    found = tag_sets.find(sentences("B-x O"), names=names, scheme="BIO")
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
    tag_set = tag_sets.TagSet(("PAD", "O", "I-x", "I-y", "B-y"), "BIO")
    given = sentences("I-x B-x O", "I-y B-y")
    assert tag_set.encode(given, is_training=False).tolist() == [2, -1, 1, 3, 4]
    message = (
        r"a\.conll:1: --labels lacks 'B-x', with which BIO spells this word's tag; add "
        "it, or leave the flag out"
    )
    with pytest.raises(ValueError, match=message):
        tag_set.encode(given)
    for unknown in ("B-z", "I-PAD"):  # a placeholder is no type
        message = rf"a\.conll:1: tag '{unknown}' is not one of"
        with pytest.raises(ValueError, match=message):
            tag_set.encode(sentences(f"I-x {unknown}"), is_training=False)
    # Where O is not named it is unknown: it has no type.
    with pytest.raises(ValueError, match="tag 'O' is not one of"):
        tag_sets.TagSet(("B-x", "I-x"), "BIO").encode(given, is_training=False)


@pytest.mark.parametrize(
    ("names", "scheme", "message"),
    [
        (["O"], "BIO", r"needs 2 tags of BIO or more, not \['O'\]"),
        (["NN"], "plain", r"needs 2 tags or more, not \['NN'\]"),
        (["NN", "VB", "O"], "BIO", r"needs 2 tags of BIO or more, not \['NN', 'VB'"),
        (["O", "B-x", "B-x"], "BIO", r"tag 'B-x' is named more than once \(2 times\)"),
        (["O", "E-x"], "BIO", "'E-x' is not of the scheme BIO"),
        (["O", "B-x"], "bio", "--tag_scheme=bio is not one of BIO, BIOES"),
    ],
)
def test_bad_sets_are_refused(names, scheme, message):
    with pytest.raises(ValueError, match=message):
        tag_sets.TagSet(tuple(names), scheme)


def test_map_is_read_as_written(tmp_path):
    path = tmp_path / "label_map.json"
    tag_set = tag_sets.TagSet(("O", "B-été", "I-été"), "BIOES")
    path.write_text(tag_sets.map_text(tag_set), "utf-8")
    assert tag_sets.read_map(path) == tag_set
    assert '"1": "B-été"' in path.read_text("utf-8")


def test_map_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "label_map.json"
    for scheme, more in (("BIO", {"file_scheme": "BIOES"}), ("IOB1", {})):
        content = json.loads(tag_sets.map_text(BIO)) | {"tag_scheme": scheme} | more
        path.write_text(json.dumps(content))
        assert tag_sets.read_map(path) == BIO


@pytest.mark.parametrize(
    "text",
    [
        '{"0": "a", "1": "b", "problem_type": "classification"}',
        '{"0": "O", "2": "B-x", "problem_type": "tagging", "tag_scheme": "BIO"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging", "tag_scheme": "BIO", '
        '"other": "plain"}',
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
