"""Tests of training/driver.py: what is done under which name, seed by seed."""

import dataclasses
import json
from unittest import mock

import numpy as np
import pytest

from contract import errors, outcomes
from tests.training import steps
from training import driver, grid, loop, run_plan


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused(value):
    """-inf is padding."""
    outputs = {"logits": np.array([[0.5, -np.inf]]), "ids": np.array([1])}
    driver.check_finite(outputs, "dev")
    outputs["logits"][0, 0] = value
    with pytest.raises(errors.NotFinite, match="logits for the dev rows are not"):
        driver.check_finite(outputs, "dev")


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


def test_evaluations_of_training_have_the_mean_loss_of_their_rows(tmp_path):
    """Beside the scores: of equal ones the lower loss is best."""
    scored = outcomes.Scored(
        predictions=(), scores={"f1": 0.5}, losses=np.array([1.0, 4.0])
    )
    table = run_plan.Timetable(num_train_steps=1, learning_rate=float, save_steps=1)
    task = mock.Mock(splits={"train": mock.MagicMock()})
    passed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver.run, "train", lambda _, training: passed.append(training))
        how = steps.plan(tmp_path, timetable=table)
        evaluation = mock.Mock(return_value=scored)
        driver.FineTuningTask.train(task, mock.Mock(), how, "", evaluation)
        assert passed[0].evaluate() == {"f1": 0.5, loop.ROWS_LOSS: 2.5}
        evaluation.return_value = dataclasses.replace(scored, losses=None)
        assert passed[0].evaluate() == {"f1": 0.5}


def test_two_losses_are_told_apart_on_the_screen(capsys):
    results = {"eval_loss": 0.3634, "loss": 0.3643, "test_batch_loss": 0.25}
    driver.Outcome(results).print_results()
    assert capsys.readouterr().out.splitlines() == [
        "  eval_loss = 0.3634",
        "  loss = 0.3643 (mean of batches; eval_loss: of rows)",
        "  test_batch_loss = 0.2500",  # twin: the other loss is not there
    ]
