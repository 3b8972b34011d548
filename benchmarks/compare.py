r"""Times this project and Hugging Face with PyTorch in turns; see docs/performance.md.

    python -m benchmarks.compare --peer_python=/path/to/python \
        --rows=classifier,latency

--peer_python is a Python with torch and transformers; without it, only this project is
timed. Each turn is a separate process. The program prints a Markdown table, and writes
the figures of all turns to --output_file after each row. It skips a row, with a
message, if the file of the row is not given or the processor lacks bfloat16.
"""

import dataclasses
import json
import pathlib
import sys
import tempfile
import time

from absl import app, flags

from benchmarks import report, sides, turns
from benchmarks import rows as rows_lib
from contract import errors

FLAGS = flags.FLAGS
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
        "backends",
        [],
        "Other backends of Keras to time this project on, of jax and torch, in the "
        "rows classifier and inference; --peer_python has to have them.",
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
    flags.DEFINE_string("sms_file", None, "Table with the SMS Spam Collection.")
    columns = "Columns of the text and the label in --{}_file."
    flags.DEFINE_list("sms_columns", ["1", "0"], columns.format("sms"))
    flags.DEFINE_string("sst2_file", None, "Table with the training set of SST-2.")
    flags.DEFINE_list("sst2_columns", ["0", "1"], columns.format("sst2"))
    flags.DEFINE_string("pairs_file", None, "Table with pairs of texts and labels.")
    flags.DEFINE_list(
        "pairs_columns",
        ["sentence1", "sentence2", "label"],
        "Columns of both texts and the label in --pairs_file.",
    )
    flags.DEFINE_string("near_file", None, "Table with texts that belong together.")
    flags.DEFINE_list(
        "near_columns", ["0", "1"], "Columns of both texts in --near_file."
    )
    flags.DEFINE_string("tagging_file", None, "CoNLL file with tagged sentences.")
    flags.DEFINE_string("squad_file", None, "SQuAD file with training questions.")
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
    if FLAGS.backends and not FLAGS.peer_python:
        raise errors.InputError(
            "--backends needs a Python with them: set --peer_python"
        )
    if unknown := sorted(set(FLAGS.backends) - set(report.BACKENDS)):
        raise errors.InputError(
            f"--backends={','.join(unknown)}: other backends are "
            f"{', '.join(report.BACKENDS)}"
        )
    if FLAGS.rounds < 1:
        raise errors.InputError(f"--rounds={FLAGS.rounds} is below 1; give at least 1")


def get_file(row):
    """The file that a flag names for a row, and its columns."""
    if not row.file_flag:
        return None, ()
    columns = f"{row.source}_columns"
    return FLAGS[row.file_flag].value, FLAGS[columns].value if columns in FLAGS else ()


def turn(python, side, job, **variables):
    """A function that takes one turn of a side; `variables` of its environment."""

    def take():
        begun = dataclasses.replace(job, begun=time.time())
        text = json.dumps(dataclasses.asdict(begun))
        return turns.run([python, "-m", f"benchmarks.{side}", text], **variables)

    return take


def takes_part(variant, row):
    """Whether a variant of the peer can be faster than the plain one in a row."""
    if variant in _RUNTIMES and not row.predicts_classes:
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
    for variant in candidates:
        steps = min(row.trial_steps, job["steps"])
        trial = sides.Job(**{**job, "steps": steps, "variant": variant})
        try:
            result = turn(FLAGS.peer_python, "peer", trial)()
        except turns.SideFailed as error:
            trials[variant] = str(error).splitlines()[-1]
            continue
        key = "seconds" if row.is_rate else rows_lib.FIGURES[row.unit]
        trials[variant] = seconds[variant] = result[key]
    if not seconds:
        raise turns.SideFailed(f"no variant of the peer runs: {trials}")
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
    command = [sys.executable, "-m", "benchmarks.preparation", json.dumps(settings)]
    prepared = turns.run(command)
    job = prepared["job"]
    measured = {
        "title": row.full_title,
        "unit": row.unit,
        "precision": row.precision,
        "examples": prepared["examples"],
        "gflop": prepared["gflop"],
    }
    timed = {report.OURS: turn(sys.executable, "ours", sides.Job(**job))}
    if FLAGS.peer_python:
        measured["variant"], measured["trials"] = fastest_variant(row, job)
        best = sides.Job(**{**job, "variant": measured["variant"]})
        timed[report.PEER] = turn(FLAGS.peer_python, "peer", best)
    for backend in FLAGS.backends if name in ("classifier", "inference") else ():
        timed[backend] = turn(
            FLAGS.peer_python, "on_backend", sides.Job(**job), KERAS_BACKEND=backend
        )
    runs = turns.alternate(timed, FLAGS.rounds)
    measured["runs"] = {
        side: report.add_figures(row, prepared, each) for side, each in runs.items()
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
            sets = results["machine"]["instruction_sets"]
            why = rows_lib.missing(row, get_file(row)[0], sets)
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
        except turns.SideFailed as error:
            sys.exit(str(error))


if __name__ == "__main__":
    define_flags()
    app.run(main)
