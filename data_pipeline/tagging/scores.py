"""Scores of tags: precision, recall and F1 of spans, and the share of right tags.

A span is right if its first word, its last word and its type are. Spans are read by the
rule of conlleval, the script of the CoNLL tasks. Plain Python.
"""

import collections
from collections.abc import Sequence

from contract import errors
from data_pipeline.tagging import schemes

Tags = Sequence[Sequence[str]]  # of each sentence
_NO_TYPE = "_"  # the name of spans whose tags have no type


def score(given: Tags, predicted: Tags, scheme: str) -> dict[str, float]:
    """f1, precision, recall (micro averages over spans) and accuracy of tags, 0..1.

    The scheme "plain" has accuracy alone. Division by zero gives 0.

    Raises:
        ValueError: a tag is not of the scheme, or the numbers of words differ.
    """
    if list(map(len, given)) != list(map(len, predicted)):
        raise errors.InputError(
            "given and predicted tags differ in the number of words"
        )
    pairs = list(zip(given, predicted, strict=True))
    num_right = sum(sum(map(str.__eq__, *pair)) for pair in pairs)
    accuracy = {"accuracy": num_right / max(sum(map(len, given)), 1)}
    if scheme == schemes.PLAIN:
        return accuracy
    counts = zip(*(span_counts(*pair, scheme) for pair in pairs), strict=True)
    return {**span_scores(*map(sum, counts)), **accuracy}


def score_types(
    given: Tags, predicted: Tags, scheme: str
) -> dict[str, dict[str, float]]:
    """{type: {f1, precision, recall, support}}, sorted; support counts given spans."""
    right, proposed, there = (collections.Counter[str]() for _ in range(3))
    for pair in zip(given, predicted, strict=True):
        expected, found = (set(schemes.spans(tags, scheme)) for tags in pair)
        right.update(span.type for span in expected & found)
        proposed.update(span.type for span in found)
        there.update(span.type for span in expected)
    return {
        span_type or _NO_TYPE: {
            **span_scores(right[span_type], proposed[span_type], there[span_type]),
            "support": there[span_type],
        }
        for span_type in sorted({*proposed, *there}, key=lambda name: name or _NO_TYPE)
    }


def span_counts(
    given: Sequence[str], predicted: Sequence[str], scheme: str
) -> tuple[int, int, int]:
    """Right, predicted and given spans of a sentence."""
    expected, found = (set(schemes.spans(tags, scheme)) for tags in (given, predicted))
    return len(expected & found), len(found), len(expected)


def span_scores(right: int, predicted: int, given: int) -> dict[str, float]:
    """f1, precision and recall, 0..1, of counts as `span_counts` returns them."""
    precision, recall = right / max(predicted, 1), right / max(given, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}
