"""HDF5 files of ELMo's weights, as bilm-tf releases, dumps and reads them.

Their names are `hdf5` of names.Name.
"""

import io
import os

import h5py
import numpy as np

from contract import atomic_files, errors
from modeling.checkpoints import names, weights_file
from modeling.networks.elmo import names as elmo_names

ENDING = ".hdf5"
WEIGHTS_FILE = "weights.hdf5"
PATTERN = f"*{WEIGHTS_FILE}"  # of releases, which put their sizes before it


class ElmoWeights(weights_file.WeightsFile):
    """An open file."""

    format = "hdf5"

    def __init__(self, path):
        self.source = path
        arrays = weights_file.open_hdf5(path)
        self._stored = {elmo_names.number_cells(key): arrays[key] for key in arrays}
        self.shapes = {key: array.shape for key, array in self._stored.items()}

    def read(self, name):
        stored = self._stored[name.hdf5]
        if stored.dtype.kind != "f":
            raise errors.InputError(
                f"{self.source}: {name.hdf5} is of type {stored.dtype}, and weights "
                "are of float32; copy it again"
            )
        with weights_file.readable_hdf5(stored.file.filename):
            return stored[...]


def is_elmo(path):
    """Whether a path has the ending of such a file."""
    return os.fspath(path).endswith(ENDING)


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
            if model.config.spec.is_head(name.path):
                raise errors.InputError(
                    f"{path}: the HDF5 files of ELMo hold no head, and this model has "
                    f"{name.google}; write another format, or leave out the head"
                )
            file[name.hdf5] = np.asarray(variable, np.float32)
    atomic_files.write_bytes(os.fspath(path), whole.getvalue())
