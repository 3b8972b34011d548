r"""Asks an exported model, in this process; stays loaded between questions.

Each argument is an example; a tab separates the texts of a pair:

    python -m serving.predictor --export_dir=output/demo/export "a text" "another"
    python -m serving.predictor --export_dir=output/squad/export $'question\tcontext'
    python -m serving.predictor --export_dir=output/tags/export "a sentence"
"""

import os
import sys
from collections.abc import Sequence
from typing import Any


def _define_flags():
    from absl import flags

    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string(
            "export_dir", None, "A version, or the directory of versions."
        )
        flags.DEFINE_string(
            "signature",
            "serving_default",
            "Which of the model's signatures to ask; one that takes texts.",
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object a line.")


if __name__ == "__main__":  # before the imports that take seconds
    from training.flags import command_line

    command_line.parse(_define_flags, serves=True)

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)

from contract import atomic_files, file_names
from serving import answers, export


class Predictor:
    """A SavedModel, or the newest of a directory of versions; loaded once.

    Attributes:
        labels: a classifier's labels, in the order of its probabilities, or a tagger's
            tags, in the order of their ids; else empty.
        text_names: what an example consists of, such as question and context.

    Raises:
        ValueError: there is no SavedModel, or no such signature that takes texts.
    """

    def __init__(self, export_dir: str, signature: str = "serving_default"):
        if version := export.latest_version(export_dir):
            export_dir = os.path.join(export_dir, str(version))
        if not tf.io.gfile.exists(os.path.join(export_dir, "saved_model.pb")):
            raise ValueError(
                f"--export_dir={export_dir}: no SavedModel there; train with "
                "--do_export first, and give OUTPUT_DIR/export"
            )
        self.export_dir = export_dir
        signatures = tf.saved_model.load(export_dir).signatures
        self._signature = signatures.get(signature)
        if self._signature is None or not _takes_texts(self._signature):
            known = [name for name in signatures if _takes_texts(signatures[name])]
            raise ValueError(
                f"--signature={signature}: {export_dir} has no such signature of "
                f"texts; choose among {', '.join(sorted(known))}"
            )
        self.labels = _read_labels(os.path.join(export_dir, export.EXTRA_DIR))
        names = self._signature.structured_input_signature[1]
        self.text_names = answers.text_names(names)

    def predict(self, *texts: Sequence[str]) -> list[dict[str, Any]]:
        """Classifies texts, tags or fills in their words, or answers questions.

        Takes one list of strings, or two of equal length: pairs, or questions and
        contexts. Returns a dict for each example. From a classifier: `label` and
        `probabilities` by name, or `score`. From a question answerer: `answer`, "" for
        none, `start` and `end`, its characters in the context, `score`, `probability`
        and, where a question may have no answer, `null_odds`. From a tagger, lists by
        word: `words`, `tags`, `probabilities`, and `starts` and `ends`, characters in
        the text. From `fill_mask`: `masks`, a dict for each [MASK] of the text: its
        `start`, and lists of `tokens`, `probabilities` and `filled` texts. From
        `embed`: `vector`; from `embed_tokens`: `tokens` and `vectors`.

        Raises:
            ValueError: the model takes another number of texts, or lengths differ.
        """
        answers.check(texts, self.text_names, self.export_dir)
        columns = (tf.constant(column, tf.string) for column in texts)
        arguments = dict(zip(self.text_names, columns, strict=True))
        outputs = {
            name: value.numpy() for name, value in self._signature(**arguments).items()
        }
        return answers.rows(outputs, self.labels, knows_labels=True)


def _takes_texts(signature):
    """Whether all it takes is texts [B]."""
    inputs = signature.structured_input_signature[1].values()
    return all(spec.dtype == tf.string and spec.shape.rank == 1 for spec in inputs)


def _read_labels(directory):
    """The names in label_map.json; none where the model has no such names."""
    path = os.path.join(directory, file_names.LABEL_MAP)
    found = atomic_files.read_json(path) if tf.io.gfile.exists(path) else {}
    return answers.label_names(found)


def _main(argv, export_dir, as_json, signature="serving_default"):
    """Prints the predictions for the texts argv[1:]; returns an exit code."""
    try:
        if not export_dir or not argv[1:]:
            raise ValueError('give --export_dir=DIR and texts: "one" "another"')
        found = Predictor(export_dir, signature).predict(*answers.texts(argv[1:]))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in answers.lines(argv[1:], found, as_json=as_json):
        print(line)
    return 0


if __name__ == "__main__":
    from absl.flags import FLAGS

    command_line.run(
        lambda argv: _main(argv, FLAGS.export_dir, FLAGS.json, FLAGS.signature)
    )
