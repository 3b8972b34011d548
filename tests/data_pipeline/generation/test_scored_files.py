import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.classification import labels, tables
from data_pipeline.generation import perplexity, scored_files
from tests import byte_tokenizer, tiny

TOKENIZER = byte_tokenizer.ByteTokenizer()


def case(*alternatives, label=None):
    return scored_files.Case(
        "a:1", [scored_files.Alternative(*each) for each in alternatives], label
    )


def encode(*rows, tokenizer=TOKENIZER, context=20, truncate_left=False):
    return scored_files.encode(rows, tokenizer, context, truncate_left=truncate_left)


def test_the_scored_end_begins_where_the_text_before_ends():
    ((first, second),) = encode(case(("ab", " c"), ("a", "bcd")))
    assert first == ([256, *b"ab c"], 3)
    assert second == ([256, *b"abcd"], 2)
    without = byte_tokenizer.ByteTokenizer(has_end=False)
    (((ids, start),),) = encode(case(("", "ab")), tokenizer=without)
    assert (ids, start) == (list(b"ab"), 1)


def test_a_token_that_holds_some_of_both_is_scored():
    class Pairs(byte_tokenizer.ByteTokenizer):
        def tokenize(self, texts):
            pairs = [
                [sum(t[i : i + 2].encode()) for i in range(0, len(t), 2)] for t in texts
            ]
            return tf.ragged.constant(pairs, tf.int32, 1)

    (((ids, first),),) = encode(case(("abc", "de")), tokenizer=Pairs())
    assert len(ids) == 4 and first == 2  # ab, cd, e


def test_what_does_not_fit_is_refused_or_loses_its_beginning():
    long = case(("0123456789", "abc"))
    with pytest.raises(
        ValueError, match=r"a:1: a text of 14 tokens .* of 10; .*--keep"
    ):
        encode(long, context=10)
    (((ids, first),),) = encode(long, context=10, truncate_left=True)
    assert ids == list(b"3456789abc") and first == 7
    with pytest.raises(ValueError, match="of 14 tokens"):
        encode(long, context=3, truncate_left=True)
    with pytest.raises(ValueError, match="has no token that could be scored"):
        encode(case(("ab", "")))


def run_of(losses):
    def run(cut):
        return [
            perplexity.Scores(
                np.array([losses[index] for index in window.ids[window.first :]]),
                np.array([losses[index] < 1 for index in window.ids[window.first :]]),
            )
            for window in cut
        ]

    return run


def test_choices_by_the_whole_the_end_and_its_tokens():
    losses = dict(zip(b"abxy", (0.5, 3.0, 1.0, 2.0), strict=True))
    # Whole: 1.5 against 5. End: 1 against 2. By token: 1 against 2, and so on.
    rows = [
        case(("a", "x"), ("b", "y"), label=0),
        case(("b", "x"), ("a", "y"), label=0),
        case(("a", "xxx"), ("a", "y"), label=0),
        case(("a", "x"), ("a", "b")),
    ]
    judged = list(scored_files.judge(rows, encode(*rows), run_of(losses)))
    assert judged[0].whole == [1.5, 5.0] and judged[0].part == [1.0, 2.0]
    assert judged[2].part == [3.0, 2.0] and judged[2].by_token == [1.0, 2.0]
    choices = [tuple(each.choices().values()) for each in judged]
    assert choices == [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 0)]
    assert scored_files.accuracies(judged) == {
        "accuracy_whole": pytest.approx(1 / 3),
        "accuracy_part": pytest.approx(2 / 3),
        "accuracy_by_token": 1.0,
    }
    assert scored_files.accuracies(judged[3:]) == {}
    row = json.loads(judged[2].line())
    assert row["texts"] == ["axxx", "ay"]
    assert row["choice"] == {"whole": 1, "part": 1, "by_token": 0}
    assert row["nll"] == [3.0, 2.0] and row["label"] == 0


def test_the_last_word_is_right_if_all_its_tokens_are(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "b ab"}\n{"text": "b  a\\n"}\n{"text": "y b a"}\n')
    rows = scored_files.last_words(str(path))
    assert [each.alternatives[0] for each in rows] == [
        ("b", " ab"),
        ("b ", " a"),
        ("y b", " a"),
    ]
    losses = {ord(" "): 0.5, ord("a"): 0.25, ord("b"): 3.0, ord("y"): 1.0}
    judged = list(scored_files.judge(rows, encode(*rows), run_of(losses)))
    results = scored_files.word_results(judged)
    assert results["accuracy"] == pytest.approx(2 / 3)
    assert results["perplexity"] == pytest.approx(np.exp((3.75 + 0.75 + 0.75) / 3))
    path.write_text('{"text": "word"}\n')
    with pytest.raises(ValueError, match=r":1: \['word'\] is one word"):
        scored_files.last_words(str(path))


def texts(case):
    return [(choice.before, choice.scored) for choice in case.alternatives]


def test_columns_of_a_table_are_answers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("context,one,two,label\nIt rains. ,Take a coat.,Swim,two\n")
    layout = tables.Layout(choices=("one", "two"))
    (case,) = scored_files.read_choices(str(path), layout)
    assert case.label == 1 and case.place == f"{path}:2"
    assert texts(case) == [("It rains.", " Take a coat."), ("It rains.", " Swim")]
    path.write_text("context,one,two,label\nIt rains.,a,b,1\n")
    assert scored_files.read_choices(str(path), layout)[0].label == 1
    assert scored_files.read_choices(str(path), layout, ["1", "0"])[0].label == 0
    path.write_text("context,one,two,label\nIt rains.,a,b,7\n")
    with pytest.raises(ValueError, match="label '7' is not one of"):
        scored_files.read_choices(str(path), layout)
    path.write_text("context,one,two\nIt rains.,a,b\n")
    assert scored_files.read_choices(str(path), layout)[0].label is None


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
    first, second = scored_files.read_choices(
        str(path), tables.Layout(file_format="copa")
    )
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
    (case,) = scored_files.read_choices(str(path), layout)
    assert texts(case) == [("It rains. he", " Swims."), ("It rains. he", " The end.")]


LABELS = labels.Labels(("bad", "good"))
FORM = r"Review: {text}\nSentiment: {label}"


@pytest.fixture
def table(tmp_path):
    rows = [("a {film}", "good"), ("b", "bad"), ("c", "bad"), ("d", "bad")]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    return tables.read_table(str(path), tables.Layout(), labels_required=True)


def test_each_label_fills_the_template(table):
    words = scored_files.label_words(["good=great"], LABELS)
    actual = scored_files.fill(scored_files.Template(FORM), table, LABELS, words)
    assert [case.label for case in actual] == [1, 0, 0, 0]
    assert actual[0].place == f"{table.path}:2"
    assert actual[0].alternatives == [
        ("Review: a {film}\nSentiment:", " bad"),
        ("Review: a {film}\nSentiment:", " great"),
    ]
    after = scored_files.Template("{label}: {text}")
    (first, _) = scored_files.fill(after, table, LABELS, LABELS.names)[1].alternatives
    assert first == ("", "bad: b")
    braces = scored_files.Template("{{label}} {text} {label}}}")
    (first, _) = scored_files.fill(braces, table, LABELS, LABELS.names)[0].alternatives
    assert first == ("{label} a {film}", " bad}")


def test_examples_have_all_labels_and_follow_from_the_seed(table):
    form = scored_files.Template(FORM)

    def shown(count, seed):
        return scored_files.examples(form, table, LABELS, LABELS.names, count, seed)

    for seed in range(5):
        assert shown(2, seed).count("Sentiment: good") == 1
        assert shown(2, seed).count("\n\n") == 2
        assert shown(2, seed) == shown(2, seed)
    assert len({shown(2, seed) for seed in range(9)}) > 2
    assert "Review: a {film}\nSentiment: good\n\n" in shown(4, 0)
    with pytest.raises(ValueError, match="has 4 rows; lower --num_examples=5"):
        shown(5, 0)
    (case, *_) = scored_files.fill(form, table, LABELS, LABELS.names, shown(1, 0))
    assert case.alternatives[0].before.startswith(shown(1, 0))


@pytest.mark.parametrize(
    "form",
    [
        *("{text}", "{text} {label} {label}", "{words} {label}", "{text {label}"),
        *("{text!r} {label}", "{text} {label!s}", "{text:5} {label}", "{label}"),
    ],
)
def test_wrong_templates_are_refused(form):
    with pytest.raises(ValueError, match=r"--template.*(one {label}|double braces)"):
        scored_files.Template(form)


def test_words_are_of_labels_and_differ(table):
    with pytest.raises(ValueError, match=r"'god=x' is no LABEL=WORDS.*closest: 'good'"):
        scored_files.label_words(["god=x"], LABELS)
    with pytest.raises(ValueError, match="'bad' is named more than once"):
        scored_files.label_words(["good=bad"], LABELS)
    form = scored_files.Template("{text_a} {text_b} {label}")
    with pytest.raises(ValueError, match=r"has no second text for the {text_b}"):
        scored_files.fill(form, table, LABELS, LABELS.names)


def test_the_likeliest_words_decide():
    def judged(label, *part):
        # By the whole another would be: the text before is the same for all.
        turned = list(part)[::-1]
        return scored_files.Judged(
            scored_files.Case("a", (), label),
            turned,
            list(part),
            turned,
            [False] * len(part),
        )

    gold, decided = scored_files.decisions(
        [judged(1, 3.0, 2.0), judged(0, 3.0, 1.0), judged(None, 1.0, 2.0)]
    )
    np.testing.assert_array_equal(gold, [1, 0])
    np.testing.assert_array_equal(decided, [1, 1])
