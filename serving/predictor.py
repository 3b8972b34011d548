r"""Asks an exported model, in this process; stays loaded between questions.

Each argument is an example; a tab separates the texts of a pair:

    python -m serving.predictor --export_dir=output/demo/export "a text" "another"
    python -m serving.predictor --export_dir=output/squad/export $'question\tcontext'
    python -m serving.predictor --export_dir=output/tags/export "a sentence"

Or each line of a file or, with -, of standard input is one, and of the answers:

    python -m serving.predictor --input_file=texts.jsonl \
        --export_dir=output/demo/export

Or it answers over HTTP, as TensorFlow Serving's REST API does:

    python -m serving.predictor --serve \
        --export_dir=output/demo/export
"""

import contextlib
import functools
import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from contract import errors, tf_serving

_NO_EXPORT = (
    "--export_dir={}: no SavedModel there; train with --do_export first, and give "
    "OUTPUT_DIR/export or export_litert"
)


def _define_flags():
    from absl import flags

    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string(
            "export_dir", None, "A version, or the directory of versions."
        )
        flags.DEFINE_string(
            "signature",
            tf_serving.DEFAULT_SIGNATURE,
            "Which of the model's signatures to ask; one that takes texts.",
        )
    with command_line.heading("Data"):
        flags.DEFINE_string(
            "input_file", None, "A file of examples, one a line; - is standard input."
        )
        flags.DEFINE_enum(
            "input_format",
            "jsonl",
            ["jsonl", "lines"],
            "jsonl: an object with the texts by name, or the string of one text. "
            "lines: plain text, a tab between the texts of a pair.",
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object a line.")
        flags.DEFINE_string(
            "output_file",
            None,
            "Where answers to --input_file go, one JSON object a line; standard output "
            "if not given.",
        )
    with command_line.heading("What to do"):
        flags.DEFINE_bool("serve", False, "Answer over HTTP until stopped.")
        flags.DEFINE_string("host", "127.0.0.1", "With --serve: where to listen.")
        flags.DEFINE_integer(
            "port",
            tf_serving.REST_PORT,
            "With --serve: 0 takes a free one.",
            0,
            65535,
        )
        flags.DEFINE_string(
            "model_name", "default", "With --serve: the model's name in addresses."
        )
    flags.register_multi_flags_validator(
        ["serve", "input_file"],
        lambda given: not (given["serve"] and given["input_file"]),
        "give --serve or --input_file, not both",
    )
    flags.register_multi_flags_validator(
        ["output_file", "input_file"],
        lambda given: bool(given["input_file"]) or not given["output_file"],
        "--output_file is for the answers to an --input_file; give one",
    )


if __name__ == "__main__":  # before the imports that take seconds
    from cli import command_line

    def _check():
        from absl.flags import FLAGS

        path = FLAGS.export_dir or ""
        if path and "://" not in path and not os.path.isdir(path):
            raise errors.InputError(_NO_EXPORT.format(path))
        command_line.check_files("input_file")

    command_line.parse(_define_flags, _check, serves=True)
    # Keras, which TensorFlow imports, imports these if it can: a second before the
    # first answer, which does not need them.
    _NOT_NEEDED = dict.fromkeys(("matplotlib", "sklearn"))
    sys.modules |= _NOT_NEEDED  # type: ignore[arg-type]

import numpy as np
import tensorflow as tf

from contract import atomic_files, file_names, json_files, wording
from serving import answers, export, formats, streaming
from serving.protocol import http_server, servables, version_polling
from terminal import progress

if __name__ == "__main__":
    for _name in _NOT_NEEDED:
        del sys.modules[_name]

_BLOCK_BYTES = 2**16  # read at once
_SLOW_SECONDS = 2  # of loading, after which a line names what is loaded


def find_version(export_dir: str) -> str:
    """The export that a directory is, or the newest of those it holds.

    Raises:
        ValueError: there is none.
    """
    version_dir = _newest_version(export_dir) or export_dir
    if not formats.is_version(version_dir):
        raise errors.InputError(_NO_EXPORT.format(version_dir))
    return version_dir


def _newest_version(export_dir):
    """The directory of the largest number below a directory; "" where there is none."""
    versions = export.versions(export_dir)
    return versions[max(versions)] if versions else ""


class Predictor:
    """A SavedModel or LiteRT export, or the newest version of them; loaded once.

    Attributes:
        labels: a classifier's labels, in the order of its probabilities, or a tagger's
            tags, in the order of their ids; else empty.
        text_names: what an example consists of, such as question and context; of
            choices, "choices" once for each.

    Raises:
        ValueError: there is no export, or it is damaged, or has no such signature that
            takes texts, or LiteRT is needed and not installed.
    """

    def __init__(self, export_dir: str, signature: str = tf_serving.DEFAULT_SIGNATURE):
        self.export_dir = export_dir = find_version(export_dir)
        self._version = formats.open_version(export_dir)
        self._signature = signature
        known = self._version.text_signatures()
        if not known:
            raise errors.InputError(
                f"{export_dir}: takes ids alone, for its tokenizer is no operation of "
                "TensorFlow; tokenize first, and give a server's signature ids what "
                "bert.load(...).encode returns"
            )
        if signature not in known:
            raise errors.InputError(
                f"--signature={signature}: {export_dir} has no such signature of "
                f"texts; choose among {', '.join(sorted(known))}"
            )
        outputs = self._version.signatures[signature].outputs
        self.labels = _read_labels(export_dir, outputs)
        self.text_names = answers.text_names(known[signature])

    def predict(self, *texts: str | Sequence[str]) -> list[dict[str, Any]]:
        """Classifies texts, tags or fills in their words, or answers questions.

        Takes one list of strings, or several of equal length: pairs, or questions and
        contexts, or contexts and a list for each choice. A string is one text. Returns
        a dict for each example. From a classifier: `label` and `probabilities` by name,
        or `score`, or `scores` where there are several numbers without names.
        From a question answerer: `answer`, "" for none, `start` and `end`, its
        characters in the context, `score`, `probability` and, where a question may have
        no answer, `null_odds`. From a tagger, lists by word: `words`, `tags`,
        `probabilities`, and `starts` and `ends`, characters in the text. From
        `fill_mask`: `masks`, a dict for each [MASK] of the text: its `start`, and lists
        of `tokens`, `probabilities` and `filled` texts. From `embed`: `vector`; from
        `embed_tokens`: `tokens` and `vectors`. From `generate`: `generated` and
        `num_tokens`; from `write`: `written` and `num_tokens`; from `score`: `nll`,
        `perplexity`, `num_tokens`, and of each token `pieces` and `token_nll`.

        Raises:
            ValueError: the model takes another number of texts, or lengths differ, or
                the model fails.
        """
        texts = tuple([text] if isinstance(text, str) else text for text in texts)
        answers.check(texts, self.text_names, self.export_dir)
        given = answers.inputs(self.text_names, texts)
        arguments = {name: np.array(rows, object) for name, rows in given.items()}
        try:
            outputs = self._version.predict(self._signature, arguments)
        except tf.errors.OpError as error:
            raise errors.InputError(atomic_files.reason(error)) from error
        return answers.rows(outputs, self.labels, knows_labels=True)


def _read_labels(directory, outputs):
    """The names in label_map.json; none where there are none, or no such file.

    A model without the file names the likeliest class in its output `label`.
    """
    path = os.path.join(directory, tf_serving.EXTRA_DIR, file_names.LABEL_MAP)
    if not tf.io.gfile.exists(path):
        return []
    remedy = "copy it from the run's output directory, or remove it"
    try:
        names = answers.label_names(json_files.read_object(path))
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"{path}: {error}; {remedy}") from error
    if "probabilities" in outputs and (names or "label" in outputs):
        count = outputs["probabilities"].tensor_shape.dim[-1].size
        if count not in (len(names), -1):
            raise errors.InputError(
                f"{path}: names {len(names)} labels, the model has {count}; {remedy}"
            )
    return names


def _main(argv, export_dir, as_json, signature=tf_serving.DEFAULT_SIGNATURE):
    """Prints the predictions for the texts argv[1:]; returns an exit code."""
    try:
        if not export_dir or not argv[1:]:
            raise errors.InputError('give --export_dir=DIR and texts: "one" "another"')
        found = Predictor(export_dir, signature).predict(*answers.texts(argv[1:]))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in answers.lines(argv[1:], found, as_json=as_json):
        print(line)
    return 0


def _main_stream(
    export_dir,
    input_file,
    input_format="jsonl",
    output_file=None,
    signature=tf_serving.DEFAULT_SIGNATURE,
):
    """Writes an answer for each line of a file; returns an exit code."""
    try:
        if not export_dir:
            raise errors.InputError("give --export_dir=DIR")
        if output_file:
            atomic_files.check_writable(output_file)
        with _reading(input_file) as read:
            predictor = Predictor(export_dir, signature)
            with _writing(output_file) as write:
                shows_rate = bool(output_file) or not sys.stdout.isatty()
                done = _answer_lines(predictor, read, input_format, write, shows_rate)
        if output_file:
            print(f"answered: {output_file}, {wording.count(done, 'line')}")
    except BrokenPipeError:  # nobody wants the rest
        return errors.drop_output()
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


@contextlib.contextmanager
def _reading(path):
    """Yields a function that returns the next bytes, as soon as there are some."""
    if path == "-":
        if sys.stdin.isatty():
            progress.say("one example a line; Ctrl-D ends")
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
def _writing(path):
    """Yields a function that writes a text, to standard output if there is no path."""
    if path:
        with (
            atomic_files.replacing(path) as (temporary,),
            tf.io.gfile.GFile(temporary, "w") as file,
        ):
            yield file.write
        return

    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()  # a person or a pipe waits for it

    yield write


def _answer_lines(predictor, read, input_format, write, shows_rate):
    found = streaming.answers(
        streaming.split(read),
        predictor.text_names,
        predictor.predict,
        input_format=input_format,
    )
    done, wrong, first = 0, 0, None
    with progress.Progress("answering: lines") as report:
        for done, answer in enumerate(found, start=1):
            write(json.dumps(answer, ensure_ascii=False) + "\n")
            if "error" in answer:
                wrong, first = wrong + 1, first or answer
            if shows_rate:
                report(done, None)
    if first:
        progress.say(
            f"lines with an error: {wrong}; line {first['line']}: {first['error']}"
        )
    return done


def _main_serve(export_dir, host, port, model_name):
    """Answers over HTTP until stopped; returns an exit code."""

    def load(version_dir):
        text = f"loading and warming up {version_dir} ..."
        notice = threading.Timer(_SLOW_SECONDS, progress.say, (text,))
        notice.start()
        try:
            version = formats.open_version(version_dir)
            servables.warm(version, version_dir)
        finally:
            notice.cancel()
        return servables.Model(model_name, {servables.number(version_dir): version})

    def serve(version_dir):
        server.model = load(version_dir)

    try:
        if not export_dir:
            raise errors.InputError("give --export_dir=DIR")
        version_dir = find_version(export_dir)
        server = http_server.Server(load(version_dir), host, port)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"serving {version_dir} at {server.address}:predict; Ctrl-C ends")
    print(f"for example: {_example_request(server)}", flush=True)
    newest = functools.partial(_newest_version, export_dir)
    with version_polling.Poller(version_dir, newest, serve).running():
        http_server.run(server)
    print("stopped")
    return 0


def _example_request(server):
    """A command that asks the model, to be copied."""
    version = server.model.version(server.model.name)
    names = version.text_signatures().get(tf_serving.DEFAULT_SIGNATURE)
    if not names:
        return f"curl {server.address}/metadata"
    texts = {name: "a text" if n == 1 else ["a text"] * n for name, n in names.items()}
    body = json.dumps({"instances": [texts]})
    return f"curl -d '{body}' {server.address}:predict"


if __name__ == "__main__":
    from absl.flags import FLAGS

    from contract import errors

    def _run(argv):
        with errors.explained():
            if argv[1:] and (FLAGS.serve or FLAGS.input_file):
                raise errors.InputError(
                    f"{argv[1]!r:.80} stands beside --serve or --input_file; give one"
                )
            if FLAGS.serve:
                names = ("export_dir", "host", "port", "model_name")
                return _main_serve(*(FLAGS[name].value for name in names))
            if FLAGS.input_file:
                names = ("export_dir", "input_file", "input_format", "output_file")
                values = (FLAGS[name].value for name in names)
                return _main_stream(*values, signature=FLAGS.signature)
            return _main(argv, FLAGS.export_dir, FLAGS.json, FLAGS.signature)

    command_line.run(_run)
