"""Files of weights that refer to other files are refused before a byte is read."""

import os

import h5py
import numpy as np
import pytest

from contract import errors
from modeling.checkpoints import hugging_face, weights_file

SECRET = b"what nobody but this machine may read....."


def external(file, secret):
    place = [(str(secret), 0, 40)]
    file.create_dataset("net/bias", (10,), np.float32, external=place)


def virtual(file, secret):
    layout = h5py.VirtualLayout((10,), np.float32)
    layout[:] = h5py.VirtualSource(str(secret), "bias", (10,))
    file.create_virtual_dataset("net/bias", layout)


def soft_link(file, secret):
    file["net/bias"] = np.zeros(10, np.float32)
    file["net/kernel"] = h5py.SoftLink("/net/bias")


def external_link(file, secret):
    file["net/bias"] = h5py.ExternalLink(str(secret), "/bias")


@pytest.mark.parametrize("refer", [external, virtual, soft_link, external_link])
def test_references_of_hdf5_are_refused(refer, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        refer(file, secret)
    with pytest.raises(errors.InputError, match=r"net/\w+ refers to another place"):
        weights_file.open_hdf5(str(path))


def test_groups_in_many_levels_are_refused_and_shared_arrays_are_read(tmp_path):
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        file["a/b/c"] = np.arange(3.0)
        file["d"] = file["a/b/c"]  # a tied table is stored so
    arrays = weights_file.open_hdf5(str(path))
    assert {key: [*array] for key, array in arrays.items()} == {"a/b/c": [0, 1, 2]}
    path = tmp_path / "deep.h5"
    with h5py.File(path, "w") as file:
        file["/".join("x" * 40)] = np.arange(3.0)
    with pytest.raises(errors.InputError, match="in more than 32 levels"):
        weights_file.open_hdf5(str(path))


@pytest.mark.parametrize("name", ["tf_model.h5", "model.safetensors"])
def test_pipes_are_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    path = tmp_path / name if name.endswith("h5") else tmp_path
    with pytest.raises(errors.InputError, match=f"{name}: is no regular file"):
        hugging_face.HuggingFaceFile(str(path))
