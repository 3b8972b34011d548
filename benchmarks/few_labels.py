r"""Accuracy and time of --recipe beside SetFit, on few rows; see docs/results.md.

    python -m benchmarks.few_labels --peer_python=/path/to/python --num_labelled=8 \
        --train_file=sample_data/messages/train.tsv \
        --test_file=sample_data/messages/dev.tsv

Both tables are TSV, with a header and the columns text and label. --peer_python is a
Python with setfit; without it, only this project is measured. Each turn is a whole
command in a process of its own, on one core; where others compute, too, the seconds of
the processor are the fair figure. --output_file has a line for each turn, which is not
taken again. Prints a Markdown table of means and deviations.
"""

import collections
import dataclasses
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar

from benchmarks import report
from cli import command_line
from contract import errors
from tasks.settings import fields, recipe

PEER = "SetFit"
_CORE = ("taskset", "--cpu-list", "0")
# Settings with which a turn is another one, besides table, rows, draw and way.
_OTHERS = "test_file", "max_test_rows", "pretrained", "max_seq_length", "max_peer_steps"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewLabelsSettings(fields.Settings):
    """Tables, draws and sides."""

    program: ClassVar[str] = "benchmarks.few_labels"

    train_file: str = fields.data("", "Table that rows are drawn from.", path=True)
    test_file: str = fields.data("", "Table to be labelled.", path=True)
    num_labelled: int = fields.data(8, "Rows of each label.", least=1)
    max_test_rows: int = fields.data(1000, "Rows of --test_file, by chance.", least=1)
    draws: Sequence[str] = fields.data(("801", "802", "803"), "Seeds of the rows.")
    recipes: Sequence[str] = fields.what_to_do(
        (recipe.VECTORS, recipe.CONTRASTIVE, recipe.AUTO), "Values of --recipe."
    )
    peer_python: str | None = fields.what_to_do(
        None, "Path of a Python with setfit.", path=True
    )
    max_peer_steps: int = fields.what_to_do(
        0, "Number of steps of SetFit; 0 for one epoch of its pairs.", least=0
    )
    pretrained: str = fields.model(
        "models/minilm", "Directory of the weights.", path=True
    )
    max_seq_length: int = fields.model(128, "Tokens per sequence.", least=1)
    output_file: str = fields.output(
        "output/few_labels.jsonl", "File of all turns.", path=True
    )

    def check(self) -> None:
        """Refuses a file that is not there."""
        super().check()
        self.check_files("train_file", "test_file", "pretrained", "peer_python")


def rows_of(path: str) -> list[list[str]]:
    """[[text, label]] of a table."""
    _, *lines = pathlib.Path(path).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines]


def draw(rows: list[list[str]], count: int, seed: int) -> list[list[str]]:
    """So many rows of each label, by chance, in an order by chance."""
    rng, drawn = random.Random(seed), []
    for label in sorted({label for _, label in rows}):
        drawn += rng.sample([row for row in rows if row[1] == label], count)
    rng.shuffle(drawn)
    return drawn


def run_side(settings, way, seed, parts, directory):
    """A turn: accuracy, seconds from the command to its end, and of the processor.

    `parts` are {"train": rows, "test": rows}; `way` is a --recipe, or PEER.
    """
    job = {
        "pretrained": settings.pretrained,
        "max_seq_length": settings.max_seq_length,
        "output_dir": str(directory / "run"),
    }
    if way == PEER:
        rows = directory / "rows.json"
        rows.write_text(json.dumps(parts), encoding="utf-8")
        job |= {"rows": str(rows), "seed": seed}
        job["max_peer_steps"] = settings.max_peer_steps
        module = ["-m", "benchmarks.few_labels_peer", json.dumps(job)]
        command = [settings.peer_python, *module]
    else:
        for name, flag in (("train", "train_file"), ("test", "dev_file")):
            lines = ["\t".join(row) for row in (("text", "label"), *parts[name])]
            job[flag] = directory / f"{name}.tsv"
            job[flag].write_text("\n".join(lines) + "\n", encoding="utf-8")
        job |= {"recipe": way, "do_train": True, "do_eval": True}
        flags = [f"--{name}={value}" for name, value in job.items()]
        command = [sys.executable, "run_classifier.py", *flags]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run([*_CORE, *command], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise errors.InputError(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    used = [getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime")]
    turn = {"seconds": time.time() - begun, "processor_seconds": sum(used)}
    if way == PEER:
        return turn | json.loads(done.stdout.splitlines()[-1])
    scores = report.read_scores(directory / "run")
    chosen = [line.split()[0] for line in done.stdout.splitlines() if "chosen" in line]
    return turn | {"accuracy": scores["eval_accuracy"], "chosen": chosen}


def measure(settings: FewLabelsSettings) -> None:
    """Takes each turn that has no line yet; prints the table."""
    output, turns = pathlib.Path(settings.output_file), []
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.exists():
        turns = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    train, test = rows_of(settings.train_file), rows_of(settings.test_file)
    if len(test) > settings.max_test_rows:
        test = random.Random(0).sample(test, settings.max_test_rows)
    ways = [*settings.recipes, *([PEER] if settings.peer_python else ())]
    for seed in map(int, settings.draws):
        parts = {"train": draw(train, settings.num_labelled, seed), "test": test}
        for way in ways:
            key = [settings.train_file, settings.num_labelled, seed, way]
            key += [getattr(settings, name) for name in _OTHERS]
            if key in [turn["key"] for turn in turns]:
                continue
            with tempfile.TemporaryDirectory() as name:
                turn = run_side(settings, way, seed, parts, pathlib.Path(name))
            turns.append({"key": key, "date": time.strftime("%Y-%m-%d"), **turn})
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(turns[-1]) + "\n")
            print(json.dumps(turns[-1]), file=sys.stderr, flush=True)
    print(markdown(turns))


def markdown(turns):
    """A row for each table, number of rows and side."""
    groups = collections.defaultdict(list)
    for turn in turns:
        path, count, _, way, *others = turn["key"]
        line = path, count, way, *others  # of the table, for all seeds
        groups[line].append(turn)
    lines = ["| rows | a label | way | draws | accuracy | s | s of the processor |"]
    lines.append("|---" * 7 + "|")
    for (path, count, way, *_), each in groups.items():
        values = [turn["accuracy"] for turn in each]
        spread = f" +- {statistics.stdev(values):.3f}" if len(each) > 1 else ""
        accuracy = f"{statistics.mean(values):.3f}{spread}"
        means = [
            f"{statistics.mean(turn[name] for turn in each):.0f}"
            for name in ("seconds", "processor_seconds")
        ]
        cells = path, count, way, len(each), accuracy, *means
        lines.append(f"| {' | '.join(map(str, cells))} |")
    machine = report.describe_machine()
    return "\n".join([f"{machine['processor']}, one core", "", *lines])


if __name__ == "__main__":
    command_line.run(measure, command_line.parse(FewLabelsSettings, __doc__))
