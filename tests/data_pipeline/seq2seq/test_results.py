import json

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from contract import outcomes
from data_pipeline.seq2seq import results
from data_pipeline.tables import text_rows


def score(targets, predictions):
    rows = results.count(targets, predictions)
    return results.score(targets, predictions, rows)


def test_scores_by_hand():
    actual = score(["a b c d f", "x y"], ["a b c d e", "x y"])
    # Of words 4 of 5 are right, of pairs 3 of 4, of the order 4 of 5.
    assert actual["exact_match"] == 0.5
    assert actual["rouge1"] == pytest.approx((0.8 + 1) / 2)
    assert actual["rouge2"] == pytest.approx((0.75 + 1) / 2)
    assert actual["rougeL"] == pytest.approx((0.8 + 1) / 2)
    # 6 of 7, 4 of 5, 2 of 3 and 1 of 2: over all rows together.
    mean = (6 / 7 * 4 / 5 * 2 / 3 * 1 / 2) ** 0.25
    assert actual["bleu"] == pytest.approx(100 * mean)
    # Letters 1 of 2, pairs 0 of 1; longer ones do not exist. F with beta 2.
    assert score(["ac"], ["ab"])["chrf"] == pytest.approx(25.0)
    brief = score(["a b c d e f g h"], ["a b c d"])
    assert brief["bleu"] == pytest.approx(100 * np.exp(1 - 8 / 4))
    assert set(score(["a b c d", "e"], ["", ""]).values()) == {0.0}
    with pytest.raises(ValueError, match="no target to score"):
        score([], [])
    # ROUGE sees the letters a to z alone.
    other = score(["Ωραία μέρα σήμερα εδώ"], ["Ωραία μέρα σήμερα εδώ"])
    assert other["rouge1"] == 0.0
    assert other["exact_match"] == 1.0 and other["bleu"] == pytest.approx(100.0)


def test_texts_shorter_than_four_words_have_a_bleu():
    assert score(["1984 05 03"], ["1984 05 03"])["bleu"] == pytest.approx(100.0)
    assert score(["1984 05 03"], ["1984 05 04"])["bleu"] < 70
    assert BLEU().corpus_score(["1984 05 03"], [["1984 05 03"]]).score == 0.0
    # Defaults that papers name; a release with others changes what is reported.
    for metric, signature in (
        (BLEU(), "case:mixed|eff:no|tok:13a|smooth:exp"),
        (CHRF(), "case:mixed|eff:yes|nc:6|nw:0|space:no"),
    ):
        metric.corpus_score(["a"], [["a"]])
        assert signature in str(metric.get_signature())


def test_some_rows_are_scored_like_a_file_of_them():
    targets = ["a b c d e", "b c", "c d e f g", "x"]
    predictions = ["a b c d x", "b c", "c d f g", "y"]
    rows = results.count(targets, predictions)
    chosen = np.array([2, 0, 0])
    wanted = score([targets[i] for i in chosen], [predictions[i] for i in chosen])
    del wanted["chrf"]
    assert rows.score(chosen) == pytest.approx(wanted)
    assert rows.score(np.array([1, 2, 3])) != pytest.approx(wanted)


TEXTS = ["1", "2\n6\r\n\u2028\x85-", ""]


@pytest.fixture
def scored(load):
    data = load({"dev": 'One\t1\n"two"\t26-1\nsix\t6\n'})["dev"]
    rows = results.count(data.spelled, TEXTS)
    scores = results.score(data.spelled, TEXTS, rows)
    losses = np.array([0.125, 1.0000004, 3.0])
    written = outcomes.Scored(
        predictions=TEXTS, details=rows, losses=losses, scores=scores
    )
    return data, written


def test_each_text_has_one_line(scored, tmp_path):
    data, written = scored
    paths = results.write_all(str(tmp_path), data, written)
    assert [path.rpartition("/")[2] for path in paths] == [
        "test_predictions.txt",
        "test_predictions.jsonl",
    ]
    text = (tmp_path / "test_predictions.txt").read_bytes().decode()
    assert text == "1\n2 6   -\n\n"
    assert len(text.splitlines()) == 3 < len("".join(TEXTS).splitlines()) + 1
    rows = [row for _, row in text_rows.file_rows(paths[1], "jsonl")]
    assert [row["prediction"] for row in rows] == TEXTS


def test_objects_hold_what_is_known(scored, load):
    data, written = scored
    first, second, third = map(json.loads, results.object_lines(data, written))
    assert first == {
        **{"source": "One", "target": "1", "prediction": "1", "exact_match": True},
        **{"rouge1": 1.0, "rouge2": 0.0, "rougeL": 1.0, "loss": 0.125},
    }
    assert (second["source"], second["target"]) == ('"two"', "26-1")
    assert second["loss"] == 1.0 and second["exact_match"] is False
    assert third["rouge1"] == 0.0
    sources = load({"test": "one\ntwo\nsix\n"})["test"]
    unscored = outcomes.Scored(predictions=TEXTS)
    lines = list(results.object_lines(sources, unscored))
    assert json.loads(lines[0]) == {"source": "one", "prediction": "1"}
    assert results.outcomes("test", sources, unscored) is None


def test_a_report_gets_rows_and_their_scores(scored):
    data, written = scored
    seen = results.outcomes("dev", data, written)
    assert seen.texts == [("One",), ('"two"',), ("six",)]
    assert seen.expected == ["1", "26 - 1", "6"]
    assert seen.predicted == TEXTS
    assert seen.is_correct.tolist() == [True, False, False]
    again = seen.rescore(np.arange(3))
    assert again == pytest.approx({n: written.scores[n] for n in again})
    assert set(seen.scores) - set(again) == {"chrf"}
    assert seen.rescore(np.array([0, 0]))["exact_match"] == 1.0
    assert seen.histograms["words, written"].tolist() == [1, 3, 0]
    assert seen.histograms["words, wanted"].tolist() == [1, 3, 1]
