"""Runs with each seed, and with each combination of some flags' values."""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names, json_files, wording
from training import driver, metrics, run_directory, run_settings, tensorboard

SEEDS_FILE = "seeds.json"


def run_with_seeds(task: driver.FineTuningTask, settings: driver.Settings) -> None:
    """Does a task with each seed; prints the scores and their deviations."""

    def run_seed(current: run_settings.Settings) -> Mapping[str, Any]:
        outcome = driver.run_once(task, dataclasses.replace(settings, run=current))
        return outcome.results

    run_seeds(run_seed, settings.run, settings.seeds)
    task.report_runs(settings)


def seed_directory(seed: int, output_dir: str) -> str:
    """Where a run with one of several seeds writes."""
    return os.path.join(output_dir, f"seed-{seed}")


def run_seeds(
    run_seed: Callable[[run_settings.Settings], Mapping[str, Any]],
    common: run_settings.Settings,
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
    make_settings: Callable[[Mapping[str, Any]], run_settings.Settings],
) -> list[driver.Combination]:
    """The runs with each of these {flag: value}, in directories of their own."""
    combinations = []
    for values in values_of_runs:
        settings = make_settings(values)
        directory = directory_of(values, settings.output_dir)
        settings = dataclasses.replace(settings, output_dir=directory)
        combinations.append(driver.Combination(values, settings))
    return combinations


def directory_of(values: Mapping[str, Any], output_dir: str) -> str:
    """Where the run with these values writes, such as learning_rate=3e-05."""
    return os.path.join(output_dir, ",".join(_assignments(values)))


def run_grid(task: driver.FineTuningTask, settings: driver.Settings) -> None:
    """Trains and scores each combination; then the best run predicts and exports.

    Each run resumes by its directory, so the same command goes on where one stopped. A
    run whose loss is not finite is out; errors.NotFinite is raised if all are.
    """
    record = _Record(task, settings)
    if settings.run.writes:
        task.write_records(settings.run.output_dir)
    # One copy of the features is enough.
    settings = dataclasses.replace(settings, writes_records=False)
    # Where nothing else scores a run, its predictions do.
    predicts_each = settings.predicts and not settings.evaluates
    each = dataclasses.replace(settings, predicts=predicts_each, exports=False)
    count, number = len(settings.combinations) * max(1, len(settings.seeds)), 0

    def run_one(combination: driver.Combination, current: run_settings.Settings) -> Any:
        nonlocal number
        number += 1
        print(f"grid: run {number} of {count}: {current.output_dir}", flush=True)
        assert current.plan is not None
        values = {**combination.values, "seed": current.seed}
        try:
            outcome = driver.run_once(task, dataclasses.replace(each, run=current))
        except errors.NotFinite as error:
            entry: dict[str, Any] = {"results": {}, "score": None, "error": str(error)}
            record.add(current, {"values": values, **entry})
            raise
        score = float(outcome.scores[current.plan.best_metric])
        entry = {"results": _numbers(outcome.results), "score": _known(score)}
        record.add(current, {"values": values, **entry})
        return outcome.results, score

    scores = [_score(run_one, each, settings.seeds) for each in settings.combinations]
    best = _choose_best(settings, scores, record)
    last = dataclasses.replace(
        settings,
        run=dataclasses.replace(best, trains=False, plan=None),
        evaluates=False,
        predicts=settings.predicts and not predicts_each,
    )
    if last.predicts or last.exports:
        driver.run_once(task, last)
    task.report_runs(settings)


def _score(
    run_one: Callable[..., Any], combination: driver.Combination, seeds: Sequence[int]
) -> list[float]:
    """The score with each seed; [] where a loss was not finite."""
    scores: list[float] = []

    def run_seed(current: run_settings.Settings) -> Mapping[str, float]:
        results, score = run_one(combination, current)
        scores.append(score)
        return results

    try:
        if seeds:
            run_seeds(run_seed, combination.run, seeds, shows=False)
        else:
            run_seed(combination.run)
    except errors.NotFinite as error:
        print(f"grid: out is {combination.run.output_dir}: {error}", flush=True)
        return []
    return scores


class _Record:
    """grid.json: {directory: values, results and score} of all runs, and the best."""

    def __init__(self, task: driver.FineTuningTask, settings: driver.Settings):
        common = settings.run
        self._directory, self._writes = common.output_dir, common.writes
        self._path = os.path.join(common.output_dir, file_names.GRID)
        varied = set().union(*(each.values for each in settings.combinations))
        identity = {k: v for k, v in common.identity.items() if k not in varied}
        self._identity = {**identity, **task.trained_on()}
        self._runs: dict[str, Any] = {}
        if not common.overwrite and tf.io.gfile.exists(self._path):
            run_directory.check_identity(
                self._directory, file_names.GRID, self._identity
            )
            self._runs = dict(json_files.read_object(self._path)["runs"])

    def add(self, current: run_settings.Settings, entry: Mapping[str, Any]) -> None:
        """Stores how a run ended."""
        self._runs[self.name(current)] = dict(entry)
        self.write({})
        if self._writes:
            values = [each["values"] for each in self._runs.values()]
            domains = {
                name: sorted({each[name] for each in values if name in each})
                for name in sorted(set().union(*values))
            }
            tensorboard.write_hparams(
                current.output_dir,
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

    def name(self, current: run_settings.Settings) -> str:
        """A run's directory, relative to that of the grid."""
        return os.path.relpath(current.output_dir, self._directory)


def _choose_best(
    settings: driver.Settings, scores: Sequence[Sequence[float]], record: _Record
) -> run_settings.Settings:
    """Prints and records all scores; returns the best run of the best combination."""
    if not any(scores):
        raise errors.NotFinite(
            "the loss of every run of the grid was not finite; give --grid lower "
            "values of learning_rate"
        )
    assert settings.run.plan is not None
    metric = settings.run.plan.best_metric
    sign = metrics.sign(metric)
    means = [sign * float(np.mean(each)) if each else -np.inf for each in scores]
    number = _largest(means)
    run_number = _largest(sign * np.array(scores[number]))
    combination = settings.combinations[number]
    best = combination.run
    if settings.seeds:
        seed = settings.seeds[run_number]
        directory = seed_directory(seed, best.output_dir)
        best = dataclasses.replace(best, seed=seed, output_dir=directory)
    for line in _table(settings.combinations, scores, metric, number):
        print(line)
    values = ", ".join(_assignments(combination.values))
    print(f"best: {values}; its best run is {best.output_dir}", flush=True)
    pairs = zip(settings.combinations, scores, strict=True)
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
    combinations: Sequence[driver.Combination],
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
