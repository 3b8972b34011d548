"""Tests of training/grid.py with runs that take no time."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from training import driver, grid, loop, run

RATES = (1e-3, 2e-3)


@dataclasses.dataclass
class Rows:
    """Examples of which only the digest is asked."""

    text: str

    def digest(self):
        return self.text


class Trials:
    """What a fine_tuning driver would do: scores by a table, and what was asked."""

    def __init__(self, place):
        self.place = place
        self.scores = {}  # (rate, seed) -> score, 0.5 where there is none
        self.done = []
        self.records = []

    def run_once(self, task, settings):
        its_own = settings.run
        rate = its_own.flags["learning_rate"]
        asked = [
            name
            for name in ("evaluates", "predicts", "exports")
            if getattr(settings, name)
        ]
        self.done.append((rate, its_own.seed, its_own.trains, *asked))
        score = self.scores.get((rate, its_own.seed), 0.5)
        if score is None:
            raise errors.NotFinite("the loss is nan at step 3")
        path = f"{its_own.output_dir}/model.ckpt-4.index"
        tf.io.gfile.makedirs(its_own.output_dir)
        tf.io.gfile.GFile(path, "w").write("")
        results = {"eval_f1": np.float32(score), "global_step": 4}
        return grid.Outcome(results, {"f1": np.float32(score), "loss": 1 - score})

    def __call__(self, rates=RATES, *, seed_list=(), metric="f1", rows="a", **changes):
        common = run.Settings(
            output_dir=str(self.place),
            seed=1,
            plan=loop.Plan(
                num_train_steps=4,
                learning_rate=lambda step: 0.0,
                save_steps=4,
                best_metric=metric,
            ),
            strategy=tf.distribute.get_strategy(),
            optimizer=None,
            batch_size=8,
            overwrite=changes.pop("overwrite", False),
            identity={"train_batch_size": changes.pop("batch", 8)},
        )

        others = {"grid": str(rates), "max_seq_length": 16, **changes.pop("flags", {})}

        def one_run(values):
            return dataclasses.replace(common, flags=others | values)

        task = driver.FineTuningTask(
            splits={"train": Rows(rows), "dev": Rows(changes.pop("dev", "d"))},
            **dict.fromkeys(
                ("model", "load_weights", "store", "objective", "score"), None
            ),
            **dict.fromkeys(("predict", "export"), None),
            write_records=self.records.append,
        )
        settings = driver.Settings(
            run=common,
            seeds=seed_list,
            combinations=grid.combine([{"learning_rate": r} for r in rates], one_run),
            **{"evaluates": True, **changes},
        )
        self.done.clear()
        grid.run_all(self.run_once, task, settings)
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
    said = capsys.readouterr().out
    assert "  learning_rate  f1\n  0.001          0.5000\n" in said
    assert "  0.002          0.7500  best\nbest: learning_rate=0.002; its" in said
    assert trials.records == [str(trials.place)]  # one copy of the features


def test_finished_runs_are_not_repeated_and_further_values_are_added(trials):
    trials()
    trials()
    assert trials.done == []
    record = trials((*RATES, 5e-3))
    assert trials.done == [(5e-3, 1, True, "evaluates")]
    assert len(record["combinations"]) == len(record["runs"]) == 3
    # Those of other values stay known.
    assert len(trials((7e-3,))["runs"]) == 4
    trials((*RATES, 5e-3, 7e-3))
    assert trials.done == []


@pytest.mark.parametrize(
    "change", [{"dev": "other"}, {"flags": {"warmup_proportion": 0.3}}], ids=str
)
def test_runs_whose_results_may_differ_are_done_again(trials, change):
    """They go on, or are refused, as a run alone does."""
    trials()
    trials(**change)
    assert (RATES[0], 1, True, "evaluates") in trials.done


def test_flags_that_do_not_matter_repeat_nothing(trials):
    trials()
    trials(flags={"test_file": "new.tsv"})
    assert trials.done == []


def test_removed_runs_are_done_again(trials):
    trials()
    tf.io.gfile.rmtree(str(trials.place / "learning_rate=0.002"))
    trials()
    assert trials.done == [(2e-3, 1, True, "evaluates")]


def test_killed_grid_goes_on(trials):
    def stop(task, settings):
        if trials.done:
            raise errors.Stopped(15)
        return Trials.run_once(trials, task, settings)

    trials.run_once, whole = stop, trials.run_once
    with pytest.raises(errors.Stopped):
        trials()
    trials.run_once = whole
    trials()
    assert trials.done == [(2e-3, 1, True, "evaluates")]


def test_run_whose_end_a_killed_grid_has_not_recorded_is_scored_again(
    trials, monkeypatch
):
    """The run itself has nothing left to train then."""
    wanted = trials()
    tf.io.gfile.rmtree(str(trials.place))

    def killed(path, text):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("contract.atomic_files.write_text", killed)
        trials()
    assert trials.done == [(1e-3, 1, True, "evaluates")]
    assert not (trials.place / "grid.json").exists()
    assert trials() == wanted
    assert trials.done == [(rate, 1, True, "evaluates") for rate in RATES]


def test_other_rows_are_refused_or_replaced(trials):
    trials()
    with pytest.raises(errors.InputError, match="another run: data was 'a' and is 'b'"):
        trials(rows="b")
    with pytest.raises(errors.InputError, match="train_batch_size was 8 and is 16"):
        trials((9e-3,), batch=16)
    record = trials((9e-3,), rows="b", overwrite=True)
    assert set(record["runs"]) == {"learning_rate=0.009"}
    assert record["identity"]["data"] == "b"


def test_seeds_are_averaged_and_the_best_run_is_of_the_best_mean(trials, capsys):
    trials.scores = {(1e-3, 3): 1.0, (1e-3, 4): 0.0, (2e-3, 3): 0.5, (2e-3, 4): 0.75}
    record = trials(seed_list=(3, 4))
    first, second = record["combinations"]
    assert (first["mean"], second["mean"]) == (0.5, 0.625)
    assert first["deviation"] == pytest.approx(0.5**0.5)
    assert record["best"]["directory"] == "learning_rate=0.002/seed-4"
    assert "0.6250 +- 0.1768  best" in capsys.readouterr().out
    below = trials.place / "learning_rate=0.001" / seeds.SUMMARY_FILE
    assert json.loads(below.read_text())["summary"]["eval_f1"]["mean"] == 0.5


def test_of_losses_the_lowest_is_best(trials, monkeypatch):
    trials.scores = {(1e-3, 1): 0.75}  # loss 0.25, the other's is 0.5
    record = trials(metric="loss", flags={"best_metric": "loss"})
    assert record["best"]["score"] == 0.25
    assert record["best"]["values"] == {"learning_rate": 1e-3}
    # The twin: of a score that is no loss, the same number would not be the best.
    monkeypatch.setattr(
        trials, "run_once", lambda *given: swapped(Trials.run_once(trials, *given))
    )
    record = trials(overwrite=True)
    assert record["best"]["score"] == 0.5


def swapped(outcome):
    return outcome._replace(scores={"f1": outcome.scores["loss"]})


def test_runs_that_are_not_finite_are_out(trials, capsys):
    trials.scores = {(1e-3, 1): None}
    record = trials()
    assert record["combinations"][0]["mean"] is None
    assert record["best"]["values"] == {"learning_rate": 2e-3}
    said = capsys.readouterr().out
    assert "grid: out is" in said and "the loss is nan at step 3" in said
    assert "0.001          not finite" in said
    trials.scores = dict.fromkeys([(rate, 1) for rate in RATES])
    with pytest.raises(errors.NotFinite, match="every run"):
        trials(overwrite=True)


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


def test_hosts_must_agree_on_what_is_finished(trials, monkeypatch):
    def differ(strategy, number, what):
        assert what == "grid.json"
        raise errors.InputError("the hosts do not agree")

    monkeypatch.setattr(grid.devices, "check_agreement", differ)
    with pytest.raises(errors.InputError, match="do not agree"):
        trials()
    assert trials.done == []


def test_only_the_chief_writes(trials, monkeypatch):
    monkeypatch.setattr(run.Settings, "writes", property(lambda _: False))
    with pytest.raises(FileNotFoundError):
        trials()
    assert len(trials.done) == 2
    assert not list(trials.place.glob("**/*.hparams")) and not trials.records


def test_directory_names_do_not_depend_on_the_order():
    values = {"train_batch_size": 16, "adam_bias_correction": True}
    place = "out/adam_bias_correction=true,train_batch_size=16"
    assert grid.directory_of(values, "out") == place
    assert grid.directory_of(dict(reversed(values.items())), "out") == place
