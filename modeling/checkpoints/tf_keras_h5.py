"""tf_model.h5: weights as the TensorFlow classes of transformers 4 saved them.

A layer of the model is a group, and a weight in it has a name such as
`tf_bert_model/bert/encoder/layer_._0/output/dense/kernel:0`. The names follow from
those of PyTorch's classes by rules without a table: for BERT's family, GPT and GPT-2.
"""

import dataclasses
import os
from typing import Any

from modeling.checkpoints import weights_file

WEIGHTS_FILE = "tf_model.h5"
# Names the shards of a large model, and which of them holds which weight.
INDEX_FILE = f"{WEIGHTS_FILE}.index.json"
FILES = WEIGHTS_FILE, INDEX_FILE
SHARDS = "tf_model-*-of-*.h5"
# A kernel is transposed as well.
_LEAVES = dict.fromkeys(("kernel", "embeddings", "gamma"), "weight") | {"beta": "bias"}
# ALBERT's class has a bias twice and reads the second.
_UNREAD_BIAS, _BIAS = "predictions.bias", "predictions.decoder.bias"


@dataclasses.dataclass(frozen=True)
class _Tensor:
    array: Any  # of HDF5 or NumPy
    leaf: str

    def get_shape(self):
        if self.leaf == "bias":  # GPT's and GPT-2's are [1, out]
            return (self.array.size,)
        return self.array.shape[:: -1 if self.leaf == "kernel" else 1]

    def get_dtype(self):
        dtype = self.array.dtype
        return f"F{8 * dtype.itemsize}" if dtype.kind == "f" else str(dtype)


class Tensors:
    """Arrays under PyTorch's names, with the methods of safetensors.safe_open.

    Args:
        arrays: {name in TensorFlow, without that of the model: array [in, out]}.
    """

    def __init__(self, path, arrays):
        self._path = path
        self._tensors = {
            to_pytorch(name): _Tensor(array, name.split("/")[-1].removesuffix(":0"))
            for name, array in arrays.items()
        }
        if _BIAS in self._tensors:
            self._tensors[_UNREAD_BIAS] = self._tensors[_BIAS]

    def keys(self):
        return self._tensors.keys()

    def get_slice(self, key):
        return self._tensors[key]

    def get_tensor(self, key):
        tensor = self._tensors[key]
        with weights_file.readable_hdf5(self._path):
            value = tensor.array[...]
        return value.T if tensor.leaf == "kernel" else value.reshape(tensor.get_shape())


def open_file(path):
    """Opens a tf_model.h5 or one of its shards as Tensors; a ValueError if it is none.

    A weight of two layers, such as a tied table, is the same array in both groups.
    """
    arrays = weights_file.open_hdf5(path)
    if os.path.basename(path) == WEIGHTS_FILE:  # below layer and model
        layers = {name.split("/")[0] for name in arrays}
        arrays = {_strip(name, layers): array for name, array in arrays.items()}
    return Tensors(path, arrays)


def _strip(path, layers):
    """`bert/tf_bert_model/bert/pooler/...` to `bert/pooler/...`."""
    parts = path.split("/")[1:] or [path]
    first = next((i for i, part in enumerate(parts) if part in layers), 0)
    return "/".join(parts[first:])


def is_file(path):
    """Whether a path has the name of such a file or of the index of its shards."""
    return os.path.basename(path) in FILES


def to_pytorch(name):
    """`nsp___cls/layer_._0/dense/kernel:0` to `cls.layer.0.dense.weight`."""
    parts = [part.split("___")[-1] for part in name.removesuffix(":0").split("/")]
    parts[-1] = _LEAVES.get(parts[-1], parts[-1])
    return ".".join(parts).replace("_._", ".")
