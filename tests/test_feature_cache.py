"""Runs on a frozen network that runs once for each row, from end to end."""

import numpy as np
import pytest

from tests import resumed_runs, tiny, tiny_tags, whole_runs

STEPS = whole_runs.STEPS


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    tiny.write_model(path / "model", num_hidden_layers=1, hidden_act="relu")
    return tiny_tags.write_splits(path)


@pytest.fixture(scope="module")
def run(data):
    """A function that runs a tagger on a frozen network; returns what it prints."""

    def run(path, *flags):
        common = whole_runs.arguments("frozen", data)
        done = tiny.run_script("run_tagger", *common, f"--output_dir={path}", *flags)
        assert done.code == 0, done.err
        return done.out

    return run


@pytest.mark.slow
def test_cache_changes_no_result(run, tmp_path):
    """One of two seeds is the run without it."""
    out = run(tmp_path / "cached", "--seeds=3,4")
    assert out.count("features: ") == 3  # not 6
    without = run(tmp_path / "not", "--feature_cache=none", "--seed=3")
    assert "features: " not in without
    one, other, expected = (
        whole_runs.variables(tmp_path / name)
        for name in ("cached/seed-3", "cached/seed-4", "not")
    )
    # Batches are composed otherwise where the states are computed.
    assert whole_runs.largest_difference(one, expected) < 1e-5
    assert whole_runs.largest_difference(other, expected) > 1e-2
    weights = expected["layer_mix/ELMo_W"]
    assert np.abs(weights).max() > 1e-3
    shares = np.exp(weights) / np.exp(weights).sum()
    found = tiny.events(tmp_path / "not/train")
    assert {"layer_mix/gamma", "layer_mix/s_0", "layer_mix/s_1"} <= found.keys()
    assert f"  s_0 {shares[0]:.4f}  s_1 {shares[1]:.4f}\n" in without
    scores = tiny.eval_results(tmp_path / "not")
    assert tiny.eval_results(tmp_path / "cached/seed-3") == pytest.approx(scores)


@pytest.mark.slow
def test_resumed_run_ends_as_the_whole_one(run, tmp_path):
    run(tmp_path / "whole", f"--save_checkpoints_steps={STEPS // 2}")
    resumed_runs.assert_ends_as(
        *(tmp_path / "whole", tmp_path / "resumed", STEPS // 2, ["eval_results.txt"])
    )
