"""Tests of training/driver.py: what is done under which name, seed by seed."""

import json

import numpy as np

from tests.training import steps
from training import driver, grid


def test_seeds_are_run_one_by_one_and_summarised(tmp_path, capsys):
    calls = []

    def run_seed(current):
        calls.append((current.seed, current.output_dir))
        return {"eval_accuracy": np.float32(current.seed / 4), "global_step": 10}

    grid.run_seeds(run_seed, steps.plan(tmp_path), [1, 2, 3])
    assert calls == [(seed, f"{tmp_path}/seed-{seed}") for seed in (1, 2, 3)]
    record = json.loads((tmp_path / "seeds.json").read_text("utf-8"))
    assert record["summary"]["eval_accuracy"] == {"mean": 0.5, "deviation": 0.25}
    assert record["seeds"]["3"] == {"eval_accuracy": 0.75, "global_step": 10.0}
    announced = [
        f"seeds: run {seed} of 3: {tmp_path}/seed-{seed}\n" for seed in (1, 2, 3)
    ]
    assert capsys.readouterr().out == "".join(announced) + (
        "over seeds 1, 2, 3:\n  eval_accuracy = 0.5000 +- 0.2500\n"
    )


def test_two_losses_are_told_apart_on_the_screen(capsys):
    results = {"eval_loss": 0.3634, "loss": 0.3643, "test_batch_loss": 0.25}
    driver.Outcome(results).print_results()
    assert capsys.readouterr().out.splitlines() == [
        "  eval_loss = 0.3634",
        "  loss = 0.3643 (mean of batches; eval_loss: of rows)",
        "  test_batch_loss = 0.2500",  # twin: the other loss is not there
    ]
