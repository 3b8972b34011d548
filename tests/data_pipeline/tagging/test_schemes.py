import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_pipeline import head_classes, label_maps
from data_pipeline.tagging import schemes as tag_schemes

# The spans (0, 2, x), (2, 3, x), (4, 7, y) in every scheme.
SPANS = [(0, 2, "x"), (2, 3, "x"), (4, 7, "y")]
SPELLED = {
    "BIO": "B-x I-x B-x O B-y I-y I-y",
    "BIOES": "B-x E-x S-x O B-y I-y E-y",
    "BILOU": "B-x L-x U-x O B-y I-y L-y",
    "BMES": "B-x E-x S-x O B-y M-y E-y",
}


@pytest.mark.parametrize("scheme", SPELLED)
def test_schemes_spell_the_same_spans(scheme):
    tags = SPELLED[scheme].split()
    assert tag_schemes.spans(tags, scheme) == SPANS
    spans = [tag_schemes.Span(*span) for span in SPANS]
    assert tag_schemes.spell_spans(spans, len(tags), scheme) == tags
    assert tag_schemes.find_scheme([["O"], tags]) == scheme


def test_schemes_have_every_tag_of_a_type():
    tags = ("O", *["B", "B-x-y", "E", "E-x-y", "M", "M-x-y", "S", "S-x-y"])
    assert tag_schemes.all_tags({"x-y", ""}, "BMES") == tags
    assert tag_schemes.types_of(tags, "BMES") == {"x-y", ""}
    assert tag_schemes.types_of(["NN", "VB"], "plain") == set()
    assert tag_schemes.spans(["NN", "VB"], "plain") == []


@pytest.mark.parametrize(
    ("scheme", "tags", "repaired"),
    [
        ("BIO", "I-x I-x O I-y", "B-x I-x O B-y"),
        ("BIO", "B-x I-y I-y O", "B-x B-y I-y O"),
        ("BIO", "I-x I-x B-x O I-y", "B-x I-x B-x O B-y"),  # of IOB1
        ("BIOES", "S-x I-x B-x", "S-x S-x S-x"),
        ("BILOU", "I-x I-x U-x", "B-x L-x U-x"),
        ("BMES", "M-x M-x S-x", "B-x E-x S-x"),
        ("BIO", "B I O I B", "B I O B B"),
        ("BIO", "", ""),
        ("plain", "NN I-x", "NN I-x"),
    ],
)
def test_broken_tags_are_repaired(scheme, tags, repaired):
    assert tag_schemes.respell(tags.split(), scheme) == repaired.split()


@pytest.mark.parametrize("scheme", SPELLED)
@given(data=st.data())
def test_respelling_keeps_the_spans_of_any_tags(scheme, data):
    names = tag_schemes.all_tags("xy", scheme)
    tags = data.draw(st.lists(st.sampled_from(names)))
    repaired = tag_schemes.respell(tags, scheme)
    assert tag_schemes.spans(repaired, scheme) == tag_schemes.spans(tags, scheme)
    assert tag_schemes.respell(repaired, scheme) == repaired


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ("B-x I-x O|I-x", "BIO"),  # a mistake in a file of BIO
        ("I-x B-x|I-y", "BIO"),  # as IOB1 spells spans
        ("S-x O", "BIOES"),
        ("U-x O", "BILOU"),
        ("B I O", "BIO"),
        ("NN VB O", "plain"),
        ("B-x E-x L-x", "plain"),
        ("O O", "plain"),
        ("B-", "plain"),
        ("BI-x", "plain"),
    ],
)
def test_schemes_are_found(sentences, scheme):
    assert tag_schemes.find_scheme(s.split() for s in sentences.split("|")) == scheme


@pytest.mark.parametrize("tag", ["E-x", "B-", "BI-x", "-x", "", "o"])
def test_tags_of_no_scheme_are_refused(tag):
    with pytest.raises(ValueError, match=r"is not of the scheme BIO \(B-type, I-type"):
        tag_schemes.spans(["O", tag], "BIO")
    assert not tag_schemes.fits(tag, "BIO")
    assert tag_schemes.fits(tag, "plain")


BIO = tag_schemes.TagNames(("O", "B-x", "I-x"), "BIO")


def encode(tag_set, *tags, **how):
    """The ids of tags; row i begins in line 10 * i."""
    words = [
        (10 * i + j, t) for i, r in enumerate(tags) for j, t in enumerate(r.split())
    ]
    return tag_set.encode(words, "a.conll", **how)


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
    actual = tag_schemes.find_tags(tags.replace("|", " ").split(), "", scheme)
    assert actual == tag_schemes.TagNames(tuple(names.split()), scheme)


def test_nothing_to_learn_is_refused():
    message = r"a\.conll: every word has the tag 'O'; check --tag_column"
    for scheme in ("plain", "BIO"):
        with pytest.raises(ValueError, match=message):
            tag_schemes.find_tags(["O"] * 3, "a.conll", scheme)


def test_placeholders_keep_their_ids_and_are_outside():
    names = ["PAD", "O", "B-x", "[CLS]"]
    tag_set = tag_schemes.TagNames(tuple(names), "BIO")
    assert tag_set.placeholders() == ("PAD", "[CLS]")
    ids = encode(tag_set, "O B-x")
    assert ids.tolist() == [1, 2] and ids.dtype == np.int32
    assert tag_set.decode([[0, 1, 2, 3], [2]]) == [["O", "O", "B-x", "O"], ["B-x"]]
    # Where each tag is for itself, all are tags.
    plain = tag_schemes.TagNames(tuple(names), "plain")
    assert plain.placeholders() == () and plain.decode([[0, 3]]) == [["PAD", "[CLS]"]]


def test_unknown_tags_are_refused_with_their_place():
    message = r"a\.conll:11: tag 'B-xx' is not one of .*'I-x'\]; closest: 'B-x'"
    with pytest.raises(ValueError, match=message):
        encode(BIO, "O O", "O B-xx")
    scored = {"is_training": False, "accepts_unknown": True}
    assert encode(BIO, "O B-y", **scored).tolist() == [0, -1]
    with pytest.raises(ValueError, match=r"a\.conll:1: tag 'B-y' is not one of"):
        encode(BIO, "O B-y", accepts_unknown=True)


def test_known_types_are_scored_where_no_name_spells_them():
    tag_set = tag_schemes.TagNames(("PAD", "O", "I-x", "I-y", "B-y"), "BIO")
    given = ("I-x B-x O", "I-y B-y")
    assert encode(tag_set, *given, is_training=False).tolist() == [2, -1, 1, 3, 4]
    message = r"a\.conll:1: --labels lacks 'B-x' of BIO; add it"
    with pytest.raises(ValueError, match=message):
        encode(tag_set, *given)
    for unknown in ("B-z", "I-PAD"):  # a placeholder is no type
        message = rf"a\.conll:1: tag '{unknown}' is not one of"
        with pytest.raises(ValueError, match=message):
            encode(tag_set, f"I-x {unknown}", is_training=False)
    # Where O is not named it is unknown: it has no type.
    with pytest.raises(ValueError, match="tag 'O' is not one of"):
        encode(tag_schemes.TagNames(("B-x", "I-x"), "BIO"), *given, is_training=False)


@pytest.mark.parametrize(
    ("names", "scheme", "message"),
    [
        (["O"], "BIO", r"needs 2 tags or more, not \['O'\]"),
        (["NN"], "plain", r"needs 2 tags or more, not \['NN'\]"),
        (["NN", "VB", "O"], "BIO", r"needs 2 tags or more, not \['NN', 'VB'"),
        (["O", "B-x", "B-x"], "BIO", r"tag 'B-x' is named more than once \(2 times\)"),
        (["O", "E-x"], "BIO", "'E-x' is not of the scheme BIO"),
        (["O", "B-x"], "bio", "--tag_scheme=bio is not one of BIO, BIOES"),
    ],
)
def test_bad_sets_are_refused(names, scheme, message):
    with pytest.raises(ValueError, match=message):
        tag_schemes.TagNames(tuple(names), scheme)


def test_map_is_read_as_written(tmp_path):
    path = tmp_path / "label_map.json"
    tag_set = tag_schemes.TagNames(("O", "B-été", "I-été"), "BIOES")
    path.write_text(label_maps.text(tag_set), "utf-8")
    assert head_classes.read(str(path)) == tag_set
    assert '"1": "B-été"' in path.read_text("utf-8")
    # A map of an earlier version.
    content = json.loads(label_maps.text(BIO))
    content |= {"tag_scheme": "IOB1", "file_scheme": "BIOES"}
    path.write_text(json.dumps(content))
    assert head_classes.read(str(path)) == BIO


@pytest.mark.parametrize(
    "text",
    [
        '{"0": "O", "1": "B-x", "problem_type": "regression", "tag_scheme": "BIO"}',
        '{"0": "O", "2": "B-x", "problem_type": "tagging", "tag_scheme": "BIO"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging"}',
        '{"0": "O", "1": "B-x", "problem_type": "tagging", "tag_scheme": "BIO", '
        '"other": "plain"}',
    ],
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "label_map.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"label_map\.json: not a label map"):
        head_classes.read(str(path))


@pytest.mark.parametrize(
    ("counts", "scheme", "odd"),
    [
        ({"O": 90, "B-x": 5, "I-x": 4, "B_y": 1}, "BIO", ["B_y"]),
        ({"O": 90, "B-x": 5, "b-x": 1}, "BIO", ["b-x"]),
        ({"B-x": 5, "I-x": 4, "tag": 1, "O": 9}, "BIO", ["tag"]),
        ({"o": 90, "B-x": 5, "I-x": 4}, "BIO", ["o"]),
        ({"O": 90, "B_x": 5, "I_x": 4}, "BIO", ["B_x", "I_x"]),
        ({"O": 90, "x-B": 5, "x-I": 4}, "BIO", ["x-B", "x-I"]),
        ({"B-x": 5, "E-x": 5, "S-x": 1, "L-x": 1}, "BIOES", ["L-x"]),
        ({"B": 50, "M": 30, "E": 50, "S": 50, "W": 8}, "BMES", ["W"]),
        ({"S": 20, "E": 15, "B": 5, "F": 12, "V": 10}, "", []),
        # Parts of speech, classes of words, and what has no majority.
        ({"NOUN": 50, "VERB": 30, "X": 3, "B-x": 1}, "", []),
        ({"N": 5, "V": 4, "S": 3, "I": 2}, "", []),
        ({"n": 50, "b": 3, "i": 2, "s": 1}, "", []),
        ({"time_s": 5, "city": 9, "date": 9, "O": 40}, "", []),
        ({"O": 5, "x": 2}, "", []),
        # Of letters alone, more than 20 fit for each that does not.
        ({"B": 12, "I": 8, "W": 1}, "", []),
        ({"B": 13, "I": 8, "W": 1}, "BIO", ["W"]),
        ({}, "", []),
    ],
)
def test_odd_tags_are_those_beside_a_scheme(counts, scheme, odd):
    assert tag_schemes.odd_tags(counts) == (scheme, odd)
