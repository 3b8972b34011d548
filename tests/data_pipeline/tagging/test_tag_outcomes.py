"""Tests of data_pipeline/tagging/tag_outcomes.py."""

import types

import numpy as np
import pytest

from data_pipeline.tagging import schemes, scores, split, tag_outcomes
from reports import examined

WORDS = [["Ada", "Byron", "wrote"], ["in", "London"], ["hello"]]
GIVEN = [["B-x", "I-x", "O"], ["O", "B-y"], ["O"]]
TAGS = [["B-x", "O", "O"], ["O", "B-y"], ["B-x"]]


def collect(given=GIVEN, tags=TAGS, scheme="BIO", losses=None):
    counts = [len(words) for words in WORDS]
    data = types.SimpleNamespace(
        sentences=types.SimpleNamespace(words=WORDS, tags=given),
        windows=types.SimpleNamespace(word_splits=np.cumsum([0, *counts])),
    )
    losses = np.array([0.3, 3.0, 0.0, 0.1, 0.5, 2.0]) if losses is None else losses
    probabilities = [[0.9] * count for count in counts]
    tagged = split.Tagged(tags, probabilities, {"f1": 0.5}, {}, losses)
    return examined.of("dev", tag_outcomes.collect(data, tagged, scheme))


def test_rows_are_sentences_and_decisions_words():
    seen = collect()
    assert seen.texts == [("Ada Byron wrote",), ("in London",), ("hello",)]
    assert seen.expected == ["Byron/I-x", "London/B-y", "hello/O"]
    assert seen.predicted == ["Byron/O", "London/B-y", "hello/B-x"]
    assert seen.is_correct.tolist() == [False, True, False]
    assert seen.losses.tolist() == pytest.approx([1.1, 0.3, 2.0])
    decisions = seen.decisions
    assert decisions.class_names == ["O", "B-x", "B-y", "I-x"]
    assert decisions.labels.tolist() == [1, 3, 0, 0, 2, 0]
    assert decisions.predictions.tolist() == [1, 0, 0, 0, 2, 1]
    assert decisions.confidences.tolist() == [0.9] * 6


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "plain"])
def test_scores_of_some_sentences_are_those_of_the_task(scheme):
    given, tags = GIVEN, TAGS
    if scheme != schemes.PLAIN:
        given, tags = (
            [
                schemes.tags_of(schemes.spans(row, "BIO"), len(row), scheme)
                for row in rows
            ]
            for rows in (GIVEN, TAGS)
        )
    seen = collect(given, tags, scheme)
    for rows in ([0, 1, 2], [1, 1, 2], [2], [0, 0]):
        chosen = [given[i] for i in rows], [tags[i] for i in rows]
        expected = scores.score(*chosen, scheme)
        assert seen.rescore(np.array(rows)) == pytest.approx(expected), rows
    assert seen.rescore(np.array([1]))["accuracy"] == 1.0
    assert seen.rescore(np.array([0]))["accuracy"] < 1.0


def test_lone_tag_is_warned_of():
    nothing = [["O"] * len(words) for words in WORDS]
    said = "every word is tagged 'O'; train longer, or with another --learning_rate"
    assert collect(tags=nothing).warning.startswith(said)
    # twins: another tag, and words that have none
    assert collect().warning is None
    assert collect(given=nothing, tags=nothing).warning is None


def test_sentences_without_tags_show_nothing():
    assert collect(given=None) is None
