"""Flags of extract_features.py."""

from typing import Any

from absl import flags

from cli import command_line, device_flags, model_flags

FLAGS = flags.FLAGS


@command_line.heading("Vectors")
def define() -> None:
    """All flags of the script."""
    model_flags.define(max_seq_length=128, output_dir=False)
    device_flags.define(trains=False)
    _define_files()
    model_flags.define_vectors(layers="-1,-2,-3,-4", pooling="none", others=["none"])
    flags.DEFINE_bool(
        "carry_states",
        False,
        "Begin each line of ELMo with the states at the end of the one before it, as "
        "its dumps do.",
    )
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "Accepted and ignored: another way to compute the same vectors.",
    )


def _define_files() -> None:
    string = flags.DEFINE_string
    with command_line.heading("Data"):
        string("input_file", None, "Texts, one example a line; `A ||| B` is a pair.")
        flags.DEFINE_integer("batch_size", 32, "Lines a batch.", lower_bound=1)
    with command_line.heading("Output"):
        string("output_file", None, "Where the vectors go; replaced if it is there.")
        flags.DEFINE_enum(
            "output_format",
            "jsonl",
            ["jsonl", "npz", "tfrecord", "hdf5"],
            "JSON lines as the original writes them, NumPy's .npz, TFRecords, or HDF5 "
            "as ELMo's dumps.",
        )
    flags.mark_flags_as_required(["input_file", "output_file"])


def check() -> None:
    """Raises ValueError where a file is missing."""
    command_line.refuse(
        *(
            (not FLAGS[name].value, f"--{name} is empty; name a file")
            for name in ("input_file", "output_file")
        )
    )
    command_line.check_files("input_file")
    model_flags.check(needs_weights=True)


def check_network(config: Any) -> None:
    """Raises ValueError where flags contradict each other, or the network."""
    command_line.refuse(
        (
            FLAGS.carry_states and config.network != "elmo",
            f"--carry_states is for ELMo, and the network is a {config.kind}, without "
            "states; leave it out",
        ),
        (
            FLAGS.carry_states and device_flags.is_tpu(),
            "--carry_states does not run on TPU; leave one of them out",
        ),
    )
