import math
import types

import numpy as np
import pytest

from contract import outcomes
from data_pipeline.squad import choice
from data_pipeline.squad import scores as answer_scores


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Cat, a hat!", "cat hat"),
        ("An-the", "anthe"),  # punctuation goes first, and joins
        ("another theme", "another theme"),
        ("$1,000.50", "100050"),
        ("東京。", "東京。"),  # only the punctuation of ASCII
        ("a", ""),
    ],
)
def test_normalization(text, normalized):
    assert answer_scores.normalize(text) == normalized


@pytest.mark.parametrize(
    ("gold", "prediction", "exact", "f1"),
    [
        ("Denver Broncos", "the Denver Broncos.", 1.0, 1.0),
        ("Denver Broncos", "Broncos", 0.0, 2 / 3),
        # Each word counts as often as both have it: 2 in common of 2 and 3.
        ("red red blue", "red red", 0.0, 0.8),
        ("red", "blue", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "red", 0.0, 0.0),
        ("red", "the", 0.0, 0.0),
        ("東京", "東京都", 0.0, 0.0),
    ],
)
def test_answers_are_compared(gold, prediction, exact, f1):
    assert answer_scores.exact(gold, prediction) == exact
    assert answer_scores.f1(gold, prediction) == pytest.approx(f1, rel=1e-12)


def test_scores_of_version_1():
    gold = {"a": ["Paris", "in Paris"], "b": ["1895"], "c": ["the"], "d": ["Rome"]}
    scores = answer_scores.score_v1(gold, {"a": "In Paris", "b": "1895 BC", "c": "The"})
    # Exact: a and c of four. F1: 1, 2/3, 0 where nothing is left, 0 for no prediction.
    assert scores == {
        "exact_match": 50.0,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 4, rel=1e-12),
    }


GOLD = {"a": ["Paris"], "b": ["red wine"], "c": [], "d": [], "e": ["a", "an"]}
GIVEN = {"a": "Paris", "b": "wine", "c": "", "d": "Rome", "e": ""}


def test_scores_of_version_2():
    # e: answers of which nothing is left to compare are as good as none.
    assert answer_scores.score_v2(GOLD, GIVEN) == {
        "exact": 60.0,
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1 + 0 + 1) / 5, rel=1e-12),
        "total": 5,
        "HasAns_exact": pytest.approx(200 / 3),
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 3, rel=1e-12),
        "HasAns_total": 3,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }


def thresholds(gold, given, odds):
    scores = answer_scores.score_v2(gold, given, odds)
    return [
        scores[name]
        for name in ("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh")
    ]


def test_best_thresholds():
    # By odds: b (exact 0, f1 2/3), a (1, 1), d (-1: it has none), e (1, 1), c (0, for
    # nothing was given). Two points are there before anything is answered.
    odds = {"a": -2.0, "b": -3.0, "c": 4.0, "d": -1.0, "e": 3.0}
    assert thresholds(GOLD, GIVEN, odds) == [
        *(60.0, -2.0),
        *(pytest.approx(100 * (2 + 1 + 2 / 3) / 5, rel=1e-12), -2.0),
    ]


def test_equal_odds_are_taken_one_by_one():
    gold, given = {"a": ["x"], "b": []}, {"a": "x", "b": "y"}
    assert thresholds(gold, given, {"a": 7.0, "b": 7.0})[:2] == [100.0, 7.0]
    assert thresholds(gold, given, {"b": 7.0, "a": 7.0})[:2] == [50.0, 0.0]
    assert thresholds({"a": []}, {"a": "x"}, {"a": -5.0}) == [100.0, 0.0, 100.0, 0.0]
    # Odds of other questions, and groups without questions, do not count.
    odds = {"other": -9.0, "a": 1.0}
    assert thresholds({"a": ["x"]}, {"a": "x"}, odds)[:2] == [100.0, 1.0]
    scores = answer_scores.score_v2({"a": []}, {"a": "x"})
    assert scores["NoAns_f1"] == 0.0 and "HasAns_f1" not in scores


def test_lacking_questions_and_answers_are_refused():
    with pytest.raises(ValueError, match="no question to score"):
        answer_scores.score_v1({}, {})
    with pytest.raises(
        ValueError, match=r"1 of 2 .* no answer \(the first is b\).*2_w"
    ):
        answer_scores.score_v1({"a": ["x"], "b": []}, {})
    with pytest.raises(ValueError, match=r"predictions lack 1 of 2 .*\(the first is b"):
        answer_scores.score_v2({"a": [], "b": []}, {"a": ""})
    with pytest.raises(ValueError, match=r"null odds lack 1 of 1 .*\(the first is a\)"):
        answer_scores.score_v2({"a": []}, {"a": ""}, {})


QUESTIONS = types.SimpleNamespace(
    ids=["q1", "q2", "q3"],
    texts=["who?", "where?", "why?"],
    contexts=["Ada wrote. In London."],
    context_index=np.zeros(3, np.int32),
    answer_texts=[["Ada", "the Ada"], ["in London"], []],
    is_version_2=True,
)


def entry(text, probability):
    return {"text": text, "probability": probability, "start_logit": 0, "end_logit": 0}


def collect(questions=QUESTIONS, scores=None, **changes):
    values = {
        "predictions": {"q1": "Ada", "q2": "London", "q3": "wrote"},
        "best": {},
        "n_best": {
            "q1": [entry("Ada", 0.5), entry("", 0.3), entry("the Ada.", 0.2)],
            "q2": [entry("London", 0.9), entry("", 0.08), entry("wrote", 0.02)],
            "q3": [entry("wrote", 0.75), entry("", 0.25)],
        },
        "null_score_diffs": {"q1": -1.0, "q2": -2.5, "q3": 1e6},
    }
    answers = choice.Answers(**{**values, **changes})
    scores = {"exact": 33.3, "f1": 55.5} if scores is None else scores
    data = types.SimpleNamespace(questions=questions)
    scored = outcomes.Scored(predictions=answers, scores=scores)
    return answer_scores.outcomes("dev", data, scored)


def test_rows_are_questions():
    seen = collect()
    assert seen.texts[0] == ("who?", "Ada wrote. In London.")
    assert seen.expected == ["Ada / the Ada", "in London", "(no answer)"]
    assert seen.predicted == ["Ada", "London", "wrote"]
    assert seen.is_correct.tolist() == [True, False, False]
    assert seen.confidences.tolist() == [0.5, 0.9, 0.75]
    # Two entries are right for q1, none for q2, the empty one for q3.
    losses = [-math.log(0.7), -math.log(0.02), -math.log(0.25)]
    assert seen.losses.tolist() == pytest.approx(losses)
    f1 = pytest.approx(100 * (1 + 2 / 3) / 2)
    assert seen.rescore(np.array([0, 1])) == {"exact": 50.0, "f1": f1}
    assert seen.rescore(np.array([1, 1]))["exact"] == 0.0
    assert seen.decisions.labels.tolist() == [0, 0, 1]
    assert seen.decisions.predictions.tolist() == [0, 0, 0]
    assert seen.decisions.probabilities[:, 1].tolist() == [0.3, 0.08, 0.25]
    # Odds that only stand for nothing that was proposed are left out.
    assert {name: values.tolist() for name, values in seen.histograms.items()} == {
        "answer words, predicted": [1, 1, 1],
        "answer words, annotated": [1, 2],
        "null odds, with an answer": [-1.0, -2.5],
    }
    assert collect(scores={}) is None


def test_version_1_has_neither_decisions_nor_odds():
    first = types.SimpleNamespace(**{**vars(QUESTIONS), "is_version_2": False})
    first.answer_texts = [["Ada"], ["London"], ["x"]]
    seen = collect(first, null_score_diffs=None)
    assert seen.decisions is None and len(seen.histograms) == 2
    assert set(seen.rescore(np.array([0]))) == {"exact_match", "f1"}


def test_share_of_right_answers_is_named_and_lone_answer_warned_of():
    assert collect().shares == {"exact": 100.0} and collect().warning is None
    nothing = dict.fromkeys(("q1", "q2", "q3"), "")
    warning = collect(predictions=nothing).warning
    assert warning.startswith("every question is predicted as '(no answer)'; train")
    # twin: rightly
    open_ones = types.SimpleNamespace(**vars(QUESTIONS))
    open_ones.answer_texts = [[], [], []]
    assert collect(open_ones, predictions=nothing).warning is None
