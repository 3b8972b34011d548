import random

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import packing
from data_pipeline.squad import choice, graph
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import elmo, wordpiece
from tests import served_answers
from tests.data_pipeline import original_words

PIECES = "a b c ##a ##b ##c x ##x i s σ ##σ 中 . - ( 한 ᄒ ##ᅡ $"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
LOWER = wordpiece.BertTokenizer(VOCAB)
CASED = wordpiece.BertTokenizer(VOCAB, do_lower_case=False)
# Of characters, 8 to a word; some of the words in ROWS are longer.
ELMO = elmo.ElmoTokenizer((), "punctuation", 8)
SPACED = elmo.ElmoTokenizer(("<S>", "</S>", "<UNK>"), "whitespace", 8)
LIMITS = {"max_seq_length": 20, "doc_stride": 5, "max_query_length": 6}


def random_rows():
    """(question, context), short and long; some without a token."""
    lines = original_words.random_lines(360, original_words.POOLS, seed=3)
    rng = random.Random(4)
    rows = [
        (rng.choice(["", "a b", "c " * 30]), "  ".join(rng.sample(lines, size)))
        for size in (1, 2, 3, 6)
        for _ in range(15)
    ]
    plain = [" ".join(rng.choices(["ab", "a", "b.", "-"], k=25)) for _ in range(15)]
    return [
        *rows,
        *((line[:5], line) for line in plain),
        ("", "a " * 255),
        *(("a", line) for line in ("", " \t", "\u200b", "\xa0", "a" * 201 + "-c b")),
    ]


ROWS = random_rows()


def windows_of(rows, tokenizer=LOWER, limits=LIMITS):
    columns = zip(*rows, strict=True)
    return graph.encoder(tokenizer, **limits)(*map(tf.constant, columns))


def inputs_of(questions, tokenizer, limits, width):
    windows = context_windows.make_windows(questions, tokenizer, **limits)
    return choice.lay_out(questions, windows, width, tokenizer)


def random_logits(windows, seed, values=None):
    rng = np.random.default_rng(seed)
    shape = windows.features["input_mask"].shape
    if values:
        return rng.integers(0, values, (2, *shape)).astype(np.float32)
    return rng.normal(scale=2, size=(2, *shape)).astype(np.float32)


def rows_of(results):
    columns = {name: value.numpy().tolist() for name, value in results.items()}
    columns["answer"] = [answer.decode() for answer in columns["answer"]]
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def choose(windows, logits, **settings):
    settings = choice.Settings(aligner="words", **settings)
    return rows_of(graph.chooser(settings)(windows, *map(tf.constant, logits)))


@pytest.mark.parametrize(
    ("tokenizer", "limits"),
    [
        (LOWER, {"max_seq_length": 9, "doc_stride": 1, "max_query_length": 5}),
        (CASED, {"max_seq_length": 12, "doc_stride": 99, "max_query_length": 0}),
        # Of the longest context the second window is so short that its length decides.
        (LOWER, {"max_seq_length": 253, "doc_stride": 120, "max_query_length": 6}),
    ],
)
def test_windows_are_those_of_training(tokenizer, limits):
    windows = windows_of(ROWS, tokenizer, limits)
    width = windows.features["input_ids"].shape[1]
    questions = served_answers.ask(ROWS)
    inputs = inputs_of(questions, tokenizer, limits, width)
    np.testing.assert_array_equal(windows.features["input_ids"], inputs.input_ids)
    assert_windows_equal(windows, inputs)
    counts = np.bincount(inputs.question_index, minlength=len(ROWS))
    assert {0, 1, 2} <= set(counts)
    # Tokens that stand in several windows count in one.
    is_elsewhere = windows.is_context & ~windows.is_max_context
    assert is_elsewhere.numpy().any() == (limits["doc_stride"] != 99)


def assert_windows_equal(windows, inputs):
    np.testing.assert_array_equal(windows.question_index, inputs.question_index)
    np.testing.assert_array_equal(windows.is_context, inputs.grids.word_index >= 0)
    np.testing.assert_array_equal(windows.is_max_context, inputs.grids.is_max_context)


@pytest.mark.parametrize("tokenizer", [ELMO, SPACED], ids=["punctuation", "spaces"])
def test_windows_and_answers_of_characters_are_those_of_training(tokenizer):
    windows = windows_of(ROWS, tokenizer)
    questions = served_answers.ask(ROWS)
    made = context_windows.make_windows(questions, tokenizer, **LIMITS)
    width = windows.features["input_ids"].shape[1]
    for name, expected in packing.grids(made.packed, width).items():
        np.testing.assert_array_equal(windows.features[name], expected)
    inputs = choice.lay_out(questions, made, width, tokenizer)
    assert_windows_equal(windows, inputs)
    assert windows.features["input_ids"].shape[2] == 8 and inputs.input_ids is None
    logits = random_logits(windows, 5)
    answers = choice.choose(
        inputs,
        *np.where(windows.features["input_mask"] > 0, logits, -np.inf),
        tokenizer,
        choice.Settings(aligner="words"),
    )
    served_answers.assert_equal(choose(windows, logits), answers, ROWS)


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="--doc_stride=0 is not positive"):
        graph.encoder(LOWER, **{**LIMITS, "doc_stride": 0})
    encode = graph.encoder(LOWER, **LIMITS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many contexts as"):
        encode(tf.constant(["a"]), tf.constant(["a", "b"]))


@pytest.mark.parametrize(
    ("tokenizer", "settings"),
    [
        (LOWER, {"version_2_with_negative": True}),
        (CASED, {"n_best_size": 3, "max_answer_length": 4}),
        (
            CASED,
            {
                "n_best_size": 4,
                "max_answer_length": 2,
                "version_2_with_negative": True,
                "null_score_diff_threshold": -1.0,
            },
        ),
    ],
)
@pytest.mark.parametrize("values", [4, None], ids=["ties", "numbers"])
def test_answers_are_those_of_run_squad(tokenizer, settings, values):
    windows = windows_of(ROWS, tokenizer)
    logits = random_logits(windows, 5, values)
    questions = served_answers.ask(ROWS)
    inputs = inputs_of(questions, tokenizer, LIMITS, logits.shape[2])
    is_read = windows.features["input_mask"].numpy() > 0
    answers = choice.choose(
        inputs,
        *np.where(is_read, logits, -np.inf),
        tokenizer,
        choice.Settings(aligner="words", **settings),
    )
    served_answers.assert_equal(choose(windows, logits, **settings), answers, ROWS)


def test_padding_does_not_compete():
    windows = windows_of(ROWS)
    logits = random_logits(windows, 6)
    is_read = windows.features["input_mask"].numpy() > 0
    loud = np.where(is_read, logits, 100).astype(np.float32)
    settings = {"n_best_size": 2, "version_2_with_negative": True}
    assert choose(windows, loud, **settings) == choose(windows, logits, **settings)
    # Where it is read it does.
    features = {"input_mask": tf.ones_like(windows.features["input_mask"])}
    heard = windows._replace(features=features)
    assert choose(heard, loud, **settings) != choose(windows, logits, **settings)


def logits_at(windows, *places):
    logits = np.zeros((2, *windows.features["input_ids"].shape), np.float32)
    for token, start, end in places:
        logits[:, 0, token] = start, end
    return logits


@pytest.mark.parametrize(
    ("context", "probability"),
    [("a\t b - a b", 1.0), ("a\t b - a c", 1 / (1 + np.exp(-1)))],
)
def test_text_that_stands_twice_is_proposed_once(context, probability):
    windows = windows_of([("c", context)])  # tokens 3 and 4, 6 and 7
    logits = logits_at(windows, (3, 5, -9), (4, -9, 4), (6, 4, -9), (7, -9, 4))
    (row,) = choose(windows, logits, n_best_size=2, max_answer_length=2)
    assert (row["answer"], row["start"], row["end"]) == ("a\t b", 0, 4)
    assert row["score"] == 9
    assert row["probability"] == pytest.approx(probability)
