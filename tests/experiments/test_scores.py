"""Scores of runs, and how sure a difference is."""

import json
import pathlib
import re

import numpy as np
import pytest

from experiments import claims, pages, scores, tasks


def score(*values, noise=1.0, seed=0):
    """A Score of seeds 1, 2, .. whose resamples scatter around the values."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, noise, 500)
    return scores.Score(
        dict(enumerate(values, start=1)), np.array([value + rows for value in values])
    )


def test_scores_are_read_from_what_runs_leave(tmp_path):
    task = tasks.TASKS["cola"]
    seeds = {"2": {"eval_mcc": 0.3}, "10": {"eval_mcc": 0.1}}
    (tmp_path / "seeds.json").write_text(json.dumps({"seeds": seeds}))
    for seed, draws in (("2", 1000), ("10", 400)):
        (tmp_path / f"seed-{seed}").mkdir()
        record = {"evaluation": {"resampled": {"mcc": [0.01 * int(seed)] * draws}}}
        (tmp_path / f"seed-{seed}" / "report.json").write_text(json.dumps(record))
    read = scores.read(str(tmp_path), task)
    assert read.values == {2: 30.0, 10: 10.0}
    assert read.mean == 20.0
    assert read.deviation == pytest.approx(np.sqrt(200))
    assert read.resampled.shape == (2, 400)
    np.testing.assert_allclose(read.resampled, [[2.0] * 400, [10.0] * 400])


def test_rows_are_drawn_alike_for_both():
    # The same rows: what scatters is the same in both, and the difference is sure.
    gain = scores.difference([(score(50, noise=5), score(51, noise=5))])
    assert gain == pytest.approx((1.0, 1.0, 1.0))
    assert gain.sign == 1
    # Other rows: it is not.
    gain = scores.difference([(score(50, noise=5), score(51, noise=5, seed=1))])
    assert gain.low < 0 < gain.high
    assert gain.sign == 0


def test_seeds_are_drawn():
    gain = scores.difference([(score(50, 50, 50, noise=0), score(45, 50, 56, noise=0))])
    assert gain.mean == pytest.approx(1 / 3)
    assert gain.low == pytest.approx(-5, abs=2) and gain.high == pytest.approx(6, abs=2)
    backwards = scores.difference([(score(60), score(50)), (score(52), score(50))])
    assert backwards.mean == pytest.approx(-6) and backwards.sign == -1


SCORED = {
    "bert": {"sst2": score(60, 62), "wnut17": score(20, 21)},
    "no_nsp": {"sst2": score(60, 62), "wnut17": score(20, 21)},
    "left_to_right": {"sst2": score(55, 56)},
    "bert_features": {"wnut17": score(12, 12)},
    "layers_last": {"wnut17": score(11, 11)},
    "layers_second_to_last": {"wnut17": score(9, 9)},
}
REPORTS = {
    name: {
        "results": {"next_sentence_accuracy": accuracy, "masked_lm_accuracy": 0.25},
        "flags": {"max_eval_steps": 40, "eval_batch_size": 16},
        "seconds": 61.2,
        "curves": {"eval/masked_lm_loss": [[8, 7.0], [16, 6.5]]},
    }
    for name, accuracy in (("bert", 0.9), ("order", 0.6))
}
CURVES = {
    "no_nsp": {"100": score(50, 51), "200": score(60, 62)},
    "left_to_right": {"100": score(53, 54), "200": score(55, 56)},
}


def test_each_claim_that_was_run_has_a_row():
    rows = {row.claim: row for row in claims.rows(SCORED, REPORTS, CURVES)}
    assert rows["NSP helps"].result == "+0.0 (-1.0 to +1.0)"
    assert rows["NSP helps"].verdict == "not decided"
    assert rows["Both directions beat one"].ran == (
        "BERT without NSP against left to right, without NSP: SST-2"
    )
    assert rows["Both directions beat one"].verdict == "seen"
    second = rows["The second-to-last layer suits NER better than the last"]
    assert second.verdict == "the opposite is seen"
    assert second.result == "-2.0 (-2.0 to -2.0)"
    slow = rows["Masked LM converges more slowly than left to right"]
    assert (slow.ran, slow.verdict) == ("after 100 of 200 steps: SST-2", "seen")
    assert rows["Masked LM is ahead in the end"].verdict == "seen"
    order = next(row for name, row in rows.items() if name.startswith("The order of"))
    assert order.ran == "640 held-out pairs each: SOP 60.0 %, NSP 90.0 %"
    assert order.verdict == "seen"
    assert "GPT beats ELMo" not in rows


def test_tasks_that_neither_has_learned_do_not_count():
    # Matthews' 0 and the more frequent half of RTE, found by a network that reads
    # nothing, would make a sure difference of SST-2 a third of it.
    scored = {
        "no_nsp": {"sst2": score(55, 55), "cola": score(0, 0), "rte": score(52, 53)},
        "bert": {"sst2": score(61, 61), "cola": score(0, 0), "rte": score(51, 53)},
    }
    rows = {row.claim: row for row in claims.rows(scored, {}, {})}
    gain = rows["NSP helps"]
    assert gain.ran == (
        "BERT against BERT without NSP: SST-2; neither has learned CoLA, RTE"
    )
    assert (gain.result, gain.verdict) == ("+6.0 (+6.0 to +6.0)", "seen")
    pairs = rows["NSP helps most with pairs of texts"]
    assert pairs.ran == "BERT against BERT without NSP; neither has learned RTE"
    assert (pairs.result, pairs.verdict) == ("", claims.UNLEARNED)
    # One that has learned is enough.
    scored["bert"]["cola"] = score(9, 9)
    gain = next(row for row in claims.rows(scored, {}, {}) if row.claim == "NSP helps")
    assert gain.result == "+7.5 (+7.5 to +7.5)"


def test_the_page_has_tables_pictures_and_files(tmp_path):
    results = pages.Results(
        SCORED,
        CURVES,
        REPORTS,
        {"bert": (831752, 640000), "order": (831752, 640000)},
        ["How it was run."],
        {"bert": 1000, "order": 1000},
    )
    page = pathlib.Path(pages.write(str(tmp_path), results)).read_text("utf-8")
    page = re.sub(" +", " ", page)
    assert "| the same answer to all | 50.9 | 0.0 |" in page
    assert "| BERT | 61.0 +- 1.4 | 20.5 +- 0.7 |" in page
    assert "| left to right, without NSP | 55.5 +- 0.7 | |" in page
    assert (
        "| masked LM and SOP | 831,752 | 640,000 | 1,000 | 61 | "
        "next_sentence_accuracy 0.6, masked_lm_accuracy 0.25 |"
    ) in page
    assert "| learned sum of all layers | 12.0 +- 0.0 |" in page
    count = page.split("## What papers say")[1].count("\n| ") - 1
    assert f"not corrected for the number of claims, {count}: without" in page
    for name in pages.PICTURES:
        assert f"]({name})" in page
        assert "<svg" in (tmp_path / name).read_text()
    assert "bert,wnut17,entity F1,2,21\n" in (tmp_path / "scores.csv").read_text()
    record = json.loads((tmp_path / "comparison.json").read_text())
    assert record["scores"]["bert"]["sst2"] == {"1": 60, "2": 62}
    assert record["along_pretraining"]["no_nsp"]["200"] == {"1": 60, "2": 62}
