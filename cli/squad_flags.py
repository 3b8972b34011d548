"""Flags of questions and answers."""

from typing import Any

from absl import flags, logging

from cli import command_line, feature_flags

FLAGS = flags.FLAGS
CHINESE = ("cmrc2018", "drcd")


def define() -> None:
    """Which questions, how they are answered, and what reads them."""
    _define_questions()
    _define_answers()
    feature_flags.define()


@command_line.heading("Data")
def _define_questions() -> None:
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    flags.DEFINE_enum(
        "task_name",
        "squad",
        ["squad", *CHINESE],
        "cmrc2018, drcd: contexts are cut at ideographs, answers are found by "
        "--answer_aligner=words and scored by characters, as in the script of CMRC "
        "2018. For other Chinese questions, too.",
    )
    string("train_file", None, "SQuAD json for training.")
    string(
        "predict_file",
        None,
        "SQuAD json for predictions; they are scored if it contains the answers.",
    )
    flags.DEFINE_enum(
        "multiple_answers",
        "",
        ["", "first", "all"],
        "For training questions with several answers: use the first answer, or make a "
        "separate question of each. By default they are refused, as in "
        "google-research/bert.",
    )
    integer(
        "doc_stride", 128, "Stride in tokens between the windows of a long context."
    )
    integer(
        "max_query_length",
        64,
        "Maximum number of tokens of a question; longer questions are truncated.",
    )


@command_line.heading("Answers")
def _define_answers() -> None:
    integer, boolean = flags.DEFINE_integer, flags.DEFINE_bool
    integer(
        "n_best_size",
        20,
        "Number of start positions, end positions and answers to keep.",
        1,
    )
    integer("max_answer_length", 30, "Maximum number of tokens of an answer.", 1)
    boolean(
        "version_2_with_negative",
        False,
        "If true, the SQuAD examples contain some that do not have an answer.",
    )
    command_line.define_float(
        "null_score_diff_threshold",
        0.0,
        "Predict no answer if its score exceeds the score of the best answer by more "
        "than this.",
    )
    flags.DEFINE_enum(
        "answer_aligner",
        "original",
        ["original", "words"],
        "How to find the text of an answer: as in google-research/bert, or by the "
        "positions of words, which suits text without spaces.",
    )
    boolean(
        "verbose_logging",
        False,
        "Print each answer that is not found in its context as it is spelled.",
    )


def set_verbosity() -> None:
    """Shows answers that are not in their contexts, with --verbose_logging."""
    if FLAGS.verbose_logging:
        logging.set_verbosity(logging.DEBUG)


def limits() -> dict[str, Any]:
    """How contexts are cut, by the names of the flags."""
    names = ("max_seq_length", "doc_stride", "max_query_length")
    return {name: FLAGS[name].value for name in names}


def check_network(config: Any, tokenizer: Any, reading: Any, has_pieces: bool) -> None:
    """Raises ValueError where questions cannot be asked of a network.

    `reading` is the choice of layers and head; `has_pieces` says whether tokens are
    BERT's word pieces.
    """
    sees_all = not config.is_left_to_right or reading.head == "bilstm"
    aligner = FLAGS["answer_aligner"]
    command_line.refuse(
        (
            FLAGS.version_2_with_negative and not sees_all,
            "--version_2_with_negative scores 'no answer' at the first token, which "
            "sees nothing from left to right; leave it out, or add --head=bilstm",
        ),
        (
            aligner.present and aligner.value == "original" and not has_pieces,
            "--answer_aligner=original needs word pieces, and the tokens of this "
            "vocabulary are none; leave it out",
        ),
    )


def answer_settings(has_pieces: bool) -> dict[str, Any]:
    """How answers are chosen, but for the case of the model; see `check_network`."""
    return {
        "n_best_size": FLAGS.n_best_size,
        "max_answer_length": FLAGS.max_answer_length,
        "version_2_with_negative": FLAGS.version_2_with_negative,
        "null_score_diff_threshold": FLAGS.null_score_diff_threshold,
        "aligner": "words" if is_chinese() or not has_pieces else FLAGS.answer_aligner,
        "is_chinese": is_chinese(),
    }


def is_chinese() -> bool:
    """Whether questions are read and answers scored as Chinese ones."""
    return FLAGS.task_name in CHINESE


def reading() -> dict[str, bool]:
    """How files are read, by the names of data_pipeline/squad/files.py."""
    return {
        "version_2_with_negative": FLAGS.version_2_with_negative,
        "at_ideographs": is_chinese(),
    }


def check_files() -> None:
    """Raises ValueError, naming the flag, if an action lacks its file."""
    reads = FLAGS.do_predict or FLAGS.evaluate_steps
    aligner = FLAGS["answer_aligner"]
    command_line.refuse(
        (
            is_chinese() and aligner.present and aligner.value == "original",
            f"--task_name={FLAGS.task_name} has --answer_aligner=words; leave it out",
        ),
        (
            is_chinese() and FLAGS.version_2_with_negative,
            f"--task_name={FLAGS.task_name} has an answer to each question; leave "
            "--version_2_with_negative out",
        ),
        (
            FLAGS.do_train and not FLAGS.train_file,
            "--do_train needs a --train_file, a SQuAD json",
        ),
        (
            reads and not FLAGS.predict_file,
            "--do_predict and --evaluate_steps need a --predict_file, a SQuAD json",
        ),
    )
