"""Flags of the devices that a run uses, and of how they compute."""

from typing import Any

import tensorflow as tf
from absl import flags

from training.distribution import cluster, devices
from training.optimization import accumulation

FLAGS = flags.FLAGS
# What is computed in another type than float32, and Keras' name for that.
PRECISIONS = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
# Flags with paths that a TPU elsewhere must be able to read or write.
_REMOTE_PATHS = ("output_dir", "init_checkpoint", "input_file", "eval_input_file")


def define(*, trains: bool = True) -> None:
    """The original's TPU flags, and those of other devices.

    Args:
        trains: whether the script does.
    """
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        devices.STRATEGIES,
        "auto takes all GPUs of the host, and all hosts that TF_CONFIG names.",
    )
    flags.DEFINE_bool("use_tpu", False, "Run on a TPU.")
    flags.DEFINE_string("tpu_name", None, "Name of the Cloud TPU, or local.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU.")
    flags.DEFINE_string("master", None, "Address of the TPU's master.")
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Accepted and ignored: the TPU says how many it has."
    )
    flags.DEFINE_bool("require_gpu", False, "Refuse to run where no GPU is found.")
    flags.DEFINE_integer(
        "virtual_cpus",
        0,
        "Make so many devices of the CPU, to rehearse a run on many; 0 for one.",
        lower_bound=0,
    )
    flags.DEFINE_enum(
        "jit_compile",
        "auto",
        ["auto", "true", "false"],
        "Compile forward and backward pass with XLA. auto: on TPU, and on GPU where "
        "every batch has one length.",
    )
    flags.DEFINE_enum(
        "mixed_precision",
        None,
        list(PRECISIONS),
        "Compute in this type and keep weights in float32; by default all is float32. "
        "With float16 the loss is scaled as far as gradients allow.",
    )
    if trains:
        _define_training()


def _define_training() -> None:
    flags.DEFINE_bool(
        "recompute",
        False,
        "Compute each layer's activations a second time in the backward pass instead "
        "of keeping them: a third more work, and memory for one layer, not all.",
    )
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only operations whose results do not change from run to run, also on GPU, "
        "where some are slower.",
    )


def set_up(*, one_host: bool = False) -> Any:
    """Readies the devices; to be called before anything is done with TensorFlow.

    Args:
        one_host: whether the script runs on one host only.

    Returns:
        The tf.distribute.Strategy of the flags.

    Raises:
        ValueError: flags contradict each other, or there is no such device.
    """
    kind = FLAGS.distribution_strategy
    if FLAGS.use_tpu:
        if kind not in ("auto", "tpu"):
            raise ValueError(
                f"--use_tpu and --distribution_strategy={kind} contradict each other; "
                "leave out one of them"
            )
        kind = "tpu"
    if one_host and cluster.read():
        raise ValueError(
            f"this script runs on one host, but {cluster.VARIABLE} names several; "
            "unset it, and give each host its own part of the input"
        )
    address = FLAGS.tpu_name or FLAGS.master or "local"
    if kind == "tpu" and address != "local":
        _check_remote_paths(address)
    if "deterministic" in FLAGS and FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    if FLAGS.virtual_cpus:
        devices.split_cpu(FLAGS.virtual_cpus)
    if FLAGS.require_gpu and not tf.config.list_physical_devices("GPU"):
        raise ValueError(
            "--require_gpu: TensorFlow finds no GPU; see nvidia-smi, and install "
            "tensorflow[and-cuda]"
        )
    return devices.strategy_for(
        kind,
        tpu_name=address,
        tpu_zone=FLAGS.tpu_zone,
        gcp_project=FLAGS.gcp_project,
    )


def _check_remote_paths(address: str) -> None:
    """Refuses paths of this machine for work that another one does."""
    for name in _REMOTE_PATHS:
        for path in (FLAGS[name].value or "").split(",") if name in FLAGS else ():
            if path and not path.startswith("gs://"):
                raise ValueError(
                    f"--{name}={path} is on this machine, where the TPU at "
                    f"--tpu_name={address} cannot see it; copy it to a bucket (gs://)"
                )


def check_batch_size(strategy: Any) -> None:
    """Refuses a batch that the devices and micro-batches cannot share equally.

    Raises:
        ValueError: says which multiple to choose.
    """
    accumulation.check_batch_size(
        FLAGS.train_batch_size,
        FLAGS.gradient_accumulation_steps,
        strategy.num_replicas_in_sync,
    )


def is_tpu() -> bool:
    """Whether a TPU is asked for, which needs batches of one shape."""
    return FLAGS.use_tpu or FLAGS.distribution_strategy == "tpu"


def has_static_shapes() -> bool:
    """Whether every batch of training is padded to --max_seq_length."""
    # A script without the flag reads records of one length.
    return is_tpu() or "pad_to_max_length" not in FLAGS or FLAGS.pad_to_max_length


def compiles(strategy: Any, static: bool | None = None) -> bool:
    """Whether XLA compiles forward and backward pass.

    Args:
        strategy: the tf.distribute.Strategy.
        static: whether all batches have one shape, where `has_static_shapes` does not
            say it.
    """
    if FLAGS.jit_compile == "auto":
        is_static = has_static_shapes() if static is None else static
        return devices.compiles_steps(strategy, is_static)
    return FLAGS.jit_compile == "true"


def dtype_policy() -> str:
    """Keras' name for --mixed_precision."""
    return PRECISIONS.get(FLAGS.mixed_precision, "float32")


def describe(model: Any) -> str:
    """How a model computes, for the head of a log; from the model, where it knows."""
    parts = [model.compute_dtype]
    if model.compute_dtype != model.variable_dtype:
        parts[0] += f", weights {model.variable_dtype}"
    parts += [name for name in ("recompute", "deterministic") if FLAGS[name].value]
    return "; ".join(parts)
