"""Keras' own files of a model of modeling.models: .keras and .weights.h5.

A .keras file holds config, head and weights. A .weights.h5 holds weights alone; the
config lies beside it, and the head is found from the names of its groups.
"""

import functools
import operator
import os
import shutil
import zipfile
from collections.abc import Set

import h5py
import keras
import numpy as np

from contract import json_text
from modeling import pretrainers
from modeling.checkpoints.formats import elmo_names, names
from modeling.configs import config_files, keras_configs, readings

MODEL_FILE = "model.keras"
WEIGHTS_FILE = "model.weights.h5"
MODEL_ENDING = ".keras"
ENDINGS = (MODEL_ENDING, ".weights.h5")
_HEAD_BYTES = 4096  # at most, of an array in an .h5 file and the groups that hold it
# Keras names a group after the attribute or, where it meets the list of layers first,
# after the class.
_GROUPS = {
    "classifier": ("classifier", "classifier_head"),
    "tagger": ("tagger", "tagger_head"),
    "span": ("span", "span_head"),
    "pretraining": ("masked_lm", "masked_lm_head"),
    "language_model": ("tied_head",),
}
# The network that has so many tables, and these in their order.
_TABLES = {
    1: ("gpt", "word_and_position_embeddings"),
    2: ("gpt", "word_embeddings", "position_embeddings"),
    3: ("bert", *(f"{kind}_embeddings" for kind in ("word", "token_type", "position"))),
}
_NEVER_ALONE = ("elmo", "encoder_decoder")  # without their config
_BLOCKS = "blocks"  # the group of a network's layers


class KerasFile:
    """An open file; a checkpoint.WeightsFile. Keys are paths of variables here."""

    format = "keras"
    global_step: int | None = None
    states: Set[str] = frozenset()

    def __init__(self, path, config):
        is_whole = path.endswith(MODEL_ENDING)
        if not is_whole and getattr(config, "network", None) in _NEVER_ALONE:
            raise ValueError(
                f"{path}: the weights of an {config.kind} alone are not read from "
                f"Keras' files; save the model under a name that ends in {MODEL_ENDING}"
            )
        self.source = path
        self._config = config

    @functools.cached_property
    def _values(self):
        rows = names.named_variables(load(self.source, self._config))
        return {name.path: np.asarray(variable) for name, variable in rows}

    @property
    def shapes(self):
        """Of all variables; the first time it reads them."""
        return {key: value.shape for key, value in self._values.items()}

    def sizes(self):
        """Those of the config, from the header of the file."""
        if self.source.endswith(MODEL_ENDING):
            config = stored_config(self.source)
            of_kind = names.SIZES.get(config.kind, elmo_names.SIZES)
            keys = (*of_kind, names.DEPTH, names.KIND)
            return {key: operator.attrgetter(key)(config) for key in keys}
        return _read(self.source, lambda: _sizes(self.source))

    def read(self, name):
        """The array of a names.Name."""
        return self._values[name.path]


def is_keras(path):
    """Whether a path has the ending of one of these files."""
    return os.fspath(path).endswith(ENDINGS)


def load(path, config=None):
    """The built model in a .keras file, or in a .weights.h5, which needs the config.

    Raises:
        ValueError: the file cannot be read, or holds another kind of model, or its
            weights do not fit the config.
    """
    if path.endswith(MODEL_ENDING):
        stored_config(path)
        # Not compiled: what trained it is no part of the model.
        return _read(path, lambda: keras.models.load_model(path, compile=False))
    if config is None:
        raise ValueError(
            f"{path}: the file holds weights alone; put its bert_config.json beside "
            "it, or give --bert_config_file"
        )
    head, num_classes, depth = _read(path, lambda: _shape(path))
    if depth != config.num_hidden_layers:
        raise ValueError(
            f"{path}: holds {depth} layers of {config.kind}, but its config says "
            f"num_hidden_layers={config.num_hidden_layers}; give the config file of "
            "this checkpoint"
        )
    is_of_task = head in pretrainers.TASK_HEADS
    settings = {"reading": readings.of_weights(path)} if is_of_task else {}
    model = pretrainers.build(head, num_classes, config, **settings)
    _read(path, lambda: model.load_weights(path))
    return model


def save(model, path):
    """Writes a model under a name that ends in .keras or .weights.h5.

    Raises:
        OSError: there is no room for it.
    """
    if path.endswith(MODEL_ENDING):
        model.save(path)
        return
    _check_room(path, model)
    model.save_weights(path)


def _check_room(path, model):
    # On a full disk HDF5 fails again with every object it lets go of, and at the end of
    # the process with a segmentation fault.
    arrays = [np.asarray(variable) for variable in model.variables]
    needed = sum(array.nbytes + _HEAD_BYTES for array in arrays)
    if (free := shutil.disk_usage(os.path.dirname(path) or ".").free) < needed:
        raise OSError(f"{free} bytes are free, {needed} are needed")


def stored_config(path):
    """The config in a .keras file; a ValueError if the model is not ours."""

    def read():
        with zipfile.ZipFile(path) as archive:
            raw = json_text.parse(archive.read("config.json"))
        return raw["registered_name"] or raw["class_name"], raw["config"]

    name, raw = _read(path, read)
    known = {
        f"{keras_configs.PACKAGE}>{kind.__name__}"
        for kind in pretrainers.HEADS.values()
    }
    if name not in known:
        raise ValueError(
            f"{path}: holds a Keras model {name}, which is none of modeling/models.py "
            f"({', '.join(sorted(known))})"
        )
    return _read(path, lambda: config_files.of_values(raw["config"]))


def _shape(path):
    """The head, C or None, and L of a .weights.h5, from the names of its groups."""
    with h5py.File(path) as file:
        found = []
        file.visit(found.append)
        depth = sum(name.split("/")[-2:-1] == [_BLOCKS] for name in found)
        has_order = any("output_projection" in name.split("/")[:2] for name in found)
        for head, groups in _GROUPS.items():
            for name in found:
                if name.split("/")[-1] in groups:
                    bias = f"{name}/logits/vars/1"
                    width = file[bias].shape[0] if bias in file else None
                    if head == "pretraining" and not has_order:
                        head = "language_model"
                    return head, width, depth
    return "none", None, depth


def _sizes(path):
    """The sizes in a .weights.h5: of its tables, its first layer, and how many."""
    tables, inner = {}, None
    with h5py.File(path) as file:

        def visit(name, item):
            nonlocal inner
            parts = name.split("/")
            if shape := getattr(item, "shape", None):
                if parts[-3:-1] == ["embeddings", "vars"]:
                    tables[int(parts[-1])] = shape
                if parts[-3:] == ["ffn_in", "vars", "1"]:
                    inner = shape

        file.visititems(visit)
    network, *of_tables = _TABLES.get(len(tables), ("bert",))
    shapes = {
        f"{network}/embeddings/{table}": tables[i] for i, table in enumerate(of_tables)
    }
    shapes[f"{network}/block_0/ffn_in/bias"] = inner
    return {**names.sizes(shapes, "keras"), names.DEPTH: _shape(path)[2]}


def _read(path, read):
    """Calls `read`; what it raises becomes an error of one line."""
    try:
        return read()
    except (
        OSError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        zipfile.BadZipFile,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path}: not a readable Keras file of this model ({reason:.300}); copy it "
            "again, with the bert_config.json that it was saved with"
        ) from error
