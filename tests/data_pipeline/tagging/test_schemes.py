"""Tests of data_pipeline/tagging/schemes.py."""

import random

import pytest

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
    found = [tag_schemes.Span(*span) for span in SPANS]
    assert tag_schemes.tags_of(found, len(tags), scheme) == tags
    assert tag_schemes.find_scheme([["O"], tags]) == scheme


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BIO", "O B B-x-y I I-x-y"),
        ("BILOU", "O B B-x-y I I-x-y L L-x-y U U-x-y"),
        ("BMES", "O B B-x-y E E-x-y M M-x-y S S-x-y"),
    ],
)
def test_schemes_have_every_tag_of_a_type(scheme, tags):
    tags = tuple(tags.split())
    assert tag_schemes.all_tags({"x-y", ""}, scheme) == tags
    assert tag_schemes.types_of(tags, scheme) == {"x-y", ""}
    assert tag_schemes.types_of(["O"], scheme) == set()
    assert tag_schemes.types_of(["NN", "VB"], "plain") == set()


@pytest.mark.parametrize(
    ("tags", "schemes"),
    [
        ("O I-x", ["BIO", "BIOES", "BILOU"]),
        ("S-x", ["BIOES", "BMES"]),
        ("S-x L-x", []),
    ],
)
def test_tags_may_be_of_several_schemes(tags, schemes):
    assert tag_schemes.schemes_of(tags.split()) == schemes


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-x I-x O", [(0, 2, "x")]),
        ("B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("O I-x B-x", [(1, 2, "x"), (2, 3, "x")]),
        ("I-x I-y", [(0, 1, "x"), (1, 2, "y")]),
        ("B I O I B", [(0, 2, ""), (3, 4, ""), (4, 5, "")]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans_of_careless_tags(tags, spans):
    assert tag_schemes.spans(tags.split(), "BIO") == spans


@pytest.mark.parametrize(
    ("scheme", "tags", "repaired", "count"),
    [
        ("BIO", "I-x I-x O I-y", "B-x I-x O B-y", 2),
        ("BIO", "B-x I-y O", "B-x B-y O", 1),
        ("BIO", "I-x I-x B-x O I-y", "B-x I-x B-x O B-y", 2),  # of IOB1
        ("BIOES", "B-x O I-x E-x", "S-x O B-x E-x", 2),
        ("BIOES", "S-x I-x B-x", "S-x S-x S-x", 2),
        ("BILOU", "I-x I-x U-x", "B-x L-x U-x", 2),
        ("BIO", "I O I", "B O B", 2),
        ("plain", "NN I-x", "NN I-x", 0),
    ],
)
def test_broken_tags_are_repaired(scheme, tags, repaired, count):
    found = tag_schemes.respell(tags.split(), scheme)
    assert found == repaired.split()
    assert sum(map(str.__ne__, tags.split(), found)) == count


@pytest.mark.parametrize("scheme", SPELLED)
def test_respelling_keeps_the_spans_of_any_tags(scheme):
    rng = random.Random(3)
    names = tag_schemes.all_tags("xy", scheme)
    changed = 0
    for _ in range(300):
        tags = rng.choices(names, k=rng.randrange(1, 12))
        found = tag_schemes.respell(tags, scheme)
        assert tag_schemes.spans(found, scheme) == tag_schemes.spans(tags, scheme)
        assert tag_schemes.respell(found, scheme) == found
        changed += sum(map(str.__ne__, tags, found))
    assert changed > 100


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ("B-x I-x O|I-x", "BIO"),  # a mistake in a file of BIO
        ("I-x B-x|I-y", "BIO"),  # as IOB1 spells spans
        ("B-x O", "BIO"),
        ("O|B-x|I-x", "BIO"),  # names alone
        ("O|B-x|I-x|E-x", "BIOES"),
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


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("PAD", True), ("[CLS]", True), ("b-x", True), ("S-x", False), ("O", False)],
)
def test_placeholders_are_of_no_scheme(tag, expected):
    assert tag_schemes.is_placeholder(tag) is expected


def test_types_may_have_hyphens():
    tags = ["B-creative-work", "I-creative-work"]
    assert tag_schemes.spans(tags, "BIO") == [(0, 2, "creative-work")]


@pytest.mark.parametrize("tag", ["E-x", "B-", "x", "BI-x", "-x", "", "o"])
def test_tags_of_no_scheme_are_refused(tag):
    with pytest.raises(ValueError, match=r"is not of the scheme BIO \(B-type, I-type"):
        tag_schemes.spans(["O", tag], "BIO")
    assert not tag_schemes.fits(tag, "BIO")
    assert tag_schemes.fits(tag, "plain")
