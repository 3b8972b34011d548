"""Tests of feature_flags.py with a stand-in for the parsed command line."""

import types

import pytest

from cli import device_setup, run_flags, training_flags


@pytest.mark.parametrize(
    ("normalizes", "parts", "replicas", "is_exact"),
    [
        (True, 1, 1, True),
        (True, 2, 1, False),
        (True, 1, 2, False),
        (False, 2, 2, True),
    ],
)
def test_norm_of_layers_needs_the_whole_batch(
    command_line, monkeypatch, normalizes, parts, replicas, is_exact
):
    strategy = types.SimpleNamespace(num_replicas_in_sync=replicas)
    monkeypatch.setattr(device_setup, "set_up", lambda: strategy)
    monkeypatch.setattr(training_flags, "check_actions", lambda: None)
    command_line(
        do_train=True,
        seed=0,
        layer_mix_norm=normalizes,
        gradient_accumulation_steps=parts,
        train_batch_size=8,
    )
    if is_exact:
        assert run_flags.set_up() is strategy
        return
    with pytest.raises(ValueError) as caught:
        run_flags.set_up()
    said = f"--gradient_accumulation_steps={parts}, {replicas} replica(s); train on one"
    assert said in str(caught.value)
