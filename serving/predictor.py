"""Asks an exported classifier, in this process; stays loaded between questions.

python -m serving.predictor --export_dir=output/demo/export "some text" "another"
"""

import json
import os
import sys

if __name__ == "__main__":  # TensorFlow reads this when it is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)

from serving import export


class Predictor:
    """A SavedModel of run_classifier.py, loaded once and asked many times."""

    def __init__(self, export_dir):
        """Loads a version.

        Args:
            export_dir: one version, or the directory of versions, whose newest is
                taken.

        Raises:
            ValueError: there is no SavedModel.
        """
        if version := export.latest_version(export_dir):
            export_dir = os.path.join(export_dir, str(version))
        if not tf.io.gfile.exists(os.path.join(export_dir, "saved_model.pb")):
            raise ValueError(
                f"--export_dir={export_dir}: no SavedModel there; train with "
                "--do_export first, and give OUTPUT_DIR/export"
            )
        self.export_dir = export_dir
        self._signature = tf.saved_model.load(export_dir).signatures["serving_default"]
        path = os.path.join(export_dir, "assets.extra", export.LABELS_FILE)
        with tf.io.gfile.GFile(path) as file:
            self.labels = [
                name for key, name in json.loads(file.read()).items() if key.isdigit()
            ]
        self.text_names = sorted(self._signature.structured_input_signature[1])

    def predict(self, *texts):
        """Labels some texts.

        Args:
            texts: one list of strings, or two of equal length for pairs.

        Returns:
            A dict a text: `label` and `probabilities` by name, or `score`.

        Raises:
            ValueError: the model takes another number of texts.
        """
        if len(texts) != len(self.text_names):
            raise ValueError(
                f"{self.export_dir} takes {', '.join(self.text_names)} for each "
                f"example, {len(texts)} given; separate the texts of a pair by a tab"
            )
        arguments = dict(zip(self.text_names, map(tf.constant, texts), strict=True))
        results = {k: v.numpy() for k, v in self._signature(**arguments).items()}
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


def _texts(arguments):
    """The texts of each example as columns: one, or two where a tab separates a pair.

    Raises:
        ValueError: none are given, or some are pairs and some are not.
    """
    rows = [argument.split("\t") for argument in arguments]
    for argument, row in zip(arguments, rows, strict=True):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{argument!r:.80} has {len(row)} texts, the first argument has "
                f"{len(rows[0])}; separate the texts of a pair by one tab"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _main(argv, export_dir, as_json):
    """Prints what the model says of the texts argv[1:]; returns an exit code."""
    try:
        if not export_dir or not argv[1:]:
            raise ValueError('give --export_dir=DIR and texts: "one" "another"')
        answers = Predictor(export_dir).predict(*_texts(argv[1:]))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for text, answer in zip(argv[1:], answers, strict=True):
        row = {"text": text, **answer}
        print(json.dumps(row, ensure_ascii=False) if as_json else _line(text, answer))
    return 0


def _line(text, answer):
    if "score" in answer:
        return f"{answer['score']:.3f}  {text}"
    ranked = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {value:.3f}" for name, value in ranked[:3])
    return f"{text}\n    {shown}"


if __name__ == "__main__":
    from absl import app, flags

    flags.DEFINE_string("export_dir", None, "A version, or the directory of versions.")
    flags.DEFINE_bool("json", False, "Print one JSON object a line.")
    app.run(lambda argv: _main(argv, flags.FLAGS.export_dir, flags.FLAGS.json))
