"""Scores of tags: precision, recall and F1 of spans, and the share of right tags.

A span is right if its first word, its last word and its type are. seqeval finds and
counts spans, by the rule of conlleval, the script of the CoNLL tasks. No TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

from seqeval.metrics import sequence_labeling

from data_pipeline.tagging import tag_schemes

Tags = Sequence[Sequence[str]]  # of each sentence
_NO_TYPE = "_"  # what seqeval calls it


def score(given: Tags, predicted: Tags, scheme: str) -> dict[str, float]:
    """f1, precision, recall (micro averages over spans) and accuracy of tags, 0..1.

    The scheme "plain" has accuracy alone. Division by zero gives 0.

    Raises:
        ValueError: a tag is not of the scheme, or the numbers of words differ.
    """
    accuracy = float(sequence_labeling.accuracy_score(given, predicted))
    if scheme == tag_schemes.PLAIN:
        return {"accuracy": accuracy}
    precision, recall, f1, _ = _spans(given, predicted, scheme, average="micro")
    return {**_named(precision, recall, f1), "accuracy": accuracy}


def score_types(
    given: Tags, predicted: Tags, scheme: str
) -> dict[str, dict[str, float]]:
    """{type: {f1, precision, recall, support}}, sorted; support counts right spans."""
    types = sorted(
        {
            span.type or _NO_TYPE
            for tags in (*given, *predicted)
            for span in tag_schemes.spans(tags, scheme)
        }
    )
    if not types:
        return {}
    columns = _spans(given, predicted, scheme, average=None)
    return {
        span_type: {**_named(*scores), "support": int(support)}
        for span_type, *scores, support in zip(types, *columns, strict=True)
    }


def _named(precision: float, recall: float, f1: float) -> dict[str, float]:
    return {"f1": float(f1), "precision": float(precision), "recall": float(recall)}


def _spans(given: Tags, predicted: Tags, scheme: str, average: str | None) -> Any:
    return sequence_labeling.precision_recall_fscore_support(
        respelled(given, scheme),
        respelled(predicted, scheme),
        average=average,
        zero_division=0,
    )


def respelled(sentences: Tags, scheme: str) -> list[list[str]]:
    """Tags in the letters that seqeval knows, B, I, E and S."""
    spelled = {}
    for tag in {tag for tags in sentences for tag in tags}:
        role, span_type = tag_schemes.parse(tag, scheme)
        is_outside = role == tag_schemes.OUTSIDE
        spelled[tag] = role if is_outside else f"{role}-{span_type or _NO_TYPE}"
    return [[spelled[tag] for tag in tags] for tags in sentences]
