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
        flags.DEFINE_integer(
            "lines_per_shard",
            0,
            "Number of lines of --input_file for each output file, such as "
            "NAME-00000-of-00062.jsonl; 0 for one file. The same command again keeps "
            "the files that are there.",
            lower_bound=0,
        )
    define()


def check_shards() -> None:
    """Raises ValueError where the flags of `define_shards` contradict others."""
    command_line.refuse(
        (
            FLAGS.engine == "beam" and not FLAGS.lines_per_shard,
            "--engine=beam computes shards, and --lines_per_shard is 0; add "
            "--lines_per_shard=16384, for example",
        ),
        (
            FLAGS.lines_per_shard and FLAGS.input_file in (None, "-"),
            f"--lines_per_shard={FLAGS.lines_per_shard} reads its input twice, so it "
            "needs a file; give one as --input_file",
        ),
        (
            FLAGS.lines_per_shard and not FLAGS.output_file,
            f"--lines_per_shard={FLAGS.lines_per_shard} names its shards after "
            "--output_file; give one",
        ),
    )
