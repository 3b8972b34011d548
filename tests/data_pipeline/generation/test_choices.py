import json

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
    assert texts(case) == [("It rains.", " Take a coat."), ("It rains.", " Swim")]
    path.write_text("context,one,two,label\nIt rains.,a,b,1\n")
    assert choices.read(str(path), layout)[0].label == 1
    assert choices.read(str(path), layout, ["1", "0"])[0].label == 0
    path.write_text("context,one,two,label\nIt rains.,a,b,7\n")
    with pytest.raises(ValueError, match="label '7' is not one of"):
        choices.read(str(path), layout)
    path.write_text("context,one,two\nIt rains.,a,b\n")
    assert choices.read(str(path), layout)[0].label is None


def test_copa_is_one_sentence_with_a_connective(tmp_path):
    path = tmp_path / "val.jsonl"
    names = "premise", "choice1", "choice2", "question", "label"
    rows = [
        ("The lake froze.", "It was June.", "Anna left.", "cause", 1),
        ("I fell.", "I cried.", "The sun rose.", "effect", 0),
    ]
    path.write_text(
        "".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows)
    )
    first, second = choices.read(str(path), tables.Layout(file_format="copa"))
    assert (first.label, second.label) == (1, 0)
    before = "The lake froze because"
    assert texts(first) == [(before, " it was June."), (before, " Anna left.")]
    before = "I fell so"
    assert texts(second) == [(before, " I cried."), (before, " the sun rose.")]
    # Any other word begins a sentence.
    path = tmp_path / "a.csv"
    path.write_text("text,ask,one,two,label\nIt rains.,he,Swims.,The end.,0\n")
    layout = tables.Layout(
        text_a="text", text_b="ask", choices=("one", "two"), label="label"
    )
    (case,) = choices.read(str(path), layout)
    assert texts(case) == [("It rains. he", " Swims."), ("It rains. he", " The end.")]


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
    schemas = choices.read(str(path), layout)
    assert [case.label for case in schemas] == [0, 1, None, 1]
    before = "The cup does not fit the box because the"
    ends = [f"{before} cup", f"{before} box"]
    assert texts(schemas[0]) == [(end, " is large.") for end in ends]
    assert texts(schemas[1])[1] == ("Ann met Sue. The other", " left.")
    assert [before for before, _ in texts(schemas[2])] == [
        "Tom gave Jess Tom's",
        "Tom gave Jess Jess'",
    ]
    assert texts(schemas[3])[0] == ("They kept the dog", ".")
    path.write_text(SCHEMAS.replace(",0\n", ",2\n"))
    with pytest.raises(ValueError, match=r"a.csv:2: label '2' is none of 0, 1"):
        choices.read(str(path), layout)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no column txt1; give the table WSColl"):
        choices.read(str(path), layout)
