"""The one driver of fine-tuning and pretraining: trains, evaluates, predicts, exports.

Tasks are those of tasks/; docs/design.md shows the smallest one.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import keras

from contract import wording
from terminal import progress
from training import inference, run, run_directory, run_plan
from training.distribution import devices

Evaluation: TypeAlias = inference.CachedEvaluation


@dataclasses.dataclass
class Outcome:
    """Results of a run that has ended.

    Attributes:
        results: {name: number} of the result files.
        scores: of the dev rows or, without an evaluation, of those predicted.
        rows: the outcomes.Outcomes of these.
        tested: the same for test rows beside dev rows.
        model: with the weights of `results`.
    """

    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: Any = None
    tested: Any = None
    model: Any = None

    def print_results(self) -> None:
        """Prints a line a result; of two losses, what the original's is a mean of."""
        of_batches = {"loss": "eval_loss", "test_batch_loss": "test_loss"}
        for name in sorted(self.results):
            other = of_batches.get(name)
            note = (
                f" (mean of batches; {other}: of rows)" if other in self.results else ""
            )
            print(f"  {name} = {wording.score(self.results[name])}{note}")


class Task(Protocol):
    """What a run does with a task, in this order, as tasks/fine_tuning.py describes it.

    `files` are {name: text} to store beside the weights.
    """

    files: dict[str, str]
    load_weights: Callable[..., tuple[str, int]]  # of networks in tasks/

    def trained_on(self) -> dict[str, Any]: ...
    def make_model(self) -> keras.Model: ...
    def begin(self, model: Any, plan: run_plan.Plan) -> tuple[Any, Evaluation]: ...
    def train(
        self, model: Any, plan: run_plan.Plan, origin: str, evaluation: Evaluation
    ) -> int: ...
    def finish(
        self, model: Any, plan: run_plan.Plan, evaluation: Evaluation, step: int
    ) -> Outcome: ...
    def export(self, model: Any, output_dir: str) -> str: ...
    def compare_export(
        self, path: str, plan: run_plan.Plan, outcome: Outcome
    ) -> None: ...
    def write_report(
        self,
        model: Any,
        plan: run_plan.Plan,
        outcome: Outcome,
        step: int,
        seconds: float,
    ) -> None: ...


def run_once(task: Task, plan: run_plan.Plan) -> Outcome:
    """Does a task with one seed and one combination of flags.

    Raises what run.start and run.train do.
    """
    started = time.monotonic()
    model, origin, step = run.start(plan, task)
    task, evaluation = task.begin(model, plan)
    if plan.trains:
        step = task.train(model, plan, origin, evaluation)
    outcome = task.finish(model, plan, evaluation, step)
    exports = plan.exports and plan.writes
    if exports:
        export = functools.partial(task.export, model, plan.output_dir)
        path = run_directory.export_once(plan, step, export)
        print(f"exported: {path}")
        task.compare_export(path, plan, outcome)
    with progress.waiting("writing the report"):
        seconds = time.monotonic() - started
        task.write_report(model, plan, outcome, step, seconds)
        if exports:
            run_directory.end(plan)
    devices.wait_for_all(plan.strategy, "write results and exports")
    outcome.model = model
    return outcome
