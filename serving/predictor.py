"""A `Predictor` answers texts from an export."""

if __name__ == "__main__":  # as which it was the command before
    raise SystemExit("the command is: python run_predictor.py")


import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import (
    atomic_files,
    errors,
    file_names,
    json_files,
    remote_files,
    tf_serving,
)
from serving import answers, export, formats
from serving.protocol import servables


def find_version(export_dir: str) -> str:
    """The newest export below a directory, or the directory if it is an export.

    Raises:
        InputError: there is none.
    """
    version_dir = newest_version(export_dir) or export_dir
    if not formats.is_version(version_dir):
        raise errors.InputError(
            f"--export_dir={version_dir}: no SavedModel there; train with --do_export "
            "first, and give OUTPUT_DIR/export, export_litert or export_onnx"
        )
    return version_dir


def newest_version(export_dir: str) -> str:
    """The newest version below a directory; "" where there is none."""
    versions = export.versions(export_dir)
    return versions[max(versions)] if versions else ""


class Predictor:
    """An export of any format, or the newest version of several; loaded once.

    Attributes:
        labels: a classifier's labels, in the order of its probabilities, or a tagger's
            tags, in the order of their ids; else empty.
        text_names: the texts of an example, such as question and context; "choices"
            once for each choice.

    Raises:
        InputError: there is no export, or it is damaged, or has no such signature that
            takes texts, or its runtime is not installed.
    """

    def __init__(self, export_dir: str, signature: str = tf_serving.DEFAULT_SIGNATURE):
        export_dir = remote_files.resolve(export_dir, "export_dir")
        self.export_dir = export_dir = find_version(export_dir)
        self._version = formats.open_version(export_dir)
        self._signature = signature
        inputs = self._version.text_signatures()
        if not inputs:
            raise errors.InputError(
                f"{export_dir}: takes ids alone, for its tokenizer is no operation of "
                "TensorFlow; tokenize first, and give a server's signature ids what "
                "bert.load(...).encode returns"
            )
        if signature not in inputs:
            raise errors.InputError(
                f"--signature={signature}: {export_dir} has no such signature of "
                f"texts; choose among {', '.join(sorted(inputs))}"
            )
        self.labels = read_labels(export_dir, self._version, signature)
        self.text_names = answers.text_names(inputs[signature])

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
        `perplexity`, `num_tokens`, and lists `pieces` and `token_nll`.

        Raises:
            InputError: the model takes another number of texts, or lengths differ, or
                the model fails.
        """
        lists = answers.columns(texts, self.text_names, self.export_dir)
        if not lists[0]:
            return []
        columns = answers.inputs(self.text_names, lists)
        arguments = {name: np.array(rows, object) for name, rows in columns.items()}
        try:
            outputs = self._version.predict(self._signature, arguments)
        except tf.errors.OpError as error:
            raise errors.InputError(atomic_files.reason(error)) from error
        return answers.rows(outputs, self.labels)


def read_labels(
    directory: str,
    version: servables.Version,
    signature: str = tf_serving.DEFAULT_SIGNATURE,
) -> list[str]:
    """The names in label_map.json; [] where there is no such file.

    Raises:
        InputError: the file is damaged, or the model has not as many labels.
    """
    path = os.path.join(directory, tf_serving.EXTRA_DIR, file_names.LABEL_MAP)
    if not tf.io.gfile.exists(path):
        return []
    remedy = "copy it from the run's output directory, or remove it"
    try:
        names = answers.label_names(json_files.read_object(path))
    except (ValueError, RecursionError) as error:
        raise errors.InputError(f"{path}: {error}; {remedy}") from error
    outputs = version.signatures[signature].outputs
    if "probabilities" in outputs and (names or "label" in outputs):
        count = outputs["probabilities"].tensor_shape.dim[-1].size
        if count not in (len(names), -1):
            raise errors.InputError(
                f"{path}: names {len(names)} labels, the model has {count}; {remedy}"
            )
    return names
