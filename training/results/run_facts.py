"""What is known of a run when it has ended, for its record and its report."""

import dataclasses
import datetime
import os
import platform
import subprocess

import keras
import numpy as np
import tensorflow as tf

from contract import file_names, json_files
from training.distribution import devices, processor
from training.results import reporting

# Flags of training that a run's identity has not, or by another name.
_OF_TRAINING = ("num_train_epochs", "num_train_steps", "pretrained", "init_checkpoint")


def hook(reports, kind, data, *, explain=None, **more):
    """A fine_tuning.Task's `report`.

    Args:
        reports: the module reports.run_report.
        kind: what the hub calls this kind of task.
        data: returns {split: outcomes.Summary}.
        explain: model, rows, fine_tuning.Settings -> explanations of some rows.
        more: what else the record of a run holds.
    """

    def report(model, settings, *ended):
        its_own = settings.run
        mix = model.learned_mix() if model else {}
        if mix:
            print(reporting.mix_line(mix))
        is_wanted = settings.reports and its_own.writes
        if model is None:
            if is_wanted:
                reports.write_all(its_own.output_dir)
            return
        rows, step, results, seconds, tested = ended
        for seen in filter(None, (rows, tested)):
            reports.say(seen, kind)
        explanations = explain(model, rows, settings) if explain else []  # on all hosts
        if is_wanted and (results or its_own.trains):
            read = {name: dataclasses.asdict(rows) for name, rows in data().items()}
            facts = of_run(its_own, model, kind, read, step, results, seconds)
            facts["defaults"] = settings.default_flags
            facts["explanations"] = explanations
            facts["tested"] = tested
            facts[reporting.LAYER_MIX] = mix
            reports.write(rows, its_own.output_dir, **facts, **more)

    return report


def of_run(settings, model, kind, data, step, results, seconds):
    """The facts of any run, as reports.record.of_run takes them.

    Args:
        settings: a run.Settings.
        kind: as in `hook`.
        data: {split: facts of its rows}.
        step: of the weights.
        results: {name: number} of the result files.
        seconds: that the command took.
    """
    directory = settings.output_dir
    weights = os.path.join(directory, f"{file_names.CHECKPOINT_PREFIX}-*.index")
    where = devices.describe(settings.strategy).removeprefix("devices: ")
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
        "has_weights": bool(tf.io.gfile.glob(weights)),
        "has_export": tf.io.gfile.isdir(os.path.join(directory, "export")),
        "environment": {
            "precision": settings.describe(model),
            "devices": where,
            "processor": processor.name() or platform.machine(),
            "system": platform.platform(),
            **versions(),
            "git_revision": git_revision() or "not known",
        },
    }


def versions():
    """Those of what computes, {name: version}."""
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def git_revision():
    """That of the checkout of this program, or None."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
