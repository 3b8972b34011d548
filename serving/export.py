"""Trained models as SavedModels that take raw text; for TF Serving.

A tf.Module whose `signatures()` are its named functions is what `save` takes. Here is
the classifier's; `serving/question_answering.py` has that of run_squad.py, and
`serving/tagging.py` that of run_tagger.py.
"""

import os
import re

import tensorflow as tf

# TF Serving watches a directory for versions: subdirectories named by numbers.
_VERSION = re.compile(r"^\d+/?$")
# The one directory of a version that TF Serving leaves alone.
EXTRA_DIR = "assets.extra"


class TextClassifier(tf.Module):
    """Two signatures over one model: `serving_default` takes text, `ids` features."""

    def __init__(self, encode, forward, variables, label_names, num_texts):
        """Keeps the parts.

        Args:
            encode: text_a [B], text_b [B] -> {input_ids, input_mask, segment_ids}, as
                in training, so that served tokens equal trained tokens.
            forward: features -> probabilities float32 [B, C].
            variables: of the model.
            label_names: C names for `label`; () where there is no one label.
            num_texts: 1, or 2 for pairs.
        """
        super().__init__()
        self._tracked = list(variables)
        self._encode = encode
        self._forward = forward
        self._labels = tf.constant(label_names, tf.string) if label_names else None
        names = ("text",) if num_texts == 1 else ("text_a", "text_b")
        self.classify = text_function(self._classify_text, *names)
        self.classify_ids = ids_function(self._results)

    def signatures(self):
        """What a server offers, by name."""
        return {
            "serving_default": self.classify.get_concrete_function(),
            "ids": self.classify_ids.get_concrete_function(),
        }

    def _classify_text(self, *texts):
        return self._results(self._encode(*texts))

    def _results(self, features):
        probabilities = self._forward(features)  # [B, C]
        results = {"probabilities": probabilities}
        if self._labels is not None:
            best = tf.argmax(probabilities, axis=-1)
            results["label"] = tf.gather(self._labels, best)  # [B]
        return results


def text_function(function, *names):
    """A tf.function of texts, string [B] each, under these names."""
    specs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
    return tf.function(function, input_signature=specs)


def ids_function(function):
    """A tf.function of what an encoder takes, int32 [B, S] each.

    Args:
        function: of the dict {input_ids, input_mask, segment_ids}.
    """

    def of_features(input_ids, input_mask, segment_ids):
        return function(
            {
                "input_ids": input_ids,
                "input_mask": input_mask,
                "segment_ids": segment_ids,
            }
        )

    names = ("input_ids", "input_mask", "segment_ids")
    specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]
    return tf.function(of_features, input_signature=specs)


def save(module, export_dir, files):
    """Writes the next version below `export_dir`, complete or absent.

    Args:
        module: a tf.Module, whose `signatures()` gives concrete functions by name.
        export_dir: holds versions 1, 2, ...; TF Serving's --model_base_path.
        files: {name: text} of what clients may want beside the model.

    Returns:
        The directory of the new version.
    """
    target = os.path.join(export_dir, str(latest_version(export_dir) + 1))
    temporary = os.path.join(export_dir, "incomplete")
    if tf.io.gfile.isdir(temporary):
        tf.io.gfile.rmtree(temporary)
    tf.saved_model.save(module, temporary, signatures=module.signatures())
    extra = os.path.join(temporary, EXTRA_DIR)
    tf.io.gfile.makedirs(extra)
    for name, text in files.items():
        with tf.io.gfile.GFile(os.path.join(extra, name), "w") as file:
            file.write(text)
    tf.io.gfile.rename(temporary, target)
    return target


def latest_version(export_dir):
    """The largest version below a directory, 0 where there is none."""
    if not tf.io.gfile.isdir(export_dir):
        return 0
    names = tf.io.gfile.listdir(export_dir)
    return max((int(n.rstrip("/")) for n in names if _VERSION.match(n)), default=0)
