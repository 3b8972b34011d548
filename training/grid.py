"""Runs with each seed, and with each combination of some flags' values."""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names, json_files, wording
from training import driver, metrics, run_directory, run_plan, tensorboard

SEEDS_FILE = "seeds.json"


class Task(driver.Task, Protocol):
    """A task that can be done several times."""

    def write_records(self, directory: str) -> None: ...
    def report_runs(self, plan: run_plan.Plan) -> None: ...


def run_with_seeds(task: Task, plan: run_plan.Plan) -> None:
    """Does a task with each seed; prints the scores and their deviations."""

    def run_seed(own: run_plan.Plan) -> Mapping[str, Any]:
        return driver.run_once(task, own).results

    run_seeds(run_seed, plan, plan.seeds)
    task.report_runs(plan)


def seed_directory(seed: int, output_dir: str) -> str:
    """Where a run with one of several seeds writes."""
    return os.path.join(output_dir, f"seed-{seed}")


def run_seeds(
    run_seed: Callable[[run_plan.Plan], Mapping[str, Any]],
    common: run_plan.Plan,
    seeds: Sequence[int],
    *,
    shows: bool = True,
) -> None:
    """Runs with each seed, in its `seed_directory`, and summarises the scores.

    BERT's fine-tuning scores vary with the seed by more than most changes do, so a
    score is a mean and a deviation: {score: {"mean": ..., "deviation": ...}}, printed
    and in seeds.json. `shows` announces each run, and has TensorBoard compare them.
    """
    runs: dict[int, dict[str, float]] = {}
    for number, seed in enumerate(seeds, start=1):
        directory = seed_directory(seed, common.output_dir)
        if shows:
            print(f"seeds: run {number} of {len(seeds)}: {directory}", flush=True)
        current = dataclasses.replace(common, seed=seed, output_dir=directory)
        runs[seed] = _numbers(run_seed(current))
        if shows and common.writes:
            tensorboard.write_hparams(
                directory,
                {"seed": seed},
                runs[seed],
                common.output_dir,
                {"seed": seeds},
            )
    summary = metrics.summarize(list(runs.values()))
    record = {
        "seeds": {str(seed): scores for seed, scores in runs.items()},
        "summary": summary,
    }
    if common.writes:
        text = json.dumps(record, indent=2, sort_keys=True) + "\n"
        atomic_files.write_text(os.path.join(common.output_dir, SEEDS_FILE), text)
    print(f"over seeds {', '.join(map(str, seeds))}:")
    for name, values in summary.items():
        if name != "global_step":
            print(f"  {name} = {values['mean']:.4f} +- {values['deviation']:.4f}")


def combine(
    values_of_runs: Sequence[Mapping[str, Any]],
    make_plan: Callable[[Mapping[str, Any]], run_plan.Plan],
) -> list[run_plan.Combination]:
    """The runs with each of these {flag: value}, in directories of their own."""
    combinations = []
    for values in values_of_runs:
        plan = make_plan(values)
        directory = directory_of(values, plan.output_dir)
        plan = dataclasses.replace(plan, output_dir=directory)
        combinations.append(run_plan.Combination(values, plan))
    return combinations


def directory_of(values: Mapping[str, Any], output_dir: str) -> str:
    """Where the run with these values writes, such as learning_rate=3e-05."""
    return os.path.join(output_dir, ",".join(_assignments(values)))


def run_grid(task: Task, plan: run_plan.Plan) -> None:
    """Trains and scores each combination; then the best run predicts and exports.

    Each run resumes by its directory, so the same command goes on where one stopped. A
    run whose loss is not finite is out; errors.NotFinite is raised if all are.
    """
    trials = _Trials(task, plan)
    if plan.writes:
        task.write_records(plan.output_dir)
    scores = [trials.scores(each) for each in plan.combinations]
    best = _choose_best(plan, scores, trials.record)
    last = dataclasses.replace(
        best,
        trains=False,
        timetable=None,
        evaluates=False,
        predicts=plan.predicts and not trials.predicts,
        exports=plan.exports,
        writes_records=False,
    )
    if last.predicts or last.exports:
        driver.run_once(task, last)
    task.report_runs(plan)


class _Trials:
    """The runs of all combinations, one by one.

    Attributes:
        predicts: whether each run predicts: where nothing else scores it, that does.
    """

    def __init__(self, task: Task, plan: run_plan.Plan):
        self._task, self._plan = task, plan
        self.record = _Record(task, plan)
        self.predicts = plan.predicts and not plan.evaluates
        self._count = len(plan.combinations) * max(1, len(plan.seeds))
        self._number = 0

    def scores(self, combination: run_plan.Combination) -> list[float]:
        """The score with each seed; [] where a loss was not finite."""
        made: list[float] = []

        def run_seed(own: run_plan.Plan) -> Mapping[str, Any]:
            results, score = self._run(combination.values, own)
            made.append(score)
            return results

        try:
            if self._plan.seeds:
                run_seeds(run_seed, combination.plan, self._plan.seeds, shows=False)
            else:
                run_seed(combination.plan)
        except errors.NotFinite as error:
            print(f"grid: out is {combination.plan.output_dir}: {error}", flush=True)
            return []
        return made

    def _run(
        self, values: Mapping[str, Any], own: run_plan.Plan
    ) -> tuple[Mapping[str, Any], float]:
        """Does one run, and records how it ended; returns its results and score."""
        self._number += 1
        print(
            f"grid: run {self._number} of {self._count}: {own.output_dir}", flush=True
        )
        assert own.timetable is not None
        values = {**values, "seed": own.seed}
        # One copy of the features is enough.
        each = dataclasses.replace(
            own, predicts=self.predicts, exports=False, writes_records=False
        )
        try:
            outcome = driver.run_once(self._task, each)
        except errors.NotFinite as error:
            entry: dict[str, Any] = {"results": {}, "score": None, "error": str(error)}
            self.record.add(own, {"values": values, **entry})
            raise
        score = float(outcome.scores[own.timetable.best_metric])
        entry = {"results": _numbers(outcome.results), "score": _known(score)}
        self.record.add(own, {"values": values, **entry})
        return outcome.results, score


class _Record:
    """grid.json: {directory: values, results and score} of all runs, and the best."""

    def __init__(self, task: Task, plan: run_plan.Plan):
        self._directory, self._writes = plan.output_dir, plan.writes
        self._path = os.path.join(plan.output_dir, file_names.GRID)
        varied = set().union(*(each.values for each in plan.combinations))
        identity = {k: v for k, v in plan.identity.items() if k not in varied}
        self._identity = {**identity, **task.trained_on()}
        self._runs: dict[str, Any] = {}
        if not plan.overwrite and tf.io.gfile.exists(self._path):
            run_directory.check_identity(
                self._directory, file_names.GRID, self._identity
            )
            self._runs = dict(json_files.read_object(self._path)["runs"])

    def add(self, own: run_plan.Plan, entry: Mapping[str, Any]) -> None:
        """Stores how a run ended."""
        self._runs[self.name(own)] = dict(entry)
        self.write({})
        if self._writes:
            values = [each["values"] for each in self._runs.values()]
            domains = {
                name: sorted({each[name] for each in values if name in each})
                for name in sorted(set().union(*values))
            }
            tensorboard.write_hparams(
                own.output_dir,
                entry["values"],
                entry["results"],
                self._directory,
                domains,
            )

    def write(self, summary: Mapping[str, Any]) -> None:
        """Writes the file, with the summary of all runs."""
        record = {"identity": self._identity, "runs": self._runs, **summary}
        text = json.dumps(record, indent=2, sort_keys=True) + "\n"
        if self._writes:
            atomic_files.write_text(self._path, text)

    def name(self, own: run_plan.Plan) -> str:
        """A run's directory, relative to that of the grid."""
        return os.path.relpath(own.output_dir, self._directory)


def _choose_best(
    plan: run_plan.Plan, scores: Sequence[Sequence[float]], record: _Record
) -> run_plan.Plan:
    """Prints and records all scores; returns the best run of the best combination."""
    if not any(scores):
        raise errors.NotFinite(
            "the loss of every run of the grid was not finite; give --grid lower "
            "values of learning_rate"
        )
    assert plan.timetable is not None
    metric = plan.timetable.best_metric
    sign = metrics.sign(metric)
    means = [sign * float(np.mean(each)) if each else -np.inf for each in scores]
    number = _largest(means)
    run_number = _largest(sign * np.array(scores[number]))
    combination = plan.combinations[number]
    best = combination.plan
    if plan.seeds:
        seed = plan.seeds[run_number]
        directory = seed_directory(seed, best.output_dir)
        best = dataclasses.replace(best, seed=seed, output_dir=directory)
    for line in _table(plan.combinations, scores, metric, number):
        print(line)
    values = ", ".join(_assignments(combination.values))
    print(f"best: {values}; its best run is {best.output_dir}", flush=True)
    pairs = zip(plan.combinations, scores, strict=True)
    record.write(
        {
            "metric": metric,
            "combinations": [
                {"values": dict(each.values), **_statistics(of_seeds)}
                for each, of_seeds in pairs
            ],
            "best": {
                "values": dict(combination.values),
                "seed": best.seed,
                "directory": record.name(best),
                "score": _known(scores[number][run_number]),
            },
        }
    )
    return best


def _statistics(scores: Sequence[float]) -> dict[str, Any]:
    """Mean and sample deviation; None where they are not known."""
    deviation = float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan
    return {
        "mean": _known(float(np.mean(scores))) if scores else None,
        "deviation": _known(deviation),
    }


def _largest(scores: Any) -> int:
    """The place of the largest; one that is not defined counts as the lowest number."""
    return int(np.argmax(np.where(np.isnan(scores), np.finfo(float).min, scores)))


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score


def _numbers(results: Mapping[str, Any]) -> dict[str, float]:
    """Results that are defined; JSON has no number for others."""
    return {k: float(value) for k, value in results.items() if not np.isnan(value)}


def _table(
    combinations: Sequence[run_plan.Combination],
    scores: Sequence[Sequence[float]],
    metric: str,
    best: int,
) -> list[str]:
    """Lines of columns, a row a combination."""
    names = sorted(combinations[0].values)
    rows = [[*names, metric]]
    for combination, of_seeds in zip(combinations, scores, strict=True):
        mean, deviation = _statistics(of_seeds).values()
        score = "not finite" if mean is None else f"{mean:.4f}"
        if deviation is not None:
            score += f" +- {deviation:.4f}"
        rows.append([*(_spell(combination.values[name]) for name in names), score])
    rows[best + 1].append("best")
    return ["grid:", *(f"  {line}" for line in wording.columns(rows))]


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_spell(values[name])}" for name in sorted(values)]


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
