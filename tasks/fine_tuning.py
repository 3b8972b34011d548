"""The base of all fine-tuning tasks: from rows and a network to scores and files."""

import abc
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from contract import errors, wording
from contract import outcomes as outcomes_lib
from data_pipeline import label_maps
from data_pipeline.batches import packing, sharing
from loading import model_directory
from modeling import losses
from modeling.checkpoints import conversion
from modeling.features import head_config
from reports import pictures, run_report
from serving import export, formats
from tasks import networks, run_plans
from tasks.settings import fields
from training import (
    driver,
    facts,
    inference,
    loop,
    run,
    run_directory,
    run_plan,
    tensorboard,
    train_step,
)


class FineTuningTask(abc.ABC):
    """A task on labelled rows, with the network that settings name.

    Args:
        settings: of the command.
        opened: the network and its tokenizer.
        data: {split: a splits.Split} of those of "train", "dev" and "test" that the run
            needs.
        classes: of the head, if it has such.
        reading: the layers and the head, of a task that lets flags choose them.
        sequences: as of models.BertClassifier.
        identity: what besides data and `reading` must match to resume a run.

    Attributes:
        kind: what the hub calls this kind of task.
        load_weights: what loads the first weights; networks.load_weights.
        objective: the loss; None where nothing is trained.
        make_step: as of loop.Training.
        splits: {split: batching.Examples}.
        files: {name: text} to store beside the weights.
        more_facts: of the record of a run.
        export_files: {name: text} beside an export.
    """

    kind = ""
    load_weights: Callable[..., tuple[str, int]]
    objective: losses.Objective | None = None
    make_step: Callable[..., train_step.TrainStep] = train_step.TrainStep
    more_facts: Mapping[str, Any] = {}
    export_files: Mapping[str, str] = {}

    def __init__(
        self,
        settings: Any,
        opened: model_directory.ModelDirectory,
        data: Mapping[str, Any],
        *,
        classes: label_maps.Classes | None = None,
        reading: head_config.HeadConfig | None = None,
        sequences: str = "single",
        identity: Mapping[str, Any],
    ):
        if settings.do_export:
            formats.check(
                settings.export_format,
                opened.config,
                reading or head_config.ORIGINAL,
                sequences,
                opened.tokenizer.in_graph,
            )
        self.settings, self.data, self.reading = settings, data, reading
        self.classes: Any = classes  # each task knows its own
        self.tokenizer, self.config = opened.tokenizer, opened.config
        self.load_weights = functools.partial(
            networks.load_weights, settings, classes=classes
        )
        self.splits: dict[str, Any] = {split: self.examples(split) for split in data}
        self.files = dict(conversion.files_of(opened.config, opened.tokenizer))
        self.identity = identity
        if classes:
            self.export_files = label_maps.written(classes)["files"]
            self.files |= dict(self.export_files)
        if reading:
            plain = not reading.chosen()
            settings.check_packing(self.config, reads_plainly=plain)
            self.files |= reading.files()
            self.identity = {**identity, "reading": reading.chosen()}

    # What a task has.

    @abc.abstractmethod
    def make_model(self) -> keras.Model:
        """Makes the model, unbuilt."""

    @abc.abstractmethod
    def score(
        self, split: str, outputs: Mapping[str, Any], batch_size: int
    ) -> outcomes_lib.Scored:
        """Scores of a split by the model's outputs {name: [N, ...]}."""

    @abc.abstractmethod
    def predict(self, scored: Any, plan: run_plan.Plan, step: int) -> dict[str, Any]:
        """Writes the predictions for "test"; returns results."""

    @abc.abstractmethod
    def served(self, model: Any, variables: Iterable[Any]) -> export.ServedModel:
        """The model as it is exported, with its joined variables."""

    # What it may have otherwise.

    def examples(self, split: str) -> Any:
        """The rows of a split as the driver takes them."""
        return self.data[split].examples()

    def outputs(self, model: Any) -> Callable[..., dict[str, Any]]:
        """The function of features whose outputs `score` takes."""
        return model

    def open_export(self, path: str) -> Any:
        """An export as `outputs` takes it; None where it computes as the model does."""
        return formats.open_network(path)

    def results(self, scored: Any) -> dict[str, Any]:
        """The lines of eval_results.txt except global_step."""
        return scored.results("eval")

    def outcomes(self, split: str, scored: Any) -> Any:
        """The outcomes.Outcomes of each row; None where no one looks."""
        return None

    def show(  # noqa: B027  few tasks have more
        self, model: Any, scored: Any, plan: run_plan.Plan
    ) -> None:
        """Writes what else to look at of the dev rows."""

    def write_records(self, directory: str) -> None:  # noqa: B027  as above
        """Writes features into a directory, as the original does."""

    def explain(self, model: Any, rows: Any, plan: run_plan.Plan) -> list[Any]:
        """Explanations of some rows, if a flag is set; on all hosts."""
        return []

    # What driver.run_once and grid call.

    def trained_on(self) -> dict[str, Any]:
        """The values that must match to resume a run."""
        return {"data": self.splits["train"].digest(), **self.identity}

    def begin(
        self, model: Any, plan: run_plan.Plan
    ) -> tuple["FineTuningTask", inference.CachedEvaluation]:
        """The task with the rows for this model, and what scores a split by it."""
        if plan.writes and plan.writes_records:
            self.write_records(plan.output_dir)
        task = copy.copy(self)
        if plan.feature_cache and not model.network.trainable:
            task.splits = plan.feature_cache.add_states(self.splits, model, plan)
        predictor = inference.predictor(plan, self.outputs(model))

        def score(split: str, batch_size: int) -> outcomes_lib.Scored:
            name = "evaluating: batch" if split == "dev" else "predicting: batch"
            outputs = predictor(task.splits[split], batch_size=batch_size, name=name)
            check_finite(outputs, split)
            return self.score(split, outputs, batch_size)

        return task, inference.CachedEvaluation(score)

    def train(
        self,
        model: Any,
        plan: run_plan.Plan,
        origin: str,
        evaluation: inference.CachedEvaluation,
    ) -> int:
        """Trains; leaves the last weights in place or, with evaluations, the best."""
        examples = self.splits["train"]
        assert plan.timetable is not None and self.objective
        order = examples.training_order(
            batch_size=plan.batch_size,
            num_steps=plan.timetable.num_train_steps,
            seed=plan.seed,
            group_by_length=plan.group_by_length,
        )
        shares = plan.micro_batches * plan.strategy.num_replicas_in_sync
        num_rows = None
        if plan.packs_sequences and plan.pad_to:
            lengths = examples.sequence_lengths
            num_rows = sharing.most_rows(lengths, order, plan.pad_to, shares)

        def batches_from(step: int) -> tf.data.Dataset:
            batches = examples.batches(order[step:], plan.pad_to)
            if not plan.packs_sequences:
                return batches
            return sharing.share_rows(batches, shares, num_rows)

        def evaluate() -> dict[str, Any]:
            scored = evaluation("dev", plan.eval_batch_size)
            losses = scored.losses
            mean = {} if losses is None else {loop.ROWS_LOSS: float(np.mean(losses))}
            return {**scored.scores, **mean}

        return run.train(
            plan,
            loop.Training(
                model=model,
                origin=origin,
                objective=self.objective,
                batches_from=batches_from,
                evaluate=evaluate,
                on_evaluated=evaluation.keep,
                names=lambda step: examples.names(order[step]),
                watched=model.learned_mix,
                make_step=self.make_step,
            ),
        )

    def finish(
        self,
        model: Any,
        plan: run_plan.Plan,
        evaluation: inference.CachedEvaluation,
        step: int,
    ) -> driver.Outcome:
        """Evaluates and predicts; prints the results."""
        splits, outcome = self.splits, driver.Outcome()
        if plan.evaluates:
            scored = evaluation.at(step, "dev", plan.eval_batch_size)
            outcome.results |= {**self.results(scored), "global_step": step}
            outcome.scores, outcome.rows = scored.scores, self.outcomes("dev", scored)
            run_directory.record(plan, step, outcome.scores, outcome.results)
            self.show(model, scored, plan)
            _show_pictures(plan, step, outcome.rows)
        if plan.predicts:
            split = "dev" if splits.get("dev") is splits["test"] else "test"
            scored = evaluation.at(step, split, plan.predict_batch_size)
            outcome.results |= self.predict(scored, plan, step)
            outcome.scores = outcome.scores or scored.scores
            rows = self.outcomes(split, scored)
            outcome.tested = rows if outcome.rows and split == "test" else None
            outcome.rows = outcome.rows or rows
            if split == "dev":
                _show_pictures(plan, step, outcome.rows)
        outcome.print_results()
        return outcome

    def export(self, model: Any, output_dir: str) -> str:
        """Writes an export; returns its path."""
        make = functools.partial(self.served, model)
        return run_plans.export(
            self.settings,
            model,
            make,
            output_dir,
            self.export_files,
            export_format=self.settings.export_format,
            quantization=self.settings.quantization,
            calibration=self.calibration(),
        )

    def calibration(self) -> packing.Packed | None:
        """The examples of --quantization=static_int8, or None for others."""
        split = self.settings.calibration_split
        return self.splits[split].packed if split else None

    def compare_export(
        self, path: str, plan: run_plan.Plan, outcome: driver.Outcome
    ) -> None:
        """Prints, and adds to the results, scores of the dev rows by the export."""
        if not plan.evaluates or (exported := self.open_export(path)) is None:
            return
        size = plan.eval_batch_size
        # An export runs in this process alone, on no device of the strategy.
        predictor = inference.Predictor(
            functools.partial(self.outputs(exported), training=False),
            tf.distribute.get_strategy(),
            batch_size=size,
            pad_to=plan.pad_to,
        )
        scores = self.score("dev", predictor(self.splits["dev"]), size).scores
        for name, value in scores.items():
            model = wording.score(outcome.scores[name])
            print(f"  export_{name} = {wording.score(value)}  (the model: {model})")
            outcome.results[f"export_{name}"] = value

    def write_report(
        self,
        model: Any,
        plan: run_plan.Plan,
        outcome: driver.Outcome,
        step: int,
        seconds: float,
    ) -> None:
        """Writes the report of a run that has ended at a step, after some seconds."""
        mix = model.learned_mix()
        if mix:
            print(tensorboard.mix_line(mix))
        for rows in filter(None, (outcome.rows, outcome.tested)):
            run_report.print_scores(rows, self.kind)
        explanations = self.explain(model, outcome.rows, plan)
        if not (plan.reports and plan.writes):
            return
        if outcome.results or plan.trains:
            data = {k: dataclasses.asdict(v.summary()) for k, v in self.data.items()}
            named = self.kind, data, step, outcome.results, seconds
            run_report.write(
                outcome.rows,
                plan.output_dir,
                defaults=plan.default_flags,
                answer_flags=self.settings.that_change(fields.ANSWERS),
                explanations=explanations,
                tested=outcome.tested,
                **{tensorboard.LAYER_MIX: mix},
                **facts.collect(plan, model, *named),
                **self.more_facts,
            )

    def report_runs(self, plan: run_plan.Plan) -> None:
        """Writes the report of several runs, of seeds or of a grid."""
        if plan.reports and plan.writes:
            run_report.write_all(plan.output_dir)


def _show_pictures(plan: run_plan.Plan, step: int, rows: Any) -> None:
    if plan.writes:
        run_directory.show(plan, step, pictures.summaries(rows))


def check_finite(outputs: Mapping[str, np.ndarray], split: str) -> None:
    """Raises errors.NotFinite for outputs that no score can be computed of.

    The last step of training may leave such weights, after a loss that was finite.
    """
    for name, values in outputs.items():
        # -inf stands beyond the end of a text.
        if values.dtype.kind == "f" and not np.all(values < np.inf):
            raise errors.NotFinite(
                f"the model's {name} for the {split} rows are not finite numbers; "
                "lower --learning_rate and start again with --overwrite_output_dir"
            )
