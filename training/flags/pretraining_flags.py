"""Flags of pretraining: records, how long, how they are masked, what is exported."""

from typing import Any

from absl import flags

from training.flags import command_line, model_flags

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
    with command_line.heading("Output"):
        integer("top_k", 5, "Tokens that fill_mask gives for each [MASK].", 1)
    model_flags.define_vectors(layers="-1", pooling="mean")


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


def check_export() -> None:
    """Raises ValueError if a flag of the export is set and nothing is exported."""
    for name in ("top_k", *model_flags.VECTOR_FLAGS):
        if FLAGS[name].present and not FLAGS.do_export:
            raise ValueError(f"{FLAGS[name].serialize()} is for --do_export; add it")


def masking_rule() -> dict[str, Any]:
    """How unmasked records are masked, as masking.Rule takes it."""
    return {
        "kind": FLAGS.masking,
        "masked_lm_prob": FLAGS.masked_lm_prob,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
    }


def masking_identity(masks: Any) -> dict[str, Any]:
    """What of masking must match to resume a run, which `masks` records or does not."""
    return {
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "masking": FLAGS.masking if masks else "",
        "masked_lm_prob": FLAGS.masked_lm_prob if masks else 0.0,
    }


def masks_are_asked_for() -> bool:
    """Whether a flag is set that only means something for unmasked records."""
    return bool(FLAGS["masking"].present or FLAGS["masked_lm_prob"].present)
