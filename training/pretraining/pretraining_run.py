"""One driver of pretraining: trains, evaluates, exports and reports.

run_pretraining.py hands it a Task, which says what is predicted.
"""

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from contract import file_names, remote_files, wording
from training import run, run_directory, steps
from training.distribution import carried_states, devices
from training.results import evaluation, run_facts


class Records(Protocol):
    """What to train on and what is held out: data_pipeline's record_sets.RecordSets."""

    @property
    def train(self) -> Any:
        """Has `files`."""

    def digest(self) -> str:
        """A short text that differs where number and names of the files differ."""

    def training_batches(
        self, batch_size: int, seed: int, start_step: int, num_steps: int, context: Any
    ) -> Any:
        """A tf.data.Dataset of the batches from a step on."""

    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        """How messages name the records of a batch."""

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        """How many batches an evaluation has; None for all records."""

    def evaluation_batches(
        self, batch_size: int, num_batches: int | None, context: Any
    ) -> Any:
        """A tf.data.Dataset of held-out batches; None: each record counts once."""

    def summary(self) -> dict[str, dict[str, Any]]:
        """What a report says of them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What is particular to one objective of pretraining.

    Attributes:
        kind: what the hub calls such models.
        config: of the network; has to_dict().
        model: makes the model, unbuilt.
        load_weights: as in run.start.
        store: model -> run.Training.store.
        objective: the loss, as in steps.train_function; None without records.
        records: what to train and evaluate on; None to export alone.
        score: scores of evaluation.objective_scores -> those to report.
        shown: model, features, training -> outputs for `show`; None to show nothing.
        show: features and outputs of a batch -> {name: Markdown}.
        export: model, output_dir -> path of the export it writes.
        report: writes the report, of keyword arguments.
        files: {name: text} to store beside the weights.
        identity: what besides records and flags must match to resume a run.
        states: model -> {name: shape without rows} of what it carries from batch to
            batch, as in carried_states.CarriedStates.
    """

    kind: str
    config: Any
    model: Callable[[], Any]
    load_weights: Callable[..., tuple[str, int]]
    store: Callable[[Any], Any]
    objective: Any = None
    records: Records | None = None
    score: Callable[[dict[str, Any]], dict[str, Any]] = lambda scores: scores
    shown: Callable[..., dict[str, Any]] | None = None
    show: Callable[[Any, Any], dict[str, str]] = lambda features, outputs: {}
    export: Callable[[Any, str], str]
    report: Callable[..., None]
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    states: Callable[[Any], Mapping[str, Any]] = lambda model: {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to pretrain, whatever is predicted.

    Attributes:
        max_eval_steps: most batches of an evaluation; None for all records.
        default_flags: {flag: value} where nothing is given, for the report.
    """

    run: run.Settings
    evaluates: bool = False
    exports: bool = False
    eval_batch_size: int = 8
    max_eval_steps: int | None = None
    reports: bool = False
    default_flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run_task(task: Task, settings: Settings) -> None:
    """Trains, evaluates, exports and reports, as the settings say; prints the scores.

    Raises what run.start and run.train do.
    """
    its_own, started = settings.run, time.monotonic()
    model, origin, step = run.start(
        *(its_own, task.model, task.load_weights),
        identity=_identity(task, its_own),
        files=task.files,
    )
    results: dict[str, Any] = {}
    if task.records:
        evaluate = _evaluator(task, settings, model)
        if its_own.trains:
            step = _train(task, its_own, model, origin, evaluate)
        if settings.evaluates:
            results = _evaluated(its_own, evaluate, step)
    if settings.exports and its_own.writes:
        export = functools.partial(task.export, model, its_own.output_dir)
        print(f"exported: {run_directory.export_once(its_own, step, export)}")
    if task.records and settings.reports and its_own.writes:
        ended = step, results, time.monotonic() - started
        data = task.records.summary()
        facts = run_facts.of_run(its_own, model, task.kind, data, *ended)
        task.report(
            *(None, its_own.output_dir),
            **{"explanations": [], "defaults": settings.default_flags, **facts},
        )
    if settings.exports and its_own.writes:
        run_directory.end(its_own)
    devices.wait_for_all(its_own.strategy, "write results and exports")
    print(f"output: {its_own.output_dir}")


def _identity(task: Task, its_own: run.Settings) -> dict[str, Any]:
    identity = dict(task.identity)
    if task.records and its_own.trains:
        contents = remote_files.digest(task.records.train.files)
        identity |= {"data": task.records.digest(), "contents": contents}
    return identity


def _evaluator(task: Task, settings: Settings, model: Any) -> evaluation.Remembered:
    """A function that returns scores of the current weights, and texts to show."""
    assert task.records
    records = task.records
    strategy = settings.run.strategy
    compiled = {"jit_compile": settings.run.jit_compile}
    size = devices.fitting_batch_size(settings.eval_batch_size, strategy)
    carried = carried_states.make(task.states(model), size, strategy)
    evaluate_batch = steps.evaluate_function(
        model, task.objective, strategy, carried=carried, **compiled
    )
    count = records.num_evaluation_batches(size, settings.max_eval_steps)
    wanted = count if settings.max_eval_steps else None
    batches = functools.partial(records.evaluation_batches, size, wanted)
    predict: Any = None
    if task.shown:
        shown = functools.partial(task.shown, model)
        predict = steps.predict_function(shown, strategy, **compiled)

    def evaluate() -> dict[str, Any]:
        carried.reset()
        scores = task.score(
            evaluation.objective_scores(evaluate_batch, batches, count, strategy)
        )
        if not predict:
            return scores
        return scores | task.show(*evaluation.first_batch(predict, batches, strategy))

    return evaluation.Remembered(evaluate)


def _train(
    task: Task,
    its_own: run.Settings,
    model: Any,
    origin: str,
    evaluate: evaluation.Remembered,
) -> int:
    """Trains to the last step of the plan; returns the step it reached."""
    assert its_own.plan is not None and task.records
    records, num_steps = task.records, its_own.plan.num_train_steps
    order = its_own.batch_size, its_own.seed

    return run.train(
        its_own,
        run.Training(
            model=model,
            store=task.store(model),
            origin=origin,
            objective=task.objective,
            batches_from=lambda step: functools.partial(
                records.training_batches, *order, step, num_steps
            ),
            evaluate=evaluate,
            keep=evaluate.keep,
            names=lambda step: records.batch_names(*order, step),
            carried=carried_states.make(
                task.states(model), its_own.batch_size, its_own.strategy
            ),
        ),
    )


def _evaluated(
    its_own: run.Settings, evaluate: evaluation.Remembered, step: int
) -> dict[str, Any]:
    """Evaluates, writes eval_results.txt, prints and returns its lines."""
    scores = evaluate.at(step)
    results = {k: v for k, v in scores.items() if not isinstance(v, str)}
    results["global_step"] = step
    for name in sorted(results):
        print(f"  {name} = {wording.score(results[name])}")
    run_directory.record(its_own, step, scores, results)
    if its_own.writes:
        path = os.path.join(its_own.output_dir, file_names.EVAL_RESULTS)
        print(f"evaluation: {path}")
    return results
