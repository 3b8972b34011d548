"""What became of each question, as reports.examined.of takes it."""

import math
from typing import Any

import numpy as np

from data_pipeline.squad import choice, scores, split

_LEAST = 1e-12  # a probability whose logarithm is finite


def collect(data: split.QuestionSet, answered: split.Answered) -> dict[str, Any] | None:
    """Rows are questions; None where the right answers are unknown.

    The loss is -log of the probability that the n best answers give to right ones, and
    where none of them is right, to the last of them, which bounds it.
    """
    if not answered.scores:
        return None
    questions, answers = data.questions, answered.answers
    is_v2, empty = questions.is_version_2, float(questions.is_version_2)
    gold = [texts or [""] for texts in questions.answer_texts]
    given = [answers.predictions[key] for key in questions.ids]
    n_best = [answers.n_best[key] for key in questions.ids]
    pairs = list(zip(gold, given, strict=True))
    exact = np.array([max(scores.exact(g, p) for g in gs) for gs, p in pairs])
    f1 = np.array(
        [max(scores.f1(g, p, both_empty=empty) for g in gs) for gs, p in pairs]
    )
    exact_name = "exact" if is_v2 else "exact_match"

    def rescore(rows: np.ndarray) -> dict[str, float]:
        means = {exact_name: exact[rows].mean(), "f1": f1[rows].mean()}
        return {name: 100.0 * float(mean) for name, mean in means.items()}

    found = {
        "texts": [
            (text, questions.contexts[index])
            for text, index in zip(
                questions.texts, questions.context_index, strict=True
            )
        ],
        "expected": [_listed(texts) for texts in gold],
        "predicted": [_listed([text]) for text in given],
        "is_correct": exact > 0,
        "losses": np.array(
            [_loss(*pair) for pair in zip(gold, n_best, strict=True)], np.float64
        ),
        "scores": dict(answered.scores),
        "rescore": rescore,
        "shares": {exact_name: 100.0},
        "warning": _lone_answer_warning(given, exact),
        "confidences": np.array(
            [_probability(*pair) for pair in zip(given, n_best, strict=True)]
        ),
        "histograms": _histograms(data, answers, given),
    }
    if answers.null_score_diffs is not None:
        found["decisions"] = _decisions(data, given, n_best)
    return found


def _lone_answer_warning(given: list[str], exact: np.ndarray) -> str | None:
    """A sentence where every question gets the same answer and not all are right."""
    if len(given) < 2 or len(set(given)) > 1 or np.all(exact > 0):
        return None
    return (
        f"every question gets the answer {_listed(given)!r}; train longer, or with "
        "another --learning_rate or --seed"
    )


def _listed(texts: list[str]) -> str:
    return " / ".join(dict.fromkeys(text or "(no answer)" for text in texts))


def _probability(text: str, entries: list[dict[str, Any]]) -> float:
    """Of the answer that was given; 0 for one that is not among the best."""
    return next((e["probability"] for e in entries if e["text"] == text), 0.0)


def _loss(gold: list[str], entries: list[dict[str, Any]]) -> float:
    right = {scores.normalize(text) for text in gold}
    share = sum(
        entry["probability"]
        for entry in entries
        if scores.normalize(entry["text"]) in right
    )
    return -math.log(max(share or entries[-1]["probability"], _LEAST))


def _decisions(
    data: split.QuestionSet,
    given: list[str],
    n_best: list[list[dict[str, Any]]],
) -> dict[str, Any]:
    """Whether there is an answer, and whether one is given."""
    none = np.array([_probability("", entries) for entries in n_best])
    return {
        "class_names": ("answer", "no answer"),
        "labels": np.array(
            [not texts for texts in data.questions.answer_texts], np.int64
        ),
        "predictions": np.array([not text for text in given], np.int64),
        "probabilities": np.stack([1.0 - none, none], axis=1),
    }


def _histograms(
    data: split.QuestionSet, answers: choice.Answers, given: list[str]
) -> dict[str, np.ndarray]:
    """Lengths of answers and null odds; without those that say nothing of odds."""
    annotated = [texts[0] for texts in data.questions.answer_texts if texts]
    found = {
        "answer words, predicted": np.array([len(t.split()) for t in given if t]),
        "answer words, annotated": np.array([len(text.split()) for text in annotated]),
    }
    if answers.null_score_diffs is not None:
        odds = np.array([answers.null_score_diffs[key] for key in data.questions.ids])
        is_odds = odds < choice.NO_PROPOSAL_SCORE_DIFF
        has_answer = np.array([bool(t) for t in data.questions.answer_texts])
        found["null odds, with an answer"] = odds[has_answer & is_odds]
        found["null odds, without an answer"] = odds[~has_answer & is_odds]
    return {title: values for title, values in found.items() if len(values)}
