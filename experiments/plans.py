"""How long each part of a comparison trains: from minutes, or from steps.

All networks read as many tokens, and every system has as many updates in a task as
every other. So the minutes that are left are shared by solving for two numbers: the
tokens of pretraining, and the seconds of a task. A plan is made once, from short runs
of every command, and written down; whoever goes on with a comparison keeps to it.
"""

import dataclasses
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence

from contract import atomic_files, errors, file_names, json_files
from experiments import commands

PLAN = "plan.json"
TRIAL_STEPS, TRIAL_EPOCHS = 24, 0.2
_PRETRAINING_SHARE = 0.5  # of the minutes
_RESERVE = 0.04  # for what comes between runs, and for the pages
# Of what a run takes beside its steps: once more in the same process, where libraries
# are loaded and XLA has compiled.
_AGAIN = 0.3
_EVALUATION_COST = 0.4  # of a batch, in steps of training
_MOST_EPOCHS = 10.0
_FEWEST_STEPS = commands.EVALUATIONS


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a short run said of a program."""

    step_seconds: float
    other_seconds: float  # start, first step, evaluation and report
    rows: int = 0  # of the training data
    tokens_per_step: float = 0.0

    def seconds(self, steps: float, times: int = 1) -> float:
        """Of a run with so many steps, so many times in one process."""
        others = self.other_seconds * (1 + (times - 1) * _AGAIN)
        return others + times * steps * self.step_seconds


@dataclasses.dataclass(frozen=True)
class Plan:
    """Steps of each pretraining, and epochs of each task."""

    steps: Mapping[str, int]
    epochs: Mapping[str, float]
    tokens: float  # that each network reads


def speed(directory: str, seconds: float) -> Speed:
    """Reads report.json of a short run that took so many seconds.

    Args:
        directory: of a run, or of one with seeds; the first one counts.
    """
    path = os.path.join(directory, file_names.REPORT_JSON)
    for folder in sorted(os.listdir(directory)):
        if folder.startswith("seed-"):
            path = os.path.join(directory, folder, file_names.REPORT_JSON)
            break
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    curves, batch = report["curves"], report["flags"]["train_batch_size"]
    examples, tokens = (
        curves[f"train/{name}_per_second"] for name in ("examples", "tokens")
    )
    # The first steps trace the graph.
    later = [speed for _, speed in examples[len(examples) // 2 :]]
    step_seconds = batch / statistics.median(later)
    read, steps = 0, 0
    for (step, of_examples), (_, of_tokens) in zip(examples, tokens, strict=True):
        # A whole number, whatever the digits of a speed on this machine.
        read += round(batch * (step - steps) * of_tokens / of_examples)
        steps = step
    return Speed(
        step_seconds=step_seconds,
        other_seconds=max(0.0, seconds - steps * step_seconds),
        rows=report["data"].get("train", {}).get("count", 0),
        tokens_per_step=read / steps,
    )


def steps_for(tokens: float, tokens_per_step: float) -> int:
    """Steps that read so many tokens, as many as evaluations divide."""
    each = commands.EVALUATIONS
    return max(_FEWEST_STEPS, round(tokens / tokens_per_step / each) * each)


def by_steps(
    steps: int, epochs: float, networks: Mapping[str, Speed], tasks: Sequence[str]
) -> Plan:
    """A plan of so many steps of the first network, and epochs of every task."""
    tokens = steps * next(iter(networks.values())).tokens_per_step
    found = {n: steps_for(tokens, s.tokens_per_step) for n, s in networks.items()}
    return Plan(found, dict.fromkeys(tasks, epochs), tokens)


def by_minutes(
    minutes: float,
    spent: float,
    networks: Mapping[str, Speed],
    runs: Sequence[tuple[str, Speed]],
    *,
    shares: Mapping[str, float],
    seeds: int,
    jobs: int,
) -> Plan:
    """A plan that ends after so many minutes.

    Args:
        spent: seconds, by vocabularies, records and short runs.
        networks: what is pretrained, by name.
        runs: (task, speed) of every system in every task.
        shares: {task: time of a run, beside those of others}.
        jobs: programs that run at once; speeds are those beside as many.

    Raises:
        ValueError: the time is too short for every program to start.
    """
    left = (60 * minutes * (1 - _RESERVE) - spent) * jobs
    starts = sum(s.seconds(_evaluated(0)) for s in networks.values())
    others = sum(s.seconds(1, seeds) for _, s in runs)
    if starts + others >= left:
        needed = (spent + (starts + others) * 1.2 / jobs) / 60 / (1 - _RESERVE)
        raise errors.InputError(
            f"--minutes={minutes:g} are too few: so many runs take {needed:.0f} "
            "minutes to start and to be scored; give more, or fewer --systems, "
            "--tasks or --seeds"
        )
    free = left - starts - others
    share = _PRETRAINING_SHARE if runs else 1.0
    epochs, unused = _epochs((1 - share) * free, runs, shares, seeds)
    a_token = sum(s.step_seconds / s.tokens_per_step for s in networks.values())
    tokens = (share * free + unused) / a_token
    steps = {n: steps_for(tokens, s.tokens_per_step) for n, s in networks.items()}
    return Plan(steps, epochs, tokens)


def _evaluated(steps):
    """Steps that take as long as so many of training, and all evaluations but one."""
    batches = (commands.EVALUATIONS - 1) * commands.EVALUATED_BATCHES
    return steps + batches * _EVALUATION_COST


def _epochs(seconds, runs, shares, seeds):
    """Epochs of each task, and the seconds that none of them needs.

    Runs have their shares, but no longer than is of use; what a small task leaves, the
    others have.
    """
    cost: dict[str, float] = {}  # of one epoch by all systems and seeds
    wanted: dict[str, float] = {}
    for task, speed_of_run in runs:
        steps = speed_of_run.rows / commands.TASK_BATCH
        cost[task] = cost.get(task, 0.0) + seeds * steps * speed_of_run.step_seconds
        wanted[task] = wanted.get(task, 0.0) + shares[task]
    found: dict[str, float] = {}
    left = sum(wanted.values())
    for task in sorted(cost, key=lambda name: cost[name] / wanted[name]):
        share = seconds * wanted[task] / left
        found[task] = round(min(_MOST_EPOCHS, share / cost[task]), 3)
        seconds -= found[task] * cost[task]
        left -= wanted[task]
    return found, seconds


def read(
    directory: str, networks: Sequence[str] = (), tasks: Sequence[str] = ()
) -> Plan | None:
    """The plan of a comparison that has one.

    Raises:
        ValueError: plan.json is no plan, or lacks a network or a task.
    """
    path = os.path.join(directory, PLAN)
    if not os.path.exists(path):
        return None
    remedy = "remove the file, and the next command plans anew"
    raw = json_files.read_object(path, remedy=remedy)
    keys = [field.name for field in dataclasses.fields(Plan)]
    if set(raw) != set(keys):
        raise errors.InputError(f"{path}: is not a map of {', '.join(keys)}; {remedy}")
    for key, names, kind, meant in (
        ("steps", networks, int, "whole number of steps"),
        ("epochs", tasks, (int, float), "number of epochs"),
    ):
        values = raw[key]
        if not isinstance(values, dict) or set(names) - set(values):
            wanted = f" of {', '.join(names)}" if names else ""
            raise errors.InputError(f"{path}: {key} are not a map{wanted}; {remedy}")
        for name, value in values.items():
            _check_positive(f"{path}: {key} of {name}", value, kind, meant, remedy)
    _check_positive(f"{path}: tokens", raw["tokens"], (int, float), "number", remedy)
    return Plan(**raw)


def _check_positive(what, value, kind, meant, remedy):
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not (is_number and 0 < value < math.inf):
        raise errors.InputError(
            f"{what} are {value!r}, not a positive {meant}; {remedy}"
        )


def write(directory: str, plan: Plan) -> None:
    """Writes plan.json."""
    path = os.path.join(directory, PLAN)
    atomic_files.write_json(path, dataclasses.asdict(plan))
