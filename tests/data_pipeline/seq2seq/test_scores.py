"""Tests of data_pipeline/seq2seq/scores.py."""

import time

import numpy as np
import pytest
from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF

from data_pipeline.seq2seq import scores


def score(targets, predictions):
    rows = scores.count(targets, predictions)
    return scores.score(targets, predictions, rows)


def test_scores_by_hand():
    found = score(["a b c d f", "x y"], ["a b c d e", "x y"])
    # Of words 4 of 5 are right, of pairs 3 of 4, of the order 4 of 5.
    assert found["exact_match"] == 0.5
    assert found["rouge1"] == pytest.approx((0.8 + 1) / 2)
    assert found["rouge2"] == pytest.approx((0.75 + 1) / 2)
    assert found["rougeL"] == pytest.approx((0.8 + 1) / 2)
    # 6 of 7, 4 of 5, 2 of 3 and 1 of 2: over all rows together.
    mean = (6 / 7 * 4 / 5 * 2 / 3 * 1 / 2) ** 0.25
    assert found["bleu"] == pytest.approx(100 * mean)
    # Letters 1 of 2, pairs 0 of 1; longer ones do not exist. F with beta 2.
    assert score(["ac"], ["ab"])["chrf"] == pytest.approx(25.0)


@pytest.mark.parametrize(
    ("target", "prediction", "wanted"),
    [
        # The examples in the tests of rouge-score.
        ("testing one two", "testing", {"rouge1": 1 / 2}),
        ("first text", "text first", {"rouge1": 1.0, "rouge2": 0.0, "rougeL": 0.5}),
        ("", "testing", {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}),
    ],
)
def test_published_examples_of_rouge(target, prediction, wanted):
    found = scores.count([target], [prediction]).shares
    assert {name: found[name][0] for name in wanted} == pytest.approx(wanted)


def test_rouge_is_that_of_the_library():
    rng = np.random.default_rng(6)
    rouge = rouge_scorer.RougeScorer(scores.ROUGE)
    for size in (1, 2, 5, 40):  # different words
        for length in (0, 1, 3, 64, 65, 200):
            lengths = length, rng.integers(0, length + 2)
            texts = [
                " ".join(f"w{i}" for i in rng.integers(0, size, n)) for n in lengths
            ]
            found = scores.count(*([text] for text in texts)).shares
            for name, wanted in rouge.score(*texts).items():
                assert found[name].tolist() == [wanted.fmeasure]


def test_rouge_l_of_long_texts_takes_no_table_of_them():
    """The library needs 8 s for these, at every evaluation."""
    rng = np.random.default_rng(7)
    first, second = rng.integers(0, 900, [2, 6000]).astype(str).tolist()
    started = time.process_time()
    common = scores._longest_common(first, second)
    assert time.process_time() - started < 1
    assert common == scores._longest_common(second, first)
    assert 350 < common < 420


def test_brevity_is_penalised():
    found = score(["a b c d e f g h"], ["a b c d"])
    assert found["bleu"] == pytest.approx(100 * np.exp(1 - 8 / 4))
    assert score(["a b c d"], ["a b c d"])["bleu"] == pytest.approx(100.0)


def test_texts_shorter_than_four_words_have_a_bleu():
    """sacrebleu's own is 0 where no row has a fourth word."""
    assert score(["1984 05 03"], ["1984 05 03"])["bleu"] == pytest.approx(100.0)
    assert score(["1984 05 03"], ["1984 05 04"])["bleu"] < 70
    assert BLEU().corpus_score(["1984 05 03"], [["1984 05 03"]]).score == 0.0


def test_bleu_and_chrf_are_those_of_the_library():
    rng = np.random.default_rng(5)
    words = np.array(["the", "cat", "sat,", "on", "a", "mat.", "Über"])
    rows = [
        [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(30)]
        for _ in range(2)
    ]
    found = score(*rows)
    targets, predictions = rows
    bleu, chrf = BLEU(), CHRF()
    assert found["bleu"] == pytest.approx(
        bleu.corpus_score(predictions, [targets]).score
    )
    assert found["chrf"] == pytest.approx(
        chrf.corpus_score(predictions, [targets]).score
    )
    assert 0 < found["bleu"] < 100
    # Defaults that papers name; a release with others changes what is reported.
    assert "case:mixed|eff:no|tok:13a|smooth:exp" in str(bleu.get_signature())
    assert "case:mixed|eff:yes|nc:6|nw:0|space:no" in str(chrf.get_signature())


def test_some_rows_are_scored_like_a_file_of_them():
    targets = ["a b c d e", "b c", "c d e f g", "x"]
    predictions = ["a b c d x", "b c", "c d f g", "y"]
    rows = scores.count(targets, predictions)
    chosen = np.array([2, 0, 0])
    wanted = score([targets[i] for i in chosen], [predictions[i] for i in chosen])
    del wanted["chrf"]
    assert rows.of(chosen) == pytest.approx(wanted)
    assert rows.of(np.array([1, 2, 3])) != pytest.approx(wanted)


def test_nothing_written_is_worth_nothing():
    assert set(score(["a b c d", "e"], ["", ""]).values()) == {0.0}
    with pytest.raises(ValueError, match="no target to score"):
        score([], [])


def test_other_scripts_have_no_rouge():
    """As the module says: only chrF, BLEU and exact match see them."""
    found = score(["Ωραία μέρα σήμερα εδώ"], ["Ωραία μέρα σήμερα εδώ"])
    assert found["rouge1"] == 0.0
    assert found["exact_match"] == 1.0 and found["chrf"] == pytest.approx(100.0)
    assert found["bleu"] == pytest.approx(100.0)
