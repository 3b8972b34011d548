"""Tests of training/run.py: whole small runs, resumed, interrupted and not."""

import json
import signal
import threading
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from modeling import losses
from modeling.checkpoints import checkpoint, google
from modeling.networks import catalogue
from tests.training import steps
from training import checkpoints, layer_rates, loop, run, run_plan
from training.distribution import devices


@pytest.fixture
def train(build_classifier, classifier_batch, tmp_path):
    def batches_from(step):
        def moved(number):
            return {k: tf.roll(v, number, axis=0) for k, v in classifier_batch.items()}

        return tf.data.Dataset.range(step, 1000).map(moved)

    def start(num_train_steps, directory="run", rate=0.01, settings=None, **changes):
        keras.utils.clear_session()
        model = build_classifier()
        (tmp_path / directory).mkdir(exist_ok=True)
        timetable = {
            "num_train_steps": num_train_steps,
            # The schedule does not depend on when the run is interrupted.
            "learning_rate": lambda step: rate / (1 + step),
            "save_steps": 3,
        }
        plan = steps.plan(
            tmp_path / directory,
            timetable=run_plan.Timetable(**timetable),
            **(settings or {}),
        )
        training = loop.Training(
            model=model,
            origin="random",
            objective=losses.classifier("classification"),
            batches_from=batches_from,
            **changes,
        )
        final = run.train(plan, training)
        return final, [np.asarray(v) for v in model.trainable_variables]

    return start


@pytest.mark.slow
def test_layers_that_wait_begin_at_their_step_in_a_run_that_goes_on(train):
    """Bit for bit; the network's one layer begins at step 2, its embeddings at 4."""
    layers = {
        "layers": layer_rates.LayerRates(catalogue.USUAL.depth, 0.9, steps_per_layer=2)
    }
    _, whole = train(6, settings=layers)
    _, early = train(3, "parts", settings=layers)
    _, parts = train(6, "parts", settings=layers)
    for one, other in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    _, start = train(0, "start")
    words = 0
    np.testing.assert_array_equal(early[words], start[words])
    assert np.abs(whole[words] - start[words]).max() > 1e-4
    assert np.abs(early[-2] - start[-2]).max() > 1e-4  # the head's kernel


@pytest.fixture
def quick(train):
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

        return train(*arguments, make_step=make_step, **changes)

    return start


@pytest.mark.slow
def test_run_that_goes_on_with_other_replicas_says_so(quick, tmp_path, capsys):
    """It says so once: the checkpoint holds the new number."""
    quick(3)
    out = capsys.readouterr().out
    assert "weights: random\ntraining: step 0 to 3\n" in out
    path = tmp_path / "run" / "model.ckpt-3.json"
    state = json.loads(path.read_text())
    assert (state["replicas"], state["micro_batches"]) == (1, 1)
    # As a run on eight devices would have left it.
    path.write_text(json.dumps({**state, "replicas": 8}))
    quick(3)
    out = capsys.readouterr().out
    assert "nothing to train: step 3 of 3 is reached; raise" in out
    assert "dropout" not in out
    quick(4, settings={"micro_batches": 2})
    out = capsys.readouterr().out
    assert f"weights: {tmp_path}/run/model.ckpt-3 with its moments (resumed)" in out
    line = "dropout: other masks from step 3 on, with 8 replicas before and 1 now, "
    assert line + "1 micro-batches before and 2 now\n" in out
    quick(5, settings={"micro_batches": 2})
    # A checkpoint of before has no numbers, and says nothing.
    (tmp_path / "run" / "model.ckpt-5.json").write_text("{}")
    quick(6)
    assert "dropout" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGHUP,
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in (signal.SIGTERM, signal.SIGINT)
        ),
    ],
)
def test_signal_while_the_last_checkpoint_is_written(quick, send, tmp_path, number):
    save = google.write

    def write(prefix, values):
        if prefix.endswith("-6"):
            send(number)
        save(prefix, values)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(errors.Stopped) as caught:
        patch.setattr(google, "write", write)
        quick(6)
    assert caught.value.number == number
    assert len(checkpoints.all_checkpoints(str(tmp_path / "run"))) == 2
    assert quick(6, does=None)[0] == 6  # no step is done


def lose():
    raise tf.errors.UnavailableError(None, None, "Connection reset\nby peer", {})


def test_lost_worker_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr(devices, "has_workers", lambda strategy: True)
    message = r"another process .*\(Connection reset\).* start all again"
    with pytest.raises(errors.LostWorker, match=message), run.lost_workers_named(None):
        lose()


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
    before = keras.config.dtype_policy()

    def call(build=lambda: None, identity=None, **changes):
        class Model:
            trainable_variables = ()

            def build(self):
                self.built = build()

        what = {
            "output_dir": str(tmp_path / "run"),
            "strategy": tf.distribute.get_strategy(),
            "seed": 3,
            "identity": {"seed": 3},
            "flags": {"seed": 3},
            "command": "python run.py --seed=3",
        }
        model, *others = run.start(
            run_plan.Plan(**{**what, **changes}),
            types.SimpleNamespace(
                make_model=Model,
                load_weights=lambda model, path, trains, resumes: ("random", 0),
                trained_on=lambda: identity or {},
                files={"vocab.txt": "a\n"},
            ),
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


def test_another_thread_that_opens_a_model_moves_no_seed(start):
    def open_another():
        with checkpoint.drawing_after():
            keras.initializers.RandomNormal()

    def build():
        for thread in threads:
            thread.start()
            thread.join(0.2)
        return np.asarray(keras.initializers.RandomNormal()((3,))).tolist()

    threads = []
    alone = start(build)[0]
    threads.append(threading.Thread(target=open_another))
    assert start(build)[0] == alone
    threads.pop().join()


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
    printed = "^the hosts do not agree on model, data and output directory: "
    for identity in ({"data": "a"}, {"data": "b"}):
        with pytest.raises(errors.InputError, match=printed):
            start(identity=identity)
    assert not (tmp_path / "run").exists()
    assert seen[0] != seen[1]  # it depends on what the run is
