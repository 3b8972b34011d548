"""Times the tokenizer on one core, and what others install for the same work.

    python benchmarks/tokenization.py --vocab_file=vocab.txt --input=texts/

Prints one JSON object: megabytes (10^6 bytes) of text tokenized in a second of
processor time (other load counts little), the best of several passes over all lines,
without reading and batching. A peer is timed where it is installed: on the same lines
and one core, with the same vocabulary.
"""

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # the peers' threads
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
if hasattr(os, "sched_setaffinity"):  # Linux; TensorFlow counts the cores on import
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from cli import environment

environment.prepare()  # before TensorFlow is imported

import tensorflow as tf
from absl import app, flags

from data_pipeline.text import wordpiece

FLAGS = flags.FLAGS


def read_lines(path: pathlib.Path) -> list[bytes]:
    """The lines of a file, or of all `.txt` files below a folder in order of name."""
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    return b"".join(file.read_bytes() for file in files).split(b"\n")


def seconds_of_best(work: Callable[[], None], passes: int) -> float:
    """Processor time of the shortest of some runs, after one that only warms up."""
    work()
    seconds = []
    for _ in range(passes):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def in_batches(lines: Sequence) -> list[Sequence]:
    """The lines, --batch_lines at a time."""
    size = FLAGS.batch_lines
    return [lines[begin : begin + size] for begin in range(0, len(lines), size)]


def ours(lines: Sequence[bytes]) -> Callable[[], None]:
    """One pass of `BertTokenizer` over the lines, in batches."""
    tokenizer = wordpiece.BertTokenizer.from_file(FLAGS.vocab_file, FLAGS.do_lower_case)
    batches = [tf.constant(batch) for batch in in_batches(lines)]

    def work():
        for batch in batches:
            tokenizer.tokenize(batch)

    return work


def tokenizers_library(lines: Sequence[bytes]) -> Callable[[], None]:
    """The same of `tokenizers.BertWordPieceTokenizer`, if that is installed."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(FLAGS.vocab_file, lowercase=FLAGS.do_lower_case)
    batches = in_batches([line.decode("utf-8", "ignore") for line in lines])

    def work():
        for batch in batches:
            tokenizer.encode_batch(batch, add_special_tokens=False)

    return work


def main(_) -> None:
    """Prints the figures of every tokenizer that is installed."""
    lines = read_lines(pathlib.Path(FLAGS.input))
    megabytes = sum(len(line) + 1 for line in lines) / 1e6
    rates = {}
    for name, peer in (("ours", ours), ("tokenizers", tokenizers_library)):
        try:
            work = peer(lines)
        except ImportError:
            rates[name] = None
            continue
        rates[name] = round(megabytes / seconds_of_best(work, FLAGS.passes), 1)
    figures = {
        "megabytes": round(megabytes, 1),
        "lines": len(lines),
        "batch_lines": FLAGS.batch_lines,
        "tensorflow": tf.__version__,
        "megabytes_per_second": rates,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    flags.DEFINE_string("vocab_file", None, "Vocabulary, one token per line.")
    flags.DEFINE_string("input", None, "A text, or a folder of .txt files.")
    flags.DEFINE_bool("do_lower_case", True, "False for cased checkpoints.")
    flags.DEFINE_integer("batch_lines", 4096, "Lines tokenized at a time.")
    flags.DEFINE_integer("passes", 3, "Timed passes, of which the best counts.")
    flags.mark_flags_as_required(["vocab_file", "input"])
    app.run(main)
