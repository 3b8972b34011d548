"""Tests of device_flags.py and device_setup.py, with the flags of scripts."""

import contextlib
import json
import types

import pytest
import tensorflow as tf
from absl import flags

from cli import device_flags, device_setup
from tests import tiny
from training.distribution import devices

CLUSTER = json.dumps(
    {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
)
ONE_DEVICE = types.SimpleNamespace(num_replicas_in_sync=1)
LOCAL = {"tpu_name": "local", "tpu_zone": None, "gcp_project": None}


@pytest.fixture
def parse(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with contextlib.ExitStack() as stack:

        def call(*arguments, script="run_pretraining"):
            stack.close()
            names = stack.enter_context(tiny.flags_of(script))
            needed = ("input_file", "output_file") if "output_file" in names else ()
            places = [f"--{name}=x" for name in needed]
            flags.FLAGS([script, *places, *arguments])

        yield call


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
def test_flags_name_the_strategy(parse, calls, arguments, kind, where):
    parse(*arguments.split())
    assert device_setup.set_up() is ONE_DEVICE
    assert calls == [(kind, {**LOCAL, **where})]


def test_script_of_one_host_refuses_a_cluster(parse, calls, monkeypatch):
    parse()
    device_setup.set_up(one_host=True)
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    device_setup.set_up()
    with pytest.raises(ValueError, match="runs on one host, but TF_CONFIG names sever"):
        device_setup.set_up(one_host=True)
    assert len(calls) == 2


PATHS = {
    "output_dir": "gs://bucket/run",
    "input_file": "gs://bucket/a.tfrecord,gs://bucket/b-*",
}


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"output_dir": "/tmp/run"}, "--output_dir=/tmp/run"),
        ({"init_checkpoint": "bert_model.ckpt"}, "--init_checkpoint=bert_model.ckpt"),
        ({"input_file": "gs://bucket/a,b"}, "--input_file=b"),
        ({"eval_input_file": "dev"}, "--eval_input_file=dev"),
        ({}, ""),
    ],
    ids=str,
)
def test_tpu_elsewhere_needs_paths_it_can_see(parse, calls, change, shown):
    paths = [f"--{name}={value}" for name, value in (PATHS | change).items()]
    for arguments in (["--use_tpu"], ["--tpu_name=node-1"]):  # here, or not at all
        parse(*arguments, *paths)
        device_setup.set_up()
    parse("--use_tpu", "--tpu_name=node-1", *paths)
    if shown:
        message = f"^{shown} is on this machine, where the TPU at --tpu_name=node-1"
        with pytest.raises(ValueError, match=message):
            device_setup.set_up()
    else:
        device_setup.set_up()
    assert len(calls) == (2 if shown else 3)


def test_gpu_can_be_required(parse, calls, monkeypatch):
    gpus = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    parse()
    device_setup.set_up()
    parse("--require_gpu")
    with pytest.raises(ValueError, match=r"^--require_gpu: TensorFlow finds no GPU; "):
        device_setup.set_up()
    gpus.append("GPU:0")
    device_setup.set_up()
    assert len(calls) == 2


def test_cpu_is_split_and_determinism_turned_on_if_asked(parse, calls, monkeypatch):
    done = []
    monkeypatch.setattr(devices, "split_cpu", done.append)
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: done.append("same")
    )
    parse()
    device_setup.set_up()
    parse(script="extract_features")  # which trains nothing
    assert not {"recompute", "deterministic"} & set(flags.FLAGS)
    device_setup.set_up()
    assert done == []
    parse("--virtual_cpus=4", "--deterministic")
    device_setup.set_up()
    assert done == ["same", 4]


def test_batch_is_checked_against_devices_and_parts(parse):
    strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    for size, parts, multiple in ((24, 4, None), (20, 4, 8), (7, 1, 2)):
        parse(f"--train_batch_size={size}", f"--gradient_accumulation_steps={parts}")
        if multiple is None:
            device_setup.check_batch_size(strategy)
            continue
        message = f"={size} cannot be cut.*choose a multiple of {multiple}$"
        with pytest.raises(ValueError, match=message):
            device_setup.check_batch_size(strategy)


@pytest.mark.parametrize(
    ("arguments", "script", "is_static"),
    [
        ("--pad_to_max_length", "run_tagger", True),
        ("--use_tpu", "run_tagger", True),
        ("--distribution_strategy=mirrored", "run_tagger", False),
        ("", "run_pretraining", True),  # records of one length
    ],
)
def test_shapes_are_static_where_a_flag_says_so_and_on_tpu(
    parse, arguments, script, is_static
):
    parse(*arguments.split(), script=script)
    assert device_flags.has_static_shapes() is is_static
    assert device_flags.is_tpu() is ("tpu" in arguments)


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("is_static", [False, True])
def test_steps_are_compiled_where_it_pays_or_by_the_flag(
    parse, monkeypatch, has_gpu, is_static
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
            parse(f"--jit_compile={value}", padding, script="run_tagger")
            assert device_setup.compiles(ONE_DEVICE, static=static) is expected


@pytest.mark.parametrize(
    ("arguments", "policy", "described"),
    [
        ("", "float32", "float32"),
        (
            "--mixed_precision=bfloat16 --recompute",
            "mixed_bfloat16",
            "bfloat16, weights float32; recompute",
        ),
        (
            "--mixed_precision=float16 --recompute --deterministic",
            "mixed_float16",
            "float16, weights float32; recompute; deterministic",
        ),
        ("--deterministic", "float32", "float32; deterministic"),
    ],
)
def test_precision_is_that_of_the_flag(parse, arguments, policy, described):
    parse(*arguments.split())
    assert device_flags.dtype_policy() == policy
    model = types.SimpleNamespace(
        compute_dtype=policy.removeprefix("mixed_"), variable_dtype="float32"
    )
    assert device_flags.describe(model) == described
