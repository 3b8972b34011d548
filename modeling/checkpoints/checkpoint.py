"""Reading and writing weights: Google's checkpoints, Hugging Face's directories, Keras.

The file that resumes a run, the file that initialises the next one and the file that
google-research/bert reads are one format: a TensorFlow name-based checkpoint.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import file_names, wording
from modeling.checkpoints import hugging_face, keras_files, names

# Training state beside the weights (contract of the original's optimizer).
_STATE = re.compile(r"(^|/)(adam_m|adam_v)(_\d+)?$|^global_step$|^_CHECKPOINTABLE")
_POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
_HUGGING_FACE_FILES = (hugging_face.WEIGHTS_FILE, hugging_face.INDEX_FILE)
_UNREAD_FILES = {
    "flax_model.msgpack",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
}


# Names in a message; a network has hundreds.


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every name, after `load`.

    Attributes:
        source: the file that was read.
        assigned: Google names of the variables that got a value.
        missing: variables of the model that keep their random values.
        unused: names in the file that the model has no variable for.
        global_step: the file's training step, or None.
    """

    source: str
    assigned: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    global_step: int | None

    def __str__(self) -> str:
        total = len(self.assigned) + len(self.missing)
        parts = [f"{self.source}: {len(self.assigned)} of {total} variables assigned"]
        if self.missing:
            parts.append(f"newly initialised: {', '.join(self.missing)}")
        if self.unused:
            parts.append(f"in the file but not used: {', '.join(self.unused)}")
        return "; ".join(parts)


class _GoogleFile:
    """A TensorFlow checkpoint; names as in the file."""

    def __init__(self, prefix):
        self.source = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
            self.shapes = {
                name: tuple(shape)
                for name, shape in self._reader.get_variable_to_shape_map().items()
            }
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise self._unreadable(error) from error

    def global_step(self):
        has_step = "global_step" in self.shapes
        return int(self._reader.get_tensor("global_step")) if has_step else None

    def read(self, name):
        try:
            return self._reader.get_tensor(name.google)
        except (tf.errors.OpError, IndexError) as error:  # too short: an IndexError
            raise self._unreadable(error) from error

    def _unreadable(self, error):
        return ValueError(
            f"{self.source}: not a readable TensorFlow checkpoint "
            f"({str(error).splitlines()[0]}); copy the .index and .data files again"
        )

    def key(self, name):
        return name.google

    def is_state(self, key):
        return bool(_STATE.search(key))


class _KerasFile:
    """A .keras or .weights.h5 file; names are the paths of its model's variables."""

    def __init__(self, path, config):
        self.source = path
        rows = named_variables(keras_files.load(path, config))
        self._values = {name.path: variable for name, variable in rows}
        self.shapes = {key: tuple(value.shape) for key, value in self._values.items()}

    def global_step(self):
        return None

    def read(self, name):
        return np.asarray(self._values[name.path])

    def key(self, name):
        return name.path

    def is_state(self, key):
        return False


def find(path):
    """The checkpoint that a user's path means.

    Args:
        path: a prefix (`bert_model.ckpt`, also with .index behind it), a .keras or
            .weights.h5 file, or the directory of a release, of a run, of Hugging Face
            or of such a file.

    Returns:
        A prefix, a .keras or .weights.h5 file, or the directory that holds
        model.safetensors or its shards.

    Raises:
        ValueError: nothing is there; says what was looked for.
    """
    path = os.fspath(path)
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)
    if tf.io.gfile.exists(prefix + ".index"):
        return prefix
    if keras_files.is_keras(path) and tf.io.gfile.exists(path):
        return path
    if os.path.basename(path) in _HUGGING_FACE_FILES:
        path = os.path.dirname(path) or "."
    if not tf.io.gfile.isdir(path):
        raise ValueError(
            f"{path}: no checkpoint there (looked for {prefix}.index and for a "
            "directory); give a prefix such as DIR/bert_model.ckpt or its directory"
        )
    if latest := tf.train.latest_checkpoint(path):
        return latest
    if any(tf.io.gfile.exists(os.path.join(path, n)) for n in _HUGGING_FACE_FILES):
        return path
    pattern = os.path.join(path, "*.index")
    prefixes = [p[: -len(".index")] for p in tf.io.gfile.glob(pattern)]
    if len(prefixes) == 1:
        return prefixes[0]
    for name in () if prefixes else (keras_files.MODEL_FILE, keras_files.WEIGHTS_FILE):
        if tf.io.gfile.exists(os.path.join(path, name)):
            return os.path.join(path, name)
    raise ValueError(
        f"{path}: {_what_is_wrong_with(path, prefixes)}; give a prefix such as "
        "DIR/bert_model.ckpt, or a directory with one checkpoint or model.safetensors"
    )


def _what_is_wrong_with(path, prefixes):
    if prefixes:
        return (
            f"{len(prefixes)} checkpoints there ({wording.first_of(sorted(prefixes))})"
        )
    present = set(tf.io.gfile.listdir(path))
    if unread := sorted(present & _UNREAD_FILES):
        return (
            f"{unread[0]} is not read (save as model.safetensors first, where PyTorch "
            "and transformers are installed: from_pretrained, then save_pretrained)"
        )
    return "no checkpoint in this directory"


def open_file(path, config=None):
    """Opens a checkpoint for reading.

    Args:
        path: as in `find`.
        config: config.BertConfig, which only a .weights.h5 needs.

    Returns:
        Has source, global_step() and shapes, {key: shape}; `key` gives the key of a
        names.Name, `read` its array as a model holds it, and `is_state` says whether
        a key belongs to no model.

    Raises:
        ValueError: nothing there can be read.
    """
    found = find(path)
    if tf.io.gfile.isdir(found):
        return hugging_face.WeightsFile(found)
    if keras_files.is_keras(found):
        return _KerasFile(found, config)
    return _GoogleFile(found)


def load(model, path):
    """Assigns every variable of `model` that the checkpoint has.

    run_classifier.py's init_from_checkpoint, which is silent about what it leaves out.

    Args:
        model: a built model of modeling.models.
        path: as in `find`.

    Returns:
        A LoadReport that accounts for every name.

    Raises:
        ValueError: no checkpoint, no variable in common, or a shape that differs;
            names the file, the variable and both shapes.
    """
    file = open_file(path, model.config)
    rows = named_variables(model)
    assigned, missing, used = [], [], set()
    for name, variable in rows:
        key = file.key(name)
        if key not in file.shapes:
            missing.append(name.google)
            continue
        used.add(key)
        if _is_other_head(name, variable, file):
            missing.append(name.google)
            continue
        value = file.read(name)
        if value.shape != tuple(variable.shape):
            raise ValueError(_shape_error(file.source, key, value, variable))
        variable.assign(value.astype(np.float32, copy=False))
        assigned.append(name.google)
    unused = sorted(k for k in file.shapes.keys() - used if not file.is_state(k))
    if not assigned:
        raise ValueError(
            f"{file.source}: none of its {len(file.shapes)} variables belongs to a "
            f"BERT model (the first is {min(file.shapes, default='-')!r}); choose "
            "another checkpoint"
        )
    return LoadReport(
        file.source,
        tuple(assigned),
        tuple(missing),
        tuple(unused),
        file.global_step(),
    )


def _is_other_head(name, variable, file):
    """A classifier of another task: other labels, so not these weights."""
    return (
        names.is_head(name.path)
        and name.google in ("output_weights", "output_bias")
        and file.shapes[file.key(name)] != tuple(variable.shape)
    )


def _shape_error(source, key, value, variable):
    return (
        f"{source}: {key} is {list(value.shape)}, the model wants "
        f"{list(variable.shape)}; this checkpoint belongs to another config file"
        + (" (vocab_size differs)" if key.endswith("word_embeddings") else "")
    )


def load_trained(model, path):
    """`load` for a model that will not be trained: the head must be in the file too.

    Raises:
        ValueError: there is no path, or the head is missing; as in `load` otherwise.
    """
    if not path:
        raise ValueError(
            "there is no trained model in --output_dir; add --do_train, or set "
            "--init_checkpoint to the checkpoint of a run"
        )
    report = load(model, path)
    # Hugging Face's files of spans and tags have no pooler.
    unread = () if model.reads_pooler else _POOLER
    if needed := [name for name in report.missing if name not in unread]:
        raise ValueError(
            f"{report.source}: lacks {wording.first_of(needed)}, so it is not a "
            "trained model of this task and number of labels; add --do_train, or set "
            "--init_checkpoint to the checkpoint of a run"
        )
    return report


def named_variables(model):
    """Pairs of names.Name and variable, for each weight of a built model."""
    variables = model.trainable_variables + [
        v for v in model.non_trainable_variables if "fit_seed" not in v.path
    ]
    paths = [names.relative_path(variable) for variable in variables]
    return list(zip(names.table(paths), variables, strict=True))


def google_variables(model):
    """{Google name: variable}, for saving, slots included under `<name>/adam_m`."""
    return {name.google: variable for name, variable in named_variables(model)}


class Store(NamedTuple):
    """How a run saves a model and loads it again.

    Attributes:
        variables: {Google name: variable}.
        write: as write_google.
        load: gives the model the weights of a checkpoint, by its prefix.
    """

    variables: dict[str, Any]
    write: Callable[[Any, Any], None]
    load: Callable[[Any], Any]


def store(model):
    """The Store of a built model."""
    return Store(google_variables(model), write_google, functools.partial(load, model))


def write_google(prefix, tensors):
    """Writes a TensorFlow name-based checkpoint; complete under its name or absent.

    Args:
        prefix: path without the .index and .data-00000-of-00001 that follow.
        tensors: {name: array or variable}, stored with their dtypes.

    Raises:
        tf.errors.OpError: the directory cannot be written, the disk is full.
    """
    prefix = os.fspath(prefix)
    keys = sorted(tensors)
    values = [tf.convert_to_tensor(tensors[key]) for key in keys]
    temporary = f"{prefix}.incomplete"
    tf.raw_ops.SaveV2(
        prefix=temporary,
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        tensors=values,
    )
    # The index goes last: readers look for it, so a checkpoint without one is absent.
    for suffix in (".data-00000-of-00001", ".index"):
        tf.io.gfile.rename(temporary + suffix, prefix + suffix, overwrite=True)


def save_google(prefix, model, global_step=None):
    """Writes the weights of `model` under Google's names, for the original to read."""
    tensors = dict(google_variables(model))
    if global_step is not None:
        tensors["global_step"] = np.int64(global_step)
    write_google(prefix, tensors)


def save_hugging_face(
    directory, model, *, vocab_file=None, labels=(), problem_type="", left_out=()
):
    """Writes config.json, model.safetensors and vocab.txt for Hugging Face.

    Args:
        directory: made if absent.
        model: a built model of modeling.models.
        vocab_file: copied to vocab.txt, if given.
        labels: names of the classes, in the order of their ids.
        problem_type: "classification", "multi_label" or "regression", if given.
        left_out: Google names of variables that are not to be written.
    """
    rows = [
        (name, np.asarray(variable))
        for name, variable in named_variables(model)
        if name.google not in left_out
    ]
    hugging_face.write(directory, model.config, rows, labels, problem_type)
    if vocab_file:
        tf.io.gfile.copy(vocab_file, os.path.join(directory, file_names.VOCAB), True)
