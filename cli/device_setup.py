"""Readies the devices that the flags of device_flags.py ask for."""

from typing import Any

import tensorflow as tf
from absl import flags

from cli import device_flags
from contract import errors
from terminal import progress
from training import train_step
from training.distribution import cluster, devices

FLAGS = flags.FLAGS


def set_up(*, one_host: bool = False) -> Any:
    """Readies the devices, before any other use of TensorFlow; returns their strategy.

    Raises ValueError if flags contradict each other or TF_CONFIG, or a device is
    missing.
    """
    kind = device_flags.strategy_kind()
    if one_host and cluster.read():
        raise errors.InputError(
            f"this script runs on one host, but {cluster.VARIABLE} names several; "
            "unset it, and give each host its own part of the input"
        )
    if "deterministic" in FLAGS and FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    if FLAGS.virtual_cpus:
        devices.split_cpu(FLAGS.virtual_cpus)
    check_gpu()
    strategy = devices.strategy_for(
        kind,
        tpu_name=device_flags.tpu_address(),
        tpu_zone=FLAGS.tpu_zone,
        gcp_project=FLAGS.gcp_project,
    )
    if not devices.is_chief(strategy):
        progress.hide()
    return strategy


def check_gpu() -> None:
    """Raises ValueError where --require_gpu is set and there is no GPU."""
    if FLAGS.require_gpu and not tf.config.list_physical_devices("GPU"):
        raise errors.InputError(
            "--require_gpu: TensorFlow finds no GPU; see nvidia-smi, and install "
            "tensorflow[and-cuda]"
        )


def check_batch_size(strategy: Any) -> None:
    """Raises ValueError unless the batch divides by devices and micro-batches."""
    train_step.check_batch_size(
        FLAGS.train_batch_size,
        FLAGS.gradient_accumulation_steps,
        strategy.num_replicas_in_sync,
    )


def compiles(strategy: Any, static: bool | None = None) -> bool:
    """Returns True where XLA compiles; `static`: batches have one shape."""
    if FLAGS.jit_compile == "auto":
        is_static = device_flags.has_static_shapes() if static is None else static
        return devices.compiles_steps(strategy, is_static)
    return FLAGS.jit_compile == "true"
