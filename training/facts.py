"""Facts of a run that has ended, for its record and its report."""

import datetime
import os
import platform
import subprocess
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from contract import export_formats, file_names, json_files, remote_files
from training import run_plan
from training.distribution import devices, processor

# Flags of training that a run's identity has not, or by another name.
_OF_TRAINING = ("num_train_epochs", "num_train_steps", "pretrained", "init_checkpoint")


def collect(
    plan: run_plan.Plan,
    model: Any,
    kind: str,
    data: Mapping[str, Any],
    step: int,
    results: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """The facts of any run, as reports.record.of_run takes them.

    Args:
        kind: what the hub calls this kind of task.
        data: {split: facts of its rows}.
        step: of the weights.
        results: {name: number} of the result files.
        seconds: that the command took.
    """
    directory = plan.output_dir
    weights = f"{file_names.CHECKPOINT_PREFIX}-*.index"
    where = devices.describe(plan.strategy).removeprefix("devices: ")
    command: Any
    trained: dict[str, Any]
    command, trained = plan.command, {"seed": plan.seed}
    path = os.path.join(directory, file_names.RUN)
    if tf.io.gfile.exists(path):  # what trained, which may be an earlier command
        record = json_files.read_object(path)
        command = record.get("command", command)
        identity = record.get("identity", {})
        names = {*identity, *_OF_TRAINING}
        flags = record.get("flags", {}).items()
        trained |= {name: value for name, value in flags if name in names}
        trained["seed"] = identity.get("seed", plan.seed)
    return {
        "kind": kind,
        "data": data,
        "step": step,
        "results": dict(results),
        "seconds": round(seconds, 1),
        "date": datetime.date.today().isoformat(),
        "trains": plan.trains,
        "command": plan.command,
        "training_command": command,
        "flags": {**plan.flags, **trained},
        "has_weights": bool(remote_files.matching(directory, weights)),
        "exports": export_formats.of_run(directory),
        "environment": {
            "precision": plan.describe(model),
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
