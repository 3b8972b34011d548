"""Tests of training/run.py: whole small runs, resumed, interrupted and not."""

import json
import signal
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from modeling import losses
from modeling.checkpoints import checkpoint
from training import checkpoints, loop, optimizers, run
from training.distribution import devices


@pytest.fixture
def train(build_classifier, classifier_batch, tmp_path):
    """A function that starts the same run as a new process would."""

    def batches_from(step):
        """Each step has its own batch: the examples moved on by one."""

        def moved(number):
            return {k: tf.roll(v, number, axis=0) for k, v in classifier_batch.items()}

        return tf.data.Dataset.range(step, 1000).map(moved)

    def start(
        num_train_steps,
        directory="run",
        rate=0.01,
        seed=1,
        source=batches_from,
        plan=None,
        settings=None,
        **changes,
    ):
        keras.utils.clear_session()
        model = build_classifier()
        (tmp_path / directory).mkdir(exist_ok=True)
        run_plan = {
            "num_train_steps": num_train_steps,
            # Of a schedule that does not know when the run is interrupted.
            "learning_rate": lambda step: rate / (1 + step),
            "save_steps": 3,
        }
        settings = run.Settings(
            output_dir=str(tmp_path / directory),
            seed=seed,
            plan=loop.Plan(**{**run_plan, **(plan or {})}),
            strategy=tf.distribute.get_strategy(),
            optimizer=optimizers.BertAdam,
            batch_size=8,
            **(settings or {}),
        )
        training = run.Training(
            model=model,
            store=checkpoint.store(model),
            origin="random",
            objective=losses.classifier("classification"),
            batches_from=source,
            **changes,
        )
        final = run.train(settings, training)
        return final, [np.asarray(v) for v in model.trainable_variables]

    start.batches_from = batches_from
    return start


def stored(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


@pytest.mark.slow  # test_run_pretraining.py has it of the script every day
def test_resumed_run_equals_an_uninterrupted_one(train, tmp_path, capsys):
    """Bit for bit: weights, moments and every dropout mask."""
    final, whole = train(6, "whole")
    assert final == 6
    _, half = train(3, "parts")
    assert "weights: random\ntraining: step 0 to 3\n" in capsys.readouterr().out
    _, resumed = train(6, "parts")
    out = capsys.readouterr().out
    assert f"weights: {tmp_path}/parts/model.ckpt-3 with its moments (resumed)" in out
    assert "training: step 3 to 6\n" in out
    for first, second in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(first, second)
    assert any(np.any(a != b) for a, b in zip(half, whole, strict=True))
    first, second = (
        stored(str(tmp_path / name / "model.ckpt-6")) for name in ("whole", "parts")
    )
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)
    # And then there is nothing left to do.
    path = tmp_path / "parts" / "model.ckpt-6.index"
    before = path.stat().st_mtime_ns
    assert train(6, "parts")[0] == 6
    assert "nothing to train: step 6 of 6 is reached; raise" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before


@pytest.mark.slow  # a network is traced for each run
def test_run_that_goes_on_with_other_replicas_says_so(train, tmp_path, capsys):
    """Once: the checkpoint remembers the new number. The same number says nothing."""
    train(3)
    path = tmp_path / "run" / "model.ckpt-3.json"
    state = json.loads(path.read_text())
    assert (state["replicas"], state["micro_batches"]) == (1, 1)
    # As a run on eight devices would have left it.
    path.write_text(json.dumps({**state, "replicas": 8}))
    train(3)
    assert "dropout" not in capsys.readouterr().out  # nothing is left to train
    train(4, settings={"micro_batches": 2})
    line = "dropout: other masks from step 3 on, with 8 replicas before and 1 now, "
    assert line + "1 micro-batches before and 2 now\n" in capsys.readouterr().out
    train(5, settings={"micro_batches": 2})
    assert "dropout" not in capsys.readouterr().out
    # A checkpoint of before has no numbers, and says nothing.
    path = tmp_path / "run" / "model.ckpt-5.json"
    path.write_text("{}")
    train(6)
    assert "dropout" not in capsys.readouterr().out


def assert_equal_checkpoints(first, second):
    ones, others = stored(str(first)), stored(str(second))
    assert ones.keys() == others.keys()
    for name, value in ones.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)
    first, second = (path.with_name(f"{path.name}.json") for path in (first, second))
    assert first.read_text() == second.read_text()


EVALUATING = {"evaluate_steps": 4, "best_metric": "accuracy", "save_steps": 5}
SCORES = {4: 0.5, 8: 0.75, 9: 0.25}


@pytest.mark.slow
def test_interrupted_run_ends_as_an_uninterrupted_one(train, send, tmp_path, capsys):
    """Stopped by a signal within a call, then by one within an evaluation."""

    def evaluate_with(*scores):
        found = iter(scores)

        def evaluate():
            score = next(found)
            return {"accuracy": score() if callable(score) else score}

        return evaluate

    def interrupting(step):
        def pause(number, batch):
            if number == 1:  # the steps after it see the wish
                send()
                time.sleep(0.5)

        def passed(number, batch):
            with tf.control_dependencies([tf.py_function(pause, [number, 0], [])]):
                return tf.nest.map_structure(tf.identity, batch)

        return train.batches_from(step).enumerate().map(passed)

    def interrupted():
        send(signal.SIGINT)
        time.sleep(20)

    final, weights = train(
        *(9, "whole"), plan=EVALUATING, evaluate=evaluate_with(0.5, 0.75, 0.25)
    )
    assert final == 8  # the best
    capsys.readouterr()

    with pytest.raises(errors.Stopped) as caught:
        train(
            *(9, "parts"),
            plan=EVALUATING,
            source=interrupting,
            evaluate=evaluate_with(),
        )
    assert caught.value.number == signal.SIGTERM
    (prefix,) = checkpoints.all_checkpoints(str(tmp_path / "parts"))
    step = int(prefix.rsplit("-", 1)[1])
    assert step in (2, 3)  # the second may have looked before it took its batch
    error = capsys.readouterr().err
    assert (
        f"asked to stop (SIGTERM): saved {prefix} at step {step} of 9; the same "
        "command goes on from there\n"
    ) in error

    with pytest.raises(errors.Stopped) as caught:
        train(*(9, "parts"), plan=EVALUATING, evaluate=evaluate_with(0.5, interrupted))
    assert caught.value.number == signal.SIGINT
    out, error = capsys.readouterr()
    assert f"model.ckpt-{step} with its moments (resumed)" in out
    assert "asked to stop (SIGINT): saved" in error and "at step 8 of 9;" in error

    found, again = train(
        *(9, "parts"), plan=EVALUATING, evaluate=evaluate_with(0.75, 0.25)
    )
    assert found == 8
    for first, second in zip(weights, again, strict=True):
        np.testing.assert_array_equal(first, second)
    for step in (8, 9):
        name = f"model.ckpt-{step}"
        assert_equal_checkpoints(tmp_path / "whole" / name, tmp_path / "parts" / name)


@pytest.fixture
def quick(train, monkeypatch):
    """`train` with steps that compute nothing, but for what `does` does."""

    def start(*arguments, does=lambda step: None, loss=1.0, **changes):
        def make_step(*_, stop, **__):
            def train_steps(iterator, rates, count, step, scaling):
                does(int(step))
                results = {"loss": loss, "gradient_norm": 1.0, "skipped": 0.0}
                results |= {"examples": 8.0, "tokens": 8.0, "stop": float(stop)}
                done = 1 if results["stop"] else int(count)
                return {**results, "steps": done}, scaling

            return train_steps

        monkeypatch.setattr(run.train_step, "TrainStep", make_step)
        return train(*arguments, **changes)

    return start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_the_last_checkpoint_is_written(quick, send, tmp_path, number):
    """It is written to its end, and there is nothing left to train."""

    def written(store):
        def write(prefix, values):
            if prefix.endswith("-6"):
                send(number)
            store.write(prefix, values)

        return types.SimpleNamespace(
            variables=store.variables, write=write, load=store.load
        )

    store = checkpoint.store
    with pytest.MonkeyPatch.context() as patch, pytest.raises(errors.Stopped) as caught:
        patch.setattr(checkpoint, "store", lambda model: written(store(model)))
        quick(6)
    assert caught.value.number == number
    assert len(checkpoints.all_checkpoints(str(tmp_path / "run"))) == 2
    assert quick(6, does=None)[0] == 6  # no step is done


def test_loss_that_is_no_number_ends_the_run(train, tmp_path):
    # The rate of the first step makes the weights of the second what they are.
    said = " is nan at step 2, of the batch row 1; the last checkpoint is of step 0: "
    with pytest.raises(errors.NotFinite, match=said):
        train(9, rate=float("inf"), names=lambda step: [f"row {step}"])
    assert checkpoints.all_checkpoints(str(tmp_path / "run")) == []


def lose():
    raise tf.errors.UnavailableError(None, None, "Connection reset\nby peer", {})


def test_lost_worker_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr(devices, "has_workers", lambda strategy: True)
    with pytest.raises(errors.LostWorker) as caught, run.lost_workers_named(None):
        lose()
    assert str(caught.value) == (
        "another process of this run has ended, or cannot be reached (Connection "
        "reset); see its log, and start all of them again with the same command: it "
        "goes on from the newest checkpoint"
    )


def test_first_steps_are_timed_and_settings_announced(quick, capsys):
    described = {"describe": lambda model: "bfloat16, weights float32"}
    quick(6, settings={**described, "micro_batches": 2})
    out, error = capsys.readouterr()
    assert (
        "precision: bfloat16, weights float32; XLA: off; batch: 8, 8 per replica in 2 "
        "micro-batches\n"
    ) in out
    assert error.count("first step done after ") == 1


@pytest.fixture
def start(tmp_path):
    """A function that calls run.start for a model that is only a name."""
    before = keras.config.dtype_policy()

    def call(build=lambda: None, identity=None, **changes):
        class Model:
            def build(self):
                self.built = build()

        what = {
            "output_dir": str(tmp_path / "run"),
            "strategy": tf.distribute.get_strategy(),
            "seed": 3,
            "plan": None,
            "optimizer": None,
            "batch_size": 8,
            "identity": {"seed": 3},
            "flags": {"seed": 3},
            "command": "python run.py --seed=3",
        }
        model, *others = run.start(
            run.Settings(**{**what, **changes}),
            Model,
            lambda model, path, trains, resumes: ("random", 0),
            identity=identity or {},
            files={"vocab.txt": "a\n"},
        )
        return model.built, *others

    yield call
    keras.config.set_dtype_policy(before)


def test_model_is_made_with_the_runs_seed_and_precision(start):
    def build():
        drawn = keras.initializers.RandomNormal()((3,))
        return np.asarray(drawn).tolist(), keras.config.dtype_policy().name

    (first, policy), *_ = start(build, dtype_policy="mixed_bfloat16")
    assert policy == "mixed_bfloat16"
    (second, policy), *_ = start(build)
    assert policy == "float32" and first == second
    assert start(build, seed=4, overwrite=True)[0][0] != first


@pytest.mark.parametrize("is_chief", [True, False])
def test_only_the_chief_writes(start, tmp_path, monkeypatch, is_chief):
    monkeypatch.setattr(devices, "is_chief", lambda strategy: is_chief)
    assert start() == (None, "random", 0)
    assert (tmp_path / "run").exists() is is_chief
    start(trains=False)
    names = ["run.json", "vocab.txt"] if is_chief else []
    assert sorted(path.name for path in tmp_path.glob("run/*")) == names


def test_hosts_must_agree_before_anything_is_written(start, tmp_path, monkeypatch):
    seen = []

    def disagreeing(strategy, number):
        seen.append(number)
        return np.array([number, number + 1])

    monkeypatch.setattr(devices, "gathered", disagreeing)
    said = "^the hosts do not agree on model, data and output directory: "
    for identity in ({"data": "a"}, {"data": "b"}):
        with pytest.raises(errors.InputError, match=said):
            start(identity=identity)
    assert not (tmp_path / "run").exists()
    assert seen[0] != seen[1]  # it depends on what the run is
