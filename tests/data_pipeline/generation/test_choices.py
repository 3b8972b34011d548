"""Tables of choices and Winograd schemas as texts to compare."""

import pytest

from data_pipeline.classification import tables
from data_pipeline.generation import choices


def texts(case):
    return [(choice.before, choice.scored) for choice in case.alternatives]


def test_columns_of_a_table_are_answers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("context,one,two,label\nIt rains. ,Take a coat.,Swim,two\n")
    layout = tables.Layout(choices=("one", "two"))
    (case,) = choices.read(str(path), layout)
    assert case.label == 1 and case.place == f"{path}:2"
    assert texts(case) == [
        ("It rains.", " Take a coat."),
        ("It rains.", " Swim"),
    ]
    path.write_text("context,one,two,label\nIt rains.,a,b,1\n")
    assert choices.read(str(path), layout)[0].label == 1
    assert choices.read(str(path), layout, ["1", "0"])[0].label == 0
    path.write_text("context,one,two,label\nIt rains.,a,b,7\n")
    with pytest.raises(ValueError, match="label '7' names none of the 2 choices"):
        choices.read(str(path), layout)
    path.write_text("context,one,two\nIt rains.,a,b\n")
    assert choices.read(str(path), layout)[0].label is None


def test_copa_is_one_sentence_with_a_connective(tmp_path):
    path = tmp_path / "copa-dev.xml"
    path.write_text(
        """<copa-corpus version="1.0">
<item id="1" asks-for="cause" most-plausible-alternative="2">
<p>The lake froze.</p><a1>It was June.</a1><a2>Anna left.</a2>
</item>
<item id="2" asks-for="effect" most-plausible-alternative="1">
<p>I fell.</p><a1>I cried.</a1><a2>The sun rose.</a2>
</item></copa-corpus>
"""
    )
    first, second = choices.read(str(path), tables.Layout(file_format="copa"))
    assert (first.label, second.label) == (1, 0)
    assert texts(first) == [
        ("The lake froze because", " it was June."),
        ("The lake froze because", " Anna left."),
    ]
    assert texts(second) == [
        ("I fell so", " I cried."),
        ("I fell so", " the sun rose."),
    ]


def test_any_other_word_begins_a_sentence_of_its_own(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,ask,one,two,label\nIt rains.,he,Swims.,The end.,0\n")
    layout = tables.Layout(
        text_a="text", text_b="ask", choices=("one", "two"), label="label"
    )
    (case,) = choices.read(str(path), layout)
    assert texts(case) == [
        ("It rains. he", " Swims."),
        ("It rains. he", " The end."),
    ]


SCHEMAS = """,txt1,pron,txt2,answer_0,answer_1,label
0,The cup does not fit the box because,it,is large.,The cup,the box,0
1,"Ann met Sue. ",She,"left.",Ann,the other,1
2,Tom gave Jess,his,hat.,Tom,Jess,
3,They kept,it,.,The dog,Rex,1
"""


def test_schemas_have_each_answer_in_the_place_of_the_pronoun(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(SCHEMAS)
    layout = tables.Layout(file_format=choices.WINOGRAD)
    found = choices.read(str(path), layout)
    assert [case.label for case in found] == [0, 1, None, 1]
    assert texts(found[0]) == [
        ("The cup does not fit the box because the cup", " is large."),
        ("The cup does not fit the box because the box", " is large."),
    ]
    assert texts(found[1])[1] == ("Ann met Sue. The other", " left.")
    assert texts(found[2]) == [
        ("Tom gave Jess Tom's", " hat."),
        ("Tom gave Jess Jess'", " hat."),
    ]
    assert texts(found[3])[0] == ("They kept the dog", ".")
    path.write_text(SCHEMAS.replace(",0\n", ",2\n"))
    with pytest.raises(ValueError, match=r"a.csv:2: label '2' is none of 0, 1"):
        choices.read(str(path), layout)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no column txt1; give the table WSColl"):
        choices.read(str(path), layout)
