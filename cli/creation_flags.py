"""Flags of create_pretraining_data.py: which text, and what records are made of it."""

from typing import Any

from absl import flags, logging

from cli import command_line, engine_flags, model_flags, pretraining_flags

FLAGS = flags.FLAGS
# Read for masked words and second sentences alone.
_OF_MASKED_LM = (
    "max_predictions_per_seq",
    "masked_lm_prob",
    "short_seq_prob",
    "masking",
    "do_whole_word_mask",
    "segmented_words",
    "mask_proportions",
    "sentence_task",
    "dupe_factor",
)
boolean, integer, string = flags.DEFINE_bool, flags.DEFINE_integer, flags.DEFINE_string


def define() -> None:
    """All flags of the script."""
    with command_line.heading("Data"):
        text = "Comma-separated text files or globs; files may be compressed (.gz)."
        string("input_file", None, text)
    with command_line.heading("Output"):
        text = (
            "Comma-separated TFRecord files; the instances are distributed over them."
        )
        string("output_file", None, text)
        integer(
            "num_shards", 1, "Number of files that each --output_file is split into.", 1
        )
    with command_line.heading("Model and vocabulary"):
        text = "Vocabulary file of the model."
        string("vocab_file", None, text)
        boolean(
            "do_lower_case",
            True,
            "Lower-case the text and remove accents: true for uncased models, false "
            "for cased models.",
        )
        model_flags.define_checks()
        model_flags.define_split_words()
    _define_records()
    with command_line.heading("Processes"):
        text = (
            "Number of processes; 0 for one per core. The output does not depend on it."
        )
        integer("num_workers", 0, text, 0)
    engine_flags.define()
    flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


@command_line.heading("Records")
def _define_records() -> None:
    """Length, masks and second sentences of records."""
    integer, real = flags.DEFINE_integer, command_line.define_float
    flags.DEFINE_enum(
        "objective",
        "masked_lm",
        ["masked_lm", "left_to_right"],
        "Training objective. masked_lm: masked words and the second sentence, as in "
        "BERT. left_to_right: each token from the tokens before it, as in GPT.",
    )
    text = "Maximum sequence length, in tokens."
    integer("max_seq_length", 128, text, lower_bound=5, upper_bound=1 << 20)
    integer(
        "max_predictions_per_seq",
        20,
        "Maximum number of masked tokens per sequence.",
        lower_bound=1,
    )
    real("masked_lm_prob", 0.15, "Share of the tokens to mask.", 0.0, 1.0)
    pretraining_flags.define_proportions("masked tokens")
    real(
        "short_seq_prob",
        0.1,
        "Probability of creating sequences which are shorter than the maximum length.",
        0.0,
        1.0,
    )
    flags.DEFINE_enum(
        "masking",
        "word_piece",
        ["word_piece", "whole_word", "span", "ngram", "none"],
        "Unit of masking: word pieces, whole words, spans of up to 10 words "
        "(SpanBERT) or n-grams of up to 3 words (ALBERT). With none, "
        "run_pretraining.py masks the records.",
    )
    flags.DEFINE_bool("do_whole_word_mask", False, "The same as --masking=whole_word.")
    boolean(
        "segmented_words",
        False,
        "Words are what spaces separate, for --masking=whole_word, span and ngram: "
        "Chinese text that a tool has segmented. The tokens stay the same.",
    )
    flags.DEFINE_enum(
        "sentence_task",
        "next",
        ["next", "order", "none"],
        "Second task. next: B is the next segment or a random one. order: two "
        "segments are in order or swapped (ALBERT). none: no second task (RoBERTa).",
    )
    integer(
        "dupe_factor",
        10,
        "Number of times to duplicate the input data, with different pairs and masks; "
        "1 by default with --masking=none.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "document_end",
        "blank_line",
        ["blank_line", "file"],
        "End of a document with --objective=left_to_right. blank_line: a blank line, "
        "with one sentence per line. file: the end of the file, with the lines as "
        "they are.",
    )
    integer("random_seed", 12345, "Random seed for data generation.")


def check() -> None:
    """Raises ValueError where flags contradict one another."""
    engine_flags.check()
    is_left_to_right = FLAGS.objective == "left_to_right"
    other = "masked_lm" if is_left_to_right else "left_to_right"
    proportions, masking = FLAGS["mask_proportions"], FLAGS["masking"]
    command_line.refuse(
        *(
            (
                FLAGS[name].present,
                f"{FLAGS[name].serialize()} is for --objective={other}, but it is "
                f"{FLAGS.objective}; leave the flag out",
            )
            for name in (_OF_MASKED_LM if is_left_to_right else ("document_end",))
        ),
        (
            FLAGS.do_whole_word_mask
            and masking.present
            and masking.value != "whole_word",
            f"--do_whole_word_mask and --masking={FLAGS.masking} contradict each "
            "other; leave one of them out",
        ),
        (
            FLAGS.segmented_words and _masking_kind() in ("word_piece", "none"),
            f"--segmented_words is for masks of words, but --masking is "
            f"{_masking_kind()}; set --masking=whole_word, span or ngram",
        ),
        (
            proportions.present and _masking_kind() == "none",
            f"{proportions.serialize()} is for records that are masked, but --masking "
            "is none; give the flag to run_pretraining.py, which masks them",
        ),
    )
    command_line.check_files("input_file", "vocab_file")


def _masking_kind() -> str:
    return "whole_word" if FLAGS.do_whole_word_mask else FLAGS.masking


def rule() -> dict[str, Any]:
    """How records are made, by the names of metadata.Metadata."""
    if FLAGS.objective == "left_to_right":
        return {
            "objective": FLAGS.objective,
            "document_end": FLAGS.document_end,
            "masking": "none",
            "masked_lm_prob": 0.0,
            "max_predictions_per_seq": 0,
            "sentence_task": "none",
            "dupe_factor": 1,
            "short_seq_prob": 0.0,
        }
    kind = _masking_kind()
    is_masked = kind != "none"
    uses_once = not is_masked and not FLAGS["dupe_factor"].present
    return {
        "masking": kind,
        "masked_lm_prob": FLAGS.masked_lm_prob if is_masked else 0.0,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq if is_masked else 0,
        "mask_proportions": FLAGS.mask_proportions,
        "segmented_words": FLAGS.segmented_words,
        "sentence_task": FLAGS.sentence_task,
        "dupe_factor": 1 if uses_once else FLAGS.dupe_factor,
        "short_seq_prob": FLAGS.short_seq_prob,
    }


def warn_of_few_predictions() -> None:
    """Where full sequences have fewer masked tokens than their share."""
    wanted = round(FLAGS.max_seq_length * FLAGS.masked_lm_prob)
    if rule()["max_predictions_per_seq"] and wanted > FLAGS.max_predictions_per_seq:
        logging.warning(
            "--max_predictions_per_seq=%d is less than --max_seq_length times "
            "--masked_lm_prob, so full sequences have fewer masks; %d would be enough",
            FLAGS.max_predictions_per_seq,
            wanted,
        )
