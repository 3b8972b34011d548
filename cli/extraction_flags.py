"""Flags of extract_features.py."""

from absl import flags

from cli import command_line, device_flags, engine_flags, model_flags

FLAGS = flags.FLAGS


@command_line.heading("Vectors")
def define() -> None:
    """All flags of the script."""
    model_flags.define(max_seq_length=128, output_dir=False)
    device_flags.define(trains=False)
    _define_files()
    model_flags.define_vectors(layers="-1,-2,-3,-4", pooling="none", others=["none"])
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "Accepted and ignored; it does not change the vectors.",
    )


def _define_files() -> None:
    string = flags.DEFINE_string
    with command_line.heading("Data"):
        string(
            "input_file",
            None,
            "Text file with one example per line; `A ||| B` is a sentence pair.",
        )
        flags.DEFINE_integer(
            "batch_size", 32, "Number of lines per batch.", lower_bound=1
        )
    with command_line.heading("Output"):
        string(
            "output_file", None, "File for the vectors; an existing file is replaced."
        )
        flags.DEFINE_enum(
            "output_format",
            "jsonl",
            ["jsonl", "npz"],
            "jsonl: JSON lines, as in google-research/bert. npz: NumPy arrays.",
        )
    engine_flags.define_shards()
    flags.mark_flags_as_required(["input_file", "output_file"])


def check() -> None:
    """Raises ValueError where a file is missing."""
    command_line.refuse(
        *(
            (not FLAGS[name].value, f"--{name} is empty; name a file")
            for name in ("input_file", "output_file")
        )
    )
    engine_flags.check_shards()
    command_line.refuse(
        (
            device_flags.is_tpu() and FLAGS.engine == "beam",
            "--engine=beam does not run on TPU; leave out one of them",
        ),
    )
    command_line.check_files("input_file")
    model_flags.check(needs_weights=True)
