r"""Times create_pretraining_data.py: whole processes, without start-up.

    python benchmarks/creation.py --input_file=corpus/*.txt \
        --vocab_file=models/minilm/vocab.txt

Prints one JSON object: instances and megabytes of text a second from the first look at
the input to the last file (libraries are imported before), medians of some rounds, and
the most memory of all processes together, pages that they share counted once.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import psutil
import tensorflow as tf
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = flags.FLAGS


def memory(process):
    """Bytes of a process and its children; a shared page is divided among its users."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def run(directory, watches_memory=False):
    """One run of the script: the figures that it prints, and most_memory in bytes."""
    script = ROOT / "create_pretraining_data.py"
    names = ["input_file", "vocab_file", "max_seq_length", "num_workers", "objective"]
    if FLAGS.objective == "masked_lm":
        names.append("dupe_factor")
    arguments = [f"--{name}={FLAGS[name].value}" for name in names]
    process = psutil.Popen(
        [sys.executable, script, *arguments, f"--output_file={directory}/x.tfrecord"],
        stdout=subprocess.PIPE,
        text=True,
    )
    most = 0
    while watches_memory and process.poll() is None:
        most = max(most, memory(process))
        time.sleep(0.1)
    output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{script.name} ended with exit code {process.returncode}")
    lines = [line.split(" = ") for line in output.splitlines() if " = " in line]
    printed = {name.strip(): float(value) for name, value in lines}
    return {**printed, "most_memory": most}


def main(_):
    """Runs the script --rounds times, and once to watch memory, which costs time."""
    files = [path for p in FLAGS.input_file.split(",") for path in tf.io.gfile.glob(p)]
    megabytes = sum(tf.io.gfile.stat(path).length for path in files) / 1e6
    runs = []
    for watches_memory in [True] + [False] * FLAGS.rounds:
        with tempfile.TemporaryDirectory() as directory:
            runs.append(run(directory, watches_memory))
    watched, *timed = runs
    seconds = statistics.median(one["seconds"] for one in timed)
    figures = {
        "megabytes": round(megabytes, 1),
        "instances": int(watched["instances"]),
        "instances_per_second": round(watched["instances"] / seconds),
        "megabytes_per_second": round(megabytes / seconds, 2),
        "most_memory_megabytes": watched["most_memory"] >> 20,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    flags.DEFINE_string("input_file", None, "Text files, as for the script.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary.")
    flags.DEFINE_string("objective", "masked_lm", "Or left_to_right.")
    flags.DEFINE_integer("dupe_factor", 5, "Times the text is used, masked.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens a sequence.")
    flags.DEFINE_integer("num_workers", 0, "Processes, 0 for one a core.")
    flags.DEFINE_integer("rounds", 3, "Runs.")
    flags.mark_flags_as_required(["input_file", "vocab_file"])
    app.run(main)
