"""Tests of devices.py on one device; on two: test_two_replicas.py."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tests import forked, tiny
from training.distribution import cluster, devices

STRATEGY = tf.distribute.get_strategy()


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def join_cluster(monkeypatch):
    """A function that makes this process one of two, under a strategy of four."""

    def become(task):
        record = {
            "cluster": {"worker": ["a:1", "b:1"]},
            "task": {"type": "worker", "index": task},
        }
        monkeypatch.setenv("TF_CONFIG", json.dumps(record))
        return strategy

    class Workers:
        num_replicas_in_sync = 4

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", Workers)
    strategy = Workers()
    return become


def test_one_device_is_described(monkeypatch):
    gpus = []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus)
    monkeypatch.setattr(devices.cores, "usable", lambda: 3)
    assert devices.describe(STRATEGY) == (
        "devices: CPU with 3 cores, no GPU found; strategy: one device, 1 replica"
    )
    assert not devices.rewrites_steps(STRATEGY)
    gpus.append(types.SimpleNamespace(name="/device:GPU:0"))
    assert devices.describe(STRATEGY) == (
        "devices: 1 GPU; strategy: one device, 1 replica"
    )
    assert devices.rewrites_steps(STRATEGY)
    assert devices.compiles_steps(STRATEGY, static_length=128)
    assert not devices.compiles_steps(STRATEGY, static_length=None)


def test_batch_size_is_a_multiple_of_the_replicas():
    for batch_size, replicas, fitting in ((8, 1, 8), (8, 2, 8), (7, 2, 8), (1, 8, 8)):
        strategy = types.SimpleNamespace(num_replicas_in_sync=replicas)
        assert devices.fitting_batch_size(batch_size, strategy) == fitting


def test_devices_are_those_of_the_named_strategy(monkeypatch):
    made = []
    actual = {"GPU": [], "CPU": []}
    for kind in actual:
        for i in range(2):
            device = types.SimpleNamespace(name=f"/device:{kind}:{i}")
            actual[kind].append(device)
    monkeypatch.setattr(tf.config, "list_logical_devices", actual.__getitem__)
    monkeypatch.setattr(
        tf.distribute, "MirroredStrategy", lambda names: made.append(names) or "mirror"
    )
    assert devices.strategy_for("one_device") is tf.distribute.get_strategy()
    assert made == []
    for kind in ("auto", "mirrored"):
        assert devices.strategy_for(kind) == "mirror"
        assert made.pop() == ["/device:GPU:0", "/device:GPU:1"]
    actual["GPU"].pop()  # one is used alone, unless a flag names several
    assert devices.strategy_for("auto") is tf.distribute.get_strategy()
    assert devices.strategy_for("mirrored") == "mirror"
    assert made.pop() == ["/device:GPU:0"]
    actual["GPU"].pop()
    assert devices.strategy_for("mirrored") == "mirror"
    assert made.pop() == ["/device:CPU:0", "/device:CPU:1"]


@pytest.mark.parametrize("kind", ["auto", "multi_worker_mirrored"])
def test_cluster_is_used_and_waited_for(join_cluster, capsys, kind, monkeypatch):
    own, answers = type(join_cluster(1)), iter([False, False, True])
    monkeypatch.setattr(cluster, "_listening", contextlib.nullcontext)
    monkeypatch.setattr(cluster, "_answers", lambda address: next(answers))
    assert type(devices.strategy_for(kind)) is own
    printed = "worker 1 of 2 (chief: a:1) waits for a:1\n"
    assert capsys.readouterr().err == printed


def test_strategy_has_to_fit_the_hosts(join_cluster):
    message = (
        "^--distribution_strategy=multi_worker_mirrored needs to know the hosts: set "
        "TF_CONFIG on each, see docs/distributed.md$"
    )
    with pytest.raises(ValueError, match=message):
        devices.strategy_for("multi_worker_mirrored")
    join_cluster(0)
    for kind in ("one_device", "mirrored"):
        message = f"strategy={kind}, but TF_CONFIG names 2 .* multi_worker_mirrored"
        with pytest.raises(ValueError, match=message):
            devices.strategy_for(kind)


def test_tpu_that_does_not_answer_is_said_in_one_line(monkeypatch):
    def resolver(tpu, **_):
        raise ValueError(f"nothing at {tpu}")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    message = r"--tpu_name=node-1 \(nothing at node-1\).* or leave out --use_tpu$"
    with pytest.raises(ValueError, match=message):
        devices.strategy_for("tpu", tpu_name="node-1")


def test_cpu_is_split_before_it_is_used():
    tf.constant(1.0) + 1.0
    with pytest.raises(ValueError) as caught:
        devices.split_cpu(3)
    assert str(caught.value) == (
        "--virtual_cpus=3: TensorFlow has been used in this process already with "
        "another number; start a new one"
    )


def test_first_process_of_several_is_the_chief(join_cluster, monkeypatch, capsys):
    gathered = []
    monkeypatch.setattr(devices, "gathered", lambda *found: gathered.append(found))
    for task, printed in (
        (0, ""),
        (1, "worker 1 of 2 (chief: a:1) waits for the chief"),
    ):
        strategy = join_cluster(task)
        assert devices.has_workers(strategy)
        assert devices.is_chief(strategy) is (task == 0)
        devices.wait_for_all(strategy, "save")
        assert capsys.readouterr().err == (f"{printed} to save\n" if printed else "")
    assert len(gathered) == 2
    monkeypatch.undo()  # a process alone is the chief and agrees with itself
    assert devices.is_chief(STRATEGY) and not devices.has_workers(STRATEGY)
    devices.check_agreement(STRATEGY, 7, "anything")
    devices.wait_for_all(STRATEGY, "do something")
    assert capsys.readouterr().err == ""


def test_hosts_that_do_not_agree_are_refused(monkeypatch):
    actual = np.array([5, 5, 6, 6])
    monkeypatch.setattr(devices, "gathered", lambda strategy, number: actual)
    message = r"on the checkpoint to go on from: \[5, 5, 6, 6\].* --output_dir"
    with pytest.raises(ValueError, match=message):
        devices.check_agreement(STRATEGY, 5, "the checkpoint to go on from")
    actual[:] = 6
    devices.check_agreement(STRATEGY, 6, "the checkpoint to go on from")


@pytest.mark.parametrize(
    ("pipelines", "expected"),
    [
        (1, [[[0, 1], [2, 3], [4, 5], [6, 7]]]),
        (2, [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
        (4, [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]]),
    ],
)
@pytest.mark.parametrize("makes_own", [False, True])
def test_hosts_keep_their_shares_of_each_batch(pipelines, expected, makes_own):
    def host(number):
        return types.SimpleNamespace(
            num_replicas_in_sync=4,
            distribute_datasets_from_function=lambda shares_of: shares_of(
                types.SimpleNamespace(
                    num_input_pipelines=pipelines, input_pipeline_id=number
                )
            ),
        )

    numbers = np.arange(16, dtype=np.int32).reshape(2, 8)
    batches = tf.data.Dataset.from_tensor_slices({"x": numbers, "y": -numbers})

    def made_by_host(context):
        count = 8 // pipelines
        first = context.input_pipeline_id * count
        return batches.map(
            lambda batch: {k: v[first : first + count] for k, v in batch.items()}
        )

    made = made_by_host if makes_own else batches
    for number, shares in enumerate(expected):
        own = list(devices.distributed(host(number), made).as_numpy_iterator())
        first = [part["x"].tolist() for part in own[: len(shares)]]
        second = [part["x"].tolist() for part in own[len(shares) :]]
        assert first == shares and second == (np.array(shares) + 8).tolist()
        for part in own:
            np.testing.assert_array_equal(part["y"], -part["x"])


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_thread_tunes_what_a_run_reads(replicas):
    """An iterator waits for it at its end, up to a minute: an autotuner's period."""
    own = types.SimpleNamespace(num_input_pipelines=1, input_pipeline_id=0)
    strategy = types.SimpleNamespace(
        num_replicas_in_sync=replicas,
        distribute_datasets_from_function=lambda f: f(own),
        experimental_distribute_dataset=lambda dataset: dataset,
    )
    made = tf.data.Dataset.from_tensors({"x": np.zeros((8, 3), np.float32)})
    for batches in (made, lambda _: made):
        dataset = devices.distributed(strategy, batches)
        assert dataset.options().autotune.enabled is False
    # TPUs need all that is known of shapes.
    shape = (8 // replicas, 3)
    assert devices.distributed(strategy, made).element_spec["x"].shape == shape


WAITS = """
from training.distribution import cluster
cluster._REMINDER_SECONDS = 0.2
cluster.read().wait_for_others(lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_other_workers(number):
    hosts = [f"127.0.0.1:{port}" for port in forked.free_ports(2)]
    record = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 0}}
    variables = {"TF_CONFIG": json.dumps(record), "PYTHONPATH": str(tiny.ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", WAITS],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        line = f"worker 0 of 2 (the chief) waits for {hosts[1]}\n"
        assert [process.stdout.readline() for _ in range(2)] == [line] * 2
        process.send_signal(number)
        assert process.wait(20) == -number


def test_an_address_that_another_program_has_is_refused():
    ports = forked.free_ports(2)
    hosts = tuple(f"127.0.0.1:{port}" for port in ports)
    with socket.create_server(("", ports[0])):
        assert cluster.Cluster(hosts, 1).wait_for_others(print) is None
        with pytest.raises(ValueError, match=f"cannot listen at {hosts[0]}.*another p"):
            cluster.Cluster(hosts, 0).wait_for_others(print)
