"""The three modes of `python -m serving.predictor`: texts, a file, a server."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf
from absl import flags

from cli import serve_flags
from contract import atomic_files, errors, tf_serving, wording
from serving import answers, predictor, streaming
from terminal import progress

FLAGS = flags.FLAGS
_BLOCK_BYTES = 2**16  # read at once


def run(argv: Sequence[str]) -> None:
    """Runs the mode that the flags choose, on the texts argv[1:]."""
    with errors.explained():
        if argv[1:] and (FLAGS.serve or FLAGS.input_file):
            raise errors.InputError(
                f"{argv[1]!r:.80} stands beside --serve or --input_file; give one"
            )
        if not FLAGS.export_dir or not (FLAGS.serve or FLAGS.input_file or argv[1:]):
            raise errors.InputError('give --export_dir=DIR and texts: "one" "another"')
        if FLAGS.serve:
            command = serve_flags.import_command()
            options = command.read_flags()
            command.serve_export(FLAGS.export_dir, FLAGS.model_name, options)
        elif FLAGS.input_file:
            answer_file(
                FLAGS.export_dir,
                FLAGS.input_file,
                FLAGS.input_format,
                FLAGS.output_file,
                FLAGS.signature,
            )
        else:
            answer_texts(FLAGS.export_dir, argv[1:], FLAGS.signature, FLAGS.json)


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


def answer_file(
    export_dir: str,
    input_file: str,
    input_format: str = "jsonl",
    output_file: str | None = None,
    signature: str = tf_serving.DEFAULT_SIGNATURE,
) -> None:
    """Writes an answer for each line of a file."""
    if output_file:
        atomic_files.check_writable(output_file)
    with _reading(input_file) as read:
        model = predictor.Predictor(export_dir, signature)
        with _writing(output_file) as write:
            shows_rate = bool(output_file) or not sys.stdout.isatty()
            count = _answer_lines(model, read, input_format, write, shows_rate)
    if output_file:
        print(f"answered: {output_file}, {wording.count(count, 'line')}")


@contextlib.contextmanager
def _reading(path: str) -> Iterator[Callable[[], bytes]]:
    """Yields a function that returns the next bytes, as soon as there are some."""
    if path == "-":
        if sys.stdin.isatty():
            progress.print_line("one example a line; Ctrl-D ends")
        yield lambda: os.read(sys.stdin.fileno(), _BLOCK_BYTES)
        return
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            file.size()  # opens it
            yield lambda: file.read(_BLOCK_BYTES)
    except tf.errors.OpError as error:
        raise errors.InputError(
            f"--input_file={path}: cannot be read ({atomic_files.reason(error)}); name "
            "a file, or - for standard input"
        ) from error


@contextlib.contextmanager
def _writing(path: str | None) -> Iterator[Callable[[str], object]]:
    """Yields a function that writes a text, to standard output if there is no path."""

    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()  # a person or a pipe waits for it

    if not path:
        yield write
        return
    with (
        atomic_files.replacing(path) as (temporary,),
        tf.io.gfile.GFile(temporary, "w") as file,
    ):
        yield file.write


def _answer_lines(model, read, input_format, write, shows_rate):
    """Writes the answers; returns how many lines there were."""
    lines = streaming.split(read)
    rows = streaming.answers(
        lines, model.text_names, model.predict, input_format=input_format
    )
    count, failed = 0, []
    with progress.Progress("answering: lines") as report:
        for count, row in enumerate(rows, start=1):
            write(json.dumps(row, ensure_ascii=False) + "\n")
            if "error" in row:
                failed.append(row)
            if shows_rate:
                report(count, None)
    if failed:
        progress.print_line(
            f"lines with an error: {len(failed)}; line {failed[0]['line']}: "
            f"{failed[0]['error']}"
        )
    return count
