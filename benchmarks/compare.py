r"""Times this project and Hugging Face with PyTorch in turns; see docs/results.md.

    python -m benchmarks.compare --peer_python=/path/to/python \
        --rows=classifier,latency

--peer_python is a Python with torch and transformers; without it, only this project is
timed. Each turn is a separate process. The program prints a Markdown table, and writes
the figures of all turns to --output_file after each row. It skips a row, with a
message, if the file of the row is not given.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from absl import app, flags

from benchmarks import report, sides
from benchmarks import rows as rows_lib
from contract import errors

FLAGS = flags.FLAGS
ROOT = pathlib.Path(__file__).resolve().parents[1]
_RUNTIMES = ["onnxruntime", "onnxruntime_fused", "onnxruntime_int8", "openvino"]
PEER_VARIANTS = ["sdpa", "eager", "sdpa_compiled", "sdpa_frozen", "sdpa_int8"]
PEER_VARIANTS += _RUNTIMES


def define_flags():
    """Flags: rows, weights and files, and the peer."""
    flags.DEFINE_list(
        "rows", [], f"Rows to time; by default all: {', '.join(rows_lib.ROWS)}."
    )
    flags.DEFINE_string(
        "peer_python", None, "Path of a Python with torch and transformers."
    )
    flags.DEFINE_list(
        "peer_variants",
        PEER_VARIANTS,
        "Variants of Hugging Face to try; the fastest is timed. _compiled needs fixed "
        "shapes, _frozen also fixed weights, and _int8 a row with int8 weights. The "
        "runtimes need onnx, onnxruntime and openvino, and predict classes.",
    )
    flags.DEFINE_string(
        "pretrained",
        "models/minilm",
        "Directory of the weights, in the layout of Hugging Face.",
    )
    flags.DEFINE_string("near_file", None, "Table with texts that belong together.")
    flags.DEFINE_list(
        "near_columns", ["0", "1"], "Columns of both texts in --near_file."
    )
    flags.DEFINE_string("texts_file", None, "Texts, in the first column of a TSV file.")
    flags.DEFINE_integer("rounds", 3, "Number of turns of each side.")
    flags.DEFINE_integer(
        "steps", 0, "Number of timed steps; 0 for the value of the row."
    )
    text = "Maximum number of tokens per sequence; 0 for the value of the row."
    flags.DEFINE_integer("max_seq_length", 0, text)
    flags.DEFINE_string("output_file", "output/benchmark.json", "JSON file to write.")


def check_input(rows):
    """Raises InputError for a wrong flag before the long work starts."""
    paths = {row.file_flag: get_file(row)[0] for row in rows.values() if row.file_flag}
    paths |= {"pretrained": FLAGS.pretrained, "peer_python": FLAGS.peer_python}
    for flag, path in paths.items():
        if path and not pathlib.Path(path).exists():
            raise errors.InputError(f"--{flag}={path}: there is no such file")
    if unknown := sorted(set(FLAGS.peer_variants) - set(PEER_VARIANTS)):
        raise errors.InputError(
            f"--peer_variants={','.join(unknown)}: variants are "
            f"{', '.join(PEER_VARIANTS)}"
        )
    if FLAGS.rounds < 1:
        raise errors.InputError(f"--rounds={FLAGS.rounds} is below 1; give at least 1")


def get_file(row):
    """The file that a flag names for a row, and its columns."""
    path = FLAGS[row.file_flag].value if row.file_flag else None
    return path, FLAGS.near_columns if row.file_flag == "near_file" else ()


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


def take_turn(side, job):
    """The result of a turn of a side, whose clock begins now."""
    python, module = sys.executable, "ours"
    if side == report.PEER:
        python, module = FLAGS.peer_python, "peer"
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


def fastest_variant(row, job):
    """The peer's variant for a row, and the result of each short trial.

    For a variant that does not run here, such as torch.compile without a C++ compiler,
    the trial is the last line of its error.
    """
    candidates = [name for name in FLAGS.peer_variants if takes_part(name, row)]
    if len(candidates) == 1:
        return candidates[0], {}
    trials, seconds = {}, {}
    steps = min(100 if row.unit == "ms" else 8, job["steps"])
    for variant in candidates:
        trial = {**job, "steps": steps, "variant": variant}
        try:
            figures = take_turn(report.PEER, trial)
        except SideFailed as error:
            trials[variant] = str(error).splitlines()[-1]
            continue
        key = "seconds" if row.is_rate else rows_lib.FIGURES[row.unit]
        trials[variant] = seconds[variant] = figures[key]
    if not seconds:
        raise SideFailed(f"no variant of the peer runs: {trials}")
    return min(seconds, key=seconds.__getitem__), trials


def measure(name, row, directory):
    """All turns of a row."""
    path, columns = get_file(row)
    if FLAGS.max_seq_length:
        row = row._replace(max_seq_length=FLAGS.max_seq_length)
    settings = {
        "row": row._asdict(),
        "directory": str(pathlib.Path(directory, name)),
        "pretrained_dir": FLAGS.pretrained,
        "path": path,
        "columns": columns,
        "steps": FLAGS.steps,
    }
    prepared = run_module(sys.executable, "preparation", settings)
    jobs = {report.OURS: prepared["job"]}
    measured = {
        "title": row.full_title,
        "unit": row.unit,
        "examples": prepared["examples"],
    }
    if FLAGS.peer_python:
        measured["variant"], measured["trials"] = fastest_variant(row, prepared["job"])
        jobs[report.PEER] = {**prepared["job"], "variant": measured["variant"]}
    runs: dict[str, list] = {side: [] for side in jobs}
    for _ in range(FLAGS.rounds):
        for side, job in jobs.items():
            runs[side].append(take_turn(side, job))
    measured["runs"] = {
        side: report.add_figures(row, prepared["examples"], each)
        for side, each in runs.items()
    }
    return measured


def measure_all(rows):
    """Times the rows, one after the other, and writes figures after each."""
    results = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": report.describe_machine(),
        "peak_size": sides.PEAK_SIZE,
        "rows": {},
    }
    output = pathlib.Path(FLAGS.output_file)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        for name, row in rows.items():
            is_skipped = row.file_flag and not get_file(row)[0]
            why = f"--{row.file_flag} is not set" if is_skipped else ""
            print(f"{name}: {f'skipped, {why}' if why else '...'}", file=sys.stderr)
            measured = {"skipped": why} if why else measure(name, row, directory)
            results["rows"][name] = measured
            output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def main(_):
    """Times the rows; wrong flags and a side that fails end it without a traceback."""
    with errors.explained():
        rows = rows_lib.named(FLAGS.rows)
        check_input(rows)
        try:
            print(report.markdown(measure_all(rows)))
        except SideFailed as error:
            sys.exit(str(error))


if __name__ == "__main__":
    define_flags()
    app.run(main)
