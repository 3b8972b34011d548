"""Tests of training/grid.py with runs that take no time."""

import dataclasses
import json
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from tests import killed
from tests.training import steps
from training import driver, grid, run_plan

RATES = (1e-3, 2e-3)


class Trials:
    """Stands for driver.run_once: scores by a table; notes what was wanted."""

    def __init__(self, place):
        self.place = place
        self.scores = {}  # (rate, seed) -> score, 0.5 where there is none
        self.done = []
        self.records = []

    def run_once(self, task, plan):
        assert not plan.writes_records  # the grid has written its copy
        rate = plan.flags["learning_rate"]
        wanted = [
            name for name in ("evaluates", "predicts", "exports") if getattr(plan, name)
        ]
        self.done.append((rate, plan.seed, plan.trains, *wanted))
        score = self.scores.get((rate, plan.seed), 0.5)
        if score is None:
            raise errors.NotFinite("the loss is nan at step 3")
        return driver.Outcome(
            results={"eval_f1": np.float32(score), "global_step": 4},
            scores={"f1": np.float32(score), "loss": 1 - score},
        )

    def __call__(self, rates=RATES, *, seeds=(), metric="f1", rows="a", **changes):
        common = steps.plan(
            self.place,
            timetable=run_plan.Timetable(
                num_train_steps=4,
                learning_rate=lambda step: 0.0,
                save_steps=4,
                best_metric=metric,
            ),
            overwrite=changes.pop("overwrite", False),
            identity={"train_batch_size": changes.pop("batch", 8)},
        )
        task = mock.Mock(
            spec=grid.Task,
            write_records=self.records.append,
            trained_on=lambda: {"data": rows},
        )
        common = dataclasses.replace(common, **{"evaluates": True, **changes})
        plan = dataclasses.replace(
            common,
            seeds=seeds,
            combinations=grid.combine(
                [{"learning_rate": rate} for rate in rates],
                lambda values: dataclasses.replace(common, flags=values),
            ),
        )
        self.done.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "run_once", self.run_once)
            grid.run_grid(task, plan)
        return json.loads((self.place / "grid.json").read_text())


@pytest.fixture
def trials(tmp_path):
    return Trials(tmp_path / "out")


def test_every_combination_is_trained_below_its_values(trials, capsys):
    trials.scores = {(2e-3, 1): 0.75}
    record = trials()
    assert trials.done == [(rate, 1, True, "evaluates") for rate in RATES]
    assert set(record["runs"]) == {"learning_rate=0.001", "learning_rate=0.002"}
    assert record["best"] == {
        "values": {"learning_rate": 0.002},
        "seed": 1,
        "directory": "learning_rate=0.002",
        "score": 0.75,
    }
    out = capsys.readouterr().out
    assert "  learning_rate  f1\n  0.001          0.5000\n" in out
    assert "  0.002          0.7500  best\nbest: learning_rate=0.002; its" in out
    assert trials.records == [str(trials.place)]  # one copy of the features


def test_killed_grid_goes_on(trials):
    whole = trials()
    tf.io.gfile.rmtree(str(trials.place))

    with killed.at_call(trials, "run_once", number=1):
        trials()
    assert len(json.loads((trials.place / "grid.json").read_text())["runs"]) == 1
    assert trials() == whole


def test_other_rows_are_refused_or_replaced(trials):
    trials()
    with pytest.raises(errors.InputError, match="another run: data was 'a' and is 'b'"):
        trials(rows="b")
    with pytest.raises(errors.InputError, match="train_batch_size was 8 and is 16"):
        trials((9e-3,), batch=16)
    assert trials.done == []
    record = trials((9e-3,), rows="b", overwrite=True)
    assert set(record["runs"]) == {"learning_rate=0.009"}
    assert record["identity"]["data"] == "b"


def test_seeds_are_averaged_and_the_best_run_is_of_the_best_mean(trials, capsys):
    trials.scores = {(1e-3, 3): 1.0, (1e-3, 4): 0.0, (2e-3, 3): 0.5, (2e-3, 4): 0.75}
    record = trials(seeds=(3, 4))
    first, second = record["combinations"]
    assert (first["mean"], second["mean"]) == (0.5, 0.625)
    assert first["deviation"] == pytest.approx(0.5**0.5)
    assert record["best"]["directory"] == "learning_rate=0.002/seed-4"
    assert "0.6250 +- 0.1768  best" in capsys.readouterr().out
    below = trials.place / "learning_rate=0.001" / "seeds.json"
    assert json.loads(below.read_text())["summary"]["eval_f1"]["mean"] == 0.5


def test_runs_that_are_not_finite_are_out(trials, capsys):
    trials.scores = {(1e-3, 1): None}
    record = trials()
    assert record["combinations"][0]["mean"] is None
    assert record["runs"]["learning_rate=0.001"] == {
        "values": {"learning_rate": 1e-3, "seed": 1},
        "results": {},
        "score": None,
        "error": "the loss is nan at step 3",
    }
    assert record["best"]["values"] == {"learning_rate": 2e-3}
    out = capsys.readouterr().out
    assert "grid: out is" in out and "the loss is nan at step 3" in out
    assert "0.001          not finite" in out
    trials.scores = dict.fromkeys([(rate, 1) for rate in RATES])
    with pytest.raises(errors.NotFinite, match="every run"):
        trials(overwrite=True)


@pytest.mark.parametrize("seeds", [(), (3, 4)])
def test_score_that_is_not_defined_is_not_the_best(trials, seeds, capsys):
    nan, used = float("nan"), seeds or (1,)
    trials.scores = {(1e-3, used[0]): nan}
    trials.scores |= {(2e-3, seed): -0.25 for seed in used}
    record = trials(seeds=seeds)
    first, second = record["combinations"]
    assert (first["mean"], second["mean"]) == (None, -0.25)
    assert record["best"]["values"] == {"learning_rate": 2e-3}
    assert "  0.002          -0.2500" in capsys.readouterr().out
    trials.scores = {(rate, seed): nan for rate in RATES for seed in used}
    record = trials(seeds=seeds, overwrite=True)
    assert record["best"]["score"] is None
    trials.scores |= {(1e-3, used[0]): None}  # a loss that is not finite is out
    record = trials(seeds=seeds, overwrite=True)
    assert record["best"]["values"] == {"learning_rate": 2e-3}
    for path in trials.place.rglob("*.json"):
        assert "NaN" not in path.read_text()


@pytest.mark.parametrize("action", ["predicts", "exports"])
def test_only_the_best_run_predicts_and_exports(trials, action):
    trials.scores = {(2e-3, 1): 0.75}
    trials(**{action: True})
    assert trials.done == [
        *[(rate, 1, True, "evaluates") for rate in RATES],
        (2e-3, 1, False, action),
    ]


def test_runs_that_nothing_else_scores_predict_each(trials):
    trials(evaluates=False, predicts=True)
    assert trials.done == [(rate, 1, True, "predicts") for rate in RATES]


def test_names_of_directories_do_not_depend_on_the_order():
    values = {"train_batch_size": 16, "adam_bias_correction": True}
    place = "out/adam_bias_correction=true,train_batch_size=16"
    assert grid.directory_of(values, "out") == place
    assert grid.directory_of(dict(reversed(values.items())), "out") == place
