"""One driver of fine-tuning: trains, evaluates, predicts and exports, seed by seed.

A script hands it a Task; docs/design.md shows the smallest one.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from contract import wording
from terminal import progress
from training import grid, run, run_directory, seeds, steps
from training.distribution import devices
from training.results import evaluation


class Examples(Protocol):
    """The labelled rows of a split: data_pipeline's batching.Examples."""

    def digest(self) -> str:
        """A short text that differs where tokens or targets differ."""

    def names(self, indices: Any) -> list[str]:
        """How messages name the examples."""

    def training_order(self, **settings: Any) -> Any:
        """int32 [steps, B] of indices."""

    def evaluation_order(self, batch_size: int) -> Any:
        """int32 [batches, B] of indices, -1 for padding in the last batch."""

    def batches(self, order: Any, pad_to: int | None) -> Any:
        """A tf.data.Dataset with a batch of features for each row of the order."""


class Scored(Protocol):
    """What a task makes of the model's outputs for a split."""

    scores: Mapping[str, Any]

    def results(self, prefix: str) -> dict[str, Any]:
        """The scores under the names of the original's result files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What is particular to one kind of labelled rows.

    Attributes:
        splits: those of "train", "dev" and "test" that the run needs.
        model: makes the model, unbuilt.
        load_weights: as in run.start.
        store: model -> run.Training.store.
        objective: the loss, as in steps.train_function.
        score: split, model outputs {name: [N, ...]}, batch size -> Scored.
        predict: Scored of "test", run.Settings, step -> results; writes predictions.
        export: model, output_dir -> path of the export it writes.
        reopen: such a path -> what takes the model's place in `outputs`, to score an
            export that may differ from the model; None of one that does not.
        outputs: model -> the function of features whose outputs `score` takes.
        evaluate: Scored of "dev" -> lines of eval_results.txt except global_step.
        examine: split, its Scored -> what `pictures` takes.
        pictures: what `examine` gives -> what reporting.Reporter.show takes.
        show: model, Scored of "dev", Settings -> None; writes what else to look at.
        report: model, Settings, what `examine` returned, step, results, seconds, the
            same of test rows beside dev rows -> None. No model stands for several runs.
        write_records: writes features into a directory, as the original does.
        files: {name: text} to store beside the weights.
        identity: what besides the data must match to resume a run.
    """

    splits: Mapping[str, Examples]
    model: Callable[[], Any]
    load_weights: Callable[..., tuple[str, int]]
    store: Callable[[Any], Any]
    objective: Any
    score: Callable[[str, Mapping[str, Any], int], Scored]
    predict: Callable[[Any, run.Settings, int], Mapping[str, Any]]
    export: Callable[[Any, str], str]
    reopen: Callable[[str], Any] = lambda path: None
    outputs: Callable[[Any], Callable[..., Mapping[str, Any]]] = lambda model: model
    evaluate: Callable[[Any], dict[str, Any]] = lambda scored: scored.results("eval")
    examine: Callable[[str, Any], Any] = lambda split, scored: None
    pictures: Callable[[Any], Mapping[str, Any]] = lambda seen: {}
    show: Callable[[Any, Any, Any], None] = lambda model, scored, settings: None
    report: Callable[..., None] = lambda *ended: None
    write_records: Callable[[str], None] = lambda directory: None
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to fine-tune, whatever the task.

    Attributes:
        seeds: of several runs, each in a directory of its own; if empty, run.seed.
        combinations: runs to compare, each as `run` but for what it varies.
        group_by_length: whether a training batch has texts of similar length.
        pad_to: length of every batch in tokens, or None for its longest text.
        default_flags: {flag: value} where nothing is given, for the report.
        feature_cache: a frozen.feature_cache.FeatureCache, or None.
    """

    run: run.Settings
    seeds: Sequence[int] = ()
    combinations: Sequence[grid.Combination] = ()
    evaluates: bool = False
    predicts: bool = False
    exports: bool = False
    group_by_length: bool = True
    pad_to: int | None = None
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    reports: bool = False
    default_flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    feature_cache: Any = None


def run_task(task: Task, settings: Settings) -> None:
    """Does what is asked for, once or with each seed and combination of a grid.

    Prints the scores. Raises what run.start and run.train do, and errors.LostWorker.
    """
    common = settings.run

    def run_once(seed: int, output_dir: str) -> Mapping[str, Any]:
        its_own = dataclasses.replace(common, seed=seed, output_dir=output_dir)
        return _run_once(task, dataclasses.replace(settings, run=its_own)).results

    with run.lost_workers_named(common.strategy):
        if settings.combinations:
            grid.run_all(_run_once, task, settings)
        elif settings.seeds:
            seeds.run_all(run_once, settings.seeds, common.output_dir, common.writes)
        else:
            run_once(common.seed, common.output_dir)
        if settings.combinations or settings.seeds:
            task.report(None, settings)


def _run_once(task: Task, settings: Settings) -> grid.Outcome:
    its_own, started = settings.run, time.monotonic()
    trained_on = {}
    if its_own.trains:
        trained_on = {"data": task.splits["train"].digest(), **task.identity}
    model, origin, step = run.start(
        *(its_own, task.model, task.load_weights),
        identity=trained_on,
        files=task.files,
    )
    if its_own.writes:
        task.write_records(its_own.output_dir)
    cache = settings.feature_cache
    cached = cache.wrapped(task, model, settings) if cache else task
    score = _scorer(cached, settings, model)
    if its_own.trains:
        step = _train(cached, settings, model, origin, score)
    results: dict[str, Any] = {}
    scores: Mapping[str, Any] = {}
    rows = tested = None
    if settings.evaluates:
        scored = score.at(step, "dev", settings.eval_batch_size)
        results |= {**task.evaluate(scored), "global_step": step}
        scores, rows = scored.scores, task.examine("dev", scored)
        run_directory.record(its_own, step, scores, results)
        task.show(model, scored, settings)
        _picture(task, its_own, step, rows)
    if settings.predicts:
        splits = task.splits
        split = "dev" if splits.get("dev") is splits["test"] else "test"
        scored = score.at(step, split, settings.predict_batch_size)
        results |= task.predict(scored, its_own, step)
        scores, seen = scores or scored.scores, task.examine(split, scored)
        rows, tested = rows or seen, seen if rows and split == "test" else None
        if split == "dev":
            _picture(task, its_own, step, rows)
    for name in sorted(results):
        print(f"  {name} = {wording.score(results[name])}")
    if settings.exports and its_own.writes:
        export = functools.partial(task.export, model, its_own.output_dir)
        path = run_directory.export_once(its_own, step, export)
        print(f"exported: {path}")
        if settings.evaluates and (exported := task.reopen(path)):
            results |= _compare(task, settings, exported, scores)
    with progress.waiting("writing the report"):
        seconds = time.monotonic() - started
        task.report(model, settings, rows, step, results, seconds, tested)
        if settings.exports and its_own.writes:
            run_directory.end(its_own)
    devices.wait_for_all(its_own.strategy, "write results and exports")
    return grid.Outcome(results, scores)


def _compare(
    task: Task, settings: Settings, exported: Any, scores: Mapping[str, Any]
) -> dict[str, Any]:
    """Prints scores of the dev rows by the model and by its export; returns these."""
    examples, size = task.splits["dev"], settings.eval_batch_size
    # An export runs in this process alone, on no device of the strategy.
    here = dataclasses.replace(settings.run, strategy=tf.distribute.get_strategy())
    alone = dataclasses.replace(settings, run=here)
    forward = task.outputs(exported)
    outputs = evaluation.predict_all(forward, alone, examples, size)
    found = task.score("dev", outputs, size).scores
    for name, value in found.items():
        model = wording.score(scores[name])
        print(f"  export_{name} = {wording.score(value)}  (the model: {model})")
    return {f"export_{name}": value for name, value in found.items()}


def _picture(task: Task, its_own: run.Settings, step: int, rows: Any) -> None:
    if its_own.writes:
        run_directory.show(its_own, step, task.pictures(rows))


def compiled(model: Any, settings: Settings) -> Callable[..., dict[str, Any]]:
    """steps.predict_function on the devices of a run."""
    its_own = settings.run
    return steps.predict_function(
        model, its_own.strategy, jit_compile=its_own.jit_compile
    )


def predictor(model: Any, settings: Settings) -> Callable[..., dict[str, Any]]:
    """A function of Examples, and a batch size: evaluation.predict_all of `model`."""
    predict = compiled(model, settings)
    return functools.partial(evaluation.predict_all, predict, settings)


def _scorer(task: Task, settings: Settings, model: Any) -> evaluation.Remembered:
    """A function of split and batch size that scores the model's current weights."""
    predict = predictor(task.outputs(model), settings)

    def score(split: str, batch_size: int) -> Scored:
        name = "evaluating: batch" if split == "dev" else "predicting: batch"
        outputs = predict(task.splits[split], batch_size, name=name)
        return task.score(split, outputs, batch_size)

    return evaluation.Remembered(score)


def _train(
    task: Task,
    settings: Settings,
    model: Any,
    origin: str,
    score: evaluation.Remembered,
) -> int:
    """Trains; leaves the last weights in place or, with evaluations, the best."""
    its_own, examples = settings.run, task.splits["train"]
    assert its_own.plan is not None
    order = examples.training_order(
        batch_size=its_own.batch_size,
        num_steps=its_own.plan.num_train_steps,
        seed=its_own.seed,
        group_by_length=settings.group_by_length,
    )

    return run.train(
        its_own,
        run.Training(
            model=model,
            store=task.store(model),
            origin=origin,
            objective=task.objective,
            batches_from=lambda step: examples.batches(order[step:], settings.pad_to),
            evaluate=lambda: dict(score("dev", settings.eval_batch_size).scores),
            keep=score.keep,
            names=lambda step: examples.names(order[step]),
            watched=model.learned_mix,
        ),
    )
