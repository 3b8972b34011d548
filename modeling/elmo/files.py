"""HDF5 files of ELMo's weights, as bilm-tf releases, dumps and reads them.

Their names are `hdf5` of names.Name. Vectors of words may lie in a file of their own,
beside the other weights.
"""

import contextlib
import io
import os
from collections.abc import Set

import h5py
import numpy as np
import tensorflow as tf

from contract import atomic_files, errors
from modeling.checkpoints import names
from modeling.elmo import names as elmo_names

ENDING = ".hdf5"
WEIGHTS_FILE = "weights.hdf5"
PATTERN = f"*{WEIGHTS_FILE}"  # of releases, which put their sizes before it
WORDS_PATTERN = "*token_embeddings.hdf5"  # as bilm-tf's example calls its dump
_WORDS = "embedding"


class ElmoWeights:
    """An open file; a checkpoint.WeightsFile."""

    format = "hdf5"
    global_step: int | None = None
    states: Set[str] = frozenset()

    def __init__(self, path, reads_characters=True):
        self.source = path
        self._stored = _arrays(path)
        if not reads_characters and _WORDS not in self._stored:
            pattern = os.path.join(os.path.dirname(path), WORDS_PATTERN)
            for beside in tf.io.gfile.glob(pattern)[:1]:
                self._stored |= _arrays(beside)
        self.shapes = {key: array.shape for key, array in self._stored.items()}

    def sizes(self):
        """Those of the config that the shapes say."""
        return names.sizes(self.shapes, self.format)

    def read(self, name):
        """The array of a names.Name."""
        stored = self._stored[name.hdf5]
        if stored.dtype.kind != "f":
            raise errors.InputError(
                f"{self.source}: {name.hdf5} is of type {stored.dtype}, and weights "
                "are of float32; copy it again"
            )
        with _named(stored.file.filename):
            return stored[...]


def is_elmo(path):
    """Whether a path has the ending of such a file."""
    return os.fspath(path).endswith(ENDING)


def find_in(directory):
    """The files of weights in a directory, without those of words alone."""
    return sorted(tf.io.gfile.glob(os.path.join(directory, PATTERN)))


def save(path, model):
    """Writes the network of a model as float32; whole or absent.

    Raises:
        OSError: the file cannot be written.
        ValueError: the model has a head.
    """
    # In memory first: HDF5 ends the process where a disk is full.
    whole = io.BytesIO()
    with h5py.File(whole, "w") as file:
        for name, variable in names.named_variables(model):
            if names.is_head(name.path):
                raise errors.InputError(
                    f"{path}: the HDF5 files of ELMo hold no head, and this model has "
                    f"{name.google}; write another format, or leave out the head"
                )
            file[name.hdf5] = np.asarray(variable, np.float32)
    atomic_files.write_bytes(os.fspath(path), whole.getvalue())


def _arrays(path):
    """{name, as of stacked cells: array} of a file, which stays open for them."""
    found = {}

    def visit(key, item):
        if isinstance(item, h5py.Dataset):
            found[elmo_names.numbered(key)] = item

    with _named(path):
        h5py.File(path).visititems(visit)
    return found


@contextlib.contextmanager
def _named(path):
    try:
        yield
    except (OSError, RuntimeError, KeyError) as error:  # of HDF5, by what is cut off
        reason = " ".join(str(error).split())
        raise errors.InputError(
            f"{path}: not a readable HDF5 file ({reason:.200}); copy it again, whole"
        ) from error
