r"""Asks an exported model, in this process; stays loaded between questions.

Each argument is an example; a tab separates the texts of a pair:

    python -m serving.predictor --export_dir=output/demo/export "a text" "another"
    python -m serving.predictor --export_dir=output/squad/export $'question\tcontext'
    python -m serving.predictor --export_dir=output/tags/export "a sentence"
"""

import json
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
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object a line.")


if __name__ == "__main__":  # before the imports that take seconds
    from training.flags import command_line

    command_line.parse(_define_flags, serves=True)

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)

from contract import atomic_files, file_names
from serving import export, litert

_ANSWER_OUTPUTS = ("answer", "start", "end", "score", "probability", "null_odds")
_WORD_OUTPUTS = ("words", "tags", "probabilities", "starts", "ends")  # [B, W] each
_OUTSIDE = "O"  # the tag of a word that is nothing in particular


class Predictor:
    """A SavedModel or LiteRT export, or the newest version of them; loaded once.

    Attributes:
        labels: a classifier's labels, in the order of its probabilities, or a tagger's
            tags, in the order of their ids; else empty.
        text_names: what an example consists of, such as question and context.

    Raises:
        ValueError: there is no export, or LiteRT is not installed and needed.
    """

    def __init__(self, export_dir: str):
        if version := export.latest_version(export_dir):
            export_dir = os.path.join(export_dir, str(version))
        self.export_dir = export_dir
        if litert.is_in(export_dir):
            self._signature = litert.TextModel(export_dir)
        elif tf.io.gfile.exists(os.path.join(export_dir, "saved_model.pb")):
            loaded = tf.saved_model.load(export_dir)
            self._signature = loaded.signatures["serving_default"]
        else:
            raise ValueError(
                f"--export_dir={export_dir}: no SavedModel there; train with "
                "--do_export first, and give OUTPUT_DIR/export or export_litert"
            )
        self.labels = _read_labels(os.path.join(export_dir, export.EXTRA_DIR))
        names = self._signature.structured_input_signature[1]
        self.text_names = sorted(names, key=lambda name: (name != "question", name))

    def predict(self, *texts: Sequence[str]) -> list[dict[str, Any]]:
        """Classifies texts, tags their words, or answers questions.

        Takes one list of strings, or two of equal length: pairs, or questions and
        contexts. Returns a dict for each example. From a classifier: `label` and
        `probabilities` by name, or `score`. From a question answerer: `answer`, "" for
        none, `start` and `end`, its characters in the context, `score`, `probability`
        and, where a question may have no answer, `null_odds`. From a tagger, lists by
        word: `words`, `tags`, `probabilities`, and `starts` and `ends`, characters in
        the text.

        Raises:
            ValueError: the model takes another number of texts, or lengths differ.
        """
        if len(texts) != len(self.text_names):
            raise ValueError(
                f"{self.export_dir} takes {', '.join(self.text_names)} for each "
                f"example, {len(texts)} given; separate the texts of a pair by a tab"
            )
        if len({len(column) for column in texts}) > 1:
            raise ValueError(
                f"{' and '.join(str(len(column)) for column in texts)} texts given for "
                f"{', '.join(self.text_names)}; give as many of each"
            )
        columns = (tf.constant(column, tf.string) for column in texts)
        arguments = dict(zip(self.text_names, columns, strict=True))
        results = {k: v.numpy() for k, v in self._signature(**arguments).items()}
        if "tags" in results:
            return _tagged(results)
        return _answers(results) if "answer" in results else self._labelled(results)

    def _labelled(self, results):
        answers = []
        for i, row in enumerate(results["probabilities"].tolist()):
            if not self.labels:
                answers.append({"score": row[0]})
                continue
            answer = {"probabilities": dict(zip(self.labels, row, strict=True))}
            if "label" in results:
                answer = {"label": results["label"][i].decode(), **answer}
            answers.append(answer)
        return answers


def _read_labels(directory):
    """The names in label_map.json; none where the model has no such names."""
    path = os.path.join(directory, file_names.LABEL_MAP)
    found = atomic_files.read_json(path) if tf.io.gfile.exists(path) else {}
    return [name for key, name in found.items() if key.isdigit()]


def _answers(results):
    columns = {k: results[k].tolist() for k in _ANSWER_OUTPUTS if k in results}
    columns["answer"] = [answer.decode() for answer in columns["answer"]]
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _tagged(results):
    """A dict for each row of a tagger's outputs, without the padding."""
    answers = []
    for i, words in enumerate(results["words"]):
        count = sum(word != b"" for word in words)
        row = {name: results[name][i, :count].tolist() for name in _WORD_OUTPUTS}
        for name in ("words", "tags"):
            row[name] = [value.decode() for value in row[name]]
        answers.append(row)
    return answers


def _texts(arguments):
    """The texts of the examples as columns: one, or two where tabs separate pairs."""
    rows = [argument.split("\t") for argument in arguments]
    for argument, row in zip(arguments, rows, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{argument!r:.80} has {len(row)} texts, the first argument has "
                f"{len(rows[0])}; separate the texts of a pair by one tab"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _main(argv, export_dir, as_json):
    """Prints the predictions for the texts argv[1:]; returns an exit code."""
    try:
        if not export_dir or not argv[1:]:
            raise ValueError('give --export_dir=DIR and texts: "one" "another"')
        answers = Predictor(export_dir).predict(*_texts(argv[1:]))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for argument, answer in zip(argv[1:], answers, strict=True):
        name, text = "text", argument
        if "answer" in answer:  # its context may be long
            name, text = "question", argument.split("\t")[0]
        row = {name: text, **answer}
        print(json.dumps(row, ensure_ascii=False) if as_json else _line(text, answer))
    return 0


def _line(text, answer):
    if "tags" in answer:
        pairs = zip(answer["words"], answer["tags"], strict=True)
        found = [f"{word}/{tag}" for word, tag in pairs if tag != _OUTSIDE]
        return f"{text}\n    {' '.join(found) or '(no tags)'}"
    if "answer" in answer:
        found = " ".join(answer["answer"].split()) or "(no answer)"
        return f"{text}\n    {found}  {answer['probability']:.3f}"
    if "score" in answer:
        return f"{answer['score']:.3f}  {text}"
    ranked = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {value:.3f}" for name, value in ranked[:3])
    return f"{text}\n    {shown}"


if __name__ == "__main__":
    from absl.flags import FLAGS

    command_line.run(lambda argv: _main(argv, FLAGS.export_dir, FLAGS.json))
