"""Google's checkpoints: TensorFlow's files, with the variable names of the original.

One format resumes a run, initialises the next, and is read by google-research/bert.
Those of bilm-tf, with ELMo's names, are read and written as well.
"""

import os
import re

import tensorflow as tf

from contract import atomic_files, errors
from modeling.checkpoints import names
from modeling.elmo import names as elmo_names

MODEL_PREFIX = "bert_model.ckpt"  # of a release
INDEX_ENDING = ".index"
_DATA_ENDING = ".data-00000-of-00001"
# Training state beside the weights (contract of the originals' optimizers).
_STATE = re.compile(
    r"(^|/)(adam_m|adam_v|Adagrad)(_\d+)?$|^(global_step|train_perplexity)$"
    r"|^carried/|^_CHECKPOINTABLE"
)


class GoogleFile:
    """An open TensorFlow checkpoint; a checkpoint.WeightsFile."""

    format = "google"

    def __init__(self, prefix):
        self.source = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise self._unreadable(error) from error
        self._stored = {elmo_names.numbered(name): name for name in shapes}
        self.shapes = {key: tuple(shapes[name]) for key, name in self._stored.items()}
        self.states = frozenset(filter(_STATE.search, self.shapes))
        has_step = "global_step" in shapes
        self.global_step = int(self._tensor("global_step")) if has_step else None

    def sizes(self):
        """Those of the config that the shapes say."""
        return names.sizes(self.shapes, self.format)

    def read(self, name):
        """The array of a names.Name."""
        return self._tensor(self._stored[name.google])

    def _tensor(self, key):
        try:
            return self._reader.get_tensor(key)
        except (tf.errors.OpError, IndexError) as error:  # too short: an IndexError
            raise self._unreadable(error) from error

    def _unreadable(self, error):
        return errors.InputError(
            f"{self.source}: not a readable TensorFlow checkpoint "
            f"({str(error).splitlines()[0]}); copy the .index and .data files again"
        )


def prefix_of(path):
    """The prefix of a checkpoint, from the path of one of its files."""
    return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)


def prefixes_in(directory):
    """The prefixes of all checkpoints in a directory."""
    found = tf.io.gfile.glob(os.path.join(directory, f"*{INDEX_ENDING}"))
    return sorted(path.removesuffix(INDEX_ENDING) for path in found)


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
    temporary = prefix + atomic_files.SUFFIX
    keys = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=temporary,
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        tensors=[tf.convert_to_tensor(tensors[key]) for key in keys],
    )
    # The index goes last: readers look for it, so a checkpoint without one is absent.
    for ending in (_DATA_ENDING, INDEX_ENDING):
        tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
