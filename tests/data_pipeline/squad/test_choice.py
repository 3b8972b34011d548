import dataclasses
import json
import math

import numpy as np
import pytest

from data_pipeline.squad import choice, files
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece
from tests import tiny

GOLDEN = "golden/squad"
PIECES = "who steve smith ' s ##s paris in , 京 。"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
IDS = {token: index for index, token in enumerate(VOCAB)}


@pytest.fixture(scope="module")
def recorded(shared_file):
    vocab_file = shared_file("data/vocab/bert-base-uncased-vocab.txt")
    tokenizer = wordpiece.BertTokenizer.from_file(str(vocab_file))
    path = str(shared_file(f"{GOLDEN}/dev-small-v2.json"))
    questions = files.read_for_prediction(path, version_2_with_negative=True)
    windows = context_windows.make_windows(
        questions, tokenizer, max_seq_length=128, doc_stride=48, max_query_length=32
    )
    logits = np.load(shared_file(f"{GOLDEN}/logits.npz"))
    inputs = choice.lay_out(windows, 128)
    return inputs, logits["start_logits"], logits["end_logits"], tokenizer


@pytest.mark.parametrize("version", [1, 2])
def test_files_equal_those_of_the_original(version, recorded, shared_file, tmp_path):
    settings = choice.Settings(version_2_with_negative=version == 2)
    choice.write(tmp_path, choice.choose(*recorded, settings))
    expected = shared_file(f"{GOLDEN}/expected-v{version}")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in expected.iterdir())
    assert len(names) == version + 1
    for name in names:
        assert (tmp_path / name).read_bytes() == (expected / name).read_bytes()


def test_files_are_those_of_the_version_and_of_the_site(tmp_path):
    n_best = [{"text": "京", "probability": 1.0, "start_logit": 2.0, "end_logit": 0.5}]
    answers = choice.Answers({"q": "京"}, {"q": "京"}, {"q": n_best}, None)
    choice.write(str(tmp_path), answers)
    one = b'{\n    "q": "\\u4eac"\n}\n'
    files_of_one = tiny.listing(tmp_path)
    assert sorted(files_of_one) == ["nbest_predictions.json", "predictions.json"]
    assert files_of_one["predictions.json"] == one
    assert json.loads(files_of_one["nbest_predictions.json"]) == {"q": n_best}
    answers = answers._replace(null_score_diffs={"q": -1.5})
    choice.write(str(tmp_path), answers, "site.json")
    assert tiny.listing(tmp_path) == {
        **files_of_one,
        "null_odds.json": b'{\n    "q": -1.5\n}\n',
        "site.json": one,
    }


SENTENCE = ["Steve", "Smith's", "Paris,", "in", "Paris"]
TOKENS = ["steve", "smith", "'", "s", "paris", ",", "in", "paris"]
TOKEN_WORDS = [0, 1, 1, 1, 2, 2, 3, 4]
FIRST = 3  # the first token of a context stands behind [CLS] who [SEP]
WIDTH = 14


def inputs_of(
    *windows, words=SENTENCE, tokens=TOKENS, token_words=TOKEN_WORDS, places=None
):
    """Windows of one question, each a range of the tokens of its context.

    `places` are (begin, end) of each token in the context.
    """
    count = len(windows)
    ids = np.zeros((count, WIDTH), int)
    word_index, grid = np.full(ids.shape, -1), np.zeros((*ids.shape, 2), int)
    for row, window in enumerate(windows):
        shown = ["[CLS]", "who", "[SEP]", *(tokens[i] for i in window), "[SEP]"]
        ids[row, : len(shown)] = [IDS[token] for token in shown]
        word_index[row, FIRST:][: len(window)] = [token_words[i] for i in window]
        if places:
            grid[row, FIRST:][: len(window)] = [places[i] for i in window]
    return choice.Inputs(
        question_ids=["q"],
        contexts=[" ".join(words)],
        question_index=np.zeros(count, int),
        input_ids=ids,
        grids=context_windows.TokenGrids(word_index, word_index >= 0),
        places=grid,
    )


def logits_of(inputs, *places):
    logits = np.zeros(inputs.input_ids.shape, np.float32)
    for window, token, value in places:
        logits[window, token] = value
    return logits


def choose(inputs, start, end, **settings):
    if isinstance(start, list):
        start, end = (logits_of(inputs, *places) for places in (start, end))
    settings = choice.Settings(**settings)
    return choice.choose(inputs, start, end, TOKENIZER, settings)


WHOLE = range(len(TOKENS))


def test_equal_answers_come_in_the_order_of_windows_starts_and_ends():
    inputs = inputs_of(range(0, 6), range(2, 8))
    # Of zeros the first five places of a window are the best, two of them a context's.

    def texts(**settings):
        answers = choose(inputs, [], [], n_best_size=5, **settings)
        return [entry["text"] for entry in answers.n_best["q"]]

    assert texts() == ["Steve", "Steve Smith", "Smith", "'", "'s"]
    # A token that has more context elsewhere begins no answer, and may end one.
    inputs.grids.is_max_context[0, 4] = False
    aligned = "S"  # the first in "Smith's", as in the original
    assert texts() == ["Steve", "Steve Smith", "'", "'s", aligned]
    assert texts(max_answer_length=1) == ["Steve", "'", aligned]


def test_answers_are_texts_of_the_context():
    inputs = inputs_of(WHOLE)
    start = [(0, 3, 5), (0, 7, 4), (0, 10, 3)]  # steve, paris, paris
    end = [(0, 4, 2), (0, 7, 1), (0, 10, 0.5)]  # smith, paris, paris
    answers = choose(inputs, start, end, n_best_size=3, max_answer_length=2)
    texts = [entry["text"] for entry in answers.n_best["q"]]
    assert texts == ["Steve Smith", "Paris"]  # the other "Paris" is dropped
    assert answers.predictions == {"q": "Steve Smith"}
    assert answers.null_score_diffs is None
    scores = np.exp([7, 5])
    probabilities = [entry["probability"] for entry in answers.n_best["q"]]
    np.testing.assert_allclose(probabilities, scores / scores.sum(), rtol=1e-12)
    higher = [(0, token, value + 1000) for _, token, value in start]
    answers = choose(inputs, higher, end, n_best_size=3, max_answer_length=2)
    assert [e["probability"] for e in answers.n_best["q"]] == probabilities


def null_answers(null, threshold=0.0, **settings):
    inputs = inputs_of(range(0, 6), range(2, 8))
    start = [(0, 3, 5), (0, 0, null), (1, 0, 50)]  # any window can hold the answer
    return choose(
        inputs,
        start,
        [(0, 4, 2), (0, 5, 1), (0, 0, 0.5)],
        version_2_with_negative=True,
        null_score_diff_threshold=threshold,
        **settings,
    )


@pytest.mark.parametrize(
    ("null", "threshold", "odds", "prediction"),
    [
        (6.5, 0.0, 0.0, "Steve Smith"),  # only what exceeds the threshold
        (7.0, 0.0, 0.5, ""),
        (7.0, 1.0, 0.5, "Steve Smith"),
        (1.0, -6.0, -5.5, ""),
    ],
)
def test_threshold_decides_on_no_answer(null, threshold, odds, prediction):
    answers = null_answers(null, threshold)
    assert answers.null_score_diffs == {"q": odds}
    assert answers.predictions == {"q": prediction}


def test_no_answer_is_listed_once_and_always():
    for null, place in ((9.0, 0), (-9.0, 2)):
        nbest = null_answers(null, n_best_size=2).n_best["q"]
        assert len(nbest) == 2 + (place == 2)
        places = [i for i, entry in enumerate(nbest) if entry["text"] == ""]
        assert places == [place]
        assert nbest[place]["start_logit"] == null
        assert sum(entry["probability"] for entry in nbest) == pytest.approx(1)


def test_nothing_is_proposed():
    """For a question without a token that counts, and for one without a window."""
    inputs = inputs_of(WHOLE)
    inputs.grids.is_max_context[:] = False
    contexts = [" ".join(SENTENCE), ""]
    inputs = dataclasses.replace(inputs, question_ids=["q", "none"], contexts=contexts)
    start, end = [(0, 0, 3)], [(0, 0, 1)]
    answers = choose(inputs, start, end)
    empty = {"text": "empty", "probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
    assert answers.predictions == {"q": "empty", "none": "empty"}
    assert answers.n_best == {"q": [empty], "none": [empty]}
    settings = {"version_2_with_negative": True, "null_score_diff_threshold": 9}
    answers = choose(inputs, start, end, **settings)
    assert answers.predictions == {"q": "", "none": ""}
    shown = [(e["text"], e["start_logit"]) for (e,) in answers.n_best.values()]
    assert shown == [("", 3.0), ("", 0.0)]
    assert answers.null_score_diffs == {"q": 1e6, "none": 1e6}


# One word, as Chinese sentences are, whose third character is not in the vocabulary.
CHINESE = {
    "words": ["京京龘京。"],
    "tokens": ["京", "京", "[UNK]", "京", "。"],
    "token_words": [0] * 5,
    "places": [(i, i + 1) for i in range(5)],
}


@pytest.mark.parametrize(
    ("aligner", "texts"),
    [("words", ["龘京", "京。"]), ("original", ["京京龘京。", "京。"])],
)
def test_aligner_of_words_needs_no_spelling(aligner, texts):
    # The second window begins inside the word.
    inputs = inputs_of(range(0, 3), range(2, 5), **CHINESE)
    spans = ([(1, 3, 5)], [(1, 4, 5)]), ([(1, 4, 5)], [(1, 5, 5)])
    for (start, end), text in zip(spans, texts, strict=True):
        assert choose(inputs, start, end, aligner=aligner).predictions == {"q": text}


def test_aligner_of_words_answers_with_whole_words():
    words = {"words": ["Smithss"], "tokens": ["smith", "##s", "##s"]}
    inputs = inputs_of(range(0, 3), **words, token_words=[0, 0, 0], places=[(0, 7)] * 3)
    start, end = [(0, 4, 5)], [(0, 4, 5)]
    assert choose(inputs, start, end, aligner="words").predictions["q"] == "Smithss"
    # The rule of the original finds the first "s", not the one that was meant.
    assert choose(inputs, start, end).predictions["q"] == "S"


def test_impossible_logits_and_settings_are_refused():
    inputs = inputs_of(range(0, 6), range(2, 8))
    start = logits_of(inputs)
    assert choose(inputs, start, logits_of(inputs, (1, WIDTH - 1, -math.inf)))
    for value in (math.nan, math.inf):
        end = logits_of(inputs, (1, WIDTH - 1, value))
        with pytest.raises(ValueError, match="end logits of 1 of 2 windows are not"):
            choose(inputs, start, end)
    with pytest.raises(ValueError, match=r"end logits \(2, 9\).*\(2, 14\)"):
        choose(inputs, start, start[:, :9])
    usual = choice.Settings()
    assert (usual.n_best_size, usual.max_answer_length) == (20, 30)
    with pytest.raises(ValueError, match="--max_answer_length=0 is below 1"):
        choice.Settings(max_answer_length=0)
    with pytest.raises(ValueError, match="aligner 'letters' is none of"):
        choice.Settings(aligner="letters")


TOKENIZERS = {
    lower: wordpiece.BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "a"], lower)
    for lower in (True, False)
}


def test_part_that_no_vocabulary_spells_is_left_out():
    word = "a" * 201
    assert choice.split_all([f"{word}-b"], TOKENIZERS[True]) == {
        f"{word}-b": ["-", "b"]
    }
    assert choice.split_all([word[1:]], TOKENIZERS[True]) == {word[1:]: [word[1:]]}
    nothing = {"\u200b": [], "\ud800": []}
    assert choice.split_all(nothing, TOKENIZERS[True]) == nothing
    assert choice.split_all([], TOKENIZERS[True]) == {}


@pytest.mark.parametrize(
    ("spelled", "span", "lower", "answer"),
    [
        ("steve smith", "Steve Smith's", True, "Steve Smith"),
        ("steve smith", "Steve Smith's", False, "Steve Smith's"),
        ("cafe", "(Café)", True, "Café"),
        # Composed, the accent is lost with its letter; of its own, it is missed.
        ("cafe", "(Cafe\u0301)", True, "(Cafe\u0301)"),
        ("京", "東京。", True, "京"),
        ("[UNK]", "東京。", True, "東京。"),
        # The first of two places where the prediction stands, whichever was meant.
        ("a", "(A-a)", True, "A"),
        ("1 , 0", "$1,000", True, "1,0"),
        ("", "Paris", True, "Paris"),
    ],
)
def test_alignment_is_the_one_of_the_original(spelled, span, lower, answer):
    words = span.split(" ")
    parts = choice.split_all(words, TOKENIZERS[lower])
    assert choice.align(spelled, words, parts) == answer
