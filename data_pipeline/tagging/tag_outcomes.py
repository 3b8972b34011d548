"""What became of each tagged sentence, as reports.examined.of takes it."""

import itertools
from typing import Any

import numpy as np

from data_pipeline.tagging import schemes, scores, split


def collect(
    data: split.SentenceSet,
    tagged: split.Tagged,
    scheme: str,
) -> dict[str, Any] | None:
    """Rows are sentences, decisions words; None where the right tags are unknown.

    The loss of a sentence is the mean of its words'; a tag that the model cannot
    predict has none. `scheme` is that of the tags.
    """
    given = data.sentences.tags
    if given is None or tagged.losses is None:
        return None
    splits = data.windows.word_splits
    pairs = list(zip(given, tagged.tags, strict=True))
    shown = [
        _differing(words, *pair)
        for words, pair in zip(data.sentences.words, pairs, strict=True)
    ]
    decisions = _decisions(given, tagged)
    return {
        "texts": [(" ".join(words),) for words in data.sentences.words],
        "expected": [expected for expected, _ in shown],
        "predicted": [predicted for _, predicted in shown],
        "is_correct": np.array([right == found for right, found in pairs]),
        "losses": np.add.reduceat(tagged.losses, splits[:-1]) / np.diff(splits),
        "scores": dict(tagged.scores),
        "rescore": _rescorer(pairs, scheme),
        "decisions": decisions,
        "warning": _lone_tag_warning(**decisions),
    }


def _lone_tag_warning(
    class_names: list[str], labels: np.ndarray, predictions: np.ndarray, **_: Any
) -> str | None:
    """A sentence where every word gets the same tag and not all have it."""
    if len(set(predictions.tolist())) != 1 or np.array_equal(labels, predictions):
        return None
    return (
        f"every word is tagged {class_names[int(predictions[0])]!r}; train longer, or "
        "with another --learning_rate or --seed"
    )


def _differing(words: list[str], given: list[str], tags: list[str]) -> tuple[str, str]:
    """The wrongly tagged words with their tags, given and predicted.

    If all are right, the words that have another tag than "O".
    """
    wrong = [i for i in range(len(words)) if given[i] != tags[i]]
    tagged = [i for i in range(len(words)) if given[i] != schemes.OUTSIDE]
    places = wrong or tagged
    return (
        " ".join(f"{words[i]}/{given[i]}" for i in places),
        " ".join(f"{words[i]}/{tags[i]}" for i in places),
    )


def _rescorer(pairs: list[tuple[list[str], list[str]]], scheme: str) -> Any:
    """Scores of sentences by tag_scores.score's definitions, from counts of each."""
    words = np.array([len(given) for given, _ in pairs])
    right = np.array([sum(map(str.__eq__, *pair)) for pair in pairs])
    # [N, 3] of right, predicted and given ones
    spans = np.array([scores.span_counts(*pair, scheme) for pair in pairs])

    def rescore(rows: np.ndarray) -> dict[str, float]:
        accuracy = {"accuracy": float(right[rows].sum() / words[rows].sum())}
        if scheme == schemes.PLAIN:
            return accuracy
        counts = spans[rows].sum(axis=0).tolist()
        return {**scores.span_scores(*counts), **accuracy}

    return rescore


def _decisions(given: list[list[str]], tagged: split.Tagged) -> dict[str, Any]:
    """Each word's tags; "O" is the first of them."""
    expected = list(itertools.chain.from_iterable(given))
    found = list(itertools.chain.from_iterable(tagged.tags))
    outside = schemes.OUTSIDE
    names = sorted({*expected, *found}, key=lambda name: (name != outside, name))
    ids = {name: index for index, name in enumerate(names)}
    return {
        "class_names": names,
        "labels": np.array([ids[name] for name in expected]),
        "predictions": np.array([ids[name] for name in found]),
        "confidences": np.array(list(itertools.chain(*tagged.probabilities))),
    }
