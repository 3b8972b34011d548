"""A trained classifier as a SavedModel that takes raw text; for TF Serving."""

import os
import re

import tensorflow as tf

# TF Serving watches a directory for versions: subdirectories named by numbers.
_VERSION = re.compile(r"^\d+/?$")
LABELS_FILE = "label_map.json"


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
        text = [
            tf.TensorSpec([None], tf.string, name=name)
            for name in (("text",) if num_texts == 1 else ("text_a", "text_b"))
        ]
        ids = [
            tf.TensorSpec([None, None], tf.int32, name=name)
            for name in ("input_ids", "input_mask", "segment_ids")
        ]
        self.classify = tf.function(self._classify_text, input_signature=text)
        self.classify_ids = tf.function(self._classify_ids, input_signature=ids)

    def _classify_text(self, *texts):
        return self._results(self._encode(*texts))

    def _classify_ids(self, input_ids, input_mask, segment_ids):
        return self._results(
            {
                "input_ids": input_ids,
                "input_mask": input_mask,
                "segment_ids": segment_ids,
            }
        )

    def _results(self, features):
        probabilities = self._forward(features)  # [B, C]
        results = {"probabilities": probabilities}
        if self._labels is not None:
            best = tf.argmax(probabilities, axis=-1)
            results["label"] = tf.gather(self._labels, best)  # [B]
        return results


def save(module, export_dir, label_map):
    """Writes the next version below `export_dir`, complete or absent.

    Args:
        module: a TextClassifier.
        export_dir: holds versions 1, 2, ...; TF Serving's --model_base_path.
        label_map: text of label_map.json, put beside the model for clients.

    Returns:
        The directory of the new version.
    """
    target = os.path.join(export_dir, str(latest_version(export_dir) + 1))
    temporary = os.path.join(export_dir, "incomplete")
    if tf.io.gfile.isdir(temporary):
        tf.io.gfile.rmtree(temporary)
    signatures = {
        "serving_default": module.classify.get_concrete_function(),
        "ids": module.classify_ids.get_concrete_function(),
    }
    tf.saved_model.save(module, temporary, signatures=signatures)
    extra = os.path.join(temporary, "assets.extra")
    tf.io.gfile.makedirs(extra)
    with tf.io.gfile.GFile(os.path.join(extra, LABELS_FILE), "w") as file:
        file.write(label_map)
    tf.io.gfile.rename(temporary, target)
    return target


def latest_version(export_dir):
    """The largest version below a directory, 0 where there is none."""
    if not tf.io.gfile.isdir(export_dir):
        return 0
    names = tf.io.gfile.listdir(export_dir)
    return max((int(n.rstrip("/")) for n in names if _VERSION.match(n)), default=0)
