"""Files of an ELMo's weights, and what the original's training leaves."""

import json
import pathlib
import shutil

import h5py
import numpy as np

from modeling.checkpoints import google
from modeling.networks.elmo import lstm

GOLDEN = pathlib.Path(__file__).parent / "golden" / "elmo"
OPTIONS, WEIGHTS = GOLDEN / "skip_options.json", GOLDEN / "skip_weights.hdf5"


def stored(path):
    arrays = {}

    def visit(key, item):
        if isinstance(item, h5py.Dataset):
            arrays[key] = item[...]

    with h5py.File(path) as file:
        file.visititems(visit)
    return arrays


def write(path, arrays):
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value


def write_release(directory, *, vocab=True):
    """options.json, weights.hdf5 and vocab.txt, whose values "skip.npz" has."""
    directory.mkdir(parents=True)
    shutil.copy(OPTIONS, directory / "options.json")
    shutil.copy(WEIGHTS, directory / "weights.hdf5")
    if vocab:
        shutil.copy(GOLDEN / "vocab.txt", directory / "vocab.txt")
    return directory


def write_training(directory):
    """The golden weights as the original's training would have left them."""
    directory.mkdir(exist_ok=True)
    arrays = stored(WEIGHTS)
    table = np.arange(300, dtype=np.float32).reshape(25, 12)
    arrays |= {"softmax/W": table, "softmax/b": table[:, 0]}
    names = json.loads((GOLDEN / "checkpoint_names.json").read_text())
    tensors = {name: arrays[key] for name, key in names.items()}
    tensors |= {f"{name}/Adagrad": value**2 + 1 for name, value in tensors.items()}
    tensors |= {"global_step": np.float32(7), "train_perplexity": np.float32(0)}
    google.write(directory / "model.ckpt-7", tensors)
    (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    options = json.loads(OPTIONS.read_text())
    options["char_cnn"]["n_characters"] = 261
    (directory / "options.json").write_text(json.dumps(options))
    return directory


def zero_states(config, rows):
    """The states before a text begins."""
    shape = config.num_hidden_layers, 2, rows
    widths = config.lstm_dim, config.projection_dim
    return lstm.States(*(np.zeros((*shape, width), np.float32) for width in widths))
