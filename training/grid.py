"""Runs with each combination of some flags' values, and which of them is best."""

import dataclasses
import functools
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names, json_files
from training import checkpoints, run, run_directory, seeds
from training.distribution import devices
from training.results import hparams

# Flags that no score of a run depends on, whatever their values.
_NO_MATTER = (
    *("grid", "seeds", "seed", "output_dir", "overwrite_output_dir", "test_file"),
    *("do_predict", "do_export", "profile_steps", "write_tf_records"),
    *("feature_cache", "feature_cache_dir"),
)


class Combination(NamedTuple):
    """One of the runs to compare.

    Attributes:
        values: {flag: value} of what differs between the runs.
        run: how to run with them, in a directory of its own.
        flags: {flag: value} of all that the results depend on.
    """

    values: Mapping[str, Any]
    run: run.Settings
    flags: Mapping[str, Any]


class Outcome(NamedTuple):
    """What a run ended with: all its results, and the scores of the dev split."""

    results: Mapping[str, Any]
    scores: Mapping[str, Any]


def combine(
    grid: Sequence[Mapping[str, Any]],
    one_run: Callable[[Mapping[str, Any]], run.Settings],
) -> list[Combination]:
    """The runs with each of these {flag: value}, below the directory of `one_run`."""
    found = []
    for values in grid:
        its_own = one_run(values)
        place = directory_of(values, its_own.output_dir)
        its_own = dataclasses.replace(its_own, output_dir=place)
        flags = {k: v for k, v in its_own.flags.items() if k not in _NO_MATTER}
        found.append(Combination(values, its_own, flags))
    return found


def directory_of(values: Mapping[str, Any], output_dir: str) -> str:
    """Where the run with these values writes, such as learning_rate=3e-05."""
    return os.path.join(output_dir, ",".join(_assignments(values)))


def run_all(run_once: Callable[[Any, Any], Outcome], task: Any, settings: Any) -> None:
    """Trains and scores each combination; then the best run predicts and exports.

    A run whose loss is not finite is out; errors.NotFinite is raised if all are.
    grid.json holds what finished runs ended with, so the same command, or one with
    further values, does only what is missing.

    Args:
        run_once: does the run of a task and settings.
        task: a fine_tuning.Task.
        settings: a fine_tuning.Settings.
    """
    record = _Record(task, settings)
    if settings.run.writes:
        task.write_records(settings.run.output_dir)
    # One copy of the features is enough.
    task = dataclasses.replace(task, write_records=lambda directory: None)
    # Where nothing else scores a run, its predictions do.
    predicts_each = settings.predicts and not settings.evaluates
    each = dataclasses.replace(settings, predicts=predicts_each, exports=False)
    runs = _Runs(functools.partial(run_once, task), each, record)
    scores = [runs.do(combination) for combination in settings.combinations]
    best = _best(settings, scores, record)
    last = dataclasses.replace(
        settings,
        run=dataclasses.replace(best, trains=False, plan=None),
        evaluates=False,
        predicts=settings.predicts and not predicts_each,
    )
    if last.predicts or last.exports:
        run_once(task, last)


class _Record:
    """grid.json: what finished runs ended with, by directory, and which is best."""

    def __init__(self, task: Any, settings: Any) -> None:
        common = settings.run
        self._directory, self._writes = common.output_dir, common.writes
        self._path = os.path.join(common.output_dir, file_names.GRID)
        varied = set().union(*(each.values for each in settings.combinations))
        identity = {k: v for k, v in common.identity.items() if k not in varied}
        trained_on = {"data": task.splits["train"].digest(), **task.identity}
        self._identity = {**identity, **trained_on}
        self._held_out = task.splits["dev"].digest()
        self.runs = {} if common.overwrite else self._read()
        found = zlib.crc32(json.dumps(self.runs, sort_keys=True).encode())
        devices.check_agreement(common.strategy, found, file_names.GRID)

    def _read(self) -> dict[str, Any]:
        run_directory.check_identity(self._directory, file_names.GRID, self._identity)
        if not tf.io.gfile.exists(self._path):
            return {}
        return dict(json_files.read_object(self._path)["runs"])

    def key(self, combination: Combination, seed: int) -> str:
        """Differs where results may."""
        of = [combination.flags, self._identity, self._held_out, seed]
        return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]

    def find(self, directory: str, key: str) -> dict[str, Any] | None:
        """What a run ended with, if it is finished and still there."""
        entry = self.runs.get(self.name(directory))
        is_there = checkpoints.all_checkpoints(directory)
        return entry if entry and is_there and entry["key"] == key else None

    def add(self, directory: str, entry: Mapping[str, Any]) -> None:
        """Stores what a run ended with."""
        self.runs[self.name(directory)] = dict(entry)
        self.write({})

    def write(self, summary: Mapping[str, Any]) -> None:
        """Writes the file, with what is said of all runs together."""
        record = {"identity": self._identity, "runs": self.runs, **summary}
        text = json.dumps(record, indent=2, sort_keys=True) + "\n"
        if self._writes:
            atomic_files.write_text(self._path, text)

    def name(self, directory: str) -> str:
        """A run's directory, relative to that of the grid."""
        return os.path.relpath(directory, self._directory)


class _Runs:
    """Does the runs that are not finished, one after another."""

    def __init__(self, run_once: Any, settings: Any, record: _Record) -> None:
        self._run_once, self._settings, self._record = run_once, settings, record
        self._seeds = list(settings.seeds) or [settings.run.seed]
        self._number = 0
        earlier = [entry["values"] for entry in record.runs.values()]
        wanted = [{"seed": seed} for seed in self._seeds]
        wanted += [combination.values for combination in settings.combinations]
        self._experiment = hparams.Experiment(
            *(settings.run.output_dir, _domains([*earlier, *wanted])),
            writes=settings.run.writes,
        )

    def do(self, combination: Combination) -> list[float]:
        """The score with each seed; [] where a loss was not finite."""
        scores: list[float] = []

        def once(seed: int, directory: str) -> Mapping[str, Any]:
            entry = self._entry(combination, seed, directory)
            if entry["score"] is None:
                raise errors.NotFinite(entry["error"])
            scores.append(entry["score"])
            return entry["results"]

        its_own = combination.run
        try:
            if self._settings.seeds:
                seeds.run_all(
                    *(once, self._seeds, its_own.output_dir, its_own.writes),
                    shows=False,
                )
            else:
                once(its_own.seed, its_own.output_dir)
        except errors.NotFinite as error:
            print(f"grid: out is {its_own.output_dir}: {error}", flush=True)
            return []
        return scores

    def _entry(
        self, combination: Combination, seed: int, directory: str
    ) -> dict[str, Any]:
        self._number += 1
        key = self._record.key(combination, seed)
        entry = self._record.find(directory, key)
        of = len(self._settings.combinations) * len(self._seeds)
        state = " (finished before)" if entry else ""
        print(f"grid: run {self._number} of {of}{state}: {directory}", flush=True)
        if not entry:
            its_own = dataclasses.replace(
                combination.run, seed=seed, output_dir=directory
            )
            values = {**combination.values, "seed": seed}
            entry = {"key": key, "values": values, **self._ended(its_own)}
            self._record.add(directory, entry)
        self._experiment.add(directory, entry["values"], entry["results"])
        return entry

    def _ended(self, its_own: run.Settings) -> dict[str, Any]:
        settings = dataclasses.replace(self._settings, run=its_own)
        try:
            results, scores = self._run_once(settings)
        except errors.NotFinite as error:
            return {"results": {}, "score": None, "error": str(error)}
        assert its_own.plan is not None
        return {
            "results": {name: float(value) for name, value in results.items()},
            "score": float(scores[its_own.plan.best_metric]),
        }


def _domains(values: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = sorted(set().union(*values))
    return {n: sorted({each[n] for each in values if n in each}) for n in names}


def _best(
    settings: Any, scores: Sequence[Sequence[float]], record: _Record
) -> run.Settings:
    """Prints and records how all did; returns the best run of the best combination."""
    if not any(scores):
        raise errors.NotFinite(
            "the loss of every run of the grid was not finite; give --grid lower "
            "values of learning_rate"
        )
    common = settings.run
    metric = common.plan.best_metric
    sign = -1.0 if metric.endswith("loss") else 1.0
    means = [sign * float(np.mean(each)) if each else -np.inf for each in scores]
    number = int(np.argmax(means))
    run_number = int(np.argmax(sign * np.array(scores[number])))
    combination = settings.combinations[number]
    its_own = combination.run
    if settings.seeds:
        seed = settings.seeds[run_number]
        directory = seeds.directory_of(seed, its_own.output_dir)
        its_own = dataclasses.replace(its_own, seed=seed, output_dir=directory)
    for line in _table(settings.combinations, scores, metric, number):
        print(line)
    values = ", ".join(_assignments(combination.values))
    print(f"best: {values}; its best run is {its_own.output_dir}", flush=True)
    record.write(
        {
            "metric": metric,
            "combinations": [
                {"values": dict(each.values), **_statistics(found)}
                for each, found in zip(settings.combinations, scores, strict=True)
            ],
            "best": {
                "values": dict(combination.values),
                "seed": its_own.seed,
                "directory": record.name(its_own.output_dir),
                "score": scores[number][run_number],
            },
        }
    )
    return its_own


def _statistics(scores: Sequence[float]) -> dict[str, Any]:
    """Mean and sample deviation; None where they are not known."""
    return {
        "mean": float(np.mean(scores)) if scores else None,
        "deviation": float(np.std(scores, ddof=1)) if len(scores) > 1 else None,
    }


def _table(
    combinations: Sequence[Combination],
    scores: Sequence[Sequence[float]],
    metric: str,
    best: int,
) -> Iterator[str]:
    """Lines of columns, a row a combination."""
    names = sorted(combinations[0].values)
    rows = [[*names, metric]]
    for each, found in zip(combinations, scores, strict=True):
        mean, deviation = _statistics(found).values()
        score = "not finite" if mean is None else f"{mean:.4f}"
        if deviation is not None:
            score += f" +- {deviation:.4f}"
        rows.append([*(_spelled(each.values[name]) for name in names), score])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield "grid:"
    for number, row in enumerate(rows):
        cells = "  ".join(map(str.ljust, row, widths))
        yield f"  {cells}{'  best' if number == best + 1 else ''}".rstrip()


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_spelled(values[name])}" for name in sorted(values)]


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
