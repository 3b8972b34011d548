"""Exact match and F1 of answers, and the best threshold for giving none.

The numbers are those of the official evaluate-v1.1.py and evaluate-v2.0.py: compared in
lower case, without punctuation, English articles and surplus whitespace; F1 counts the
words in common. A Chinese answer counts as one word, so its F1 is its exact match;
Chinese data sets have their own scripts, which count characters. Plain Python.
"""

import collections
import re
import string
from collections.abc import Callable, Mapping, Sequence

from contract import errors

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Gold = Mapping[str, Sequence[str]]


def normalize(text: str) -> str:
    """Reduces an answer to what is compared."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact(gold: str, prediction: str) -> float:
    """1.0 where two answers are equal once normalized, else 0.0."""
    return float(normalize(gold) == normalize(prediction))


def f1(gold: str, prediction: str, *, both_empty: float = 1.0) -> float:
    """Harmonic mean of precision and recall of the words in common.

    `both_empty` is the score where neither text has words left: 1 since SQuAD 2.0, 0 in
    SQuAD 1.1, although the two match exactly.
    """
    wanted, given = normalize(gold).split(), normalize(prediction).split()
    if not wanted and not given:
        return both_empty
    common = (collections.Counter(wanted) & collections.Counter(given)).total()
    if common == 0:
        return 0.0
    # The order of operations of the official scripts, to the last digit.
    precision, recall = common / len(given), common / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def score_v1(gold: Gold, predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores of SQuAD 1.1, in percent: exact_match and f1.

    The right answer closest to the prediction counts; a missing prediction is wrong.

    Raises:
        ValueError: there is no question, or one without an answer.
    """
    _check(gold)
    if unanswerable := [key for key, answers in gold.items() if not answers]:
        raise errors.InputError(
            f"{len(unanswerable)} of {len(gold)} questions have no answer (the first "
            f"is {unanswerable[0]}), which is so in SQuAD 2.0 only; set "
            "--version_2_with_negative"
        )
    answered = {key: answers for key, answers in gold.items() if key in predictions}

    def percent(score):
        return 100.0 * sum(_best(answered, predictions, score).values()) / len(gold)

    return {
        "exact_match": percent(exact),
        "f1": percent(lambda right, given: f1(right, given, both_empty=0.0)),
    }


def score_v2(
    gold: Gold,
    predictions: Mapping[str, str],
    null_score_diffs: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Scores of SQuAD 2.0, in percent, and thresholds.

    exact, f1 and total are followed by the same for questions with an answer (HasAns_)
    and without (NoAns_), if there are any. They judge the predictions as they are, like
    the official script without --na-prob-file. The higher `null_score_diffs`, the
    likelier there is no answer; they add best_exact, best_exact_thresh, best_f1 and
    best_f1_thresh, the best scores that a threshold on them gives, although what
    `predictions` withholds stays withheld.

    Raises:
        ValueError: there is no question, or one without a prediction or odds.
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
        name: _best(right, predictions, score)
        for name, score in (("exact", exact), ("f1", f1))
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
        raise errors.InputError("there is no question to score; give a file with some")


def _best(
    gold: Gold,
    predictions: Mapping[str, str],
    score: Callable[[str, str], float],
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
