"""Devices are readied as settings name them."""

import json
import types

import pytest
import tensorflow as tf

from tasks import device_setup, run_plans
from tests import tiny
from training.distribution import devices

CLUSTER = json.dumps(
    {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
)
ONE_DEVICE = types.SimpleNamespace(num_replicas_in_sync=1)
LOCAL = {"tpu_name": "local", "tpu_zone": None, "gcp_project": None}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def read(*arguments, script="run_pretraining"):
    return tiny.settings_of(script, *arguments)


@pytest.fixture
def calls(monkeypatch):
    calls = []

    def strategy_for(kind, **where):
        calls.append((kind, where))
        return ONE_DEVICE

    monkeypatch.setattr(devices, "strategy_for", strategy_for)
    return calls


@pytest.mark.parametrize(
    ("arguments", "kind", "where"),
    [
        ("", "auto", {}),
        ("--distribution_strategy=mirrored", "mirrored", {}),
        ("--use_tpu", "tpu", {}),
        ("--use_tpu --distribution_strategy=tpu", "tpu", {}),
        ("--use_tpu --master=grpc://a:8470", "tpu", {"tpu_name": "grpc://a:8470"}),
        (
            "--use_tpu --tpu_name=t --tpu_zone=z --gcp_project=p",
            "tpu",
            {"tpu_name": "t", "tpu_zone": "z", "gcp_project": "p"},
        ),
    ],
)
def test_settings_name_the_strategy(calls, arguments, kind, where):
    assert device_setup.set_up(read(*arguments.split())) is ONE_DEVICE
    assert calls == [(kind, {**LOCAL, **where})]


def test_script_of_one_host_refuses_a_cluster(calls, monkeypatch):
    settings = read()
    device_setup.set_up(settings, one_host=True)
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    device_setup.set_up(settings)
    with pytest.raises(ValueError, match="runs on one host, but TF_CONFIG names sever"):
        device_setup.set_up(settings, one_host=True)
    assert len(calls) == 2


def test_gpu_can_be_required(calls, monkeypatch):
    gpus = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    device_setup.set_up(read())
    settings = read("--require_gpu")
    with pytest.raises(ValueError, match=r"^--require_gpu: TensorFlow finds no GPU; "):
        device_setup.set_up(settings)
    gpus.append("GPU:0")
    device_setup.set_up(settings)
    assert len(calls) == 2


def test_cpu_is_split_and_determinism_turned_on_if_wanted(calls, monkeypatch):
    done = []
    monkeypatch.setattr(devices, "split_cpu", done.append)
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: done.append("same")
    )
    run_plans.set_up(read())
    needed = "--input_file=x", "--output_file=x"
    device_setup.set_up(read(*needed, script="extract_features"))  # trains nothing
    assert done == []
    run_plans.set_up(read("--virtual_cpus=4", "--deterministic"))
    assert done == ["same", 4]


def test_batch_is_checked_against_devices_and_parts():
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    for size, parts, multiple in ((24, 4, None), (20, 4, 8), (7, 1, 2)):
        sizes = f"--train_batch_size={size}", f"--gradient_accumulation_steps={parts}"
        settings = read(*sizes)
        if multiple is None:
            device_setup.check_batch_size(settings, strategy)
            continue
        message = f"={size} cannot be cut.*choose a multiple of {multiple}$"
        with pytest.raises(ValueError, match=message):
            device_setup.check_batch_size(settings, strategy)


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("is_static", [False, True])
def test_steps_are_compiled_where_it_pays_or_by_the_setting(
    monkeypatch, has_gpu, is_static
):
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind: ["GPU:0"] * has_gpu
    )
    for value, expected in (
        ("auto", has_gpu and is_static),
        ("true", True),
        ("false", False),
    ):
        for padded, static in ((is_static, None), (not is_static, is_static)):
            padding = f"--pad_to_max_length={padded}"
            settings = read(f"--jit_compile={value}", padding, script="run_tagger")
            assert (
                device_setup.compiles(settings, ONE_DEVICE, static=static) is expected
            )
