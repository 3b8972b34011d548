"""Facts of a run that has ended, for its record and its report."""

import dataclasses
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from contract import (
    atomic_files,
    export_formats,
    file_names,
    json_files,
    remote_files,
)
from training import inference, tensorboard
from training.distribution import devices, processor

# Flags of training that a run's identity has not, or by another name.
_OF_TRAINING = ("num_train_epochs", "num_train_steps", "pretrained", "init_checkpoint")


def report_hook(
    reports: Any,
    kind: str,
    data: Callable[[], Mapping[str, Any]],
    *,
    explain: Callable[..., list[Any]] | None = None,
    **more: Any,
) -> Callable[..., None]:
    """A driver.FineTuningTask's `report`.

    Args:
        reports: the module reports.run_report.
        kind: what the hub calls this kind of task.
        data: returns {split: outcomes.Summary}.
        explain: model, rows, driver.Settings -> explanations of some rows.
        more: what else the record of a run holds.
    """

    def report(model, settings, *ended):
        current = settings.run
        mix = model.learned_mix() if model else {}
        if mix:
            print(tensorboard.mix_line(mix))
        is_wanted = settings.reports and current.writes
        if model is None:
            if is_wanted:
                reports.write_all(current.output_dir)
            return
        outcome, step, seconds = ended
        for rows in filter(None, (outcome.rows, outcome.tested)):
            reports.print_scores(rows, kind)
        explanations = []
        if explain:  # on all hosts
            explanations = explain(model, outcome.rows, settings)
        if is_wanted and (outcome.results or current.trains):
            read = {name: dataclasses.asdict(rows) for name, rows in data().items()}
            facts = collect(current, model, kind, read, step, outcome.results, seconds)
            facts["defaults"] = settings.default_flags
            facts["explanations"] = explanations
            facts["tested"] = outcome.tested
            facts[tensorboard.LAYER_MIX] = mix
            reports.write(outcome.rows, current.output_dir, **facts, **more)

    return report


def explain_rows(
    predictor: inference.Predictor,
    rows: Any,
    examples: Callable[[str], Any],
    words: Callable[..., list[Any]],
    count: int,
    current: Any,
) -> list[Any]:
    """Explanations of `count` rows, also in explanations.jsonl.

    Of evaluated rows the wrong ones come first, the worst before the others; of rows
    without labels, the first of "test". All processes take part, one writes.

    Args:
        predictor: returns token weights and logits.
        rows: what driver.FineTuningTask.examine returned.
        examples: split -> inference.Examples with a length.
        words: split, rows, outputs of the predictor -> a dict for each row.
        current: a run.Settings.
    """
    split = rows.split if rows is not None else "test"
    chosen = np.arange(min(count, len(examples(split))))
    if rows is not None:
        order = np.lexsort((-np.asarray(rows.losses), np.asarray(rows.is_correct)))
        chosen = order[:count]
    ascending = np.sort(chosen)
    outputs = predictor.rows(examples(split), ascending)
    places = np.searchsorted(ascending, chosen)
    outputs = {name: value[places] for name, value in outputs.items()}
    explanations = words(split, chosen, outputs)
    path = os.path.join(current.output_dir, file_names.EXPLANATIONS)
    if current.writes:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in explanations)
        atomic_files.write({path: lines})
        print(f"explanations: {path}")
    return explanations


def collect(
    settings: Any,
    model: Any,
    kind: str,
    data: Mapping[str, Any],
    step: int,
    results: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """The facts of any run, as reports.record.of_run takes them.

    Args:
        settings: a run.Settings.
        kind: as in `report_hook`.
        data: {split: facts of its rows}.
        step: of the weights.
        results: {name: number} of the result files.
        seconds: that the command took.
    """
    directory = settings.output_dir
    weights = f"{file_names.CHECKPOINT_PREFIX}-*.index"
    where = devices.describe(settings.strategy).removeprefix("devices: ")
    command: Any
    trained: dict[str, Any]
    command, trained = settings.command, {"seed": settings.seed}
    path = os.path.join(directory, file_names.RUN)
    if tf.io.gfile.exists(path):  # what trained, which may be an earlier command
        record = json_files.read_object(path)
        command = record.get("command", command)
        identity = record.get("identity", {})
        names = {*identity, *_OF_TRAINING}
        flags = record.get("flags", {}).items()
        trained |= {name: value for name, value in flags if name in names}
        trained["seed"] = identity.get("seed", settings.seed)
    return {
        "kind": kind,
        "data": data,
        "step": step,
        "results": dict(results),
        "seconds": round(seconds, 1),
        "date": datetime.date.today().isoformat(),
        "trains": settings.trains,
        "command": settings.command,
        "training_command": command,
        "flags": {**settings.flags, **trained},
        "has_weights": bool(remote_files.matching(directory, weights)),
        "exports": export_formats.of_run(directory),
        "environment": {
            "precision": settings.describe(model),
            "devices": where,
            "processor": processor.name() or platform.machine(),
            "system": platform.platform(),
            **versions(),
            "git_revision": git_revision() or "not known",
        },
    }


def versions() -> dict[str, str]:
    """Those of what computes, {name: version}."""
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def git_revision() -> str | None:
    """The commit of the checkout that runs; None where the program is installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(
            ["git", "-C", here, "rev-parse", "--show-prefix", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    place, _, revision = done.stdout.strip().partition("\n")
    # The repository of another project may hold the environment of this one.
    return revision if place == f"{os.path.basename(here)}/" else None
