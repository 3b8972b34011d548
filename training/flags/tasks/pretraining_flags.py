"""Flags of pretraining: how records are made, for how long they are trained on."""

from typing import Any

from absl import flags

from training.flags import command_line, model_flags

FLAGS = flags.FLAGS
# What only masked words and second sentences need.
_OF_MASKED_LM = (
    *("max_predictions_per_seq", "masked_lm_prob", "short_seq_prob", "masking"),
    *("do_whole_word_mask", "sentence_task", "dupe_factor"),
)


def define_objective() -> None:
    """What is predicted."""
    flags.DEFINE_enum(
        "objective",
        "masked_lm",
        ["masked_lm", "left_to_right"],
        "What is predicted: masked words and the second sentence, as by BERT; or each "
        "token from those before it, as by GPT.",
    )


@command_line.heading("Records")
def define_creation() -> None:
    """What create_pretraining_data.py makes of a text."""
    integer, real = flags.DEFINE_integer, command_line.define_float
    define_objective()
    integer("max_seq_length", 128, "Maximum sequence length, in tokens.", lower_bound=5)
    integer(
        "max_predictions_per_seq", 20, "Most masked tokens a sequence.", lower_bound=1
    )
    real("masked_lm_prob", 0.15, "Masked share of the tokens.", 0.0, 1.0)
    real("short_seq_prob", 0.1, "Share of shorter sequences.", 0.0, 1.0)
    flags.DEFINE_enum(
        "masking",
        "word_piece",
        ["word_piece", "whole_word", "span", "ngram", "none"],
        "What is masked at once: a word piece, a whole word, a span of up to 10 words "
        "(SpanBERT), an n-gram of up to 3 (ALBERT); none leaves it to training.",
    )
    flags.DEFINE_bool("do_whole_word_mask", False, "The same as --masking=whole_word.")
    flags.DEFINE_enum(
        "sentence_task",
        "next",
        ["next", "order", "none"],
        "Whether B is the next segment or a random one, whether two segments are "
        "swapped (ALBERT), or no second task (RoBERTa).",
    )
    integer(
        "dupe_factor",
        10,
        "Times the text is used, each time with other pairs and masks; 1 by default "
        "with --masking=none.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "document_end",
        "blank_line",
        ["blank_line", "file"],
        "With --objective=left_to_right, what ends a document: a blank line, each line "
        "being a sentence; or the end of the file, whose lines stay as they are.",
    )
    integer("random_seed", 12345, "Decides everything that is drawn.")


def check_creation() -> None:
    """Raises ValueError where flags of `define_creation` contradict one another."""
    is_left_to_right = FLAGS.objective == "left_to_right"
    for name in _OF_MASKED_LM if is_left_to_right else ("document_end",):
        if FLAGS[name].present:
            other = "masked_lm" if is_left_to_right else "left_to_right"
            raise ValueError(
                f"{FLAGS[name].serialize()} is for --objective={other}, but it is "
                f"{FLAGS.objective}; leave the flag out"
            )
    kind = FLAGS["masking"]
    if FLAGS.do_whole_word_mask and kind.present and kind.value != "whole_word":
        raise ValueError(
            f"--do_whole_word_mask and --masking={FLAGS.masking} contradict each "
            "other; leave one of them out"
        )


def creation_rule() -> dict[str, Any]:
    """How records are made, as record_metadata.Metadata takes it."""
    if FLAGS.objective == "left_to_right":
        return {
            "objective": FLAGS.objective,
            "document_end": FLAGS.document_end,
            **{"masking": "none", "masked_lm_prob": 0.0, "max_predictions_per_seq": 0},
            **{"sentence_task": "none", "dupe_factor": 1, "short_seq_prob": 0.0},
        }
    kind = "whole_word" if FLAGS.do_whole_word_mask else FLAGS.masking
    is_masked = kind != "none"
    uses_once = not is_masked and not FLAGS["dupe_factor"].present
    return {
        "masking": kind,
        "masked_lm_prob": FLAGS.masked_lm_prob if is_masked else 0.0,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq if is_masked else 0,
        "sentence_task": FLAGS.sentence_task,
        "dupe_factor": 1 if uses_once else FLAGS.dupe_factor,
        "short_seq_prob": FLAGS.short_seq_prob,
    }


def define() -> None:
    """Which records, for how many steps, and how unmasked records are masked."""
    integer = flags.DEFINE_integer
    with command_line.heading("Data"):
        define_objective()
        _define_records()
    with command_line.heading("Training"):
        integer("num_train_steps", 100000, "The last step, counted from 0.", 1)
        integer("num_warmup_steps", 10000, "Steps in which the rate rises.", 0)
    with command_line.heading("Evaluation and checkpoints"):
        integer(
            "max_eval_steps", 100, "Batches of an evaluation; 0 for all records.", 0
        )
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


def check() -> None:
    """Raises ValueError if a flag is set that this run would not read."""
    if FLAGS.objective == "left_to_right":
        for name in ("masking", "masked_lm_prob", "max_predictions_per_seq", "top_k"):
            if FLAGS[name].present:
                raise ValueError(
                    f"{FLAGS[name].serialize()} is for --objective=masked_lm; leave it "
                    "out"
                )
        if FLAGS.do_export:
            raise ValueError(
                "--do_export of run_pretraining.py writes vectors and masked words, "
                "which --objective=left_to_right has not; use run_generation.py "
                "--do_export"
            )
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
