"""Questions about texts: training, answers by spans of contexts, and their scores."""

import functools

from absl import logging

from contract import file_names
from data_pipeline import findings
from data_pipeline.batches import packing
from data_pipeline.squad import choice as answer_choice
from data_pipeline.squad import files as squad_files
from data_pipeline.squad import graph, scores, windows
from data_pipeline.text import opening, wordpiece
from modeling import losses, models
from modeling.configs import config_limits
from serving import windowed
from tasks import fine_tuning, networks, run_plans
from tasks.settings.squad import SquadSettings
from training import run_directory, run_plan


def prepare(settings: SquadSettings) -> tuple["SquadTask", run_plan.Plan]:
    """The task, and how to do it; InputError for wrong input."""
    if settings.verbose_logging:  # shows answers that are not in their contexts
        logging.set_verbosity(logging.DEBUG)
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, settings.max_seq_length)
    files, tokenizer, config = opened.files, opened.tokenizer, opened.config
    config_limits.check_segments(config, files.config_file)
    opening.check_exports(tokenizer, settings.do_export)
    reading = run_plans.reading(settings, files)
    has_pieces = isinstance(tokenizer, wordpiece.BertTokenizer)
    settings.check_network(config, tokenizer, reading, has_pieces)
    room = settings.max_seq_length - packing.num_special(tokenizer, is_pair=True)
    settings = settings.with_short_questions(room)
    choice = answer_choice.Settings(**settings.answer_settings(has_pieces))
    splits = settings.wanted_splits
    # One file serves dev and test.
    names = {"train" if split == "train" else "predict": None for split in splits}
    limits = settings.limits()
    data = {
        name: windows.load(
            name, read(settings, name), tokenizer, findings.show, **limits
        )
        for name in names
    }
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=len(data["train"].questions) if "train" in data else 0,
        score_names=scores.score_names(data["predict"], choice)
        if "dev" in splits
        else (),
    )
    return SquadTask(settings, opened, data, reading, choice, plan.pad_to), plan


def read(settings: SquadSettings, name):
    """The questions of a file; those to train on in the original's order."""
    form = {
        "version_2_with_negative": settings.version_2_with_negative,
        "at_ideographs": settings.is_chinese,
    }
    if name == "predict":
        return squad_files.read_for_prediction(str(settings.predict_file), **form)
    multiple = settings.multiple_answers or ("first" if settings.is_chinese else "")
    questions = squad_files.read_for_training(
        str(settings.train_file), multiple_answers=multiple, **form
    )
    return squad_files.shuffled(questions)


class SquadTask(fine_tuning.FineTuningTask):
    """Answers questions by spans of contexts.

    Args:
        data: windows.QuestionSplit of "train" and of "predict", which is dev and test.
        choice: how an answer is chosen.
        pad_to: as of run_plan.Plan.
    """

    kind = "question-answering"
    objective = losses.span()

    def __init__(self, settings, opened, data, reading, choice, pad_to):
        super().__init__(settings, opened, data, reading=reading, identity={})
        if predicted := self.splits.pop("predict", None):
            self.splits["dev"] = self.splits["test"] = predicted
        self._choice, self._pad_to = choice, pad_to

    def make_model(self):
        return models.BertSpanPredictor(
            self.config, reading=self.reading, recompute=self.settings.recompute
        )

    def score(self, split, outputs, batch_size):
        how = self.tokenizer, self._choice, self._pad_to
        return scores.decide(self.data["predict"], outputs, *how)

    def outcomes(self, split, scored):
        is_chinese = self._choice.is_chinese
        data = self.data["predict"]
        return scores.outcomes(split, data, scored, is_chinese=is_chinese)

    def results(self, scored):
        return dict(scored.scores)  # whose official names have no prefix

    def predict(self, scored, plan, step):
        """Writes predictions.json and the files beside it; returns scores, if any."""
        if plan.writes:
            is_submitted = self.settings.task_name == "cmrc2018"
            submission = file_names.CMRC_SUBMISSION if is_submitted else ""
            answer_choice.write(plan.output_dir, scored.predictions, submission)
            print(f"predictions: {plan.output_dir}/{file_names.SQUAD_PREDICTIONS}")
        if not scored.scores:
            print(
                f"{self.settings.predict_file} has no right answers, so nothing is "
                "scored"
            )
            return {}
        results = {**scored.scores, "global_step": step}
        run_directory.record(plan, step, scored.scores, results)
        return results

    def write_records(self, directory):
        for questions in self.data.values():
            windows.write_records(directory, questions, self.settings.max_seq_length)

    def served(self, model, variables):
        """Question and context in, answer out."""
        return windowed.QuestionAnswerer(
            graph.encoder(self.tokenizer, **self.settings.limits()),
            functools.partial(model, training=False),
            graph.chooser(self._choice),
            variables,
            (None, *self.tokenizer.token_shape),
            model.config,
        )


def run(settings: SquadSettings) -> None:
    """What run_squad.py does."""
    run_plans.fine_tune(prepare, settings)
