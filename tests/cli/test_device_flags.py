"""Tests of device_flags.py and device_setup.py, with flags defined as scripts do."""

import functools
import json
import types

import pytest
import tensorflow as tf
from absl import flags as absl_flags

from cli import device_flags, device_setup
from training.distribution import devices

CLUSTER = json.dumps(
    {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
)
ONE_DEVICE = types.SimpleNamespace(num_replicas_in_sync=1)


@pytest.fixture
def command_line(monkeypatch):
    """A function that parses arguments with the flags of this module and others."""
    monkeypatch.delenv("TF_CONFIG", raising=False)

    def give(*arguments, trains=True, **others):
        values = absl_flags.FlagValues()
        for module in (device_flags, device_setup):
            monkeypatch.setattr(module, "FLAGS", values)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("bool", "string", "integer", "enum"):
                define = getattr(absl_flags, f"DEFINE_{name}")
                here = functools.partial(define, flag_values=values)
                patch.setattr(absl_flags, f"DEFINE_{name}", here)
            device_flags.define(trains=trains)
        kinds = {bool: absl_flags.DEFINE_bool, int: absl_flags.DEFINE_integer}
        for name, value in others.items():
            define = kinds.get(type(value), absl_flags.DEFINE_string)
            define(name, value, "", flag_values=values)
        values(["script", *arguments])

    return give


@pytest.fixture
def asked(monkeypatch):
    """What devices.strategy_for is asked for, instead of asking for it."""
    calls = []

    def strategy_for(kind, **where):
        calls.append((kind, where))
        return ONE_DEVICE

    monkeypatch.setattr(devices, "strategy_for", strategy_for)
    return calls


LOCAL = {"tpu_name": "local", "tpu_zone": None, "gcp_project": None}


@pytest.mark.parametrize(
    ("arguments", "kind", "where"),
    [
        ([], "auto", {}),
        (["--distribution_strategy=mirrored"], "mirrored", {}),
        (["--use_tpu"], "tpu", {}),
        (["--distribution_strategy=tpu"], "tpu", {}),
        (["--use_tpu", "--distribution_strategy=tpu"], "tpu", {}),
        (["--use_tpu", "--master=grpc://a:8470"], "tpu", {"tpu_name": "grpc://a:8470"}),
        (
            ["--use_tpu", "--tpu_name=t", "--tpu_zone=z", "--gcp_project=p"],
            "tpu",
            {"tpu_name": "t", "tpu_zone": "z", "gcp_project": "p"},
        ),
    ],
)
def test_flags_name_the_strategy(command_line, asked, arguments, kind, where):
    command_line(*arguments)
    assert device_setup.set_up() is ONE_DEVICE
    assert asked == [(kind, {**LOCAL, **where})]


@pytest.mark.parametrize("kind", ["one_device", "mirrored", "multi_worker_mirrored"])
def test_tpu_and_another_strategy_contradict_each_other(command_line, asked, kind):
    command_line("--use_tpu", f"--distribution_strategy={kind}")
    with pytest.raises(ValueError) as caught:
        device_setup.set_up()
    assert str(caught.value) == (
        f"--use_tpu and --distribution_strategy={kind} contradict each other; leave "
        "out one of them"
    )
    assert asked == []


def test_script_of_one_host_refuses_a_cluster(command_line, asked, monkeypatch):
    command_line()
    device_setup.set_up(one_host=True)
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    device_setup.set_up()
    with pytest.raises(ValueError) as caught:
        device_setup.set_up(one_host=True)
    assert str(caught.value) == (
        "this script runs on one host, but TF_CONFIG names several; unset it, and give "
        "each host its own part of the input"
    )
    assert len(asked) == 2


PATHS = {
    "output_dir": "gs://bucket/run",
    "init_checkpoint": None,
    "input_file": "gs://bucket/a.tfrecord,gs://bucket/b-*",
}


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"output_dir": "/tmp/run"}, "--output_dir=/tmp/run"),
        ({"init_checkpoint": "bert_model.ckpt"}, "--init_checkpoint=bert_model.ckpt"),
        ({"input_file": "gs://bucket/a,b-*"}, "--input_file=b-*"),
        ({"eval_input_file": "dev"}, "--eval_input_file=dev"),
    ],
    ids=str,
)
def test_tpu_elsewhere_needs_paths_it_can_see(command_line, asked, change, shown):
    remote = ["--use_tpu", "--tpu_name=node-1"]
    command_line(*remote, **PATHS)
    device_setup.set_up()
    for arguments in (["--use_tpu"], ["--tpu_name=node-1"]):  # here, or not at all
        command_line(*arguments, **{**PATHS, **change})
        device_setup.set_up()
    command_line(*remote, **{**PATHS, **change})
    with pytest.raises(ValueError) as caught:
        device_setup.set_up()
    assert str(caught.value) == (
        f"{shown} is on this machine, where the TPU at --tpu_name=node-1 cannot see "
        "it; copy it to a bucket (gs://)"
    )
    assert len(asked) == 3


def test_gpu_can_be_required(command_line, asked, monkeypatch):
    found = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: found)
    command_line()
    device_setup.set_up()
    command_line("--require_gpu")
    with pytest.raises(ValueError) as caught:
        device_setup.set_up()
    assert str(caught.value) == (
        "--require_gpu: TensorFlow finds no GPU; see nvidia-smi, and install "
        "tensorflow[and-cuda]"
    )
    found.append("GPU:0")
    device_setup.set_up()
    assert len(asked) == 2


def test_cpu_is_split_and_determinism_turned_on_if_asked(
    command_line, asked, monkeypatch
):
    done = []
    monkeypatch.setattr(devices, "split_cpu", done.append)
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: done.append("same")
    )
    command_line()
    device_setup.set_up()
    command_line(trains=False)
    device_setup.set_up()
    assert done == []
    command_line("--virtual_cpus=4", "--deterministic")
    device_setup.set_up()
    assert done == ["same", 4]


def test_batch_is_checked_against_devices_and_parts(command_line):
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    command_line(train_batch_size=24, gradient_accumulation_steps=4)
    device_setup.check_batch_size(strategy)
    for size, parts, multiple in ((20, 4, 8), (7, 1, 2)):
        command_line(train_batch_size=size, gradient_accumulation_steps=parts)
        with pytest.raises(ValueError) as caught:
            device_setup.check_batch_size(strategy)
        text = str(caught.value)
        assert text.startswith(f"--train_batch_size={size} is the whole batch")
        assert text.endswith(f"choose a multiple of {multiple}")


@pytest.mark.parametrize(
    ("arguments", "others", "is_static"),
    [
        ([], {"pad_to_max_length": False}, False),
        ([], {"pad_to_max_length": True}, True),
        (["--use_tpu"], {"pad_to_max_length": False}, True),
        (["--distribution_strategy=tpu"], {"pad_to_max_length": False}, True),
        (["--distribution_strategy=mirrored"], {"pad_to_max_length": False}, False),
        ([], {}, True),  # records of one length
    ],
)
def test_shapes_are_static_where_asked_and_on_tpu(
    command_line, arguments, others, is_static
):
    command_line(*arguments, **others)
    assert device_flags.has_static_shapes() is is_static
    assert device_flags.is_tpu() is any("tpu" in argument for argument in arguments)


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("is_static", [False, True])
def test_steps_are_compiled_where_it_pays_or_as_told(
    command_line, monkeypatch, has_gpu, is_static
):
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind: ["GPU:0"] * has_gpu
    )
    for argument, expected in (
        ("auto", has_gpu and is_static),
        ("true", True),
        ("false", False),
    ):
        command_line(f"--jit_compile={argument}", pad_to_max_length=is_static)
        assert device_setup.compiles(ONE_DEVICE) is expected
        # Who knows better says so.
        command_line(f"--jit_compile={argument}", pad_to_max_length=not is_static)
        assert device_setup.compiles(ONE_DEVICE, static=is_static) is expected


@pytest.mark.parametrize(
    ("arguments", "policy", "described"),
    [
        ([], "float32", "float32"),
        (
            ["--mixed_precision=bfloat16", "--recompute"],
            "mixed_bfloat16",
            "bfloat16, weights float32; recompute",
        ),
        (
            ["--mixed_precision=float16", "--recompute", "--deterministic"],
            "mixed_float16",
            "float16, weights float32; recompute; deterministic",
        ),
        (["--deterministic"], "float32", "float32; deterministic"),
    ],
)
def test_precision_is_that_of_the_flag(command_line, arguments, policy, described):
    command_line(*arguments)
    assert device_flags.dtype_policy() == policy
    model = types.SimpleNamespace(
        compute_dtype=policy.removeprefix("mixed_"), variable_dtype="float32"
    )
    assert device_flags.describe(model) == described


def test_script_that_does_not_train_has_fewer_flags(command_line):
    command_line()
    assert "recompute" in device_flags.FLAGS and "deterministic" in device_flags.FLAGS
    command_line(trains=False)
    for name in ("recompute", "deterministic"):
        assert name not in device_flags.FLAGS
    assert device_flags.FLAGS.distribution_strategy == "auto"


@pytest.mark.parametrize(
    "argument",
    [
        "--distribution_strategy=parameter_server",
        "--mixed_precision=float64",
        "--jit_compile=yes",
        "--virtual_cpus=-1",
    ],
)
def test_values_that_mean_nothing_are_refused(command_line, argument):
    with pytest.raises(absl_flags.IllegalFlagValueError):
        command_line(argument)
