"""The one driver of fine-tuning and pretraining: trains, evaluates, predicts, exports.

A script hands it a FineTuningTask or a PretrainingTask; docs/design.md shows the
smallest one.
"""

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from contract import errors, file_names, remote_files, wording
from data_pipeline.batches import batching, sharing
from data_pipeline.pretraining import source
from modeling import losses
from modeling.checkpoints import checkpoint
from terminal import progress
from training import (
    carried_states,
    facts,
    inference,
    run,
    run_directory,
    train_step,
)
from training.distribution import devices


class Combination(NamedTuple):
    """One of the runs that a grid compares: {flag: value} that differ, and settings."""

    values: Mapping[str, Any]
    run: run.Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to do a task, whatever it is.

    Attributes:
        seeds: for grid.run_with_seeds; if empty, run.seed.
        combinations: for grid.run_grid.
        group_by_length: whether a training batch has texts of similar length.
        pad_to: length of every batch in tokens, or None for its longest text.
        max_eval_steps: most batches of an evaluation of pretraining; None for all.
        default_flags: {flag: value} of a command line without flags, for the report.
        feature_cache: a feature_cache.FeatureCache for frozen networks, or None.
    """

    run: run.Settings
    seeds: Sequence[int] = ()
    combinations: Sequence[Combination] = ()
    evaluates: bool = False
    predicts: bool = False
    exports: bool = False
    reports: bool = False
    group_by_length: bool = True
    pad_to: int | None = None
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    max_eval_steps: int | None = None
    default_flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    feature_cache: Any = None

    def predictor(
        self, model: Callable[..., dict[str, Any]], batch_size: int | None = None
    ) -> inference.Predictor:
        """Runs a model, or any function of features and `training`, over rows."""
        strategy, jit_compile = self.run.strategy, self.run.jit_compile
        return inference.Predictor(
            inference.predict_function(model, strategy, jit_compile=jit_compile),
            strategy,
            batch_size=batch_size or self.predict_batch_size,
            pad_to=self.pad_to,
        )


@dataclasses.dataclass
class Outcome:
    """Results of a run that has ended.

    Attributes:
        results: {name: number} of the result files.
        scores: of the dev rows or, without an evaluation, of those predicted.
        rows: what FineTuningTask.examine returned for these.
        tested: the same for test rows beside dev rows.
    """

    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: Any = None
    tested: Any = None

    def print_results(self) -> None:
        """Prints a line a result."""
        for name in sorted(self.results):
            print(f"  {name} = {wording.score(self.results[name])}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """The fields that all tasks have.

    Attributes:
        model: makes the model, unbuilt.
        load_weights: as in run.start.
        store: model -> how its weights lie in files.
        export: model, output_dir -> path of the export it writes.
        files: {name: text} to store beside the weights.
        identity: what besides the data must match to resume a run.
    """

    model: Callable[[], keras.Model]
    load_weights: Callable[..., tuple[str, int]]
    store: Callable[[keras.Model], checkpoint.Store]
    export: Callable[[keras.Model, str], str]
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Scored(Protocol):
    """Predictions of a split, and their scores."""

    scores: Mapping[str, Any]

    def results(self, prefix: str) -> dict[str, Any]:
        """The scores under the names of the original's result files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTask(Task):
    """A task on labelled rows.

    Attributes:
        objective: the loss.
        splits: those of "train", "dev" and "test" that the run needs.
        score: split, model outputs {name: [N, ...]}, batch size -> Scored.
        predict: Scored of "test", run.Settings, step -> results; writes predictions.
        reopen: an export's path -> what takes the model's place in `outputs`, to score
            an export that may differ from the model; None for one that does not.
        outputs: model -> the function of features whose outputs `score` takes.
        evaluate: Scored of "dev" -> lines of eval_results.txt except global_step.
        examine: split, its Scored -> what `pictures` takes.
        pictures: what `examine` returns -> what tensorboard.Reporter.show takes.
        show: model, Scored of "dev", Settings -> None; writes what else to look at.
        report: model, Settings, Outcome, step, seconds -> None. No model stands for
            several runs.
        write_records: writes features into a directory, as the original does.
        make_step: as of run.Training.
    """

    objective: losses.Objective
    splits: Mapping[str, batching.Examples]
    score: Callable[[str, Mapping[str, Any], int], Scored]
    predict: Callable[[Any, run.Settings, int], Mapping[str, Any]]
    reopen: Callable[[str], Any] = lambda path: None
    outputs: Callable[[Any], Callable[..., dict[str, Any]]] = lambda model: model
    evaluate: Callable[[Any], dict[str, Any]] = lambda scored: scored.results("eval")
    examine: Callable[[str, Any], Any] = lambda split, scored: None
    pictures: Callable[[Any], Mapping[str, Any]] = lambda rows: {}
    show: Callable[[Any, Any, Any], None] = lambda model, scored, settings: None
    report: Callable[..., None] = lambda *outcome: None
    write_records: Callable[[str], None] = lambda directory: None
    make_step: Callable[..., train_step.TrainStep] = train_step.TrainStep

    def trained_on(self) -> dict[str, Any]:
        """The values that must match to resume a run."""
        return {"data": self.splits["train"].digest(), **self.identity}

    def begin(
        self, model: Any, settings: Settings
    ) -> tuple["FineTuningTask", inference.CachedEvaluation]:
        """The task with what its rows need; a function of split and batch size."""
        if settings.run.writes:
            self.write_records(settings.run.output_dir)
        splits = self.splits
        if settings.feature_cache and not model.network.trainable:
            splits = settings.feature_cache.add_states(splits, model, settings)
        predictor = settings.predictor(self.outputs(model))

        def score(split: str, batch_size: int) -> Scored:
            name = "evaluating: batch" if split == "dev" else "predicting: batch"
            rows = splits[split]
            outputs = predictor(rows, batch_size=batch_size, name=name)
            check_finite(outputs, split)
            return self.score(split, outputs, batch_size)

        task = dataclasses.replace(self, splits=splits)
        return task, inference.CachedEvaluation(score)

    def train(
        self,
        model: Any,
        settings: Settings,
        origin: str,
        score: inference.CachedEvaluation,
    ) -> int:
        """Trains; leaves the last weights in place or, with evaluations, the best."""
        current, examples = settings.run, self.splits["train"]
        assert current.plan is not None
        order = examples.training_order(
            batch_size=current.batch_size,
            num_steps=current.plan.num_train_steps,
            seed=current.seed,
            group_by_length=settings.group_by_length,
        )
        shares = current.micro_batches * current.strategy.num_replicas_in_sync
        num_rows = None
        if current.packs_sequences and settings.pad_to:
            lengths = examples.sequence_lengths
            num_rows = sharing.most_rows(lengths, order, settings.pad_to, shares)

        def batches_from(step: int) -> tf.data.Dataset:
            batches = examples.batches(order[step:], settings.pad_to)
            if not current.packs_sequences:
                return batches
            return sharing.share_rows(batches, shares, num_rows)

        return run.train(
            current,
            run.Training(
                model=model,
                store=self.store(model),
                origin=origin,
                objective=self.objective,
                batches_from=batches_from,
                evaluate=lambda: dict(score("dev", settings.eval_batch_size).scores),
                on_evaluated=score.keep,
                names=lambda step: examples.names(order[step]),
                watched=model.learned_mix,
                make_step=self.make_step,
            ),
        )

    def finish(
        self,
        model: Any,
        settings: Settings,
        score: inference.CachedEvaluation,
        step: int,
    ) -> Outcome:
        """Evaluates and predicts; prints the results."""
        current, splits, outcome = settings.run, self.splits, Outcome()
        if settings.evaluates:
            scored = score.at(step, "dev", settings.eval_batch_size)
            outcome.results |= {**self.evaluate(scored), "global_step": step}
            outcome.scores, outcome.rows = scored.scores, self.examine("dev", scored)
            run_directory.record(current, step, outcome.scores, outcome.results)
            self.show(model, scored, settings)
            self._show_pictures(current, step, outcome.rows)
        if settings.predicts:
            split = "dev" if splits.get("dev") is splits["test"] else "test"
            scored = score.at(step, split, settings.predict_batch_size)
            outcome.results |= self.predict(scored, current, step)
            outcome.scores = outcome.scores or scored.scores
            examined = self.examine(split, scored)
            outcome.tested = examined if outcome.rows and split == "test" else None
            outcome.rows = outcome.rows or examined
            if split == "dev":
                self._show_pictures(current, step, outcome.rows)
        outcome.print_results()
        return outcome

    def _show_pictures(self, current: run.Settings, step: int, rows: Any) -> None:
        if current.writes:
            run_directory.show(current, step, self.pictures(rows))

    def compare_export(self, path: str, settings: Settings, outcome: Outcome) -> None:
        """Prints, and adds to the results, scores of the dev rows by the export."""
        if not settings.evaluates or (exported := self.reopen(path)) is None:
            return
        size = settings.eval_batch_size
        # An export runs in this process alone, on no device of the strategy.
        predictor = inference.Predictor(
            functools.partial(self.outputs(exported), training=False),
            tf.distribute.get_strategy(),
            batch_size=size,
            pad_to=settings.pad_to,
        )
        scores = self.score("dev", predictor(self.splits["dev"]), size).scores
        for name, value in scores.items():
            model = wording.score(outcome.scores[name])
            print(f"  export_{name} = {wording.score(value)}  (the model: {model})")
            outcome.results[f"export_{name}"] = value

    def write_report(self, *run_and_outcome: Any) -> None:
        """Writes the report of one run."""
        self.report(*run_and_outcome)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingTask(Task):
    """An objective of pretraining.

    Attributes:
        kind: what the hub calls such models.
        config: of the network; has to_dict().
        objective, records: the loss, and what to train and evaluate on; None to export
            alone.
        score: scores of inference.objective_scores -> those to report.
        report: writes the report, of keyword arguments.
        states: model -> {name: shape without rows} of what it carries from batch to
            batch, as in carried_states.CarriedStates; None for nothing.
    """

    kind: str
    config: Any
    objective: losses.Objective | None = None
    records: source.PretrainingData | None = None
    score: Callable[[dict[str, Any]], dict[str, Any]] = lambda scores: scores
    report: Callable[..., None]
    states: Callable[[Any], Mapping[str, Sequence[int]]] | None = None

    def trained_on(self) -> dict[str, Any]:
        """The values that must match to resume a run."""
        assert self.records
        contents = remote_files.digest(self.records.train.files)
        return {**self.identity, "contents": contents}

    def begin(
        self, model: Any, settings: Settings
    ) -> tuple["PretrainingTask", inference.CachedEvaluation]:
        """The task, and a function that returns scores."""
        if not self.records:
            return self, inference.CachedEvaluation(dict)
        assert self.objective
        strategy, jit_compile = settings.run.strategy, settings.run.jit_compile
        size = devices.fitting_batch_size(settings.eval_batch_size, strategy)
        states = self._carried(model, size, strategy)
        function = inference.evaluate_function(
            model, self.objective, strategy, jit_compile=jit_compile, states=states
        )
        count = self.records.num_evaluation_batches(size, settings.max_eval_steps)
        limit = count if settings.max_eval_steps else None
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
        if not self.states:
            return None
        return carried_states.CarriedStates.make(self.states(model), rows, strategy)

    def train(
        self,
        model: Any,
        settings: Settings,
        origin: str,
        evaluate: inference.CachedEvaluation,
    ) -> int:
        """Trains to the last step of the plan; returns the step it reached."""
        current, records = settings.run, self.records
        assert current.plan is not None and records and self.objective
        num_steps = current.plan.num_train_steps
        order = current.batch_size, current.seed

        def batches_from(step: int) -> Callable[..., tf.data.Dataset]:
            def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
                made = records.training_batches(*order, step, num_steps, context)
                if not current.packs_sequences:
                    return made
                replicas = context.num_replicas_in_sync // context.num_input_pipelines
                return sharing.share_rows(made, current.micro_batches * replicas)

            return batches

        return run.train(
            current,
            run.Training(
                model=model,
                store=self.store(model),
                origin=origin,
                objective=self.objective,
                batches_from=batches_from,
                evaluate=evaluate,
                on_evaluated=evaluate.keep,
                names=lambda step: records.batch_names(*order, step),
                states=self._carried(model, current.batch_size, current.strategy),
            ),
        )

    def finish(
        self,
        model: Any,
        settings: Settings,
        evaluate: inference.CachedEvaluation,
        step: int,
    ) -> Outcome:
        """Evaluates, writes eval_results.txt and prints its lines."""
        outcome, current = Outcome(), settings.run
        if not settings.evaluates:
            return outcome
        outcome.scores = evaluate.at(step)
        outcome.results = {**outcome.scores, "global_step": step}
        outcome.print_results()
        run_directory.record(current, step, outcome.scores, outcome.results)
        if current.writes:
            path = os.path.join(current.output_dir, file_names.EVAL_RESULTS)
            print(f"evaluation: {path}")
        return outcome

    def compare_export(self, path: str, settings: Settings, outcome: Outcome) -> None:
        """An export of pretraining is the model."""

    def write_report(
        self,
        model: Any,
        settings: Settings,
        outcome: Outcome,
        step: int,
        seconds: float,
    ) -> None:
        """Writes the report, if the settings have one."""
        if self.records and settings.reports and settings.run.writes:
            data = self.records.summary()
            ended = step, outcome.results, seconds
            self.report(
                None,
                settings.run.output_dir,
                explanations=[],
                defaults=settings.default_flags,
                **facts.collect(settings.run, model, self.kind, data, *ended),
            )


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


def run_task(task: FineTuningTask | PretrainingTask, settings: Settings) -> None:
    """Does a task once, and prints the scores.

    Raises what run.start and run.train do, and errors.LostWorker.
    """
    with run.lost_workers_named(settings.run.strategy):
        run_once(task, settings)


def run_once(task: FineTuningTask | PretrainingTask, settings: Settings) -> Outcome:
    """Does a task with one seed and one combination of flags."""
    current, started = settings.run, time.monotonic()
    model, origin, step = run.start(
        current,
        task.model,
        task.load_weights,
        identity=task.trained_on() if current.trains else {},
        files=task.files,
    )
    task, evaluation = task.begin(model, settings)
    if current.trains:
        step = task.train(model, settings, origin, evaluation)
    outcome = task.finish(model, settings, evaluation, step)
    exports = settings.exports and current.writes
    if exports:
        export = functools.partial(task.export, model, current.output_dir)
        path = run_directory.export_once(current, step, export)
        print(f"exported: {path}")
        task.compare_export(path, settings, outcome)
    with progress.waiting("writing the report"):
        seconds = time.monotonic() - started
        task.write_report(model, settings, outcome, step, seconds)
        if exports:
            run_directory.end(current)
    devices.wait_for_all(current.strategy, "write results and exports")
    return outcome
