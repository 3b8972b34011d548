import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline import head_classes, label_maps
from data_pipeline.classification import encoding, labels, sources
from data_pipeline.classification import split as row_splits
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece
from tests import tiny
from tests.refusals import refused

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
CLS, SEP = 2, 3
TABLE = "text,one,two,three,label\na b,c,d e,f,two\nb,c d,e,f g,three\n"
METRICS = {"choice": ("accuracy",), "classification": ("accuracy",)}
COLUMNS = ("one", "two", "three")


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(VOCAB)


@pytest.fixture
def load(tmp_path, tokenizer):
    def read(
        content, *, name="train.csv", split="train", length=16, known=None, **more
    ):
        (tmp_path / name).write_text(content)
        layout = {"choices": COLUMNS, **more.pop("layout", {})}
        source = sources.Source(
            files={split: str(tmp_path / name)},
            layout=labelled.Layout(**layout),
            **more,
        )
        return row_splits.load(
            *(source, [split], tokenizer, length),
            head=known and tiny.head_of(known),
            default_metrics=METRICS,
        )

    return read


def ids(text):
    """Ids of letters; | is [SEP]."""
    return [CLS, *(SEP if c == "|" else VOCAB.index(c) for c in text.split()), SEP]


def sequences(packed):
    return [
        packed.tokens[a:b].tolist()
        for a, b in zip(packed.splits, packed.splits[1:], strict=False)
    ]


def test_each_choice_is_a_sequence_after_the_context(load):
    data = load(TABLE)
    packed = data.splits["train"].packed
    assert sequences(packed) == [
        *(ids("a b | c"), ids("a b | d e"), ids("a b | f")),
        *(ids("b | c d"), ids("b | e"), ids("b | f g")),
    ]
    assert len(packed) == 2 and packed.lengths.tolist() == [7, 6]
    assert packed.first_lengths.tolist() == [4, 4, 4, 3, 3, 3]
    assert data.label_set.names == COLUMNS and data.metrics == ("accuracy",)
    assert data.splits["train"].label_ids.tolist() == [1, 2]
    assert data.label_set.num_outputs == 1 and data.label_set.num_sequences == 3
    assert data.encode.text_names == ("context", "choices", "choices", "choices")


def test_a_question_stands_before_each_choice(load):
    text = "article,question,one,two,label\na b,g h,c,d e,0\n"
    layout = {"text_a": "article", "text_b": "question", "choices": ("one", "two")}
    data = load(text, layout=layout)
    expected = [ids("a b | g h c"), ids("a b | g h d e")]
    assert sequences(data.splits["train"].packed) == expected
    assert data.encode.text_names == ("context", "question", "choices", "choices")
    inputs = data.encode.features(
        tf.constant(["a b"]), tf.constant(["g h"]), tf.constant([["c", "d e"]])
    )
    np.testing.assert_array_equal(inputs["input_ids"][0, 1], expected[1])
    np.testing.assert_array_equal(inputs["input_ids"][0, 0, :-1], expected[0])


@pytest.mark.parametrize(
    ("cells", "spec", "names", "encoded"),
    [
        (("0", "2"), "", ("0", "1", "2"), [0, 2]),
        (("three", "one"), "", COLUMNS, [2, 0]),
        (("3", "1"), "1,2,3", ("1", "2", "3"), [2, 0]),
        (("C", "B"), "A,B,C", ("A", "B", "C"), [2, 1]),
    ],
)
def test_labels_are_names_or_numbers_of_columns(load, cells, spec, names, encoded):
    header, *rows = TABLE.splitlines()
    given = [f"{r.rpartition(',')[0]},{n}" for r, n in zip(rows, cells, strict=True)]
    text = "\n".join([header, *given]) + "\n"
    data = load(text, label_spec=spec)
    assert data.label_set == labels.Labels(names, "choice")
    assert data.splits["train"].label_ids.tolist() == encoded


def test_one_column_of_lists(load):
    rows = [
        {"context": "a", "answers": ["b", "c d"], "label": 1},
        {"context": "e", "answers": ["f", "g"], "label": 0},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    data = load(text, name="t.jsonl", layout={"choices": ("answers",)})
    assert data.splits["train"].table.choices == [("b", "c d"), ("f", "g")]
    assert data.splits["train"].label_ids.tolist() == [1, 0]
    rows[1]["answers"].append("h")
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with refused("t.jsonl:2", "3 choices, not 2", "as many"):
        load(text, name="t.jsonl", layout={"choices": ("answers",)})
    with refused("train.csv:2", "'c' is one choice", "--choice_columns"):
        load(TABLE, layout={"choices": ("one",)})


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            ",three\n",
            ",four\n",
            ["train.csv:2", "'two'", "is not one of ['0'", "--labels"],
        ),
        ("d e", " ", ["train.csv:2", "choice 1 is empty", "--allow_empty_text"]),
        ("b,c d,e,f g", "a,b", ["train.csv:3", "3 cells, line 1 has 5"]),
        ("three,label", "four,label", ["'three' (choice 2)", "'four'"]),
    ],
)
def test_wrong_rows_are_named_with_their_line(load, old, new, parts):
    with refused(*parts):
        load(TABLE.replace(old, new))


def test_rows_of_another_form_than_the_model_are_refused(load, tmp_path):
    four = labels.Labels(("0", "1", "2", "3"), "choice")
    with refused("train.csv:2: 3 choices; give 4"):
        load(TABLE, split="test", known=four)
    with refused("--labels: ['a', 'b', 'c'] are not", "['0', '1', '2', '3']"):
        load(TABLE, split="test", known=four, label_spec="a,b,c")
    with refused("trained for classification", "rows are for choice"):
        load(TABLE, split="test", known=labels.Labels(("x", "y")))
    both = labels.Labels(COLUMNS, pair_input="both_orders")
    known = tmp_path / "label_map.json"
    known.write_text(label_maps.text(both))
    assert head_classes.read(str(known)) == both
    with refused("trained with --pair_input=both_orders", "give that"):
        load(TABLE, split="test", known=both, layout={"choices": ()})


def test_a_pair_in_both_orders(load):
    text = "text_a,text_b,label\na b,c,0\nd,e f,1\n"
    data = load(text, layout={"choices": ()}, pair_input="both_orders")
    assert sequences(data.splits["train"].packed) == [
        *(ids("a b | c"), ids("c | a b")),
        *(ids("d | e f"), ids("e f | d")),
    ]
    assert data.splits["train"].packed.num_sequences == 2
    assert data.encode.text_names == ("text_a", "text_b")
    joined = load(text, layout={"choices": ()})
    assert sequences(joined.splits["train"].packed) == [ids("a b | c"), ids("d | e f")]
    with refused("--pair_input=both_orders", "--text_b_column"):
        load("text,label\na,0\nb,1\n", layout={"choices": ()}, pair_input="both_orders")


def test_texts_without_rows_and_rows_of_generators_have_their_choices():
    choice = labels.Labels(("x", "y"), "choice")
    encode = encoding.Encoder(None, 16, choice)
    assert encode.checked([], choices=[]) == ([], None, [])
    rows = [iter(["b", "c"])]
    assert encode.checked(["a"], choices=iter(rows)) == (["a"], None, [["b", "c"]])
    for rows in (None, [[]], [["b"]]):
        with refused("choices: ", " for a text; give 2 for each"):
            encode.checked(["a"], choices=rows)
