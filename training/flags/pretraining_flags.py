"""Flags of pretraining: its records, how long, and how unmasked records are masked."""

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS


def define() -> None:
    """Which records, for how many steps, and how unmasked records are masked."""
    integer = flags.DEFINE_integer
    with command_line.heading("Data"):
        _define_records()
    with command_line.heading("Training"):
        integer("num_train_steps", 100000, "The last step, counted from 0.", 1)
        integer("num_warmup_steps", 10000, "Steps in which the rate rises.", 0)
    with command_line.heading("Evaluation and checkpoints"):
        integer("max_eval_steps", 100, "Batches of an evaluation.", 1)


def _define_records() -> None:
    string = flags.DEFINE_string
    string("input_file", None, "Files of records: globs, separated by commas.")
    string("eval_input_file", None, "Records to evaluate on; by default --input_file.")
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Most predictions a sequence; that of the records, where they are masked.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "masking",
        "word_piece",
        ["word_piece", "whole_word", "span", "ngram"],
        "What is hidden together, in records that are not masked yet.",
    )
    command_line.define_float(
        "masked_lm_prob",
        0.15,
        "Share of tokens to predict, in records that are not masked yet.",
        lower_bound=0,
        upper_bound=1,
    )


def files() -> dict[str, str]:
    """{flag: value} of the records; ValueError if there are none, or --seed < 0."""
    if not FLAGS.input_file:
        raise ValueError("--input_file is missing; name one or more files of records")
    if FLAGS.seed < 0:
        raise ValueError(f"--seed={FLAGS.seed} is below 0; give 0 or more")
    return {
        "input_file": FLAGS.input_file,
        **({"eval_input_file": FLAGS.eval_input_file} if FLAGS.eval_input_file else {}),
    }


def masks_are_asked_for() -> bool:
    """Whether a flag is set that only means something for unmasked records."""
    return bool(FLAGS["masking"].present or FLAGS["masked_lm_prob"].present)
