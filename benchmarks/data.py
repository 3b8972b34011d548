r"""Measures the speed and the memory of create_pretraining_data.py.

    python -m benchmarks.data --vocab_file=vocab.txt --input_file='corpus/*.txt'

The script runs --passes times for its speed, without the start-up, and once more for
its memory. The program prints instances and megabytes of text per second, and the peak
memory of all processes, with shared pages counted once.
"""

import glob
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import psutil
from absl import app, flags

FLAGS = flags.FLAGS
ROOT = pathlib.Path(__file__).resolve().parents[1]


def define_flags() -> None:
    """Flags: the corpus, and how the script reads it."""
    flags.DEFINE_string("vocab_file", None, "Vocabulary file.", required=True)
    flags.DEFINE_string(
        "input_file", None, "Comma-separated text files or globs.", required=True
    )
    flags.DEFINE_integer("passes", 3, "Number of timed runs.")
    flags.DEFINE_string("objective", "masked_lm", "masked_lm or left_to_right.")
    flags.DEFINE_integer("dupe_factor", 5, "Number of times to use the text.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens per sequence.")
    flags.DEFINE_integer("num_workers", 0, "Number of processes; 0 for one per core.")


def memory(process: psutil.Process) -> int:
    """Bytes of a process and its children; shared pages are divided among users."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def run_script(arguments: list[str], watches_memory: bool) -> dict[str, float]:
    """The figures that the script prints, and "most_memory" in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "create_pretraining_data.py"), *arguments]
        command.append(f"--output_file={folder}/x.tfrecord")
        process = psutil.Popen(command, stdout=-1, text=True)
        most = 0
        while watches_memory and process.poll() is None:
            most = max(most, memory(process))
            time.sleep(0.1)
        output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"create_pretraining_data.py: exit code {process.returncode}")
    lines = [line.split(" = ") for line in output.splitlines() if " = " in line]
    return {name.strip(): float(value) for name, value in lines} | {"most_memory": most}


def main(_) -> None:
    """Prints speed and memory as JSON."""
    files = [path for p in FLAGS.input_file.split(",") for path in glob.glob(p)]
    megabytes = sum(map(os.path.getsize, files)) / 1e6
    names = ["input_file", "vocab_file", "max_seq_length", "num_workers", "objective"]
    names += ["dupe_factor"] if FLAGS.objective == "masked_lm" else []
    arguments = [f"--{name}={FLAGS[name].value}" for name in names]
    watched = run_script(arguments, watches_memory=True)
    timed = [run_script(arguments, watches_memory=False) for _ in range(FLAGS.passes)]
    seconds = statistics.median(one["seconds"] for one in timed)
    figures = {
        "megabytes": round(megabytes, 1),
        "instances": int(watched["instances"]),
        "instances_per_second": round(watched["instances"] / seconds),
        "megabytes_per_second": round(megabytes / seconds, 2),
        "most_memory_megabytes": int(watched["most_memory"]) >> 20,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    define_flags()
    app.run(main)
