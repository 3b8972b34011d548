"""Flags of the devices that a run uses, and of how they compute."""

from typing import Any

from absl import flags

from cli import command_line, training_flags
from contract import errors

FLAGS = flags.FLAGS
# Types of mixed precision, and their names in Keras.
PRECISIONS = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
# Flags with paths that a TPU elsewhere must be able to read or write.
_REMOTE_PATHS = ("output_dir", "init_checkpoint", "input_file", "eval_input_file")


@command_line.heading("Devices")
def define_one() -> None:
    """For scripts that compute on the first device that there is."""
    flags.DEFINE_bool("require_gpu", False, "Refuse to run if no GPU is available.")
    _define_precision()


@command_line.heading("Devices")
def define(*, trains: bool = True) -> None:
    """The original's TPU flags, and those of other devices."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        ["auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu"],
        "Distribution over devices; auto uses all GPUs of the host, and all hosts in "
        "TF_CONFIG.",
    )
    flags.DEFINE_bool(
        "use_tpu", False, "Run on a TPU; needs tensorflow-tpu 2.20.0, its last release."
    )
    flags.DEFINE_string("tpu_name", None, "Name of the Cloud TPU, or local.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU.")
    flags.DEFINE_string("master", None, "Address of the TPU master.")
    flags.DEFINE_integer(
        "num_tpu_cores",
        8,
        "Accepted and ignored; the number of cores is read from the TPU.",
    )
    flags.DEFINE_bool("require_gpu", False, "Refuse to run if no GPU is available.")
    flags.DEFINE_integer(
        "virtual_cpus",
        0,
        "Number of virtual devices to make of the CPU, to rehearse a run on many "
        "devices; 0 for one device.",
        lower_bound=0,
        upper_bound=1024,
    )
    flags.DEFINE_enum(
        "jit_compile",
        "auto",
        ["auto", "true", "false"],
        "Compile the forward and backward pass with XLA. auto: on TPU, and on GPU if "
        "all batches have the same length.",
    )
    _define_precision()
    if trains:
        _define_training()


def _define_precision() -> None:
    flags.DEFINE_enum(
        "mixed_precision",
        None,
        list(PRECISIONS),
        "Data type of the computation; weights stay in float32. By default everything "
        "is float32. With float16, training scales the loss dynamically.",
    )


def _define_training() -> None:
    flags.DEFINE_bool(
        "recompute",
        False,
        "Recompute the activations of each layer in the backward pass instead of "
        "keeping them. This needs a third more computation, and memory for one layer "
        "instead of all.",
    )
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only operations with reproducible results, also on GPU, where some are "
        "slower.",
    )


def strategy_kind() -> str:
    """The value of --distribution_strategy, or tpu where --use_tpu is set.

    Raises ValueError if flags contradict each other, or the TPU would not see a file.
    """
    kind = FLAGS.distribution_strategy
    if FLAGS.use_tpu:
        if kind not in ("auto", "tpu"):
            raise errors.InputError(
                f"--use_tpu and --distribution_strategy={kind} contradict each other; "
                "leave out one of them"
            )
        kind = "tpu"
    if kind == "tpu" and tpu_address() != "local":
        _check_remote_paths()
    return kind


def tpu_address() -> str:
    """Where the TPU is; local by default."""
    return FLAGS.tpu_name or FLAGS.master or "local"


def _check_remote_paths() -> None:
    for name in _REMOTE_PATHS:
        for path in (FLAGS[name].value or "").split(",") if name in FLAGS else ():
            if path and not path.startswith("gs://"):
                raise errors.InputError(
                    f"--{name}={path} is on this machine, where the TPU at --tpu_name="
                    f"{tpu_address()} cannot see it; copy it to a bucket (gs://)"
                )


def is_tpu() -> bool:
    """Returns True for a TPU, which needs batches of one shape."""
    return FLAGS.use_tpu or FLAGS.distribution_strategy == "tpu"


def has_static_shapes() -> bool:
    """Returns True where every batch is padded to --max_seq_length."""
    if is_tpu() or "pad_to_max_length" in FLAGS:
        return is_tpu() or FLAGS.pad_to_max_length
    return not training_flags.packs_sequences()  # otherwise records have one length


def dtype_policy() -> str:
    """Keras' name for --mixed_precision."""
    return PRECISIONS.get(FLAGS.mixed_precision, "float32")


def describe(model: Any) -> str:
    """How a model computes, for the head of a log."""
    parts = [model.compute_dtype]
    if model.compute_dtype != model.variable_dtype:
        parts[0] += f", weights {model.variable_dtype}"
    parts += [name for name in ("recompute", "deterministic") if FLAGS[name].value]
    return "; ".join(parts)
