"""Checkpoints of any format: finding, opening and loading one."""

import atexit
import dataclasses
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from absl import logging

from contract import errors, file_names, wording
from modeling.checkpoints import (
    comparison,
    google,
    hugging_face,
    keras_files,
    listings,
    names,
)
from modeling.elmo import files as elmo_weights
from modeling.gpt import parameters
from terminal import progress

_POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
_HUGGING_FACE_FILES = (hugging_face.WEIGHTS_FILE, hugging_face.INDEX_FILE)
# Endings of files that are not read, and what to do about them. Pickled files run code
# when they are opened.
_FROM_HUGGING_FACE = (
    "save as model.safetensors first, where PyTorch and transformers are installed: "
    "from_pretrained, then save_pretrained"
)
_FROM_PICKLE = (
    "it is pickled, so opening it can run code; open it where you trust it, and save "
    "its arrays as params_0.npy beside a params_shapes.json: docs/left_to_right.md"
)
_UNREAD = {
    ("flax_model.msgpack", ".bin", ".bin.index.json", "tf_model.h5"): (
        _FROM_HUGGING_FACE
    ),
    (".pt", ".pth"): _FROM_HUGGING_FACE,
    (".weights.h5",): (
        "it holds weights alone, and not the network and head that they are of; call "
        "load_weights of such a model in Python, and save it as model.keras"
    ),
    (".jl", ".joblib", ".pkl", ".pickle"): _FROM_PICKLE,
}


class WeightsFile(Protocol):
    """An open checkpoint.

    Attributes:
        format: google, hugging_face, hdf5 or keras; see `names.Name.key`.
        states: the keys that hold no weights of a model: moments, buffers, copies.
    """

    format: str
    source: str
    states: Set[str]
    global_step: int | None

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """{key: shape as stored}."""

    def sizes(self) -> Mapping[str, Any]:
        """{key of the config: value}, as far as the file says; {} if of no network."""

    def read(self, name: names.Name) -> np.ndarray:
        """The array of a variable as a model holds it, in the dtype stored."""


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every name, after `load`.

    `assigned` and `missing` are Google names of the model's variables, with a value and
    without one; `unused` are names in the file.
    """

    source: str
    assigned: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    global_step: int | None

    def __str__(self) -> str:
        total = len(self.assigned) + len(self.missing)
        phrases = [f"{self.source}: {len(self.assigned)} of {total} variables assigned"]
        if self.missing:
            phrases.append(f"newly initialised: {listings.of_keys(self.missing)}")
        if self.unused:
            listed = listings.of_keys(self.unused)
            phrases.append(f"in the file but not used: {listed}")
        return "; ".join(phrases)


def find(path):
    """The checkpoint that a user's path means.

    `path` is a prefix (`bert_model.ckpt`, also followed by .index), a .keras or .hdf5
    file, or the directory of a release, of a run, of Hugging Face or of such a file.
    The result is a prefix, one of these files, or the directory that holds
    model.safetensors or its shards, or the params_shapes.json of GPT.

    Raises:
        ValueError: nothing is there; says what was looked for.
    """
    path = os.fspath(path)
    prefix = google.prefix_of(path)
    if tf.io.gfile.exists(prefix + google.INDEX_ENDING):
        return prefix
    is_one = keras_files.is_keras(path) or elmo_weights.is_elmo(path)
    if is_one and _is_file(path):
        return path
    if os.path.basename(path) in _HUGGING_FACE_FILES:
        path = os.path.dirname(path) or "."
    if _is_shapes(path) and tf.io.gfile.exists(path):
        return path
    if tf.io.gfile.exists(path) and (why := _why_unread([path])):
        raise errors.InputError(why)
    if not tf.io.gfile.isdir(path):
        raise errors.InputError(
            f"{path}: no checkpoint there (looked for {prefix}.index and for a "
            "directory); give a prefix such as DIR/bert_model.ckpt or its directory"
        )
    if latest := tf.train.latest_checkpoint(path):
        return latest
    if _present(path, _HUGGING_FACE_FILES):
        return path
    prefixes = google.prefixes_in(path)
    if len(prefixes) == 1:
        return prefixes[0]
    if not prefixes and _present(path, [file_names.PARAMETER_SHAPES]):
        return os.path.join(path, file_names.PARAMETER_SHAPES)
    if not prefixes and _present(path, [keras_files.MODEL_FILE]):
        return os.path.join(path, keras_files.MODEL_FILE)
    found = prefixes + elmo_weights.find_in(path)
    if len(found) == 1:
        return found[0]
    if found:
        wrong = f"{len(found)} checkpoints there ({wording.first_of(found)})"
    elif why := _why_unread(sorted(tf.io.gfile.listdir(path))):
        wrong = why
    else:
        wrong = "no checkpoint in this directory"
    raise errors.InputError(
        f"{path}: {wrong}; give a prefix such as DIR/bert_model.ckpt, or a directory "
        "with one checkpoint or model.safetensors"
    )


def _is_shapes(path):
    return os.path.basename(path) == file_names.PARAMETER_SHAPES


def _why_unread(files):
    """Why the first of these files that is not read is not, and what to do; or None."""
    for endings, remedy in _UNREAD.items():
        for file in files:
            if file.endswith(endings):
                return f"{file} is not read ({remedy})"
    return None


def _present(directory, files):
    return [file for file in files if _is_file(os.path.join(directory, file))]


def _is_file(path):
    return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


def open_file(path, config=None) -> WeightsFile:
    """Opens the checkpoint that `find` finds.

    The config says whether an ELMo reads words.
    """
    found = find(path)
    if "://" in found and not tf.io.gfile.exists(found + google.INDEX_ENDING):
        found = _local_copy(found)
    if tf.io.gfile.isdir(found):
        return hugging_face.HuggingFaceFile(found)
    if keras_files.is_keras(found):
        return keras_files.KerasFile(found)
    if elmo_weights.is_elmo(found):
        return elmo_weights.ElmoWeights(
            found, getattr(config, "reads_characters", True)
        )
    if _is_shapes(found):
        return parameters.ParametersFile(found)
    return google.GoogleFile(found)


@functools.cache
def _local_copy(path):
    """Copies remote weights, for libraries that read local files alone; until exit."""
    directory = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    pattern = os.path.basename(path)
    if directory == path:
        pattern = "*.safetensors*"
    elif _is_shapes(path):
        pattern = "params_*"
    elif elmo_weights.is_elmo(path):  # beside which vectors of words may lie
        pattern = f"*{elmo_weights.ENDING}"
    local = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, local, ignore_errors=True)
    for file in tf.io.gfile.glob(os.path.join(directory, pattern)):
        tf.io.gfile.copy(file, os.path.join(local, os.path.basename(file)))
    return local if directory == path else os.path.join(local, os.path.basename(path))


def check(config, path, *, allows_missing=None):
    """Compares a config with the checkpoint at `path`; see comparison.check."""
    comparison.check(config, open_file(path, config), allows_missing=allows_missing)


def load(model, path, *, allows_missing=None):
    """Assigns a built model what the checkpoint at `path` has; see `assign`.

    Raises:
        ValueError: as in comparison.check and `assign`.
    """
    file = open_file(path, model.config)
    comparison.check(model.config, file, allows_missing=allows_missing)
    return assign(model, file)


def assign(model, file: WeightsFile) -> LoadReport:
    """Assigns every variable of a built model that an open checkpoint has.

    run_classifier.py's init_from_checkpoint, which is silent about what it leaves out.

    Raises:
        ValueError: shapes differ, or a weight is not finite; names the variable.
    """
    assigned, missing, used = [], [], set()
    rows = names.named_variables(model)
    for name, variable in progress.track(rows, len(rows), "loading weights: variable"):
        key, shape = name.key(file.format), tuple(variable.shape)
        if key in file.shapes:
            used.add(key)
        # The head of another task has other labels, so it is not this one.
        is_head = name.google in ("output_weights", "output_bias")
        is_head = is_head or name.path.startswith(names.FEATURES)
        if key not in file.shapes or (is_head and file.shapes[key] != shape):
            missing.append(name.google)
            continue
        value = file.read(name).astype(np.float32, copy=False)
        if name.path in names.TOKEN_TABLES:
            value = _with_new_tokens(value, variable, model.config)
        if value.shape != shape:
            raise errors.InputError(
                f"{file.source}: {key} is {list(value.shape)}, the model wants "
                f"{list(shape)}; this checkpoint belongs to another config file"
            )
        if not np.isfinite(value).all():
            raise _not_finite(file.source, key, value)
        variable.assign(value)
        assigned.append(name.google)
    unused = sorted(file.shapes.keys() - used - file.states)
    _warn_of_deeper(file, unused, model.config.num_hidden_layers)
    return LoadReport(
        file.source, tuple(assigned), tuple(missing), tuple(unused), file.global_step
    )


def _with_new_tokens(value, variable, config):
    """A table of tokens, and those rows of the variable that the file lacks.

    Special tokens come after the others of a table, and before its positions.
    """
    more = variable.shape[0] - len(value)
    if not 0 < more <= names.NEW_TOKENS:
        return value
    known = config.vocab_size - more
    new = np.asarray(variable)[known : config.vocab_size]
    return np.concatenate([value[:known], new, value[known:]])


def _not_finite(source, key, value):
    count = int(np.count_nonzero(~np.isfinite(value)))
    return errors.InputError(
        f"{source}: {key} has {count} of {value.size} numbers that are nan or infinite "
        "in float32; copy the file again, or take an earlier checkpoint"
    )


def _warn_of_deeper(file, unused, num_layers):
    deeper = [key for key in unused if (names.layer_of(key) or 0) >= num_layers]
    if deeper:
        logging.warning(
            "%s: has %d layers, but the config says num_hidden_layers=%d; in the file "
            "but not used: %s",
            *(
                file.source,
                file.sizes()[names.DEPTH],
                num_layers,
                listings.of_keys(deeper),
            ),
        )


def load_trained(model, path, *, allows_missing=None):
    """`load` for a model that will not be trained: the head must be in the file too.

    Raises:
        ValueError: there is no path, or the head is missing; as in `load` otherwise.
    """
    if not path:
        raise errors.InputError(
            "there is no trained model in --output_dir; add --do_train, or set "
            "--init_checkpoint to the checkpoint of a run"
        )
    report = load(model, path, allows_missing=allows_missing)
    # Hugging Face's files of spans and tags have no pooler.
    unread = () if model.uses_pooler else _POOLER
    if needed := [name for name in report.missing if name not in unread]:
        raise errors.InputError(
            f"{report.source}: lacks {wording.first_of(needed)}, so it is not a "
            "trained model of this task and number of labels; add --do_train, or set "
            "--init_checkpoint to the checkpoint of a run"
        )
    return report


class Store(NamedTuple):
    """How a run saves a model, {Google name: variable}, and loads it from a prefix."""

    variables: dict[str, Any]
    write: Callable[[Any, Any], None]
    load: Callable[[Any], Any]


def store(model):
    """The Store of a built model."""
    return Store(google.variables(model), google.write, functools.partial(load, model))
