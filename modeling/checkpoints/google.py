"""TensorFlow's checkpoints, with the names of the originals.

One format resumes a run, initialises the next, and is read by google-research/bert.
Those of bilm-tf, with ELMo's names, are read and written as well.
"""

import contextlib
import math
import os
import re

from contract import atomic_files, remote_files
from contract.tensorflow_later import tf
from modeling.checkpoints import names, weights_file
from modeling.networks import catalogue

MODEL_PREFIX = "bert_model.ckpt"  # of a release
INDEX_ENDING = ".index"
_DATA_ENDING = ".data-00000-of-00001"
# Training state beside the weights and the slots of optimizers.
_STATE = re.compile(
    r"^(global_step|train_perplexity)$|^carried/|^_CHECKPOINTABLE|/lora_(A|B|base)\b"
)


class GoogleFile(weights_file.WeightsFile):
    """An open TensorFlow checkpoint."""

    format = "google"

    def __init__(self, prefix):
        self.source = prefix
        remote_files.refuse_patterns(prefix, "checkpoint")
        with self._readable():
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
        self._stored = {catalogue.modern_key(name): name for name in shapes}
        self.shapes = {key: tuple(shapes[name]) for key, name in self._stored.items()}
        self.states = weights_file.matches(_STATE, self.shapes) | _slots(self.shapes)
        directory, name = os.path.split(prefix)
        data = remote_files.matching(directory, f"{name}.data-*")
        size = sum(tf.io.gfile.stat(path).length for path in data)
        weights_file.check_numbers(prefix, self.shapes.values(), size)
        if math.prod(shapes.get("global_step", (0,))) == 1:
            with self._readable():
                self.global_step = int(self._reader.get_tensor("global_step"))

    def read(self, name):
        return self._tensor(self._stored[name.google])

    def _tensor(self, key):
        with self._readable():
            return self._reader.get_tensor(key)

    def _readable(self):
        return weights_file.readable(
            self.source,
            "TensorFlow checkpoint",
            # An IndexError, where the data are too short.
            (tf.errors.OpError, ValueError, TypeError, RuntimeError, IndexError),
            "copy the .index and .data files again",
        )


def _slots(shapes):
    """{key: slot} of optimizers: below the name of a weight, and of its shape."""
    pairs = {key: key.rpartition("/") for key in shapes}
    return {
        key: slot
        for key, (weight, _, slot) in pairs.items()
        if shapes.get(weight) == shapes[key]
    }


def strip_ending(path):
    """The prefix of a checkpoint, from the path of one of its files."""
    return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)


def find_prefixes(directory):
    """The prefixes of all checkpoints in a directory."""
    paths = remote_files.matching(directory, f"*{INDEX_ENDING}")
    return sorted(path.removesuffix(INDEX_ENDING) for path in filter(is_file, paths))


def is_file(path):
    """Whether a file is there, not a directory of its name."""
    return remote_files.exists(path) and not remote_files.is_dir(path)


def variables(model):
    """{name: variable} of a built model."""
    return {name.google: variable for name, variable in names.named_variables(model)}


def save(prefix, model, left_out=()):
    """Writes the weights of a built model, except the names in `left_out`."""
    tensors = variables(model)
    write(prefix, {name: tensors[name] for name in tensors if name not in left_out})


def write(prefix, tensors):
    """Writes {name: array or variable} as a TensorFlow checkpoint, complete or absent.

    Raises:
        tf.errors.OpError: the directory cannot be written, the disk is full.
    """
    prefix = os.fspath(prefix)
    remote_files.refuse_patterns(prefix, "checkpoint")
    temporary = prefix + atomic_files.SUFFIX
    keys = sorted(tensors)
    try:
        tf.raw_ops.SaveV2(
            prefix=temporary,
            tensor_names=keys,
            shape_and_slices=[""] * len(keys),
            tensors=[tf.convert_to_tensor(tensors[key]) for key in keys],
        )
    except tf.errors.OpError:
        directory, name = os.path.split(temporary)
        with contextlib.suppress(tf.errors.OpError):  # parts that may fill the disk
            for left in remote_files.matching(directory, f"{name}.*"):
                tf.io.gfile.remove(left)
        raise
    # The index goes last: readers look for it, so a checkpoint without one is absent.
    for ending in (_DATA_ENDING, INDEX_ENDING):
        tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
