"""Files of the originals: TensorFlow's checkpoints, and the arrays of GPT's release.

One format resumes a run, initialises the next, and is read by google-research/bert.
Those of bilm-tf, with ELMo's names, are read and written as well.
"""

import functools
import itertools
import math
import os
import re

import numpy as np

from contract import atomic_files, errors, file_names, json_files, remote_files
from contract.tensorflow_later import tf
from modeling.checkpoints import names, weights_file
from modeling.elmo import names as elmo_names

MODEL_PREFIX = "bert_model.ckpt"  # of a release
INDEX_ENDING = ".index"
_DATA_ENDING = ".data-00000-of-00001"
# Training state beside the weights (contract of the originals' optimizers).
_STATE = re.compile(
    r"(^|/)(adam_m|adam_v|Adagrad)(_\d+)?$|^(global_step|train_perplexity)$"
    r"|^carried/|^_CHECKPOINTABLE"
)
_GPT_PIECE = "params_{}.npy"
_ARRAYS_OF_LAYER = 12


class GoogleFile(weights_file.WeightsFile):
    """An open TensorFlow checkpoint."""

    format = "google"

    def __init__(self, prefix):
        self.source = prefix
        remote_files.refuse_patterns(prefix, "checkpoint")
        with self._readable():
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
        self._stored = {elmo_names.number_cells(name): name for name in shapes}
        self.shapes = {key: tuple(shapes[name]) for key, name in self._stored.items()}
        self.states = weights_file.matches(_STATE, self.shapes)
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


class GptRelease(weights_file.WeightsFile):
    """GPT's params_shapes.json, and params_0.npy to params_9.npy beside it.

    All arrays, float32, one after the other, are cut into these pieces. Positions and
    tokens, apart, are the first ones; the order is that of the original's variables.
    """

    format = "google"

    def __init__(self, path):
        self.source = path
        self._stored = _read_gpt_shapes(path)
        positions, tokens, *others = self._stored
        rows = names.encoder_rows("GPT", len(others) // _ARRAYS_OF_LAYER)
        table = positions[0] + tokens[0], tokens[1]
        keys = [row.google for row in rows]
        self.shapes = dict(zip(keys, [table, *others], strict=True))

    def read(self, name):
        return self._arrays[name.google]

    @functools.cached_property
    def _arrays(self):
        pieces = self._open_pieces()
        ends = list(itertools.accumulate(map(math.prod, self._stored)))
        if (count := sum(piece.size for piece in pieces)) != ends[-1]:
            raise errors.InputError(
                f"{self.source}: describes {ends[-1]} numbers, and the .npy files have "
                f"{count}; copy the whole release again"
            )
        whole = np.concatenate([piece.ravel() for piece in pieces])
        arrays = map(np.reshape, np.split(whole, ends[:-1]), self._stored)
        positions, tokens, *others = arrays
        table = np.concatenate([tokens, positions])
        return dict(zip(self.shapes, [table, *others], strict=True))

    def _open_pieces(self):
        """The arrays of the files, of which nothing is read yet."""
        pieces = []
        directory = os.path.dirname(self.source)
        for index in itertools.count():
            path = os.path.join(directory, _GPT_PIECE.format(index))
            if not os.path.exists(path):
                break
            raised = OSError, ValueError, EOFError
            with weights_file.readable(path, "NumPy file", raised):
                pieces.append(np.load(path, mmap_mode="r", allow_pickle=False))
        if not pieces:
            raise errors.InputError(
                f"{directory}: there is no {_GPT_PIECE.format(0)}; copy the whole "
                "release again"
            )
        return pieces


def _read_gpt_shapes(path):
    shapes = json_files.read(path)
    is_list = isinstance(shapes, list)
    lists = [shape for shape in shapes if isinstance(shape, list)] if is_list else []
    sizes = itertools.chain(*lists)
    is_whole = lists == shapes and all(type(n) is int and n > 0 for n in sizes)
    if not is_whole or any(len(shape) != 2 for shape in shapes[:2]):
        raise errors.InputError(f"{path}: no list of shapes; copy it again")
    shapes = [tuple(shape) for shape in shapes]
    if len(shapes) < 2 or (len(shapes) - 2) % _ARRAYS_OF_LAYER:
        raise errors.InputError(
            f"{path}: has {len(shapes)} shapes, and GPT 2 and {_ARRAYS_OF_LAYER} a "
            "layer; copy it again"
        )
    return shapes


def is_gpt_release(path):
    """Whether a path has the name of GPT's params_shapes.json."""
    return os.path.basename(path) == file_names.PARAMETER_SHAPES


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
    tf.raw_ops.SaveV2(
        prefix=temporary,
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        tensors=[tf.convert_to_tensor(tensors[key]) for key in keys],
    )
    # The index goes last: readers look for it, so a checkpoint without one is absent.
    for ending in (_DATA_ENDING, INDEX_ENDING):
        tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
