r"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py: see docs/squad.md.

    python run_squad.py --pretrained=DIR --do_train --do_predict \
        --train_file=train.json --predict_file=dev.json --output_dir=output/squad
"""

import functools
from typing import Any

from absl import flags, logging

from cli import command_line, feature_flags, fine_tuning_flags
from contract import errors

FLAGS = flags.FLAGS
CHINESE = ("cmrc2018", "drcd")


def define_flags():
    actions = ("do_train", "do_predict", "do_export")
    fine_tuning_flags.define(*actions, max_seq_length=384)
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


def shorten_questions(tokenizer: Any) -> None:
    """Leaves tokens of a sequence for contexts, without --max_query_length.

    Differs from google-research/bert: where its default of 64 tokens leaves none, a
    question may have half of the tokens; there the run is refused.
    """
    query, length = FLAGS["max_query_length"], FLAGS.max_seq_length
    room = length - packing.num_special(tokenizer, is_pair=True)
    if not query.present and query.value >= room > 1:
        query.value = room // 2
        print(f"max_query_length: {query.value}, half of max_seq_length={length}")


def check_network(config: Any, tokenizer: Any, reading: Any, has_pieces: bool) -> None:
    """Raises ValueError where questions cannot be asked of a network.

    `reading` is the choice of layers and head; `has_pieces` is whether tokens are
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
    if reads and is_chinese():
        errors.check_installed(f"--task_name={FLAGS.task_name}", "nltk")


if __name__ == "__main__":  # before the imports that take seconds
    checks = fine_tuning_flags.check_run, check_files
    command_line.parse(define_flags, *checks)

from cli import fine_tuning, networks, run_flags
from contract import file_names
from data_pipeline.batches import packing
from data_pipeline.squad import choice as answer_choice
from data_pipeline.squad import files as squad_files
from data_pipeline.squad import graph, scores, windows
from data_pipeline.text import opening, wordpiece
from modeling import losses, models
from modeling.checkpoints import pretrained
from serving import formats, windowed
from training import run_directory


def prepare():
    """The task and its settings; ValueError for wrong input."""
    set_verbosity()
    strategy = run_flags.set_up()
    check_files()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    files, tokenizer, config = opened.files, opened.tokenizer, opened.config
    pretrained.check_segments(config, files.config_file)
    opening.check_exports(tokenizer, FLAGS.do_export)
    reading = run_flags.reading(files)
    has_pieces = isinstance(tokenizer, wordpiece.BertTokenizer)
    check_network(config, tokenizer, reading, has_pieces)
    shorten_questions(tokenizer)
    choice = answer_choice.Settings(**answer_settings(has_pieces))
    splits = fine_tuning_flags.wanted_splits()
    # One file serves dev and test.
    names = {"train" if split == "train" else "predict": None for split in splits}
    data = {
        name: windows.load(name, read(name), tokenizer, **limits()) for name in names
    }
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=len(data["train"].questions) if "train" in data else 0,
        score_names=scores.score_names(data["predict"], choice)
        if "dev" in splits
        else (),
    )
    return SquadTask(opened, data, reading, choice, settings.pad_to), settings


def read(name):
    """The questions of a file; those to train on in the original's order."""
    form = {
        "version_2_with_negative": FLAGS.version_2_with_negative,
        "at_ideographs": is_chinese(),
    }
    if name == "predict":
        return squad_files.read_for_prediction(FLAGS.predict_file, **form)
    multiple = FLAGS.multiple_answers or ("first" if is_chinese() else "")
    questions = squad_files.read_for_training(
        FLAGS.train_file, multiple_answers=multiple, **form
    )
    return squad_files.shuffled(questions)


class SquadTask(fine_tuning.ScriptTask):
    """Answers questions by spans of contexts.

    Args:
        data: windows.QuestionSplit of "train" and of "predict", which is dev and test.
        choice: how an answer is chosen.
        pad_to: as of driver.Settings.
    """

    kind = "question-answering"
    objective = losses.span()

    def __init__(self, opened, data, reading, choice, pad_to):
        formats.check(FLAGS.export_format, opened.config, reading)
        super().__init__(opened, data, reading=reading, identity={})
        if predicted := self.splits.pop("predict", None):
            self.splits["dev"] = self.splits["test"] = predicted
        self._choice, self._pad_to = choice, pad_to

    def make_model(self):
        return models.BertSpanPredictor(
            self.config, reading=self.reading, recompute=FLAGS.recompute
        )

    def score(self, split, outputs, batch_size):
        how = self.tokenizer, self._choice, self._pad_to
        return scores.decide(self.data["predict"], outputs, *how)

    def outcomes(self, split, scored):
        return scores.outcomes(split, self.data["predict"], scored)

    def predict(self, scored, current, step):
        """Writes predictions.json and the files beside it; returns scores, if any."""
        if current.writes:
            is_submitted = FLAGS.task_name == "cmrc2018"
            submission = file_names.CMRC_SUBMISSION if is_submitted else ""
            answer_choice.write(current.output_dir, scored.answers, submission)
            print(f"predictions: {current.output_dir}/{file_names.SQUAD_PREDICTIONS}")
        if not scored.scores:
            print(f"{FLAGS.predict_file} has no right answers, so nothing is scored")
            return {}
        results = {**scored.scores, "global_step": step}
        run_directory.record(current, step, scored.scores, results)
        return results

    def write_records(self, directory):
        for questions in self.data.values():
            windows.write_records(directory, questions, FLAGS.max_seq_length)

    def served(self, model, variables):
        """Question and context in, answer out."""
        return windowed.QuestionAnswerer(
            graph.encoder(self.tokenizer, **limits()),
            functools.partial(model, training=False),
            graph.chooser(self._choice),
            variables,
            (None, *self.tokenizer.token_shape),
            model.config,
        )


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
