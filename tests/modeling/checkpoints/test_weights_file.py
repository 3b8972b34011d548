"""Files of weights that refer to other files, or claim sizes, are refused unread."""

import dataclasses
import json
import os
import zipfile

import h5py
import numpy as np
import pytest
import safetensors.numpy

from contract import errors
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import (
    checkpoint,
    conversion,
    google,
    hugging_face,
    keras_files,
    places,
    weights_file,
)
from modeling.features.text_vectors import Projection, TextVectors
from tests.modeling.random_weights import random_model

HUGE = 10**9
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


@pytest.mark.parametrize("target", ["google", "hugging_face", "keras"])
def test_shapes_are_compared_before_anything_is_read(
    target, tiny_config, tmp_path, monkeypatch
):
    model = random_model(tiny_config, "none")
    if target == "keras":
        model.save(tmp_path / keras_files.MODEL_FILE)
    else:
        conversion.write(tmp_path, model, target)
    wider = dataclasses.replace(tiny_config, intermediate_size=HUGE // 10**7)
    other, file = random_model(wider, "none"), places.open_file(tmp_path)
    read = type(file).read
    monkeypatch.setattr(type(file), "read", lambda self, name: _read(read, self, name))
    with pytest.raises(errors.InputError, match=r"is \[\d+.*\], the model wants \["):
        checkpoint.assign(other, file)


def _read(read, file, name):
    assert "ffn_in" not in name.path, "its shape is wrong"
    return read(file, name)


def test_hdf5_holds_no_more_numbers_than_bytes(tmp_path):
    path = str(tmp_path / "tf_model.h5")
    with h5py.File(path, "w") as file:  # as far as nothing is packed
        file.create_dataset("a", data=np.zeros(30_000), compression="gzip")
    assert weights_file.open_hdf5(path)["a"].shape == (30_000,)
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (HUGE,), np.float32, chunks=(1024,))
    match = r"tf_model.h5: describes 1,000,000,000 numbers in [\d,]{3,6} bytes; copy"
    with pytest.raises(errors.InputError, match=match):
        weights_file.open_hdf5(path)


def test_checkpoints_and_arrays_hold_no_more_numbers_than_bytes(tmp_path):
    prefix = str(tmp_path / "bert_model.ckpt")
    google.write(prefix, {"w": np.zeros(100, np.float32), "global_step": np.int64(3)})
    assert google.GoogleFile(prefix).global_step == 3
    os.truncate(f"{prefix}.data-00000-of-00001", 50)
    with pytest.raises(errors.InputError, match="describes 101 numbers in 50 bytes"):
        google.GoogleFile(prefix)
    google.write(prefix, {"global_step": np.zeros(1000)})  # of a stranger
    assert google.GoogleFile(prefix).global_step is None


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["config"].update(num_hidden_layers=HUGE),
        lambda values: values.update(num_classes=HUGE),
        lambda values: values["text_vectors"]["projections"][0].update(units=HUGE),
    ],
)
def test_keras_file_describes_no_more_numbers_than_it_has(
    change, tiny_config, tmp_path
):
    vectors = TextVectors(projections=(Projection(4),))
    path = tmp_path / "model.keras"
    model = pretrainers.build("text_encoder", None, tiny_config, text_vectors=vectors)
    model.save(path)
    assert keras_files.stored_config(path).num_blocks == tiny_config.num_blocks
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    raw = json.loads(parts["config.json"])
    change(raw["config"])
    parts["config.json"] = json.dumps(raw).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    match = r"model.keras: .*describes [\d,]{11,} numbers, and [\d,]+ bytes"
    with pytest.raises(errors.InputError, match=match):
        keras_files.load(path)


def test_classes_are_those_of_kernel_and_bias(tiny_config, tmp_path):
    wide = {"classifier.bias": np.zeros(300, np.float32)}
    for shape in ((3, 32), ()):
        tensors = {**wide, "classifier.weight": np.zeros(shape, np.float32)}
        safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
        file = hugging_face.HuggingFaceFile(str(tmp_path))
        files = model_directory.ModelFiles()
        opened = model_directory.ModelDirectory(files, tiny_config, weights=file)
        with pytest.raises(errors.InputError, match=r"\[.*\], and its bias \[300\]"):
            opened.find_head("classifier")
