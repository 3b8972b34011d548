"""Which devices a run uses, and under which tf.distribute strategy."""

import contextlib
import os

import tensorflow as tf


def strategy_for(
    *, use_tpu=False, tpu_name=None, tpu_zone=None, gcp_project=None, master=None
):
    """One device, all GPUs of this machine, or a TPU.

    Args:
        use_tpu: run on the TPU that the other arguments name.
        tpu_name: name of a Cloud TPU, or "local" on a TPU machine.
        tpu_zone: its zone.
        gcp_project: its project.
        master: address of the TPU's master, instead of a name.

    Returns:
        A tf.distribute.Strategy: TPUStrategy, MirroredStrategy over more than one
        GPU, or the default one.

    Raises:
        ValueError: no such TPU is reachable.
    """
    if use_tpu:
        address = tpu_name or master or "local"
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                tpu=address, zone=tpu_zone, project=gcp_project
            )
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (tf.errors.OpError, ValueError, RuntimeError, ImportError) as error:
            raise ValueError(
                f"--use_tpu: no TPU answers at --tpu_name={address} ({error}); run on "
                "a TPU machine with the package tensorflow-tpu, or leave out --use_tpu"
            ) from error
        return tf.distribute.TPUStrategy(resolver)
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])
    return tf.distribute.get_strategy()


def fitting_batch_size(batch_size, strategy):
    """The next batch size that can be split evenly between the replicas."""
    replicas = strategy.num_replicas_in_sync
    return -(-batch_size // replicas) * replicas


def compiles_steps(strategy, static_length):
    """Whether XLA around forward and backward pass pays.

    On TPU it must be; on GPU it is worth it where shapes do not change, for every new
    length is compiled anew; on CPU it is slower.

    Args:
        strategy: the tf.distribute.Strategy.
        static_length: the one length of all batches, or None.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return bool(static_length and tf.config.list_logical_devices("GPU"))


def describe(strategy):
    """One line on devices, for the head of a log."""
    gpus = tf.config.list_logical_devices("GPU")
    threads = len(_usable_cores())
    devices = f"{len(gpus)} GPU" if gpus else f"CPU with {threads} cores, no GPU found"
    if isinstance(strategy, tf.distribute.TPUStrategy):
        devices = "TPU"
    kind = type(strategy).__name__.lstrip("_").removesuffix("V1")
    kind = "one device" if kind == "DefaultDistributionStrategy" else kind
    replicas = strategy.num_replicas_in_sync
    return f"devices: {devices}; strategy: {kind}, {replicas} replica(s)"


def _usable_cores():
    with contextlib.suppress(AttributeError):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)
