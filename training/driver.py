"""The one driver of fine-tuning and pretraining: trains, evaluates, predicts, exports.

A script hands it a FineTuningTask or a PretrainingTask; docs/design.md shows the
smallest one.
"""

import abc
import copy
import dataclasses
import functools
import os
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from contract import errors, file_names, remote_files, wording
from contract import outcomes as outcomes_lib
from data_pipeline.batches import batching, sharing
from data_pipeline.pretraining import source
from modeling import losses
from terminal import progress
from training import (
    carried_states,
    inference,
    loop,
    run,
    run_directory,
    run_plan,
    train_step,
)
from training.distribution import devices


@dataclasses.dataclass
class Outcome:
    """Results of a run that has ended.

    Attributes:
        results: {name: number} of the result files.
        scores: of the dev rows or, without an evaluation, of those predicted.
        rows: the FineTuningTask.outcomes of these.
        tested: the same for test rows beside dev rows.
        model: with the weights of `results`.
    """

    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: Any = None
    tested: Any = None
    model: Any = None

    def print_results(self) -> None:
        """Prints a line a result; of two losses, what the original's is a mean of."""
        of_batches = {"loss": "eval_loss", "test_batch_loss": "test_loss"}
        for name in sorted(self.results):
            other = of_batches.get(name)
            note = (
                f" (mean of batches; {other}: of rows)" if other in self.results else ""
            )
            print(f"  {name} = {wording.score(self.results[name])}{note}")


class Task(abc.ABC):
    """A task, which a run trains, evaluates and exports.

    Attributes:
        kind: what the hub calls this kind of task.
        config: of the network.
        objective: the loss; None where nothing is trained.
        files: {name: text} to store beside the weights.
        identity: what besides the data must match to resume a run.
    """

    kind = ""
    config: Any = None
    objective: losses.Objective | None = None
    files: dict[str, str]
    identity: Mapping[str, Any] = types.MappingProxyType({})

    @abc.abstractmethod
    def make_model(self) -> keras.Model:
        """Makes the model, unbuilt."""

    @abc.abstractmethod
    def load_weights(
        self, model: Any, path: str, *, trains: bool, resumes: bool
    ) -> tuple[str, int]:
        """Loads the first weights, as pretrained.load_weights."""

    @abc.abstractmethod
    def export(self, model: Any, output_dir: str) -> str:
        """Writes an export; returns its path."""

    def write_report(  # noqa: B027  not every task has one
        self, model: Any, plan: run_plan.Plan, outcome: Outcome, *ended: float
    ) -> None:
        """Writes the report of a run that has ended at a step, after some seconds."""


class FineTuningTask(Task):
    """A task on labelled rows.

    Attributes:
        splits: those of "train", "dev" and "test" that the run needs.
        make_step: as of run.Training.
    """

    splits: Mapping[str, batching.Examples]
    make_step: Callable[..., train_step.TrainStep] = train_step.TrainStep

    @abc.abstractmethod
    def score(
        self, split: str, outputs: Mapping[str, Any], batch_size: int
    ) -> outcomes_lib.Scored:
        """Scores of a split by the model's outputs {name: [N, ...]}."""

    @abc.abstractmethod
    def predict(self, scored: Any, plan: run_plan.Plan, step: int) -> dict[str, Any]:
        """Writes the predictions for "test"; returns results."""

    def outputs(self, model: Any) -> Callable[..., dict[str, Any]]:
        """The function of features whose outputs `score` takes."""
        return model

    def open_export(self, path: str) -> Any:
        """An export as `outputs` takes it; None where it computes as the model does."""
        return None

    def results(self, scored: Any) -> dict[str, Any]:
        """The lines of eval_results.txt except global_step."""
        return scored.results("eval")

    def outcomes(self, split: str, scored: Any) -> Any:
        """The outcomes.Outcomes of each row; None where no one looks."""
        return None

    def pictures(self, rows: Any) -> Mapping[str, Any]:
        """Pictures of `outcomes`, as tensorboard.Reporter.show takes them."""
        return {}

    def show(self, model: Any, scored: Any, plan: run_plan.Plan) -> None:
        """Writes what else to look at of the dev rows."""

    def write_records(self, directory: str) -> None:
        """Writes features into a directory, as the original does."""

    def report_runs(self, plan: run_plan.Plan) -> None:
        """Writes the report of several runs, of seeds or of a grid."""

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
    ) -> Outcome:
        """Evaluates and predicts; prints the results."""
        splits, outcome = self.splits, Outcome()
        if plan.evaluates:
            scored = evaluation.at(step, "dev", plan.eval_batch_size)
            outcome.results |= {**self.results(scored), "global_step": step}
            outcome.scores, outcome.rows = scored.scores, self.outcomes("dev", scored)
            run_directory.record(plan, step, outcome.scores, outcome.results)
            self.show(model, scored, plan)
            self._show_pictures(plan, step, outcome.rows)
        if plan.predicts:
            split = "dev" if splits.get("dev") is splits["test"] else "test"
            scored = evaluation.at(step, split, plan.predict_batch_size)
            outcome.results |= self.predict(scored, plan, step)
            outcome.scores = outcome.scores or scored.scores
            rows = self.outcomes(split, scored)
            outcome.tested = rows if outcome.rows and split == "test" else None
            outcome.rows = outcome.rows or rows
            if split == "dev":
                self._show_pictures(plan, step, outcome.rows)
        outcome.print_results()
        return outcome

    def _show_pictures(self, plan: run_plan.Plan, step: int, rows: Any) -> None:
        if plan.writes:
            run_directory.show(plan, step, self.pictures(rows))

    def compare_export(self, path: str, plan: run_plan.Plan, outcome: Outcome) -> None:
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


class PretrainingTask(Task):
    """An objective of pretraining.

    Attributes:
        records: what to train and evaluate on; None to export alone.
    """

    records: source.PretrainingData | None = None

    def score(self, scores: dict[str, Any]) -> dict[str, Any]:
        """The scores to report, of those of inference.objective_scores."""
        return scores

    def states(self, model: Any) -> Mapping[str, Sequence[int]] | None:
        """As carried_states.CarriedStates: what the model carries between batches."""
        return None

    def trained_on(self) -> dict[str, Any]:
        """The values that must match to resume a run."""
        assert self.records
        contents = remote_files.digest(self.records.train.files)
        return {**self.identity, "contents": contents}

    def begin(
        self, model: Any, plan: run_plan.Plan
    ) -> tuple["PretrainingTask", inference.CachedEvaluation]:
        """The task, and a function that returns scores."""
        if not self.records:
            return self, inference.CachedEvaluation(dict)
        assert self.objective
        strategy, jit_compile = plan.strategy, plan.jit_compile
        size = devices.fitting_batch_size(plan.eval_batch_size, strategy)
        states = self._carried(model, size, strategy)
        function = inference.evaluate_function(
            model, self.objective, strategy, jit_compile=jit_compile, states=states
        )
        count = self.records.num_evaluation_batches(size, plan.max_eval_steps)
        limit = count if plan.max_eval_steps else None
        batches = functools.partial(self.records.evaluation_batches, size, limit)

        def evaluate() -> dict[str, Any]:
            if states:
                states.reset()
            scores = inference.objective_scores(function, batches, count, strategy)
            return self.score(scores)

        return self, inference.CachedEvaluation(evaluate)

    def _carried(
        self, model: Any, rows: int, strategy: tf.distribute.Strategy
    ) -> carried_states.CarriedStates | None:
        states = self.states(model)
        if states is None:
            return None
        return carried_states.CarriedStates.make(states, rows, strategy)

    def train(
        self,
        model: Any,
        plan: run_plan.Plan,
        origin: str,
        evaluation: inference.CachedEvaluation,
    ) -> int:
        """Trains to the last step of the plan; returns the step it reached."""
        records = self.records
        assert plan.timetable is not None and records and self.objective
        num_steps = plan.timetable.num_train_steps
        order = plan.batch_size, plan.seed

        def batches_from(step: int) -> Callable[..., tf.data.Dataset]:
            def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
                made = records.training_batches(*order, step, num_steps, context)
                if not plan.packs_sequences:
                    return made
                replicas = context.num_replicas_in_sync // context.num_input_pipelines
                return sharing.share_rows(made, plan.micro_batches * replicas)

            return batches

        return run.train(
            plan,
            loop.Training(
                model=model,
                origin=origin,
                objective=self.objective,
                batches_from=batches_from,
                evaluate=evaluation,
                on_evaluated=evaluation.keep,
                names=lambda step: records.batch_names(*order, step),
                states=self._carried(model, plan.batch_size, plan.strategy),
            ),
        )

    def finish(
        self,
        model: Any,
        plan: run_plan.Plan,
        evaluation: inference.CachedEvaluation,
        step: int,
    ) -> Outcome:
        """Evaluates, writes eval_results.txt and prints its lines."""
        outcome = Outcome()
        if not plan.evaluates:
            return outcome
        outcome.scores = evaluation.at(step)
        outcome.results = {**outcome.scores, "global_step": step}
        outcome.print_results()
        run_directory.record(plan, step, outcome.scores, outcome.results)
        if plan.writes:
            path = os.path.join(plan.output_dir, file_names.EVAL_RESULTS)
            print(f"evaluation: {path}")
        return outcome

    def compare_export(self, path: str, plan: run_plan.Plan, outcome: Outcome) -> None:
        """An export of pretraining is the model."""


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


def run_once(task: FineTuningTask | PretrainingTask, plan: run_plan.Plan) -> Outcome:
    """Does a task with one seed and one combination of flags.

    Raises what run.start and run.train do.
    """
    started = time.monotonic()
    model, origin, step = run.start(plan, task)
    task, evaluation = task.begin(model, plan)
    if plan.trains:
        step = task.train(model, plan, origin, evaluation)
    outcome = task.finish(model, plan, evaluation, step)
    exports = plan.exports and plan.writes
    if exports:
        export = functools.partial(task.export, model, plan.output_dir)
        path = run_directory.export_once(plan, step, export)
        print(f"exported: {path}")
        task.compare_export(path, plan, outcome)
    with progress.waiting("writing the report"):
        seconds = time.monotonic() - started
        task.write_report(model, plan, outcome, step, seconds)
        if exports:
            run_directory.end(plan)
    devices.wait_for_all(plan.strategy, "write results and exports")
    outcome.model = model
    return outcome
