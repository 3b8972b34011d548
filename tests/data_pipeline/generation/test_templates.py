import numpy as np
import pytest

from data_pipeline.classification import labels, tables
from data_pipeline.generation import cases, templates
from tests import tiny

LABELS = labels.Labels(("bad", "good"))
FORM = r"Review: {text}\nSentiment: {label}"


@pytest.fixture
def table(tmp_path):
    rows = [("a {film}", "good"), ("b", "bad"), ("c", "bad"), ("d", "bad")]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    return tables.read_table(
        str(path), tables.Layout(), labels_required=True, allow_empty_text=False
    )


def test_each_label_fills_the_template(table):
    words = templates.label_words(["good=great"], LABELS)
    actual = templates.fill(templates.Template(FORM), table, LABELS, words)
    assert [case.label for case in actual] == [1, 0, 0, 0]
    assert actual[0].place == f"{table.path}:2"
    assert actual[0].alternatives == [
        ("Review: a {film}\nSentiment:", " bad"),
        ("Review: a {film}\nSentiment:", " great"),
    ]
    after = templates.Template("{label}: {text}")
    (first, _) = templates.fill(after, table, LABELS, LABELS.names)[1].alternatives
    assert first == ("", "bad: b")
    braces = templates.Template("{{label}} {text} {label}}}")
    (first, _) = templates.fill(braces, table, LABELS, LABELS.names)[0].alternatives
    assert first == ("{label} a {film}", " bad}")


def test_examples_have_all_labels_and_follow_from_the_seed(table):
    form = templates.Template(FORM)

    def shown(count, seed):
        return templates.examples(form, table, LABELS, LABELS.names, count, seed)

    for seed in range(5):
        assert shown(2, seed).count("Sentiment: good") == 1
        assert shown(2, seed).count("\n\n") == 2
        assert shown(2, seed) == shown(2, seed)
    assert len({shown(2, seed) for seed in range(9)}) > 2
    assert "Review: a {film}\nSentiment: good\n\n" in shown(4, 0)
    with pytest.raises(ValueError, match="has 4 rows, --num_examples=5 asks for more"):
        shown(5, 0)
    (case, *_) = templates.fill(form, table, LABELS, LABELS.names, shown(1, 0))
    assert case.alternatives[0].before.startswith(shown(1, 0))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("{text}", "needs a text and one {label}"),
        ("{text} {label} {label}", "needs a text and one {label}"),
        ("{words} {label}", r"has {words}; fields are {text}, {text_a}"),
        ("{text {label}", "double braces"),
        ("{text!r} {label}", "{text} has a format or a conversion; write {text} alone"),
        ("{text} {label!s}", "{label} has a format or a conversion"),
    ],
)
def test_wrong_templates_are_refused(form, expected):
    with pytest.raises(ValueError, match=expected):
        templates.Template(form)


def test_words_are_of_labels_and_differ(table):
    with pytest.raises(ValueError, match=r"'god=x' is no LABEL=WORDS.*closest: 'good'"):
        templates.label_words(["god=x"], LABELS)
    with pytest.raises(ValueError, match="'bad' is named more than once"):
        templates.label_words(["good=bad"], LABELS)
    form = templates.Template("{text_a} {text_b} {label}")
    with pytest.raises(ValueError, match=r"has no second text, which {text_b}"):
        templates.fill(form, table, LABELS, LABELS.names)


def test_the_likeliest_words_decide():
    def judged(label, *part):
        # By the whole another would be: the text before is the same for all.
        turned = list(part)[::-1]
        return cases.Judged(
            cases.Case("a", (), label), turned, list(part), turned, [False] * len(part)
        )

    gold, decided = templates.decisions(
        [judged(1, 3.0, 2.0), judged(0, 3.0, 1.0), judged(None, 1.0, 2.0)]
    )
    np.testing.assert_array_equal(gold, [1, 0])
    np.testing.assert_array_equal(decided, [1, 1])
