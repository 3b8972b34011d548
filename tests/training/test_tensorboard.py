"""Tests of training/tensorboard.py."""

import io
import re
import time

import numpy as np
import pytest
import tensorflow as tf

from terminal import progress
from tests import tiny
from training import tensorboard

RESULTS = {"loss": 0.5, "gradient_norm": 2.0, "examples": 64, "tokens": 640}


@pytest.fixture
def clock(monkeypatch):
    hands = {"now": 100.0}
    monkeypatch.setattr(tensorboard.time, "monotonic", lambda: hands["now"])
    return hands


def test_curves_and_the_mix_of_layers_reach_tensorboard(tmp_path, clock):
    stream, mix = io.StringIO(), {"gamma": 1.0, "s_0": 0.5, "s_1": 0.5}
    reporter = tensorboard.Reporter(
        str(tmp_path), 40, stream=stream, watched=lambda: mix
    )
    clock["now"] += 2
    reporter.train(20, RESULTS, 0.5)
    mix |= {"gamma": 1.25, "s_0": 0.125}
    clock["now"] += 1
    reporter.evaluated(20, {"accuracy": 0.75})
    clock["now"] += 4
    reporter.train(40, RESULTS, 0.5)
    reporter.close()
    train = tiny.events(tmp_path / "train")
    assert train["train/loss"] == [(20, 0.5), (40, 0.5)]
    assert train["train/learning_rate"] == [(20, 0.5), (40, 0.5)]
    assert train["train/gradient_norm"] == [(20, 2.0), (40, 2.0)]
    # Speeds do not count the time of the evaluation.
    assert train["train/examples_per_second"] == [(20, 32.0), (40, 16.0)]
    assert train["train/tokens_per_second"] == [(20, 320.0), (40, 160.0)]
    assert tiny.events(tmp_path / "eval") == {"eval/accuracy": [(20, 0.75)]}
    assert train["layer_mix/gamma"] == [(20, 1.0), (40, 1.25)]
    assert train["layer_mix/s_0"] == [(20, 0.5), (40, 0.125)]
    line = "layer mix: gamma 1.2500  s_0 0.1250  s_1 0.5000\n"
    assert f"evaluation at step 20: accuracy 0.7500\n{line}" in stream.getvalue()


def test_progress_in_a_file(tmp_path, clock):
    stream = io.StringIO()
    reporter = tensorboard.Reporter(str(tmp_path), 4000, start_step=1000, stream=stream)
    reporter.begin()
    clock["now"] += 20
    reporter.train(1500, RESULTS, 1.5e-5)
    clock["now"] += 5  # too soon for another line
    reporter.train(1600, RESULTS, 1.5e-5)
    # The mean of batches is for files alone.
    reporter.evaluated(1600, {"accuracy": 0.75, "loss": 1.0, "batch_loss": 1.01})
    clock["now"] += 5
    reporter.train(4000, RESULTS, 0.0)  # the last step always has one
    reporter.close()
    assert stream.getvalue().splitlines() == [
        "step 1500/4000 (37 %)  --:-- left  loss 0.5000  rate 1.50e-05  3 examples/s  "
        "32 tokens/s",
        "evaluation at step 1600: accuracy 0.7500  loss 1.0000",
        # 2,500 steps in 10 seconds.
        "step 4000/4000 (100 %)  250/s  00:00 left  loss 0.5000  rate 0.00e+00  "
        "13 examples/s  128 tokens/s",
    ]


def test_first_call_does_one_step_and_names_its_wait(monkeypatch):
    """It compiles; in a file nothing was written until 20 steps were done."""
    monkeypatch.setattr(progress, "_FILE_SECONDS", 0.05)
    printed, counts, stream = [], [], io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", stream)

    def train_steps(iterator, rates, count, step, scaling):
        counts.append(int(count))
        time.sleep(0 if len(counts) > 1 else 0.3)
        return {"steps": tf.cast(count, tf.float32)}, scaling

    timed = tensorboard.TimedSteps(train_steps, (), 0, "", printed.append)
    for count in (20, 19, 20):
        results, scaling = timed(None, None, tf.constant(count), 0, "scaling")
        assert (int(results["steps"]), scaling) == (counts[-1], "scaling")
    assert counts == [1, 19, 20]
    assert stream.getvalue() == "compiling the first step ...\n"
    assert [re.sub(r"0\.[3-9]", "0.3", line) for line in printed] == [
        "first step done after 0.3 s"
    ]


def test_time_left_does_not_count_compilation(tmp_path, clock):
    """Processes that are not the chief show progress, and write nothing."""
    stream = io.StringIO()
    reporter = tensorboard.Reporter(str(tmp_path), 41, writes=False, stream=stream)
    reporter.begin()
    for step, seconds in ((1, 100), (21, 20)):
        clock["now"] += seconds
        reporter.train(step, RESULTS, 1e-5)
    reporter.evaluated(21, {"accuracy": 0.75})
    reporter.show("eval", 7, {"table": ("| a |", "A table.")})
    reporter.close()
    assert not list(tmp_path.iterdir())
    first, second, evaluation = stream.getvalue().splitlines()
    assert evaluation == "evaluation at step 21: accuracy 0.7500"
    assert first.startswith("step 1/41 (2 %)  --:-- left  loss 0.5000")
    assert second.startswith("step 21/41 (51 %)  1/s  00:20 left  loss 0.5000")


def test_shown_rows_are_few_and_spread(monkeypatch, tmp_path):
    monkeypatch.setattr(tensorboard, "MAX_PROJECTED", 3)
    rows_read = []

    class Predictor:
        def rows(self, examples, rows):
            rows_read.extend(rows.tolist())
            return {"vectors": np.eye(3, dtype=np.float32)}

    tensorboard.write_projector(
        Predictor(),
        range(9),
        lambda rows: {"label": ["a\tb"] * 3, "text": [f"{row}\n" for row in rows]},
        str(tmp_path),
        writes=True,
    )
    assert rows_read == [0, 4, 8]
    text = (tmp_path / "eval" / "metadata.tsv").read_text()
    assert text == "label\ttext\na\\tb\t0\\n\na\\tb\t4\\n\na\\tb\t8\\n\n"
    assert (tmp_path / "eval" / "vectors.tsv").read_text().splitlines()[1] == "0\t1\t0"
