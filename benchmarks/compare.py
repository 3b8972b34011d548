r"""Times this project and Hugging Face with PyTorch in turns; see docs/results.md.

    python -m benchmarks.compare --peer_python=/path/to/python \
        --rows=classifier,latency

--peer_python is a Python with torch and transformers; without it, only this project is
timed. Each turn is a separate process. The program prints a Markdown table, and writes
the figures of all turns to --output_file after each row. It skips a row, with a
message, if the file of the row is not given.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar

from benchmarks import report, sides
from benchmarks import rows as rows_lib
from cli import command_line
from contract import errors
from tasks.settings import fields

ROOT = pathlib.Path(__file__).resolve().parents[1]
_RUNTIMES = ("onnxruntime", "onnxruntime_fused", "onnxruntime_int8", "openvino")
_SDPA = ("sdpa_compiled", "sdpa_frozen", "sdpa_int8")
PEER_VARIANTS = ("sdpa", "eager", *_SDPA, *_RUNTIMES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonSettings(fields.Settings):
    """Rows, weights and files, and the peer."""

    program: ClassVar[str] = "benchmarks.compare"

    rows: Sequence[str] = fields.what_to_do(
        (), f"Rows to time; by default all: {', '.join(rows_lib.ROWS)}."
    )
    peer_python: str | None = fields.what_to_do(
        None, "Path of a Python with torch and transformers.", path=True
    )
    peer_variants: Sequence[str] = fields.what_to_do(
        PEER_VARIANTS,
        "Variants of Hugging Face to try; the fastest is timed. _compiled needs fixed "
        "shapes, _frozen also fixed weights, and _int8 a row with int8 weights. The "
        "runtimes need onnx, onnxruntime and openvino, and predict classes.",
    )
    pretrained: str = fields.model(
        "models/minilm",
        "Directory of the weights, in the layout of Hugging Face.",
        path=True,
    )
    near_file: str | None = fields.data(
        None, "Table with texts that belong together.", path=True
    )
    near_columns: Sequence[str] = fields.data(
        ("0", "1"), "Columns of both texts in --near_file."
    )
    texts_file: str | None = fields.data(
        None, "Texts, in the first column of a TSV file.", path=True
    )
    rounds: int = fields.evaluation(3, "Number of turns of each side.", least=1)
    steps: int = fields.evaluation(
        0, "Number of timed steps; 0 for the value of the row.", least=0
    )
    max_seq_length: int = fields.model(
        0,
        "Maximum number of tokens per sequence; 0 for the value of the row.",
        least=0,
    )
    output_file: str = fields.output(
        "output/benchmark.json", "JSON file to write.", path=True
    )

    def check(self) -> None:
        """Refuses a wrong row or variant, and a file that is not there."""
        super().check()
        names = [row.file_flag for row in self.chosen().values() if row.file_flag]
        self.check_files("pretrained", "peer_python", *sorted({*names}))
        if unknown := sorted({*self.peer_variants} - {*PEER_VARIANTS}):
            raise errors.InputError(
                f"--peer_variants={','.join(unknown)}: variants are "
                f"{', '.join(PEER_VARIANTS)}"
            )

    def chosen(self) -> dict[str, rows_lib.Row]:
        """{name: row} of those to time."""
        return rows_lib.named(self.rows)

    def file_of(self, row: rows_lib.Row) -> tuple[str | None, Sequence[str]]:
        """The file of a row, and its columns."""
        path = getattr(self, row.file_flag) if row.file_flag else None
        return path, self.near_columns if row.file_flag == "near_file" else ()


class SideFailed(Exception):
    """A side ended with an error; the message is the end of its log."""


def run_module(python, name, settings):
    """The JSON object that a module of benchmarks/ prints last, in its own process.

    Raises:
        SideFailed: its exit code is not 0.
    """
    command = [python, "-m", f"benchmarks.{name}", json.dumps(settings)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        log = done.stderr[-3000:].strip()
        raise SideFailed(f"{' '.join(command[:3])}: exit code {done.returncode}\n{log}")
    return json.loads(done.stdout.splitlines()[-1])


def take_turn(settings, side, job):
    """The result of a turn of a side, whose clock begins now."""
    python, module = sys.executable, "ours"
    if side == report.PEER:
        python, module = settings.peer_python, "peer"
    return run_module(python, module, {**job, "begun": time.time()})


def takes_part(variant, row):
    """Whether a variant of the peer can be faster than the plain one in a row."""
    if variant in _RUNTIMES and row.action == "train":
        return False
    if variant.endswith("_int8"):
        return row.quantization == "dynamic_int8"
    if variant.endswith("_frozen"):
        return row.has_fixed_shape and row.action != "train"
    return row.has_fixed_shape or not variant.endswith("_compiled")


def fastest_variant(settings, row, job):
    """The peer's variant for a row, and the result of each short trial.

    For a variant that does not run here, such as torch.compile without a C++ compiler,
    the trial is the last line of its error.
    """
    candidates = [name for name in settings.peer_variants if takes_part(name, row)]
    if len(candidates) == 1:
        return candidates[0], {}
    trials, seconds = {}, {}
    steps = min(100 if row.unit == "ms" else 8, job["steps"])
    for variant in candidates:
        trial = {**job, "steps": steps, "variant": variant}
        try:
            figures = take_turn(settings, report.PEER, trial)
        except SideFailed as error:
            trials[variant] = str(error).splitlines()[-1]
            continue
        key = "seconds" if row.is_rate else rows_lib.FIGURES[row.unit]
        trials[variant] = seconds[variant] = figures[key]
    if not seconds:
        raise SideFailed(f"no variant of the peer runs: {trials}")
    return min(seconds, key=seconds.__getitem__), trials


def measure(settings, name, row, directory):
    """All turns of a row."""
    path, columns = settings.file_of(row)
    if settings.max_seq_length:
        row = row._replace(max_seq_length=settings.max_seq_length)
    work = {
        "row": row._asdict(),
        "directory": str(pathlib.Path(directory, name)),
        "pretrained_dir": settings.pretrained,
        "path": path,
        "columns": columns,
        "steps": settings.steps,
    }
    prepared = run_module(sys.executable, "preparation", work)
    jobs = {report.OURS: prepared["job"]}
    measured = {
        "title": row.full_title,
        "unit": row.unit,
        "examples": prepared["examples"],
    }
    if settings.peer_python:
        chosen = fastest_variant(settings, row, prepared["job"])
        measured["variant"], measured["trials"] = chosen
        jobs[report.PEER] = {**prepared["job"], "variant": measured["variant"]}
    runs: dict[str, list] = {side: [] for side in jobs}
    for _ in range(settings.rounds):
        for side, job in jobs.items():
            runs[side].append(take_turn(settings, side, job))
    measured["runs"] = {
        side: report.add_figures(row, prepared["examples"], each)
        for side, each in runs.items()
    }
    return measured


def measure_all(settings):
    """Times the rows, one after the other, and writes figures after each."""
    results = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": report.describe_machine(),
        "peak_size": sides.PEAK_SIZE,
        "rows": {},
    }
    output = pathlib.Path(settings.output_file)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        for name, row in settings.chosen().items():
            is_skipped = row.file_flag and not settings.file_of(row)[0]
            why = f"--{row.file_flag} is not set" if is_skipped else ""
            print(f"{name}: {f'skipped, {why}' if why else '...'}", file=sys.stderr)
            measured = (
                {"skipped": why} if why else measure(settings, name, row, directory)
            )
            results["rows"][name] = measured
            output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def run(settings: ComparisonSettings) -> None:
    """Times the rows; a side that fails ends it without a traceback."""
    try:
        print(report.markdown(measure_all(settings)))
    except SideFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    command_line.run(run, command_line.parse(ComparisonSettings, __doc__))
