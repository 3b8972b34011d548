import random
import types

import numpy as np
import pytest

from data_pipeline.tagging import schemes
from data_pipeline.tagging import scores as tag_scores


def split(text):
    return [row.split() for row in text.split("|")]


def score(given, predicted, scheme="BIO"):
    return tag_scores.score(split(given), split(predicted), scheme)


def test_scores_by_hand():
    given = "B-per I-per O B-loc | O B-loc I-loc | O O"
    predicted = "B-per I-per O B-per | O B-loc O | O B-loc"
    # 3 spans, of 4 predicted ones the first is right; 6 of 9 tags are.
    assert score(given, predicted) == {
        "precision": 1 / 4,
        "recall": 1 / 3,
        "f1": pytest.approx(2 / 7),
        "accuracy": pytest.approx(6 / 9),
    }
    assert tag_scores.score_types(split(given), split(predicted), "BIO") == {
        "loc": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "support": 2},
        "per": {
            "f1": pytest.approx(2 / 3),
            "precision": 0.5,
            "recall": 1.0,
            "support": 1,
        },
    }


def test_nothing_to_find_is_zero_without_a_warning():
    nothing = dict.fromkeys(("f1", "precision", "recall"), 0.0)
    assert score("O O", "O O") == {**nothing, "accuracy": 1.0}
    assert score("O O", "O B-x")["precision"] == 0.0
    assert score("B-x O", "O O")["recall"] == 0.0
    assert tag_scores.score_types(split("O"), split("O"), "BIO") == {}
    nameless = tag_scores.score_types(split("B I B-x"), split("B I O"), "BIO")
    assert {name: row["recall"] for name, row in nameless.items()} == {"_": 1, "x": 0}


# The results of seqeval 1.2.2: micro averages, then each type.
RECORDED = {
    "BIO": (
        (0.8299319727891157, 0.820627802690583, 0.8394495412844036, 0.8495297805642633),
        (0.8508771929824562, 0.8362068965517241, 0.8660714285714286, 112),
        (0.807511737089202, 0.8037383177570093, 0.8113207547169812, 106),
    ),
    "BIOES": (
        (0.8355387523629489, 0.8215613382899628, 0.85, 0.8307210031347962),
        (0.862453531598513, 0.8787878787878788, 0.8467153284671532, 137),
        (0.8076923076923077, 0.7664233576642335, 0.8536585365853658, 123),
    ),
}


@pytest.mark.parametrize("scheme", RECORDED)
def test_scores_are_those_of_seqeval(scheme):
    rng = random.Random(7)
    names = schemes.all_tags(["loc", "per"], scheme)
    given = [rng.choices(names, k=rng.randrange(1, 12)) for _ in range(50)]
    predicted = [
        [tag if rng.random() < 0.8 else rng.choice(names) for tag in row]
        for row in given
    ]
    micro, *types = RECORDED[scheme]
    measures = "f1", "precision", "recall", "accuracy"
    scores = tag_scores.score(given, predicted, scheme)
    assert scores == dict(zip(measures, micro, strict=True))
    assert tag_scores.score_types(given, predicted, scheme) == {
        name: dict(zip(("f1", "precision", "recall", "support"), row, strict=True))
        for name, row in zip(("loc", "per"), types, strict=True)
    }


def test_other_tags_are_refused():
    with pytest.raises(ValueError, match="'E-x' is not of the scheme BIO"):
        score("B-x E-x", "O O")
    with pytest.raises(ValueError, match="differ in the number of words"):
        score("O O", "O")


WORDS = [["Ada", "Byron", "wrote"], ["in", "London"], ["hello"]]
GIVEN = [["B-x", "I-x", "O"], ["O", "B-y"], ["O"]]
TAGS = [["B-x", "O", "O"], ["O", "B-y"], ["B-x"]]


def collect(given=GIVEN, tags=TAGS, scheme="BIO"):
    counts = [len(words) for words in WORDS]
    data = types.SimpleNamespace(
        sentences=types.SimpleNamespace(words=WORDS, tags=given),
        windows=types.SimpleNamespace(word_splits=np.cumsum([0, *counts])),
    )
    losses = np.array([0.3, 3.0, 0.0, 0.1, 0.5, 2.0])
    probabilities = [[0.9] * count for count in counts]
    tagged = tag_scores.Scored(tags, probabilities, {"f1": 0.5}, {}, losses)
    return tag_scores.outcomes("dev", data, tagged, scheme)


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
    for scheme in ("BIO", "plain"):
        seen = collect(scheme=scheme)
        for rows in ([0, 1, 2], [1, 1, 2], [0, 0]):
            chosen = [GIVEN[i] for i in rows], [TAGS[i] for i in rows]
            expected = tag_scores.score(*chosen, scheme)
            assert seen.rescore(np.array(rows)) == pytest.approx(expected), rows
        assert seen.rescore(np.array([0]))["accuracy"] == 2 / 3
    assert collect(given=None) is None


def test_lone_tag_is_warned_of():
    nothing = [["O"] * len(words) for words in WORDS]
    warning = "every word is tagged 'O'; train longer, or with another --learning_rate"
    assert collect(tags=nothing).warning.startswith(warning)
    # twins: another tag, and words that have none
    assert collect().warning is None
    assert collect(given=nothing, tags=nothing).warning is None
