"""What SavedModels that take raw text share, and the classifier's; for TF Serving."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from contract import atomic_files
from contract import features as feature_names
from serving.protocol import server_config as server_configs
from serving.protocol import warmup

# TF Serving watches a directory for versions: subdirectories named by numbers.
_VERSION = re.compile(r"^\d+/?$")
EXTRA_DIR = "assets.extra"  # which TF Serving leaves alone


class ServedModel(tf.Module):
    """Signatures over the variables of one model: tf.functions with input specs."""

    def __init__(self, variables: Iterable[tf.Variable], **functions):
        super().__init__()
        self._tracked = list(variables)
        self.functions = functions

    def signatures(self):
        """What a server offers, by name."""
        return {
            name: function.get_concrete_function()
            for name, function in self.functions.items()
        }


class TextClassifier(ServedModel):
    """Signatures of a classifier: `serving_default` takes text, `ids` features.

    Args:
        encode: text_a [B], text_b [B] -> {input_ids, input_mask, segment_ids}, as in
            training, so that served tokens equal trained tokens.
        forward: features -> probabilities float32 [B, C].
        label_names: C names for `label`; () where an example has no single label.
        num_texts: 1, or 2 for pairs.
    """

    def __init__(
        self,
        encode: Callable,
        forward: Callable,
        variables: Iterable[tf.Variable],
        label_names: Sequence[str],
        num_texts: int,
    ):
        labels = tf.constant(label_names, tf.string) if label_names else None

        def classify_features(features):
            results = {"probabilities": forward(features)}  # [B, C]
            if labels is not None:
                best = tf.argmax(results["probabilities"], axis=-1)
                results["label"] = tf.gather(labels, best)  # [B]
            return results

        def classify_text(*texts):
            return classify_features(encode(*texts))

        names = ("text",) if num_texts == 1 else ("text_a", "text_b")
        super().__init__(
            variables,
            serving_default=text_function(classify_text, *names),
            ids=ids_function(classify_features),
        )


def text_function(function: Callable, *names: str):
    """A tf.function of texts, string [B] each, under these names."""
    specs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
    return tf.function(function, input_signature=specs)


def ids_function(function: Callable):
    """A tf.function of the features of an encoder, int32 [B, S] each."""
    names = feature_names.ENCODER_INPUTS

    def of_features(*arrays):
        return function(dict(zip(names, arrays, strict=True)))

    specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]
    return tf.function(of_features, input_signature=specs)


def save(
    module: ServedModel,
    export_dir: str,
    files: Mapping[str, str],
    server_config: bool = False,
) -> str:
    """Writes the next version, complete or absent; returns its directory.

    `export_dir` holds versions 1, 2, ... (TF Serving's --model_base_path); `files` are
    {name: text} of what clients may want beside the model, and `server_config` asks for
    what a server wants beside `export_dir`. OSError says that the version cannot be
    written.
    """
    target = os.path.join(export_dir, str(latest_version(export_dir) + 1))
    temporary = os.path.join(export_dir, "incomplete")
    _remove(temporary)  # of a process that was killed
    try:
        tf.saved_model.save(module, temporary, signatures=module.signatures())
        extra = os.path.join(temporary, EXTRA_DIR)
        tf.io.gfile.makedirs(extra)
        for name, text in files.items():
            with tf.io.gfile.GFile(os.path.join(extra, name), "w") as file:
                file.write(text)
        warmup.write(os.path.join(extra, warmup.FILE_NAME), module.signatures())
        tf.io.gfile.rename(temporary, target)
    except tf.errors.OpError as error:
        raise atomic_files.unwritable(target, error) from error
    finally:
        _remove(temporary)
    if server_config:
        server_configs.write(export_dir)
    return target


def _remove(directory: str) -> None:
    if tf.io.gfile.isdir(directory):
        tf.io.gfile.rmtree(directory)


def latest_version(export_dir: str) -> int:
    """The largest version below a directory, or 0."""
    if not tf.io.gfile.isdir(export_dir):
        return 0
    names = tf.io.gfile.listdir(export_dir)
    return max((int(n.rstrip("/")) for n in names if _VERSION.match(n)), default=0)
