"""The three modes of run_predictor.py: texts, a file, a server."""

import codecs
import contextlib
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from contract import (
    atomic_files,
    errors,
    json_files,
    remote_files,
    tf_serving,
    wording,
)
from data_pipeline import engines, shards
from data_pipeline.tables import file_patterns, text_rows
from serving import answers, predictor, streaming
from serving.server import doors
from tasks.settings.prediction import PredictionSettings
from terminal import progress

_BLOCK_BYTES = 2**16  # read at once


def run(
    settings: PredictionSettings, *texts: str, door: doors.Door | None = None
) -> None:
    """Runs the mode that the settings choose, on texts; a server answers at `door`."""
    if texts and (settings.serve or settings.input_file):
        raise errors.InputError(
            f"{texts[0]!r:.80} stands beside --serve or --input_file; give one"
        )
    export_dir = settings.export_dir
    if not export_dir or not (settings.serve or settings.input_file or texts):
        raise errors.InputError('give --export_dir=DIR and texts: "one" "another"')
    if settings.serve:
        from tasks import serving  # needs what comes with an extra

        serving.serve_export(settings, export_dir, settings.model_name, door)
    elif settings.input_file:
        answer_file(
            export_dir,
            settings.input_file,
            settings.input_format,
            settings.output_file,
            settings.signature,
            settings.lines_per_shard,
            settings.beam_option if settings.engine == "beam" else None,
        )
    else:
        answer_texts(export_dir, texts, settings.signature, settings.json)


def answer_texts(
    export_dir: str,
    texts: Sequence[str],
    signature: str = tf_serving.DEFAULT_SIGNATURE,
    as_json: bool = False,
) -> None:
    """Prints the answer to each text, or texts separated by tabs."""
    model = predictor.Predictor(export_dir, signature)
    rows = model.predict(*answers.texts(texts))
    for line in answers.lines(texts, rows, as_json=as_json):
        print(line)


class FileSettings(NamedTuple):
    """All that decides about the answers to a file; for another process as well."""

    export: str  # directory of a version
    signature: str
    input_file: str
    input_format: str


def answer_file(
    export_dir: str,
    input_file: str,
    input_format: str = "jsonl",
    output_file: str | None = None,
    signature: str = tf_serving.DEFAULT_SIGNATURE,
    lines_per_shard: int = 0,
    beam_options: Sequence[str] | None = None,
) -> None:
    """Writes an answer for each line of a file, or of each shard of its lines.

    Shards are computed by a runner of Beam if there are `beam_options`.
    """
    file_patterns.refuse_overwriting(output_file, input_file=input_file)
    if lines_per_shard:
        each = engines.open_beam(beam_options) if beam_options is not None else None
        export = predictor.find_version(export_dir)
        settings = FileSettings(export, signature, input_file, input_format)
        rule = settings._replace(export=remote_files.digest_of_tree(export))
        job = shards.begin(
            input_file, str(output_file), lines_per_shard, rule._asdict()
        )
        _open_once.cache_clear()  # another model may lie in the same place
        job.run(write_shard, settings, "answering", each)
        print(f"answered: {job.pattern}")
        return
    if output_file:
        atomic_files.check_writable(output_file)
    read = _reader(input_file, has_arrays=input_format == "jsonl")
    model = predictor.Predictor(export_dir, signature)
    with (
        _writing(output_file) as write,
        progress.Progress("answering: lines") as report,
    ):
        is_shown = bool(output_file) or not sys.stdout.isatty()
        show = functools.partial(report, total=None) if is_shown else bool
        count = _answer_lines(model, read, input_format, write, show)
    if output_file:
        print(f"answered: {output_file}, {wording.count(count, 'line')}")


def write_shard(
    settings: FileSettings, shard: shards.Shard, report: Callable[[int], object] = bool
) -> int:
    """Writes the answers to a shard, in any process; as Job.run has it."""
    with _writing(shard.path, shared=True) as write:
        return _answer_lines(
            _open_once(settings.export, settings.signature),
            _reader(settings.input_file, shard.part),
            settings.input_format,
            write,
            report,
            first_line=shard.part.first_line,
            pause_seconds=None,
        )


_open_once = functools.lru_cache(maxsize=1)(predictor.Predictor)


def _reader(
    path: str, part: text_rows.Part = text_rows.WHOLE, *, has_arrays: bool = False
) -> Callable[[], bytes]:
    """A function that returns the next bytes, as soon as there are some.

    With `has_arrays` a file that is a JSON array gives its items, one a line.
    """
    if path == "-":
        if sys.stdin.isatty():
            progress.print_line("one example a line; Ctrl-D ends")
        return lambda: os.read(sys.stdin.fileno(), _BLOCK_BYTES)
    blocks = text_rows.blocks(path, part)
    first = next(blocks, b"")  # an error of opening comes before long work
    if has_arrays and first.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        first = b"".join([first, *blocks])
        with contextlib.suppress(ValueError):  # a wrong line has an answer, too
            items = json_files.parse(first)
            first = b"".join(json.dumps(item).encode() + b"\n" for item in items)
    return functools.partial(next, itertools.chain([first], blocks), b"")


@contextlib.contextmanager
def _writing(path: str | None, shared: bool = False) -> Iterator[Callable[[str], Any]]:
    """Yields a function that writes a text, to standard output if there is no path."""

    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()  # a person or a pipe waits for it

    if not path:
        yield write
        return
    with (
        atomic_files.replacing(path, shared=shared) as (temporary,),
        tf.io.gfile.GFile(temporary, "w") as file,
    ):
        file.write("")  # makes it, where there is no line
        yield file.write


def _answer_lines(model, read, input_format, write, report, **options):
    """Writes the answers; returns how many lines there were."""
    rows = streaming.answers(
        streaming.split(read),
        model.text_names,
        model.predict,
        input_format=input_format,
        **options,
    )
    count, failed = 0, []
    for count, row in enumerate(rows, start=1):
        write(json.dumps(row, ensure_ascii=False) + "\n")
        if "error" in row:
            failed.append(row)
        report(count)
    if failed:
        progress.print_line(
            f"lines with an error: {len(failed)}; line {failed[0]['line']}: "
            f"{failed[0]['error']}"
        )
    return count
