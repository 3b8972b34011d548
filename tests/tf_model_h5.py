"""tf_model.h5 as transformers 4.49 with TensorFlow 2.18 wrote it, for tests of reading.

Its structure was read from files of that library: groups by layer, the name of the
model before each weight, kernels [in, out], the embeddings once more below a head of
tokens.
"""

import re

import h5py
import safetensors.numpy

FILE = "tf_model.h5"


def by_tensorflow(folder):
    """{TensorFlow's name without the model: array} of a model.safetensors, which goes.

    The arrays are those of PyTorch's file with kernels turned.
    """
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    arrays = {}
    for name, value in tensors.items():
        key = re.sub(r"\.(\d+)\.", r"_#_\1.", name).replace(".", "/").replace("#", ".")
        key = key.replace("cls/p", "mlm___cls/p").replace("cls/s", "nsp___cls/s")
        path, leaf = key.rsplit("/", 1)
        if path.lower().endswith(("layernorm", "layer_norm")):
            leaf = {"weight": "gamma", "bias": "beta"}[leaf]
        elif leaf == "weight" and not path.endswith("word_embeddings"):
            leaf = "embeddings" if path.endswith("_embeddings") else "kernel"
        arrays[f"{path}/{leaf}:0"] = value.T if leaf == "kernel" else value
    return arrays


def save_like_theirs(path, arrays, model="tf_bert_for_pre_training_1"):
    with h5py.File(path, "w") as file:
        layers = list(dict.fromkeys(key.split("/")[0] for key in arrays))
        file.attrs["layer_names"] = [*layers, "dropout_14"]
        file.attrs["backend"], file.attrs["keras_version"] = "tensorflow", "2.18.0"
        for layer in [*layers, "dropout_14", "top_level_model_weights"]:
            own = [key for key in arrays if key.split("/")[0] == layer]
            if layer == "mlm___cls":
                own += [key for key in arrays if "/embeddings/" in key]
            group = file.create_group(layer)
            group.attrs["weight_names"] = [f"{model}/{key}" for key in own]
            for key in own:
                group[f"{model}/{key}"] = arrays[key]


def replace_safetensors(folder):
    """Writes the weights of a directory of PyTorch's classes as TensorFlow's."""
    save_like_theirs(folder / FILE, by_tensorflow(folder))
