"""The devices of a run, their tf.distribute strategy, and each replica's share."""

import functools
import sys
from typing import Any

import numpy as np
import tensorflow as tf

from contract import cores, errors, wording
from data_pipeline.batches import batching
from training import batch_parts
from training.distribution import cluster

# Rows of a batch. Up to here its size, on which last bits depend, is that of the flag.
_USUAL = 256


def split_cpu(count: int) -> None:
    """Splits the CPU into `count` devices; ValueError if TensorFlow has been used."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise errors.InputError(
            f"--virtual_cpus={count}: TensorFlow has been used in this process already "
            "with another number; start a new one"
        ) from error


def strategy_for(
    kind: str = "auto",
    *,
    tpu_name: str = "local",
    tpu_zone: str | None = None,
    gcp_project: str | None = None,
) -> tf.distribute.Strategy:
    """One device, the GPUs of one or several hosts, or a TPU.

    `kind` is a value of --distribution_strategy: auto is multi_worker_mirrored where
    TF_CONFIG names several processes, mirrored where this host has several GPUs or
    virtual CPUs, one device otherwise. mirrored takes all GPUs, or else all virtual
    CPUs. `tpu_name` is the name or address of a Cloud TPU, or "local" on a TPU machine.

    Several hosts must call this before any other use of TensorFlow, and wait here for
    the last. Raises ValueError if no such TPU answers, or TF_CONFIG contradicts `kind`.
    """
    workers = cluster.read()
    if kind == "tpu":
        return _tpu_strategy(tpu_name, tpu_zone, gcp_project)
    if kind == "multi_worker_mirrored" or (kind == "auto" and workers):
        return _multi_worker_strategy(workers)
    if workers:
        raise errors.InputError(
            f"--distribution_strategy={kind}, but {cluster.VARIABLE} names "
            f"{len(workers.addresses)} hosts; unset it, or set multi_worker_mirrored"
        )
    gpus = tf.config.list_logical_devices("GPU")
    parts = gpus or tf.config.list_logical_devices("CPU")
    if kind == "mirrored" or (kind == "auto" and len(parts) > 1):
        return tf.distribute.MirroredStrategy([device.name for device in parts])
    return tf.distribute.get_strategy()


def _tpu_strategy(name, zone, project):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=zone, project=project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, ImportError) as error:
        reason = str(error).splitlines()[0][:100]
        raise errors.InputError(
            f"no TPU answers at --tpu_name={name} ({reason}); install tensorflow-tpu "
            "2.20.0, or leave out --use_tpu"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _multi_worker_strategy(workers):
    if workers is None:
        raise errors.InputError(
            "--distribution_strategy=multi_worker_mirrored needs to know the hosts: "
            f"set {cluster.VARIABLE} on each, see docs/distributed.md"
        )
    workers.wait_for_others(say)
    return tf.distribute.MultiWorkerMirroredStrategy()


def say(text: str) -> None:
    """Writes one line to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _workers(strategy):
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return cluster.read()
    return None


def has_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part."""
    return _workers(strategy) is not None


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes files; one of several does."""
    workers = _workers(strategy)
    return workers is None or workers.task == 0


def gathered(strategy: tf.distribute.Strategy, number: int) -> np.ndarray:
    """The numbers of all replicas, int64; waits until every process has called it."""
    if _workers(strategy) is None:
        return np.full(strategy.num_replicas_in_sync, number, np.int64)

    return _gather_of(strategy)(tf.constant([number], tf.int64)).numpy()


@functools.lru_cache(maxsize=1)
def _gather_of(strategy):
    """Concatenates replicas; traced per shape: an exchange keeps its first shape."""

    @tf.function
    def gather(value):
        return strategy.gather(strategy.run(tf.identity, args=(value,)), axis=0)

    return gather


def wait_for_all(strategy: tf.distribute.Strategy, what: str) -> None:
    """Returns when every process is here; `what` the chief does goes to the log."""
    workers = _workers(strategy)
    if workers is None:
        return
    if workers.task:
        say(f"{workers.name} waits for the chief to {what}")
    gathered(strategy, 0)


def check_agreement(strategy: tf.distribute.Strategy, number: int, what: str) -> None:
    """Raises ValueError on every process unless all have the same int64 `number`."""
    numbers = gathered(strategy, number)
    if np.any(numbers != numbers[0]):
        raise errors.InputError(
            f"the hosts do not agree on {what}: {numbers.tolist()}, by replica; start "
            "all with the same command, and one --output_dir that all of them see"
        )


def distributed(strategy: tf.distribute.Strategy, batches: Any) -> Any:
    """Cuts batches into equal shares of consecutive examples, one a replica.

    [B, ...] becomes [B / replicas, ...]; B is a multiple of the replicas. `batches` is
    a tf.data.Dataset of whole batches, of which every host makes all and keeps its
    shares; or, where making them costs time, a function of a tf.distribute.InputContext
    that makes a Dataset of only this host's rows, which are consecutive. Either way no
    batch depends on the number of hosts. No thread tunes these datasets, but
    TensorFlow's own iterators, one a replica where there are several, keep theirs.
    """
    replicas = strategy.num_replicas_in_sync
    makes_own = callable(batches)
    if replicas == 1:
        whole = batches(tf.distribute.InputContext()) if makes_own else batches
        return strategy.experimental_distribute_dataset(
            batching.without_autotuning(whole)
        )

    def shares_of(context):
        count = replicas // context.num_input_pipelines
        made = batches(context) if makes_own else batches
        parts = count if makes_own else replicas
        first = 0 if makes_own else context.input_pipeline_id * count

        def cut(batch):
            return {
                name: batch_parts.split_parts(value, parts)[first : first + count]
                for name, value in batch.items()
            }

        shares = made.map(cut).unbatch().prefetch(2 * count)
        return batching.without_autotuning(shares)

    return strategy.distribute_datasets_from_function(shares_of)


def whole_batches(strategy: tf.distribute.Strategy, shares: np.ndarray) -> np.ndarray:
    """Joins all processes' shares [steps, B / processes, ...] into [steps, B, ...]."""
    if _workers(strategy) is None:
        return shares
    local = len(strategy.extended.worker_devices)
    parts = np.reshape(shares, (len(shares), local, -1, *shares.shape[2:]))
    parts = np.swapaxes(parts, 0, 1)[:, None]  # [replicas here, 1, steps, ...]
    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group % local])
    )
    whole = np.swapaxes(_gather_of(strategy)(values).numpy(), 0, 1)
    return whole.reshape(len(shares), -1, *shares.shape[2:])


def fitting_batch_size(
    batch_size: int, strategy: tf.distribute.Strategy, num_rows: int | None = None
) -> int:
    """The next batch size that the replicas can share equally.

    One of more rows than usual is cut to `num_rows`, as it is filled up to its size.
    """
    replicas = strategy.num_replicas_in_sync
    size = batch_size if num_rows is None else min(batch_size, max(num_rows, _USUAL))
    return -(-size // replicas) * replicas


def compiles_steps(strategy: tf.distribute.Strategy, static_length: Any) -> bool:
    """Whether XLA pays: on TPU; never on CPU; on GPU if all batches have one length."""
    accelerator = _accelerator(strategy)
    return accelerator == "TPU" or bool(static_length and accelerator)


def rewrites_steps(strategy: tf.distribute.Strategy) -> bool:
    """Whether Grappler pays: not on CPU, where steps of rewritten graphs save no time.

    It takes a second of the first step. Steps of pretraining, and those that accumulate
    gradients, save 2 to 5 % of their time on CPU, too.
    """
    return bool(_accelerator(strategy))


def _accelerator(strategy):
    """TPU, GPU, or "" where the CPU computes."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    return "GPU" if tf.config.list_logical_devices("GPU") else ""


def describe(strategy: tf.distribute.Strategy) -> str:
    """The devices in one line, for the head of a log."""
    devices = _accelerator(strategy)
    if devices == "GPU":
        devices = f"{len(tf.config.list_logical_devices('GPU'))} GPU"
    devices = devices or f"CPU with {cores.usable()} cores, no GPU found"
    kind = type(strategy).__name__.lstrip("_").removesuffix("V1")
    kind = "one device" if kind == "DefaultDistributionStrategy" else kind
    kind = kind.replace("CollectiveAllReduce", "MultiWorkerMirrored")
    replicas = wording.count(strategy.num_replicas_in_sync, "replica")
    line = f"devices: {devices}; strategy: {kind}, {replicas}"
    workers = _workers(strategy)
    return f"{line}; {workers.name}" if workers else line
