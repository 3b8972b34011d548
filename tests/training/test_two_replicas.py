"""Two replicas do what one device does; two_replicas.py is the other half of this.

Sums over replicas are made in another order than those over a batch, and Adam divides
by the root of small squares: five steps leave differences of about 1e-6 in weights of
order 1. A loss divided by the count of a replica instead of that of the batch, or
gradients averaged twice, move them by 1e-3 and more.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

# Every day test_many_devices.py trains on two replicas what it trains on one.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    program = pathlib.Path(__file__).with_name("two_replicas.py")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_weights_are_equal(found):
    """Each replica does its half in two micro-batches of one example."""
    one, two = found["1"]["weights"], found["2"]["weights"]
    assert one.keys() == two.keys() and len(one) == 16 + 5 + 2 + 7
    for name, value in one.items():
        if not name.endswith("self/key/bias"):  # has no gradient but rounding
            np.testing.assert_allclose(two[name], value, atol=1e-5, err_msg=name)


def test_results_are_those_of_the_whole_batch(found):
    one, two = found["1"]["results"], found["2"]["results"]
    assert one.keys() == two.keys()
    for name, value in one.items():
        # Norms are of later steps, so they carry the differences of weights along.
        assert two[name] == pytest.approx(value, rel=1e-4), name
    assert one["examples"] == 4 * 5 and one["tokens"] == 4 * 5 * 6
    assert one["masked_lm_loss"] > 1  # there is something to train


def test_fit_of_keras_is_shared(found):
    one, two = found["1"]["fitted"], found["2"]["fitted"]
    for name, *values in zip(
        *(one["names"], two["weights"], one["weights"]), strict=True
    ):
        if not name.endswith("key/bias"):  # has no gradient but rounding
            np.testing.assert_allclose(*values, atol=1e-5, err_msg=name)
    assert one["moved"] > 0.01


def test_overflow_on_one_replica_skips_the_step_on_all(found):
    one, two = found["1"]["overflow"], found["2"]["overflow"]
    assert one["state"] == pytest.approx(two["state"], rel=1e-6)
    assert one["state"][0] < 0.98 and one["results"] == two["results"]
    assert one["results"]["skipped"] == 1 and one["results"]["steps"] == 3
    assert one["scaling"] == two["scaling"] == {"loss_scale": 2.0**14, "good_steps": 1}


def test_replicas_draw_different_dropout(found):
    """Seed 7 is 7 on one device, and 14 and 15 on two; the step is 40 on each."""
    assert found["1"]["seeds"] == [7, 40]
    assert found["2"]["seeds"] == [14 + 15, 40 + 40]


def test_strategies_are_described(found):
    assert found["1"]["describe"].endswith("strategy: one device, 1 replica")
    assert found["2"]["describe"].endswith("strategy: MirroredStrategy, 2 replicas")
