r"""Times this project and its peers in turns, and writes a page; see docs/cpu.md.

    python -m benchmarks.compare --peer_python=/path/to/python --rows=sentence,start

Each turn is a separate process. A side that does not run is named with the reason, and
a row whose file is not given with its flag. After each row the program writes the
figures of all turns to OUTPUT_DIR/cpu/NAME.json, and OUTPUT_DIR/cpu.md of all the
figures that are there.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar

from benchmarks import report
from benchmarks import rows as rows_lib
from cli import command_line
from contract import errors, json_files
from tasks.settings import fields

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLES = "sample_data/messages"
# A row in which a side's slowest turn takes more times the time of its fastest: what
# shares the machine has slowed some of its turns.
_UNSTEADY = 2.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonSettings(fields.Settings):
    """Rows, sides, weights and files."""

    program: ClassVar[str] = "benchmarks.compare"

    rows: Sequence[str] = fields.what_to_do(
        (), f"Rows to time; by default all: {', '.join(rows_lib.ROWS)}."
    )
    peer_python: str | None = fields.what_to_do(
        None,
        "Path of a Python with torch and transformers, and what else is there of onnx, "
        "onnxruntime, openvino, nncf, sentence-transformers and fastembed; by default "
        "only this project is timed.",
        path=True,
    )
    backends_python: str | None = fields.what_to_do(
        None,
        "Another Python for sentence-transformers with ONNX and OpenVINO, whose "
        "packages need an older transformers.",
        path=True,
    )
    name: str = fields.what_to_do("", "Of the section; by default that of the weights.")
    pretrained: str = fields.model(
        "models/minilm",
        "Directory of the weights, in the layout of Hugging Face.",
        path=True,
    )
    train_file: str = fields.data(
        f"{SAMPLES}/train.tsv",
        "TSV file with the columns text and label, on which the classifier is trained "
        "that all sides then run.",
        path=True,
    )
    dev_file: str = fields.data(
        f"{SAMPLES}/dev.tsv", "The same, for its accuracy.", path=True
    )
    similar_file: str = fields.data(
        "sample_data/pairs/similarity_train.tsv",
        "TSV file with the columns text_a, text_b and score, for Spearman's "
        "correlation of vectors.",
        path=True,
    )
    near_file: str | None = fields.data(
        None,
        "TSV file, without a header, of two texts that belong together.",
        path=True,
    )
    texts_file: str = fields.data(
        f"{SAMPLES}/train.tsv", "Texts, in the first column of a TSV file.", path=True
    )
    num_train_epochs: float = fields.training(1.0, "Of the classifier.", least=0)
    rounds: int = fields.evaluation(3, "Number of turns of each side.", least=1)
    steps: int = fields.evaluation(
        0, "Number of timed steps; 0 for the value of the row.", least=0
    )
    max_seq_length: int = fields.model(
        0,
        "Maximum number of tokens per sequence; 0 for the value of the row.",
        least=0,
    )
    output_dir: str = fields.output(
        "output/bench", "Directory of the page and its figures.", path=True
    )

    def check(self) -> None:
        """Refuses a wrong row, and a file that is not there."""
        super().check()
        if "/" in self.name:
            raise errors.InputError(f"--name={self.name} has a /; leave it out")
        names = {row.file_flag for row in self.chosen().values() if row.file_flag}
        if self.has_texts:
            names |= {"train_file", "dev_file", "similar_file"}
        pythons = "peer_python", "backends_python"
        self.check_files("pretrained", *pythons, *sorted(names))

    def chosen(self) -> dict[str, rows_lib.Row]:
        """{name: row} of those to time."""
        return rows_lib.named(self.rows)

    @property
    def has_texts(self) -> bool:
        """Whether a row begins with texts, and so needs a trained classifier."""
        return any(row.action == "answer" for row in self.chosen().values())

    def file_of(self, row: rows_lib.Row) -> str | None:
        """The file of a row."""
        return getattr(self, row.file_flag) if row.file_flag else None


class SideFailed(Exception):
    """A side ended with an error; the message is the end of its log."""

    @property
    def reason(self) -> str:
        """The last line, without directories of this machine."""
        line = str(self).strip().splitlines()[-1]
        return re.sub(r"(^|[\s='\"(])/\S*/", r"\1", line)


def run_module(python, name, settings):
    """The JSON object that a module of benchmarks/ prints last, in its own process.

    Raises:
        SideFailed: it does not start, its exit code is not 0, or it prints none.
    """
    command = [python, "-m", f"benchmarks.{name}", json.dumps(settings)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = " ".join(command[:3])
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise SideFailed(f"{words}: {error.strerror}") from None
    if done.returncode:
        log = done.stderr[-3000:].strip()
        raise SideFailed(f"{words}: exit code {done.returncode}\n{log}")
    *_, last = done.stdout.splitlines() or [""]
    with contextlib.suppress(ValueError):
        if isinstance(figures := json.loads(last), dict):
            return figures
    raise SideFailed(f"{words}: prints no figures")


def take_turn(settings, job):
    """The result of a turn of a side, whose clock begins now."""
    python, module, variant = sys.executable, "ours", job["variant"]
    if variant:
        is_runtime = variant.startswith(("onnxruntime", "openvino", "fastembed"))
        python, module = settings.peer_python, "peer_runtimes" if is_runtime else "peer"
    if variant in ("sentence_onnx", "sentence_openvino") and settings.backends_python:
        python = settings.backends_python
    if not python:
        raise SideFailed("--peer_python is not set")
    return run_module(python, module, {**job, "begun": time.time()})


def measure(settings, name, row, directory, shared):
    """All turns of a row, once more where they are _UNSTEADY."""
    if settings.max_seq_length:
        row = row._replace(max_seq_length=settings.max_seq_length)
    work = {
        "row": row._asdict(),
        "directory": str(pathlib.Path(directory, "rows", name)),
        "pretrained_dir": settings.pretrained,
        "path": settings.file_of(row),
        "steps": settings.steps,
    }
    prepared = run_module(sys.executable, "preparation", work)
    job, of_head = {**prepared["job"], "cache": directory}, shared.get(row.head, {})
    if row.action == "answer":
        job["pretrained"] = of_head["weights"]
    examples = prepared["examples"]
    measured = {"title": row.full_title, "unit": row.unit, "examples": examples}
    take_turns = functools.partial(_take_turns, settings, row, job, examples, of_head)
    runs, skipped = take_turns()
    if any(_spread(turns) > _UNSTEADY for turns in runs.values()):
        measured["before"] = runs
        runs, skipped = take_turns()
    return {**measured, "runs": runs, "skipped": skipped}


def _spread(turns):
    """How many times the slowest of some turns takes the time of the fastest."""
    figures = [turn["figure"] for turn in turns]
    return max(figures) / min(figures)


def _take_turns(settings, row, job, examples, of_head):
    """{side: turns}, and {side: why it has none}.

    After the first round, of each family only its fastest side goes on.
    """
    runs: dict[str, list] = {}
    skipped: dict[str, str] = {}
    left, scores = rows_lib.sides_of(row), of_head.setdefault("scores", {})
    for _ in range(settings.rounds):
        for side in left:
            changes = {"variant": side.variant}
            if row.action == "answer" and side.title not in scores:
                changes["checked"] = of_head["checked"]
            try:
                if side.export:
                    changes["export"], why = of_head["exports"][side.title]
                    if why:
                        raise SideFailed(why)
                turn = take_turn(settings, {**job, **changes})
            except SideFailed as error:
                skipped[side.title] = error.reason
                continue
            report.add_figures(row, examples, of_head.get("right"), turn)
            if row.action == "answer":  # scored once, in the first row of the head
                turn["score"] = scores.setdefault(side.title, turn.get("score"))
            runs.setdefault(side.title, []).append(turn)
        left = fastest(row, [s for s in left if s.title not in skipped], runs)
    return runs, skipped


def fastest(row, left, runs):
    """The sides that go on: the one of each family whose first turn was the fastest."""
    figures = {side: runs[side.title][0]["figure"] for side in left}
    best: dict[str, rows_lib.Side] = {}
    for side in sorted(left, key=figures.__getitem__, reverse=row.is_rate):
        best.setdefault(side.family or side.title, side)
    return [side for side in left if side in best.values()]


_CHANGED = "-dirty"  # behind a commit of which files have changed


def name_commit():
    """The commit, with -dirty where files have changed, but for this page's own."""

    def git(*words):
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    page = ":!docs/cpu.md", ":!docs/cpu"
    is_changed = git("status", "--porcelain", "--untracked-files=no", "--", *page)
    return git("describe", "--always") + (_CHANGED if is_changed else "")


def measure_all(settings):
    """Times the rows, one after the other; writes figures and page after each.

    Returns:
        The page.
    """
    name = settings.name or pathlib.Path(settings.pretrained).name
    flags = [word for word in sys.argv[1:] if not word.startswith("--rows=")]
    results = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": name_commit(),
        "machine": report.describe_machine(),
        "load": os.getloadavg()[0],
        "flags": [re.sub(r"=/\S*/", "=", word) for word in flags],
        "rows": {},
    }
    folder = pathlib.Path(settings.output_dir, "cpu")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    if file.exists():
        before = json_files.read_object(str(file))
        kept = before.get("rows") or {}
        same = (before.get(k) == results[k] for k in ("commit", "machine", "flags"))
        if all(same) and not results["commit"].endswith(_CHANGED):
            results["rows"] = kept  # those that are not timed again stay
            results["load"] = max(before["load"], results["load"])
        elif lost := sorted(kept.keys() - settings.chosen().keys()):
            raise errors.InputError(
                f"{file}: has {', '.join(lost)}, timed with another commit "
                f"({before.get('commit')}), machine or flags, or with changed files; "
                "time all rows, choose another --name, or remove it"
            )
    page, shared = "", {}
    with tempfile.TemporaryDirectory() as directory:
        if settings.has_texts:
            print("a classifier and its exports ...", file=sys.stderr)
            files = ("pretrained", "train_file", "dev_file", "similar_file")
            given = {flag: getattr(settings, flag) for flag in files}
            given |= {"directory": directory, "epochs": settings.num_train_epochs}
            shared = run_module(sys.executable, "preparation", given)
        for row_name, row in settings.chosen().items():
            is_skipped = row.file_flag and not settings.file_of(row)
            why = f"--{row.file_flag} is not set" if is_skipped else ""
            print(f"{row_name}: {f'skipped, {why}' if why else '...'}", file=sys.stderr)
            if why:  # the figures of an earlier run stay
                results["rows"].setdefault(row_name, {"why": why})
            else:
                measured = measure(settings, row_name, row, directory, shared)
                results["rows"][row_name] = measured
            file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            page = report.page(folder)
            folder.with_suffix(".md").write_text(page, encoding="utf-8")
    return page


def run(settings: ComparisonSettings) -> None:
    """Times the rows; what all sides need and fails ends it without a traceback."""
    try:
        print(measure_all(settings))
    except SideFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    command_line.run(run, command_line.parse(ComparisonSettings, __doc__))
