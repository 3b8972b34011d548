"""Tests of training/run.py: whole small runs, resumed and not."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoint, losses
from training import checkpoints, loop, optimizer, run


@pytest.fixture
def train(build_classifier, classifier_batch, tmp_path):
    """A function that starts the same run as a new process would."""
    dataset = tf.data.Dataset.from_tensors(classifier_batch).repeat()

    def start(num_train_steps, directory="run", rate=0.01, seed=1):
        keras.utils.clear_session()
        model = build_classifier()
        (tmp_path / directory).mkdir(exist_ok=True)
        settings = run.Run(
            output_dir=str(tmp_path / directory),
            strategy=tf.distribute.get_strategy(),
            jit_compile=False,
            variables=checkpoint.google_variables(model),
            write=checkpoint.write_google,
            load=functools.partial(checkpoint.load, model),
            origin="random",
            keep=5,
            batch_size=8,
            seed=seed,
        )
        plan = loop.Plan(
            num_train_steps=num_train_steps,
            # Of a schedule that does not know when the run is interrupted.
            learning_rate=lambda step: rate / (1 + step),
            save_steps=3,
        )
        final = run.train(
            settings,
            model,
            optimizer.BertAdam(),
            losses.classifier("classification"),
            lambda step: dataset,
            plan,
        )
        return final, [np.asarray(v) for v in model.trainable_variables]

    return start


def stored(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


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


def test_loss_that_is_no_number_ends_with_a_code_of_its_own(train, tmp_path):
    with pytest.raises(SystemExit) as caught:
        train(9, rate=float("inf"))
    assert caught.value.code == run.NOT_FINITE
    assert checkpoints.all_checkpoints(str(tmp_path / "run")) == []
