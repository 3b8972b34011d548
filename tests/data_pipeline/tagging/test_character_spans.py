"""Spans of characters to words with tags."""

import pytest

from data_pipeline.tagging import character_spans

#       0123456789012345678901234567890123456
TEXT = "Ada  Löve-Lace's 東京, 𝔸 (Rome).\tEnd"


def words_and_tags(spans, text=TEXT, **more):
    row = {"text": text, "label": spans, **more}
    (words,) = character_spans.cut([text])
    return words, character_spans.tags("a.jsonl:7", row, words)


def test_words_have_exact_places():
    texts = [TEXT, "", " ", *["x y"] * 2000]
    rows = list(character_spans.cut(texts))
    assert len(rows) == 2003
    assert [word.text for word in rows[0]] == [
        *("Ada", "Löve", "-", "Lace", "'", "s", "東", "京", ",", "𝔸"),
        *("(", "Rome", ")", ".", "End"),
    ]
    for text, words in zip(texts, rows, strict=True):
        assert all(text[start:end] == word for word, start, end in words)
    assert rows[1] == rows[2] == [] and [w.text for w in rows[-1]] == ["x", "y"]


def test_spans_of_all_forms_are_tags():
    """[start, end, label] (doccano, spaCy), objects (Prodigy, doccano's relations)."""
    triples = [[0, 14, "PER"], [17, 19, "LOC"], [24, 28, "LOC"]]
    words, tags = words_and_tags(triples)
    tagged = {w.text: tag for w, tag in zip(words, tags, strict=True) if tag != "O"}
    assert tagged == {
        **{"Ada": "B-PER", "Löve": "I-PER", "-": "I-PER", "Lace": "I-PER"},
        **{"東": "B-LOC", "京": "I-LOC", "Rome": "B-LOC"},
    }
    prodigy = [
        {"start": s, "end": e, "label": n, "token_start": 0} for s, e, n in triples
    ]
    doccano = [
        {"id": 1, "start_offset": s, "end_offset": e, "label": n} for s, e, n in triples
    ]
    assert words_and_tags(prodigy)[1] == words_and_tags(doccano)[1] == tags
    # Whitespace at the ends of a span does not count; neighbours stay apart.
    assert words_and_tags([[0, 5, "A"], [5, 9, "A"]])[1][:3] == ["B-A", "B-A", "O"]
    assert set(words_and_tags([])[1]) == {"O"}


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([[1, 3, "PER"]], "PER 'da', characters 1 to 3, is a part of 'Ada' and not"),
        ([[0, 7, "PER"]], "is a part of 'Ada Löve' and not whole words; correct"),
        ([[3, 5, "PER"]], "PER '  ', characters 3 to 5, is a part of '' and not whole"),
        ([[0, 9, "A"], [5, 14, "B"]], "B .*5 to 14, overlaps another span"),
        (
            [[0, 99, "A"]],
            r"label has \[0, 99, 'A'\], and the text 34 characters; write",
        ),
        ([[3, 3, "A"]], "from 0 to one past the last"),
        ([[0, 3]], r"label has \[0, 3\], and .*; write \[start, end, label\]"),
        ([["0", 3, "A"]], r"write \[start, end, label\]"),
        ([[0, 3, ""]], r"write \[start, end, label\]"),
        ([{"start": 0, "end": 3}], "an object with start, end, label"),
    ],
)
def test_wrong_spans_are_refused_by_line(spans, message):
    with pytest.raises(ValueError, match=message) as error:
        words_and_tags(spans)
    assert str(error.value).startswith("a.jsonl:7: ")


def test_row_that_is_not_accepted_is_refused():
    words_and_tags([], answer="accept")
    with pytest.raises(ValueError, match="its answer is 'reject'; give accepted rows"):
        words_and_tags([], answer="reject")


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"text": "a", "label": []}, "label"),
        ({"text": "a", "label": "positive", "entities": [[0, 1, "X"]]}, "entities"),
        ({"text": "a", "labels": ["sports"]}, ""),
        ({"tokens": ["a"], "spans": []}, ""),
        ({"text": "a", "meta": {}}, ""),
    ],
)
def test_key_of_spans_is_that_of_a_list_of_spans(row, key):
    assert character_spans.find_key(row) == key
