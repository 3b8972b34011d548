"""What a run leaves of an evaluation: curves, pictures and eval_results.txt."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from contract import file_names
from training import errors, run, run_directory
from training.results import reporting


def record(
    settings: run.Settings,
    step: int,
    scores: Mapping[str, Any],
    results: Mapping[str, Any],
) -> None:
    """Writes scores to TensorBoard, results to a file; InputError if that fails."""
    if not settings.writes:
        return
    path = os.path.join(settings.output_dir, file_names.EVAL_RESULTS)
    reporter = reporting.Reporter(settings.output_dir, step)
    with errors.of_writing(), contextlib.closing(reporter):
        reporter.write("eval", step, scores)
        run_directory.write_results(path, results)


def show(settings: run.Settings, step: int, shown: Mapping[str, Any]) -> None:
    """Writes what Reporter.show takes to TensorBoard; InputError if that fails."""
    reporter = reporting.Reporter(settings.output_dir, step)
    with errors.of_writing(), contextlib.closing(reporter):
        reporter.show("eval", step, shown)
