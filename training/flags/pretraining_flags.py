"""Flags of pretraining: its records, how long, and how unmasked records are masked."""

from collections.abc import Sequence

from absl import flags as absl_flags
from absl import logging

from training import loop
from training.flags import run_flags

FLAGS = absl_flags.FLAGS


def define(maskings: Sequence[str]) -> None:
    """Which records, for how many steps; `maskings` are what --masking may say."""
    string, integer = absl_flags.DEFINE_string, absl_flags.DEFINE_integer
    string("input_file", None, "Files of records: globs, separated by commas.")
    string("eval_input_file", None, "Records to evaluate on; by default --input_file.")
    integer(
        "max_predictions_per_seq",
        20,
        "Most predictions a sequence; that of the records, where they are masked.",
        lower_bound=1,
    )
    integer("num_train_steps", 100000, "The last step, counted from 0.", lower_bound=1)
    integer("num_warmup_steps", 10000, "Steps in which the rate rises.", lower_bound=0)
    integer("max_eval_steps", 100, "Batches of an evaluation.", lower_bound=1)
    absl_flags.DEFINE_enum(
        "masking",
        "word_piece",
        maskings,
        "What is hidden together, in records that are not masked yet.",
    )
    absl_flags.DEFINE_float(
        "masked_lm_prob",
        0.15,
        "Share of tokens to predict, in records that are not masked yet.",
        lower_bound=0,
        upper_bound=1,
    )


def files() -> dict[str, str]:
    """{flag: value} of the records to train and to evaluate on.

    Raises:
        ValueError: there are none, or a seed that no order follows from.
    """
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


def plan() -> loop.Plan:
    """The plan of the flags; the last checkpoint counts, as in the original."""
    if FLAGS.do_train and FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
        logging.warning(
            "--num_warmup_steps=%d is not less than --num_train_steps=%d, so the rate "
            "never reaches --learning_rate=%s; a tenth of the steps is usual",
            FLAGS.num_warmup_steps,
            FLAGS.num_train_steps,
            FLAGS.learning_rate,
        )
    return run_flags.plan_of_steps(FLAGS.num_train_steps, FLAGS.num_warmup_steps)
