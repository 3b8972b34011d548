"""Compared with recorded runs of the original, and with its rules written plainly."""

import dataclasses
import functools
import itertools
import json
import math

import numpy as np
import pytest

from data_pipeline.squad import alignment, choice, files
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece

GOLDEN = "golden/squad"
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "steve", "smith", "'", "s", "##s"),
    *("paris", "in", ",", "京", "。"),
]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
IDS = {token: index for index, token in enumerate(VOCAB)}


@pytest.fixture(scope="module")
def recorded(shared_file):
    """Inputs, logits and vocabulary of 40 questions, of which some have two windows."""
    recorded = json.loads(shared_file(f"{GOLDEN}/features-predict.json").read_text())
    contexts = {}
    data = json.loads(shared_file(f"{GOLDEN}/dev-small-v2.json").read_text())["data"]
    for article in data:
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            contexts |= {question["id"]: text for question in paragraph["qas"]}
    windows = recorded["features"]
    ids = np.array([window["input_ids"] for window in windows])
    word_index, is_max_context = np.full(ids.shape, -1), np.zeros(ids.shape, bool)
    for row, window in enumerate(windows):
        for place, word in window["token_to_orig_map"].items():
            word_index[row, int(place)] = word
            is_max_context[row, int(place)] = window["token_is_max_context"][place]
    inputs = choice.Inputs(
        question_ids=recorded["qas_ids"],
        contexts=[contexts[key] for key in recorded["qas_ids"]],
        question_index=np.array([window["example_index"] for window in windows]),
        input_ids=ids,
        grids=context_windows.TokenGrids(word_index, is_max_context),
    )
    logits = np.load(shared_file(f"{GOLDEN}/logits.npz"))
    vocab_file = shared_file("data/vocab/bert-base-uncased-vocab.txt")
    vocab = vocab_file.read_text(encoding="utf-8").splitlines()
    tokenizer = wordpiece.BertTokenizer(vocab)
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


def test_windows_are_laid_out_as_recorded(recorded, shared_file):
    expected = recorded[0]
    questions = files.read_for_prediction(
        str(shared_file(f"{GOLDEN}/dev-small-v2.json")), version_2_with_negative=True
    )
    windows = context_windows.make_windows(
        questions, recorded[3], max_seq_length=128, doc_stride=48, max_query_length=32
    )
    inputs = choice.lay_out(questions, windows, 128)
    assert inputs.question_ids == expected.question_ids
    assert inputs.contexts == expected.contexts
    np.testing.assert_array_equal(inputs.question_index, expected.question_index)
    np.testing.assert_array_equal(inputs.input_ids, expected.input_ids)
    for name in ("word_index", "is_max_context"):
        found, wanted = (getattr(each.grids, name) for each in (inputs, expected))
        np.testing.assert_array_equal(found, wanted, err_msg=name)


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
    """Logits of 0 but at some places: (window, token, value)."""
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


# Whether a span from first to last may be proposed, for a window of the inputs.
RULES = {
    "starts in the context": lambda words, good, first, last: words[first] >= 0,
    "ends in the context": lambda words, good, first, last: words[last] >= 0,
    "starts at its best": lambda words, good, first, last: good[first],
    "ends after it starts": lambda words, good, first, last: first <= last,
    "is short": lambda words, good, first, last: last - first < 4,
}


def reference_nbest(inputs, rows, start, end, with_null, rules):
    """(text, start logit, end logit), best first, by sorting Python's lists."""
    found = []
    for row in rows:
        words, good = inputs.grids.word_index[row], inputs.grids.is_max_context[row]
        ranked = [
            sorted(range(WIDTH), key=logits[row].__getitem__, reverse=True)[:N_BEST]
            for logits in (start, end)
        ]
        for first, last in itertools.product(*ranked):
            if all(rule(words, good, first, last) for rule in rules):
                span = SENTENCE[words[first] : words[last] + 1]
                ids = inputs.input_ids[row, first : last + 1]
                spelled = alignment.spell(VOCAB[index] for index in ids)
                text = alignment.align(spelled, span, sentence_parts())
                found.append((text, start[row, first], end[row, last]))
    if with_null:
        row = min(rows, key=lambda row: start[row, 0] + end[row, 0])
        found.append(("", start[row, 0], end[row, 0]))
    nbest = {}
    for text, begin, stop in sorted(found, key=lambda each: -each[1] - each[2]):
        if text not in nbest and (len(nbest) < N_BEST or not text):
            nbest[text] = text, begin, stop
    return list(nbest.values()) or [("empty", 0, 0)]


N_BEST = 5
RUNS = 120


@functools.cache
def random_run():
    """Questions of two windows; logits of few values, so that most of them are ties."""
    rng = np.random.default_rng(7)
    one = inputs_of(range(0, 6), range(2, 8))
    inputs = choice.Inputs(
        question_ids=[str(number) for number in range(RUNS)],
        contexts=[" ".join(SENTENCE)] * RUNS,
        question_index=np.repeat(np.arange(RUNS), 2),
        input_ids=np.tile(one.input_ids, (RUNS, 1)),
        grids=context_windows.TokenGrids(
            np.tile(one.grids.word_index, (RUNS, 1)),
            rng.random((2 * RUNS, WIDTH)) < 0.7,
        ),
    )
    return inputs, *rng.integers(0, 3, (2, 2 * RUNS, WIDTH)).astype(np.float32)


@functools.cache
def sentence_parts():
    return alignment.split_all(SENTENCE, TOKENIZER)


@functools.cache
def answers_of_random_run(with_null):
    return choose(
        *random_run(),
        n_best_size=N_BEST,
        max_answer_length=4,
        version_2_with_negative=with_null,
    )


def differing_runs(with_null, rules):
    inputs, start, end = random_run()
    differing = 0
    nbests = answers_of_random_run(with_null).n_best.values()
    for number, nbest in enumerate(nbests):
        found = [
            (entry["text"], entry["start_logit"], entry["end_logit"]) for entry in nbest
        ]
        rows = [2 * number, 2 * number + 1]
        differing += found != reference_nbest(
            inputs, rows, start, end, with_null, rules
        )
    return differing


@pytest.mark.parametrize("with_null", [True, False])
def test_best_answers_equal_a_plain_search(with_null):
    assert differing_runs(with_null, RULES.values()) == 0


@pytest.mark.parametrize("left_out", RULES)
def test_every_rule_is_needed(left_out):
    rules = [rule for name, rule in RULES.items() if name != left_out]
    assert differing_runs(True, rules) > RUNS / 10


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
    found = [entry["probability"] for entry in answers.n_best["q"]]
    np.testing.assert_allclose(found, scores / scores.sum(), rtol=1e-12)


def null_answers(null, threshold=0.0, **settings):
    inputs = inputs_of(range(0, 6), range(2, 8))
    start = [(0, 3, 5), (0, 0, null), (1, 0, 50)]  # any window can hold the answer
    return choose(
        *(inputs, start, [(0, 4, 2), (0, 5, 1), (0, 0, 0.5)]),
        version_2_with_negative=True,
        null_score_diff_threshold=threshold,
        **settings,
    )


@pytest.mark.parametrize(
    ("null", "threshold", "odds", "prediction"),
    [
        (1.0, 0.0, -5.5, "Steve Smith"),
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


@pytest.mark.parametrize("has_windows", [True, False])
def test_nothing_is_proposed(has_windows):
    inputs = inputs_of(WHOLE)
    inputs = dataclasses.replace(
        inputs,
        grids=inputs.grids._replace(
            is_max_context=np.zeros_like(inputs.grids.is_max_context)
        ),
        question_ids=["q" if has_windows else "other", "none"],
        contexts=[" ".join(SENTENCE), ""],
    )
    question = "q" if has_windows else "none"
    start, end = [(0, 0, 3)], [(0, 0, 1)]
    answers = choose(inputs, start, end)
    empty = {"text": "empty", "probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
    assert answers.predictions[question] == "empty"
    assert answers.n_best[question] == [empty]
    answers = choose(
        *(inputs, start, end), version_2_with_negative=True, null_score_diff_threshold=9
    )
    assert answers.predictions[question] == ""
    assert [entry["text"] for entry in answers.n_best[question]] == [""]
    assert answers.n_best[question][0]["start_logit"] == 3.0 * has_windows
    assert answers.null_score_diffs[question] == 1e6
    assert list(answers.predictions) == inputs.question_ids


def test_windows_of_a_question_need_not_stand_together():
    first, second = inputs_of(range(0, 6), range(2, 8)), inputs_of(WHOLE)

    def mixed(one, other):
        return np.concatenate([one, other])[[0, 2, 1]]

    both = choice.Inputs(
        question_ids=["a", "b"],
        contexts=[" ".join(SENTENCE)] * 2,
        question_index=np.array([0, 1, 0]),
        input_ids=mixed(first.input_ids, second.input_ids),
        grids=context_windows.TokenGrids(*map(mixed, first.grids, second.grids)),
    )
    start, end = np.random.default_rng(0).normal(size=(2, 3, WIDTH))
    answers = choose(both, start, end)
    for question, inputs, rows in (("a", first, [0, 2]), ("b", second, [1])):
        alone = choose(inputs, start[rows], end[rows])
        assert answers.n_best[question] == alone.n_best["q"]


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
def test_aligner_of_words_knows_what_it_cannot_spell(aligner, texts):
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


def test_files_are_whole_or_absent(tmp_path):
    answers = null_answers(1.0)
    choice.write(tmp_path / "new", answers)
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written["predictions.json"] == '{\n    "q": "Steve Smith"\n}\n'
    assert written["null_odds.json"] == '{\n    "q": -5.5\n}\n'
    assert json.loads(written["nbest_predictions.json"]) == answers.n_best
    broken = answers._replace(null_score_diffs={"q": object()})
    with pytest.raises(TypeError):
        choice.write(tmp_path / "broken", broken)
    assert not (tmp_path / "broken").exists()


@pytest.mark.parametrize(
    ("value", "is_refused"), [(math.nan, True), (math.inf, True), (-math.inf, False)]
)
def test_logits_must_be_numbers(value, is_refused):
    inputs = inputs_of(range(0, 6), range(2, 8))
    start, end = logits_of(inputs), logits_of(inputs, (1, WIDTH - 1, value))
    if not is_refused:
        assert choose(inputs, start, end).predictions["q"]
        return
    with pytest.raises(ValueError, match="end logits of 1 of 2 windows are not"):
        choose(inputs, start, end)


def test_logits_of_other_windows_are_refused():
    inputs = inputs_of(WHOLE)
    start = logits_of(inputs)
    with pytest.raises(ValueError, match=r"end logits of shape \(1, 9\).*\(1, 14\)"):
        choose(inputs, start, start[:, :9])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_best_size": 0}, "--n_best_size=0 must be at least 1"),
        ({"max_answer_length": -1}, "--max_answer_length=-1 must be at least 1"),
        ({"aligner": "letters"}, "aligner 'letters' is not one of"),
    ],
)
def test_impossible_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        choice.Settings(**setting)
