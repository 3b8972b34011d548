r"""Times work on data: how its cost grows with size, and create_pretraining_data.py.

    python -m benchmarks.data --vocab_file=vocab.json --rows=rouge_l,long_line
    python -m benchmarks.data --vocab_file=vocab.txt --input_file='corpus/*.txt'

The first prints for each row and size the processor time, the shortest of --passes,
and what else a row counts; last the exponent of the growth between two sizes: 1 is in
proportion, 2 is quadratic. With --input_file the script runs --passes times, without
start-up in its figures, and once more to watch memory: instances and megabytes of text
a second, and the most memory of all processes, shared pages counted once.
"""

import glob
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import psutil
from absl import app, flags

from data_pipeline.seq2seq import results
from data_pipeline.tables import text_rows
from data_pipeline.text import opening
from data_pipeline.vocabularies import learn_bpe, processes, word_counts

FLAGS = flags.FLAGS
ROOT = pathlib.Path(__file__).resolve().parents[1]
_IO = pathlib.Path("/proc/self/io")  # on Linux; its second word counts bytes read
# Work on its input; returns its counts beside the time, if any.
Work = Callable[[], dict[str, float] | None]


class Row(NamedTuple):
    """A kind of work, made by `prepare` from a size and a folder."""

    sizes: tuple[int, int]
    unit: str
    prepare: Callable[[int, pathlib.Path], Work]


def _characters(first: int, end: int):
    def prepare(size, folder):
        points = np.random.default_rng(0).integers(first, end, size)
        text = "".join(map(chr, points))
        tokenizer = opening.open_vocabulary(FLAGS.vocab_file)
        return lambda: {"tokens": len(tokenizer.tokenize(text))}

    return prepare


def _without_blank_lines(size, folder):
    line = b"a sentence of a corpus without a blank line between any two of them .\n"
    path = folder / "text.txt"
    path.write_bytes(line * (size // len(line)))
    split = word_counts.Spaced("whitespace")

    def work():
        before = int(_IO.read_text().split()[1])
        executor = processes.InThisProcess()
        word_counts.count_files(
            [str(path)], executor, 1, split=split, report=lambda *_, **__: None
        )
        return {"MB read": (int(_IO.read_text().split()[1]) - before) / 1e6}

    return work


def _byte_pairs(size, folder):
    words = {f"word{number}": size // 8000 for number in range(1000)}
    counts = word_counts.WordCounts(words, {}, size, 0)
    return lambda: learn_bpe.learn(counts, 300, lambda line: None) and None


def _long_line(size, folder):
    (folder / "line.txt").write_bytes(b"x" * size)
    return lambda: {"lines": sum(1 for _ in text_rows.lines(str(folder / "line.txt")))}


def _rouge_l(size, folder):
    words = np.random.default_rng(0).integers(0, 500, [2, size]).astype(str)
    target, prediction = map(" ".join, words)
    return lambda: results.count([target], [prediction]) and None


ROWS = {
    "gpt2_chinese": Row((10_000, 40_000), "characters", _characters(0x4E00, 0x9FA5)),
    "gpt2_word": Row((5_000, 20_000), "letters", _characters(97, 123)),
    "no_blank_lines": Row((1 << 23, 1 << 25), "bytes", _without_blank_lines),
    "byte_pairs": Row((1 << 27, 1 << 29), "bytes of running text", _byte_pairs),
    "long_line": Row((1 << 25, 1 << 27), "bytes", _long_line),
    "rouge_l": Row((200, 800), "words", _rouge_l),
}


def measure(name: str, size: int, passes: int) -> dict[str, float]:
    """Processor seconds, the fewest of some passes, and the row's counts."""
    with tempfile.TemporaryDirectory() as folder:
        work = ROWS[name].prepare(size, pathlib.Path(folder))
        best: dict[str, float] = {}
        for _ in range(passes + 1):  # the first warms up
            begun = time.process_time()
            counts = work() or {}
            one = {"seconds": time.process_time() - begun, **counts}
            best = {key: min(one[key], best.get(key, math.inf)) for key in one}
    return best


def print_growth(name: str) -> None:
    """Prints the figures of a row at both sizes, and the exponents."""
    sizes, unit, _ = ROWS[name]
    less, more = (measure(name, size, FLAGS.passes) for size in sizes)
    for size, figures in zip(sizes, (less, more), strict=True):
        shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
        print(f"{name}: {size} {unit}: {shown}", flush=True)
    by = math.log(sizes[1] / sizes[0])
    growth = {k: round(math.log(more[k] / less[k]) / by, 2) for k in more if less[k]}
    print(f"{name}: growth {json.dumps(growth)}", flush=True)


def _memory(process: psutil.Process) -> int:
    """Bytes of a process and its children; shared pages are divided among users."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def run_creation(arguments: list[str], watches_memory: bool) -> dict[str, float]:
    """The figures that the script prints, and "most_memory" in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "create_pretraining_data.py"), *arguments]
        command.append(f"--output_file={folder}/x.tfrecord")
        process = psutil.Popen(command, stdout=-1, text=True)
        most = 0
        while watches_memory and process.poll() is None:
            most = max(most, _memory(process))
            time.sleep(0.1)
        output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"create_pretraining_data.py: exit code {process.returncode}")
    lines = [line.split(" = ") for line in output.splitlines() if " = " in line]
    return {name.strip(): float(value) for name, value in lines} | {"most_memory": most}


def creation() -> dict[str, float]:
    """Speed and memory of create_pretraining_data.py on --input_file."""
    files = [path for p in FLAGS.input_file.split(",") for path in glob.glob(p)]
    megabytes = sum(map(os.path.getsize, files)) / 1e6
    names = ["input_file", "vocab_file", "max_seq_length", "num_workers", "objective"]
    names += ["dupe_factor"] if FLAGS.objective == "masked_lm" else []
    arguments = [f"--{name}={FLAGS[name].value}" for name in names]
    watched = run_creation(arguments, watches_memory=True)
    timed = [run_creation(arguments, False) for _ in range(FLAGS.passes)]
    seconds = statistics.median(one["seconds"] for one in timed)
    return {
        "megabytes": round(megabytes, 1),
        "instances": int(watched["instances"]),
        "instances_per_second": round(watched["instances"] / seconds),
        "megabytes_per_second": round(megabytes / seconds, 2),
        "most_memory_megabytes": int(watched["most_memory"]) >> 20,
    }


def main(_) -> None:
    """Prints the rows, or the figures of a corpus."""
    if FLAGS.input_file:
        print(json.dumps(creation()))
        return
    for name in FLAGS.rows or ROWS:
        print_growth(name)


if __name__ == "__main__":
    flags.DEFINE_list("rows", [], f"Some of {', '.join(ROWS)}; all by default.")
    flags.DEFINE_string("vocab_file", None, "GPT-2's vocab.json, or the corpus' one.")
    flags.DEFINE_integer("passes", 3, "Timed passes or runs.")
    flags.DEFINE_string("input_file", None, "Text files, as for the script.")
    flags.DEFINE_string("objective", "masked_lm", "Or left_to_right.")
    flags.DEFINE_integer("dupe_factor", 5, "Times the text is used, masked.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens a sequence.")
    flags.DEFINE_integer("num_workers", 0, "Processes, 0 for one a core.")
    app.run(main)
