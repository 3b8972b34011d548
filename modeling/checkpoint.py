"""Reading and writing weights: Google's checkpoints and Hugging Face's directories.

The file that resumes a run, the file that initialises the next one and the file that
google-research/bert reads are one format: a TensorFlow name-based checkpoint.
"""

import dataclasses
import json
import os
import re

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

from modeling import names

WEIGHTS_FILE = "model.safetensors"
# Training state beside the weights (contract of the original's optimizer).
_STATE = re.compile(r"(^|/)(adam_m|adam_v)(_\d+)?$|^global_step$|^_CHECKPOINTABLE")
# Buffers and tied copies in Hugging Face's files that hold no weights of their own.
_BUFFERS = re.compile(r"position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")
_OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


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


class _HuggingFaceFile:
    """model.safetensors; names completed and modernised."""

    def __init__(self, directory):
        self.source = os.path.join(directory, WEIGHTS_FILE)
        try:
            self._file = safetensors.safe_open(self.source, framework="numpy")
        except (OSError, safetensors.SafetensorError) as error:
            raise ValueError(
                f"{self.source}: not a readable safetensors file ({error}); "
                "copy it again"
            ) from error
        self._stored = {self._modern(key): key for key in list(self._file.keys())}
        self.shapes = {
            key: tuple(self._file.get_slice(stored).get_shape())
            for key, stored in self._stored.items()
        }

    @staticmethod
    def _modern(key):
        for old, new in _OLD_NORMS.items():
            key = key.replace(old, new)
        # A bare encoder (BertModel, sentence-transformers) leaves out the prefix.
        bare = key.startswith(("embeddings.", "encoder.", "pooler."))
        return f"bert.{key}" if bare else key

    def global_step(self):
        return None

    def read(self, name):
        value = self._file.get_tensor(self._stored[name.hugging_face])
        return value.T if name.is_transposed else value

    def key(self, name):
        return name.hugging_face

    def is_state(self, key):
        return bool(_BUFFERS.search(key))


def find(path):
    """The checkpoint that a user's path means.

    Args:
        path: a prefix (`bert_model.ckpt`, also with .index behind it), a directory of
            Google's zip, of a run, or of Hugging Face.

    Returns:
        A prefix, or the directory that holds model.safetensors.

    Raises:
        ValueError: nothing is there; says what was looked for.
    """
    path = os.fspath(path)
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)
    if tf.io.gfile.exists(prefix + ".index"):
        return prefix
    if os.path.basename(path) == WEIGHTS_FILE:
        path = os.path.dirname(path) or "."
    if not tf.io.gfile.isdir(path):
        raise ValueError(
            f"{path}: no checkpoint there (looked for {prefix}.index and for a "
            "directory); give a prefix such as DIR/bert_model.ckpt or its directory"
        )
    if latest := tf.train.latest_checkpoint(path):
        return latest
    if tf.io.gfile.exists(os.path.join(path, WEIGHTS_FILE)):
        return path
    pattern = os.path.join(path, "*.index")
    prefixes = [p[: -len(".index")] for p in tf.io.gfile.glob(pattern)]
    if len(prefixes) == 1:
        return prefixes[0]
    raise ValueError(
        f"{path}: {_what_is_wrong_with(path, prefixes)}; give a prefix such as "
        "DIR/bert_model.ckpt, or a directory with one checkpoint or model.safetensors"
    )


def _what_is_wrong_with(path, prefixes):
    if prefixes:
        return f"{len(prefixes)} checkpoints there ({', '.join(sorted(prefixes))})"
    present = set(tf.io.gfile.listdir(path))
    if present & {"pytorch_model.bin", "tf_model.h5", "model.safetensors.index.json"}:
        return "weights only in a format that is not read (save as model.safetensors)"
    return "no checkpoint in this directory"


def open_file(path):
    """Opens the checkpoint at `path` (as in `find`) for reading."""
    found = find(path)
    return _HuggingFaceFile(found) if tf.io.gfile.isdir(found) else _GoogleFile(found)


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
    file = open_file(path)
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
    if report.missing:
        raise ValueError(
            f"{report.source}: lacks {', '.join(report.missing)}, so it is not a "
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


def save_hugging_face(directory, model, *, vocab_file=None, labels=()):
    """Writes config.json, model.safetensors and vocab.txt for Hugging Face.

    Args:
        directory: made if absent.
        model: a built model of modeling.models.
        vocab_file: copied to vocab.txt, if given.
        labels: names of the classes, in the order of their ids.
    """
    os.makedirs(directory, exist_ok=True)
    tensors = {}
    for name, variable in named_variables(model):
        value = np.asarray(variable)
        tensors[name.hugging_face] = np.ascontiguousarray(
            value.T if name.is_transposed else value
        )
    safetensors.numpy.save_file(
        tensors, os.path.join(directory, WEIGHTS_FILE), metadata={"format": "pt"}
    )
    raw = model.config.to_hugging_face()
    if labels:
        raw["id2label"] = {str(i): label for i, label in enumerate(labels)}
        raw["label2id"] = {label: i for i, label in enumerate(labels)}
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(raw, indent=2, sort_keys=True) + "\n")
    if vocab_file:
        tf.io.gfile.copy(vocab_file, os.path.join(directory, "vocab.txt"), True)
