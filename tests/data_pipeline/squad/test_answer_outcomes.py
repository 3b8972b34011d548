"""Tests of data_pipeline/squad/answer_outcomes.py."""

import math
import types

import numpy as np
import pytest

from data_pipeline.squad import answer_outcomes, choice, split
from reports import examined

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
    answered = split.Answered(answers, scores)
    data = types.SimpleNamespace(questions=questions)
    return examined.of("dev", answer_outcomes.collect(data, answered))


def test_rows_are_questions():
    seen = collect()
    assert seen.texts[0] == ("who?", "Ada wrote. In London.")
    assert seen.expected == ["Ada / the Ada", "in London", "(no answer)"]
    assert seen.predicted == ["Ada", "London", "wrote"]
    assert seen.is_correct.tolist() == [True, False, False]
    assert seen.confidences.tolist() == [0.5, 0.9, 0.75]


def test_losses_follow_the_probability_of_right_answers():
    """Two entries are right for q1, none for q2, the empty one for q3."""
    expected = [-math.log(0.7), -math.log(0.02), -math.log(0.25)]
    assert collect().losses.tolist() == pytest.approx(expected)


def test_scores_of_some_questions_are_means_in_percent():
    seen = collect()
    assert seen.rescore(np.array([0, 1])) == {
        "exact": 50.0,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
    }
    assert seen.rescore(np.array([1, 1]))["exact"] == 0.0


def test_whether_there_is_an_answer_is_a_decision():
    decisions = collect().decisions
    assert decisions.labels.tolist() == [0, 0, 1]
    assert decisions.predictions.tolist() == [0, 0, 0]
    assert decisions.probabilities[:, 1].tolist() == [0.3, 0.08, 0.25]


def test_lengths_and_odds_are_shown():
    """Odds that only say that nothing was proposed are left out."""
    found = {name: values.tolist() for name, values in collect().histograms.items()}
    assert found == {
        "answer words, predicted": [1, 1, 1],
        "answer words, annotated": [1, 2],
        "null odds, with an answer": [-1.0, -2.5],
    }


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
    assert warning.startswith("every question gets the answer '(no answer)'; train")
    # twin: rightly
    open_ones = types.SimpleNamespace(**vars(QUESTIONS))
    open_ones.answer_texts = [[], [], []]
    assert collect(open_ones, predictions=nothing).warning is None


def test_questions_without_answers_show_nothing():
    assert collect(scores={}) is None
