"""How the cost of preparing data grows with its size, a row for each kind of work.

    python -m benchmarks.data_costs --vocab_file=vocab.json [--rows=rouge_l,...]

Prints for each row and size the processor time, the shortest of --passes, and what else
a row counts; last the exponent of the growth between the two largest sizes: 1 is in
proportion, 2 is quadratic.
"""

import json
import math
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
from absl import app, flags

from data_pipeline.classification import labels, split, tables
from data_pipeline.generation import templates
from data_pipeline.pretraining.streams import batches as stream_batches
from data_pipeline.pretraining.streams import files as sentence_files
from data_pipeline.seq2seq import results
from data_pipeline.tables import text_rows
from data_pipeline.text import opening
from data_pipeline.vocabularies import learn_bpe, processes, word_counts

_IO = pathlib.Path("/proc/self/io")  # of Linux; its second word is of bytes read
LABELS = labels.Labels(tuple(map(str, range(13_000))), "multi_label")
# Work on its input; returns what it counts beside the time, if anything.
Work = Callable[[], dict[str, float] | None]


class Row(NamedTuple):
    """A kind of work, which `prepare` makes of a size and a folder."""

    sizes: tuple[int, ...]
    unit: str
    prepare: Callable[[int, pathlib.Path], Work]


def _characters(first: int, end: int):
    def prepare(size, folder):
        points = np.random.default_rng(0).integers(first, end, size)
        text = "".join(map(chr, points))
        tokenizer = opening.open_vocabulary(flags.FLAGS.vocab_file)
        return lambda: {"tokens": len(tokenizer.tokenize(text))}

    return prepare


class _Sending(processes.InThisProcess):
    """Counts the bytes that would go to other processes."""

    num_bytes = 0

    def submit(self, function, /, *args, **kwargs):
        self.num_bytes += len(pickle.dumps((function, args, kwargs)))
        return super().submit(function, *args, **kwargs)


def _counting(files: list[str]) -> dict[str, float]:
    executor, before = _Sending(), _IO.read_text().split()
    word_counts.count_files(
        *(files, executor, 1),
        split=word_counts.Spaced("whitespace"),
        report=lambda *_, **__: None,
    )
    return {
        "MB read": (int(_IO.read_text().split()[1]) - int(before[1])) / 1e6,
        "MB sent": executor.num_bytes / 1e6,
    }


def _without_blank_lines(size, folder):
    line = b"a sentence of a corpus without a blank line between any two of them .\n"
    (folder / "text.txt").write_bytes(line * (size // len(line)))
    return lambda: _counting([str(folder / "text.txt")])


def _many_files(size, folder):
    for number in range(size):
        (folder / f"a_name_of_usual_length_{number}").write_bytes(b"word\n" * 1000)
    files = sorted(map(str, folder.iterdir()))
    return lambda: _counting(files)


def _byte_pairs(size, folder):
    words = {f"word{number}": size // 8000 for number in range(1000)}
    counts = word_counts.WordCounts(words, {}, size, 0)
    return lambda: learn_bpe.learn(counts, 300, lambda line: None) and None


def _long_line(size, folder):
    (folder / "line.txt").write_bytes(b"x" * size)
    return lambda: {"lines": sum(1 for _ in text_rows.lines(str(folder / "line.txt")))}


def _table(rows: list[tuple[str, str]], folder) -> tables.Table:
    path = folder / "rows.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
    options = {"labels_required": True, "allow_empty_text": False}
    return tables.read_table(str(path), tables.Layout(), **options)


def _examples_shown(size, folder):
    table = _table([("text", "ab"[i % 2]) for i in range(size)], folder)
    form, kept = templates.Template("{text} {label}"), labels.Labels(("a", "b"))
    return lambda: templates.examples(form, table, kept, kept.names, 4, 1) and None


def _sets_of_labels(size, folder):
    table = _table([("text", f"{i % 13_000},{i % 7}") for i in range(size)], folder)

    def work():
        found: Any = split._label_ids("train", table, LABELS)
        parts = [found] if isinstance(found, np.ndarray) else [found.ids, found.splits]
        return {"MB held": sum(part.nbytes for part in parts) / 1e6}

    return work


def _rouge_l(size, folder):
    words = np.random.default_rng(0).integers(0, 500, [2, size]).astype(str)
    target, prediction = map(" ".join, words)
    return lambda: results.count([target], [prediction]) and None


def _elmo_resumed(size, folder):
    lengths = np.random.default_rng(0).integers(5, 40, size).astype(np.int32)
    source = sentence_files.SentenceFiles(("text",), (lengths,))
    sets = stream_batches.StreamSets(source, source, None, 20)  # type: ignore[arg-type]
    step = int(lengths.sum()) // (20 * 32)
    return lambda: sets.batch_names(32, 1, step) and None


ROWS = {
    "gpt2_chinese": Row((10_000, 40_000), "characters", _characters(0x4E00, 0x9FA5)),
    "gpt2_word": Row((5_000, 20_000), "letters", _characters(97, 123)),
    "no_blank_lines": Row((1 << 23, 1 << 25), "bytes", _without_blank_lines),
    "many_files": Row((1_000, 4_000), "files", _many_files),
    "byte_pairs": Row((1 << 27, 1 << 29), "bytes of running text", _byte_pairs),
    "long_line": Row((1 << 25, 1 << 27), "bytes", _long_line),
    "examples_shown": Row((10_000, 40_000), "rows", _examples_shown),
    "rouge_l": Row((200, 800), "words", _rouge_l),
    "sets_of_labels": Row((5_000, 20_000), "rows", _sets_of_labels),
    "elmo_resumed": Row((100_000, 400_000), "sentences", _elmo_resumed),
}


def measure(name: str, size: int, passes: int) -> dict[str, float]:
    """Processor seconds, the fewest of some passes, and what else a row counts."""
    with tempfile.TemporaryDirectory() as folder:
        work = ROWS[name].prepare(size, pathlib.Path(folder))
        best: dict[str, float] = {}
        for _ in range(passes + 1):  # the first warms up
            begun = time.process_time()
            counts = work() or {}
            found = {"seconds": time.process_time() - begun, **counts}
            best = {key: min(found[key], best.get(key, math.inf)) for key in found}
    return best


def main(_) -> None:
    """Prints the table."""
    for name in flags.FLAGS.rows or ROWS:
        sizes, unit, _ = ROWS[name]
        found = [measure(name, size, flags.FLAGS.passes) for size in sizes]
        for size, figures in zip(sizes, found, strict=True):
            shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
            print(f"{name}: {size} {unit}: {shown}", flush=True)
        *_, less, more = found
        by = math.log(sizes[-1] / sizes[-2])
        growth = {
            k: round(math.log(more[k] / less[k]) / by, 2) for k in more if less[k]
        }
        print(f"{name}: growth {json.dumps(growth)}", flush=True)


if __name__ == "__main__":
    flags.DEFINE_list("rows", [], f"Of {', '.join(ROWS)}; all by default.")
    flags.DEFINE_string("vocab_file", None, "GPT-2's vocab.json, for its rows.")
    flags.DEFINE_integer("passes", 3, "Timed passes, of which the best counts.")
    app.run(main)
