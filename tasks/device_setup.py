"""Readies the devices that settings of devices name."""

from typing import Any

import tensorflow as tf

from contract import errors
from tasks.settings import devices as devices_settings
from tasks.settings import training
from terminal import progress
from training import train_step
from training.distribution import cluster, devices


def set_up(settings: devices_settings.Devices, *, one_host: bool = False) -> Any:
    """Readies the devices, before any other use of TensorFlow; returns their strategy.

    Raises InputError if flags contradict each other or TF_CONFIG, or a device is
    missing.
    """
    kind = settings.strategy_kind
    if one_host and cluster.read():
        raise errors.InputError(
            f"this script runs on one host, but {cluster.VARIABLE} names several; "
            "unset it, and give each host its own part of the input"
        )
    if settings.virtual_cpus:
        devices.split_cpu(settings.virtual_cpus)
    check_gpu(settings)
    strategy = devices.strategy_for(
        kind,
        tpu_name=settings.tpu_address,
        tpu_zone=settings.tpu_zone,
        gcp_project=settings.gcp_project,
    )
    if not devices.is_chief(strategy):
        progress.hide()
    return strategy


def check_gpu(settings: devices_settings.OneDevice) -> None:
    """Raises InputError where --require_gpu is set and there is no GPU."""
    if settings.require_gpu and not tf.config.list_physical_devices("GPU"):
        raise errors.InputError(
            "--require_gpu: TensorFlow finds no GPU; see nvidia-smi, and install "
            "tensorflow[and-cuda]"
        )


def check_batch_size(settings: training.Training, strategy: Any) -> None:
    """Raises InputError unless the batch divides by devices and micro-batches."""
    train_step.check_batch_size(
        settings.train_batch_size,
        settings.gradient_accumulation_steps,
        strategy.num_replicas_in_sync,
    )


def compiles(settings: Any, strategy: Any, static: bool | None = None) -> bool:
    """Returns True where XLA compiles; `static`: batches have one shape."""
    if settings.jit_compile == "auto":
        is_static = settings.has_static_shapes if static is None else static
        return devices.compiles_steps(strategy, is_static)
    return settings.jit_compile == "true"
