"""Flags of where work runs, and of output in shards that a killed command keeps."""

from absl import flags

from cli import command_line

FLAGS = flags.FLAGS


@command_line.heading("Processes")
def define() -> None:
    """--engine and --beam_option."""
    text = "Run on this machine, or with a runner of Apache Beam."
    flags.DEFINE_enum("engine", "local", ["local", "beam"], text)
    text = "Option for Apache Beam, such as --runner=DataflowRunner"
    flags.DEFINE_multi_string("beam_option", [], text)


def define_shards() -> None:
    """`define`, and --lines_per_shard."""
    with command_line.heading("Output"):
        text = (
            "Number of lines of --input_file for each output file, such as "
            "NAME-00000-of-00062.jsonl; 0 for one file. Files that are there are kept."
        )
        flags.DEFINE_integer("lines_per_shard", 0, text, 0)
    define()


def check() -> None:
    """Raises ValueError where options have no engine."""
    options = FLAGS["beam_option"]
    command_line.refuse(
        (
            options.value and FLAGS.engine != "beam",
            f"{options.serialize()} is for --engine=beam; add it, or leave it out",
        ),
    )


def check_shards() -> None:
    """Raises ValueError where the flags of `define_shards` contradict others."""
    check()
    flag, output = FLAGS["lines_per_shard"], FLAGS.output_file
    command_line.refuse(
        (
            flag.value and output and output.endswith("/"),
            f"--output_file={output} is a directory; name the file in it, after which "
            "shards are called",
        ),
        (
            FLAGS.engine == "beam" and not flag.value,
            "--engine=beam computes shards, and --lines_per_shard is 0; add "
            "--lines_per_shard=16384, for example",
        ),
        (
            flag.value and (not output or FLAGS.input_file in (None, "-")),
            f"{flag.serialize()} needs an --input_file to read twice, and an "
            "--output_file to name its shards after; give both",
        ),
    )
