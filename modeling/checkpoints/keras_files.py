"""Keras' own files, .keras, of a model of modeling.models: config, head and weights.

A .weights.h5 holds weights alone, for `load_weights` of the same model, and is not read
as a checkpoint.
"""

import functools
import operator
import os
import zipfile

import keras
import numpy as np

from contract import errors, json_files
from modeling import pretrainers
from modeling.checkpoints import names, weights_file
from modeling.configs import config_files, keras_configs

MODEL_FILE = "model.keras"
MODEL_ENDING = ".keras"
_WEIGHTS_FILE = "model.weights.h5"  # within it
_RAISED = (
    OSError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,  # RecursionError, too
    zipfile.BadZipFile,
)
_readable = functools.partial(
    weights_file.readable, kind="Keras file of this model", raised=_RAISED
)


class KerasFile(weights_file.WeightsFile):
    """An open file. Keys are paths of variables here."""

    format = "keras"

    def __init__(self, path):
        self.source = path

    @functools.cached_property
    def _values(self):
        rows = names.named_variables(load(self.source))
        return {name.path: np.asarray(variable) for name, variable in rows}

    @property
    def shapes(self):
        """{path: shape} of all variables; the first time it reads them."""
        return {key: value.shape for key, value in self._values.items()}

    def sizes(self):
        """{key of the config: value} of the config in the file."""
        config = stored_config(self.source)
        keys = *config.spec.sizes, names.DEPTH, names.KIND
        sizes = {key: operator.attrgetter(key)(config) for key in keys}
        return {**sizes, names.DEPTH: config.num_blocks}

    def read(self, name):
        return self._values[name.path]


def is_keras(path):
    """Whether a path has the ending of a .keras file."""
    return os.fspath(path).endswith(MODEL_ENDING)


def load(path):
    """The built model in a .keras file.

    Raises:
        ValueError: the file cannot be read, or holds another kind of model.
    """
    stored_config(path)
    with _readable(path):  # not compiled, for an optimizer is no part of the model
        return keras.models.load_model(path, compile=False)


def stored_config(path):
    """The config in a .keras file; a ValueError if the model is not ours."""
    with _readable(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > weights_file.MAX_RATIO * os.path.getsize(path):
                raise errors.InputError(f"it unpacks to {unpacked:,} bytes")
            size = archive.getinfo(_WEIGHTS_FILE).file_size
            raw = json_files.parse(archive.read("config.json"))
        name = raw["registered_name"] or raw["class_name"]
    classes = {kind.__name__ for kind in pretrainers.HEADS.values()}
    known = sorted(f"{keras_configs.PACKAGE}>{name}" for name in classes)
    if name not in known:
        raise errors.InputError(
            f"{path}: holds a Keras model {name}; give one of {', '.join(known)}"
        )
    with _readable(path):
        config = config_files.from_values(raw["config"]["config"])
        if (count := _count_numbers(config, raw["config"])) > size // 4:
            raise errors.InputError(
                f"its config describes {count:,} numbers, and {size:,} bytes are stored"
            )
        return config


def _count_numbers(config, values):
    """Numbers in the network, and in the layers whose sizes the arguments name."""
    width = config.hidden_size
    count = config.num_weights() + width * (values.get("num_classes") or 0)
    for projection in values.get("text_vectors", {}).get("projections", ()):
        count += width * projection["units"]
        width = projection["units"]
    return count
