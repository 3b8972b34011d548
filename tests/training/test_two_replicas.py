"""Two replicas do what one device does; two_replicas.py is the other half of this.

test_many_devices.py compares whole runs, with -m slow.
"""

import json
import pathlib
import subprocess
import sys

import pytest


def run(*parts):
    """Results of parts of two_replicas.py, on one device and on two."""
    program = pathlib.Path(__file__).with_name("two_replicas.py")
    command = [sys.executable, str(program), *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(done.stdout)[number] for number in "12"]


@pytest.mark.slow
def test_two_replicas_train_as_one_device_with_other_dropout():
    one, two = run("seeds", "overflow", "deep", "describe")
    first, second = one["overflow"], two["overflow"]
    assert first["state"] == pytest.approx(second["state"], rel=1e-6)
    assert first["state"][0] < 0.98 and first["results"] == second["results"]
    # An overflow on one replica skips the step on all.
    assert first["results"]["skipped"] == 1 and first["results"]["steps"] == 3
    state = {"loss_scale": 2.0**14, "good_steps": 1}
    assert first["scaling"] == second["scaling"] == state
    for path, sizes in one["deep"].items():
        if not path.endswith("key/bias"):
            assert two["deep"][path] == pytest.approx(sizes, rel=1e-3), path
            assert min(sizes) > 0 or path.startswith("bert/pooler/"), path
    # Seed 7 is 7 on one device, and 14 and 15 on two; the step is 40 on each.
    assert one["seeds"] == [7, 40]
    assert two["seeds"] == [14 + 15, 40 + 40]
    assert one["describe"].endswith("strategy: one device, 1 replica")
    assert two["describe"].endswith("strategy: MirroredStrategy, 2 replicas")


@pytest.mark.slow
def test_layers_that_never_begin_wait_on_both():
    one, two = (actual["layers"] for actual in run("layers"))
    for path, sizes in one.items():
        is_still = path.startswith(("bert/embeddings/", "bert/pooler/"))
        assert (sizes[1:] == two[path][1:] == [0.0, 0.0]) == is_still, path
        if not path.endswith("key/bias"):  # which has no gradient but rounding
            assert two[path] == pytest.approx(sizes, rel=1e-3), path
            assert is_still or min(sizes) > 0, path


@pytest.mark.slow
def test_losses_of_vectors_compare_the_rows_of_all_replicas():
    """Where their scope does."""
    one, two = (actual["vectors"] for actual in run("vectors"))
    for name, results in one.items():
        losses = [each[name]["loss"] for each in (one, two)]
        assert (losses[0] == pytest.approx(losses[1], rel=1e-4)) == (name != "alone")
        if name != "alone":
            assert two[name] == pytest.approx(results, rel=1e-4)


@pytest.mark.slow
def test_muon_is_that_of_one_device_whatever_the_parts_of_a_batch():
    one, two = run("muon", "muon_parts", "adam")
    for path, expected in one["muon"].items():
        if path.endswith("key/bias"):  # which has no gradient but rounding
            continue
        for other in (one["muon_parts"], two["muon"], two["muon_parts"]):
            assert other[path] == pytest.approx(expected, rel=1e-3), path
        if "/block_" in path and path.endswith("kernel"):
            assert one["adam"][path] != pytest.approx(expected, rel=0.1), path
