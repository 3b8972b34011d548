"""Answers of a file with their scores: exact match and F1, and the best threshold.

The numbers are those of the official evaluate-v1.1.py and evaluate-v2.0.py: compared in
lower case, without punctuation, English articles and surplus whitespace; F1 counts the
words in common. A Chinese answer then counts as one word, so its F1 is its exact match;
chinese_scores.py counts characters.
"""

import collections
import functools
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contract import errors
from contract import outcomes as outcomes_lib
from data_pipeline.squad import chinese_scores, choice, files, windows
from data_pipeline.text import base

_LEAST = 1e-12  # a probability whose logarithm is finite
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Gold = Mapping[str, Sequence[str]]


def decide(
    data: windows.QuestionSplit,
    logits: Mapping[str, np.ndarray],
    tokenizer: base.Tokenizer,
    settings: choice.Settings,
    pad_to: int | None = None,
) -> outcomes_lib.Scored:
    """Chooses choice.Answers to the questions, and scores them.

    Differs from google-research/bert: padding takes none of the n_best_size places,
    unless every window is padded to one length.

    `logits` are start_logits and end_logits, float32 [N, S]; `pad_to` is S where every
    window is padded to it, None for the longest of its batch.
    """
    length = logits["start_logits"].shape[1]
    places_by = tokenizer if settings.aligner == "words" else None
    inputs = choice.lay_out(data, length, places_by)
    is_read = np.arange(length) < data.packed.lengths[:, np.newaxis]
    start, end = (
        logits[name] if pad_to else np.where(is_read, logits[name], -np.inf)
        for name in ("start_logits", "end_logits")
    )
    answers = choice.choose(inputs, start, end, tokenizer, settings)
    scores = score(data, answers, is_chinese=settings.is_chinese)
    return outcomes_lib.Scored(predictions=answers, scores=scores)


def score(
    data: windows.QuestionSplit, answers: choice.Answers, *, is_chinese: bool = False
) -> dict[str, float]:
    """The official scores of the file's version; {} without annotated answers.

    The best thresholds include withheld answers, which the official script cannot see.
    """
    questions = data.questions
    if not _is_annotated(questions):
        return {}
    gold = dict(zip(questions.ids, questions.answer_texts, strict=True))
    if is_chinese:
        scores = score_v1(
            gold, answers.predictions, chinese_scores.exact, chinese_scores.f1
        )
        return {**scores, "average": sum(scores.values()) / 2}
    if not questions.is_version_2:
        return score_v1(gold, answers.predictions)
    scores = score_v2(gold, answers.predictions)
    if answers.null_score_diffs is not None:
        unwithheld = score_v2(gold, answers.best, answers.null_score_diffs)
        scores |= {k: v for k, v in unwithheld.items() if k.startswith("best_")}
    return scores


def _is_annotated(questions: files.Questions) -> bool:
    pairs = zip(questions.answer_texts, questions.is_impossible, strict=True)
    return all(texts or is_impossible for texts, is_impossible in pairs)


def score_names(
    data: windows.QuestionSplit, settings: choice.Settings
) -> tuple[str, ...]:
    """Scores by which a checkpoint can be best, default first."""
    if not _is_annotated(data.questions):
        raise errors.InputError(
            f"{data.questions.path}: some questions have no answer and are not marked "
            "is_impossible; leave out --evaluate_steps and --grid"
        )
    if settings.is_chinese:
        return "average", "f1", "exact_match"
    if not data.questions.is_version_2:
        return "f1", "exact_match"
    if not settings.version_2_with_negative:
        return "f1", "exact"
    return "f1", "exact", "best_f1", "best_exact"


def normalize(text: str) -> str:
    """Reduces an answer to what is compared."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact(gold: str, prediction: str) -> float:
    """1.0 where two answers are equal once normalized, else 0.0."""
    return float(normalize(gold) == normalize(prediction))


def f1(gold: str, prediction: str, *, both_empty: float = 1.0) -> float:
    """Harmonic mean of precision and recall of the words in common.

    `both_empty` counts where neither text has words left: 0 in SQuAD 1.1.
    """
    wanted, written = normalize(gold).split(), normalize(prediction).split()
    if not wanted and not written:
        return both_empty
    common = (collections.Counter(wanted) & collections.Counter(written)).total()
    if common == 0:
        return 0.0
    # The order of operations of the official scripts, to the last digit.
    precision, recall = common / len(written), common / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def _f1_v1(gold: str, prediction: str) -> float:
    return f1(gold, prediction, both_empty=0.0)


def score_v1(
    gold: Gold,
    predictions: Mapping[str, str],
    exact: Callable[[str, str], float] = exact,
    f1: Callable[[str, str], float] = _f1_v1,
) -> dict[str, float]:
    """Scores of SQuAD 1.1, in percent: exact_match and f1.

    The right answer closest to the prediction counts; a missing prediction is wrong.
    """
    _check(gold)
    if unanswerable := [key for key, answers in gold.items() if not answers]:
        raise errors.InputError(
            f"{len(unanswerable)} of {len(gold)} questions have no answer (the first "
            f"is {unanswerable[0]}); set --version_2_with_negative"
        )
    answered = {key: answers for key, answers in gold.items() if key in predictions}

    def percent(score):
        return 100.0 * sum(_best(answered, predictions, score).values()) / len(gold)

    return {"exact_match": percent(exact), "f1": percent(f1)}


def score_v2(
    gold: Gold,
    predictions: Mapping[str, str],
    null_score_diffs: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Scores of SQuAD 2.0, in percent, and thresholds.

    exact, f1 and total are followed by the same for questions with an answer (HasAns_)
    and without (NoAns_). `null_score_diffs`, the higher the likelier is no answer, add
    the best scores that a threshold on them gives, best_exact and best_f1, and the
    thresholds; what `predictions` withholds stays withheld.
    """
    _check(gold)
    for name, values in (("predictions", predictions), ("null odds", null_score_diffs)):
        missing = [] if values is None else [key for key in gold if key not in values]
        if missing:
            raise errors.InputError(
                f"the {name} lack {len(missing)} of {len(gold)} questions (the first "
                f"is {missing[0]}); predict with the file that is scored"
            )
    right = {key: [a for a in gold[key] if normalize(a)] or [""] for key in gold}
    scores = {
        "exact": _best(right, predictions, exact),
        "f1": _best(right, predictions, f1),
    }
    results = {}
    groups = {
        "": list(gold),
        "HasAns_": [key for key in gold if gold[key]],
        "NoAns_": [key for key in gold if not gold[key]],
    }
    for prefix, keys in groups.items():
        if keys:
            for name, values in scores.items():
                total = sum(values[key] for key in keys)
                results[prefix + name] = 100.0 * total / len(keys)
            results[prefix + "total"] = len(keys)
    if null_score_diffs is not None:
        for name, values in scores.items():
            results[f"best_{name}"], results[f"best_{name}_thresh"] = _best_threshold(
                gold, predictions, values, null_score_diffs
            )
    return results


def _check(gold):
    if not gold:
        raise errors.InputError("there is no question to score; give one")


def _best(
    gold: Gold, predictions: Mapping[str, str], score: Callable[[str, str], float]
) -> dict[str, float]:
    """The score of each question against the right answer closest to it."""
    return {
        key: max(score(answer, predictions[key]) for answer in answers)
        for key, answers in gold.items()
    }


def _best_threshold(gold, predictions, scores, null_score_diffs):
    """The best score in percent and its threshold; 0.0 where answering none is best.

    As in the official script, every place between equally sure questions counts.
    """
    reached = float(sum(not answers for answers in gold.values()))
    best, threshold = reached, 0.0
    known = [key for key in null_score_diffs if key in gold]
    for key in sorted(known, key=null_score_diffs.get):
        if gold[key]:
            reached += scores[key]
        elif predictions[key]:
            reached -= 1
        if reached > best:
            best, threshold = reached, null_score_diffs[key]
    return 100.0 * best / len(gold), threshold


def outcomes(
    name: str,
    data: windows.QuestionSplit,
    scored: outcomes_lib.Scored,
    *,
    is_chinese: bool = False,
) -> outcomes_lib.Outcomes | None:
    """The outcomes of the split `name`; None where the right answers are unknown.

    Rows are questions. The loss is -log of the probability that the n best answers give
    to right ones or, where none is, to the last of them.
    """
    if not scored.scores:
        return None
    questions, answers = data.questions, scored.predictions
    is_v2 = questions.is_version_2
    measures: tuple[Any, Any, Any] = exact, f1 if is_v2 else _f1_v1, normalize
    if is_chinese:
        is_v2 = False
        chinese = chinese_scores
        measures = chinese.exact, chinese.f1, chinese.normalize
    gold = [texts or [""] for texts in questions.answer_texts]
    predicted = [answers.predictions[key] for key in questions.ids]
    n_best = [answers.n_best[key] for key in questions.ids]
    right = dict(zip(questions.ids, gold, strict=True))
    best = functools.partial(_best, right, answers.predictions)
    exacts, f1s = (np.array(list(best(each).values())) for each in measures[:2])
    loss = functools.partial(_loss, measures[2])
    exact_name = "exact" if is_v2 else "exact_match"

    def rescore(rows: np.ndarray) -> dict[str, float]:
        means = {exact_name: exacts[rows].mean(), "f1": f1s[rows].mean()}
        return {name: 100.0 * float(mean) for name, mean in means.items()}

    shown, is_correct = [_shown([text]) for text in predicted], exacts > 0
    confidences = map(_probability, predicted, n_best)
    contexts = [questions.contexts[index] for index in questions.context_index]
    return outcomes_lib.Outcomes(
        split=name,
        texts=list(zip(questions.texts, contexts, strict=True)),
        expected=[_shown(texts) for texts in gold],
        predicted=shown,
        is_correct=is_correct,
        losses=np.array(list(map(loss, gold, n_best)), np.float64),
        scores=dict(scored.scores),
        rescore=rescore,
        shares={exact_name: 100.0},
        warning=outcomes_lib.lone_prediction(
            "question", shown, is_right=bool(is_correct.all())
        ),
        confidences=np.array(list(confidences)),
        histograms=_histograms(data, answers, predicted),
        decisions=_decisions(data, predicted, n_best)
        if answers.null_score_diffs is not None
        else None,
    )


def _shown(texts: list[str]) -> str:
    return " / ".join(dict.fromkeys(text or "(no answer)" for text in texts))


def _probability(text: str, entries: list[dict[str, Any]]) -> float:
    """Probability of an answer; 0 for one that is not among the n best."""
    return next((e["probability"] for e in entries if e["text"] == text), 0.0)


def _loss(
    normalize: Callable[[str], str], gold: list[str], entries: list[dict[str, Any]]
) -> float:
    right = {normalize(text) for text in gold}
    share = sum(
        entry["probability"] for entry in entries if normalize(entry["text"]) in right
    )
    return -math.log(max(share or entries[-1]["probability"], _LEAST))


def _decisions(
    data: windows.QuestionSplit,
    predicted: list[str],
    n_best: list[list[dict[str, Any]]],
) -> outcomes_lib.Decisions:
    none = np.array([_probability("", entries) for entries in n_best])
    gold = [not texts for texts in data.questions.answer_texts]
    return outcomes_lib.Decisions(
        class_names=("answer", "no answer"),
        labels=np.array(gold, np.int64),
        predictions=np.array([not text for text in predicted], np.int64),
        probabilities=np.stack([1.0 - none, none], axis=1),
    )


def _histograms(
    data: windows.QuestionSplit, answers: choice.Answers, predicted: list[str]
) -> dict[str, np.ndarray]:
    """Lengths of answers and null odds, but for those where nothing was proposed."""
    annotated = [texts[0] for texts in data.questions.answer_texts if texts]
    histograms = {
        "answer words, predicted": np.array([len(t.split()) for t in predicted if t]),
        "answer words, annotated": np.array([len(text.split()) for text in annotated]),
    }
    if answers.null_score_diffs is not None:
        odds = np.array([answers.null_score_diffs[key] for key in data.questions.ids])
        is_odds = odds < choice.NO_PROPOSAL_SCORE_DIFF
        has_answer = np.array([bool(t) for t in data.questions.answer_texts])
        histograms["null odds, with an answer"] = odds[has_answer & is_odds]
        histograms["null odds, without an answer"] = odds[~has_answer & is_odds]
    return {title: values for title, values in histograms.items() if len(values)}
