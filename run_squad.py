r"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py: see docs/squad.md.

    python run_squad.py --pretrained=models/minilm --do_train --do_predict \
        --train_file=train.json --predict_file=dev.json --output_dir=output/squad
"""

import functools

from absl import flags

from cli import command_line, fine_tuning_flags, squad_flags

FLAGS = flags.FLAGS


def define_flags():
    actions = ("do_train", "do_predict", "do_export")
    fine_tuning_flags.define(*actions, max_seq_length=384)
    squad_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    checks = fine_tuning_flags.check_run, squad_flags.check_files
    command_line.parse(define_flags, *checks)

from cli import fine_tuning, networks, run_flags
from contract import file_names
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
    squad_flags.set_verbosity()
    strategy = run_flags.set_up()
    squad_flags.check_files()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    files, tokenizer, config = opened
    pretrained.check_segments(config, files.config_file)
    opening.check_exports(tokenizer, FLAGS.do_export)
    reading = run_flags.reading(files)
    has_pieces = isinstance(tokenizer, wordpiece.BertTokenizer)
    squad_flags.check_network(config, tokenizer, reading, has_pieces)
    choice = answer_choice.Settings(**squad_flags.answer_settings(has_pieces))
    splits = fine_tuning_flags.wanted_splits()
    # One file serves dev and test.
    names = {"train" if split == "train" else "predict": None for split in splits}
    data = {
        name: windows.load(name, read(name), tokenizer, **squad_flags.limits())
        for name in names
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
    version = {"version_2_with_negative": FLAGS.version_2_with_negative}
    if name == "predict":
        return squad_files.read_for_prediction(FLAGS.predict_file, **version)
    questions = squad_files.read_for_training(
        FLAGS.train_file, multiple_answers=FLAGS.multiple_answers, **version
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
            answer_choice.write(current.output_dir, scored.answers)
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

    def open_export(self, path):
        return formats.open_network(path)

    def export(self, model, output_dir):
        """Writes output_dir/export/<n>: question and context in, answer out."""

        def make(variables):
            return windowed.QuestionAnswerer(
                graph.encoder(self.tokenizer, **squad_flags.limits()),
                functools.partial(model, training=False),
                graph.chooser(self._choice),
                variables,
                (None, *self.tokenizer.token_shape),
                model.config,
            )

        return run_flags.export(model, make, output_dir)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
