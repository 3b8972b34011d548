"""GPT's weights as released: params_0.npy to params_9.npy, and the shapes in them."""

import functools
import itertools
import math
import os
from collections.abc import Set

import numpy as np
import tensorflow as tf

from contract import errors, file_names, json_files
from modeling.checkpoints import names

_PIECE = "params_{}.npy"
_ARRAYS_OF_LAYER = 12


class ParametersFile:
    """The arrays of a release; a checkpoint.WeightsFile with the original's names.

    All arrays, one after the other, are cut into pieces. Their shapes are in the order
    of the original's variables, with positions and tokens apart and first.
    """

    format = "google"
    global_step: int | None = None
    states: Set[str] = frozenset()

    def __init__(self, path):
        self.source = path
        self._stored = _read_shapes(path)
        positions, tokens, *others = self._stored
        rows = names.encoder("GPT", len(others) // _ARRAYS_OF_LAYER)
        table = positions[0] + tokens[0], tokens[1]
        keys = [row.google for row in rows]
        self.shapes = dict(zip(keys, [table, *others], strict=True))

    def sizes(self):
        """Those of the config that the shapes say."""
        return names.sizes(self.shapes, self.format)

    def read(self, name):
        """The array of a names.Name."""
        return self._arrays[name.google]

    @functools.cached_property
    def _arrays(self):
        whole = self._joined()
        ends = list(itertools.accumulate(map(math.prod, self._stored)))
        if len(whole) != ends[-1]:
            raise errors.InputError(
                f"{self.source}: describes {ends[-1]} numbers, and there are "
                f"{len(whole)} in the .npy files beside it; copy all files of the "
                "release again"
            )
        cut = [
            part.reshape(shape)
            for part, shape in zip(
                np.split(whole, ends[:-1]), self._stored, strict=True
            )
        ]
        positions, tokens, *others = cut
        table = np.concatenate([tokens, positions])
        return dict(zip(self.shapes, [table, *others], strict=True))

    def _joined(self):
        """All numbers, float32 [count]."""
        pieces = []
        directory = os.path.dirname(self.source)
        for index in itertools.count():
            path = os.path.join(directory, _PIECE.format(index))
            if not os.path.exists(path):
                break
            try:
                pieces.append(np.load(path, allow_pickle=False).ravel())
            except (OSError, ValueError, EOFError) as error:
                raise errors.InputError(
                    f"{path}: not a readable NumPy file ({error}); copy it again"
                ) from error
        if not pieces:
            raise errors.InputError(
                f"{directory}: there is no {_PIECE.format(0)} beside "
                f"{file_names.PARAMETER_SHAPES}; copy all files of the release"
            )
        return np.concatenate(pieces)


def _read_shapes(path):
    try:
        with tf.io.gfile.GFile(path) as file:
            shapes = [tuple(map(int, shape)) for shape in json_files.parse(file.read())]
    except (tf.errors.OpError, ValueError, TypeError) as error:
        raise errors.InputError(
            f"{path}: holds no list of shapes ({error}); copy it again"
        ) from error
    if len(shapes) < 2 or (len(shapes) - 2) % _ARRAYS_OF_LAYER:
        raise errors.InputError(
            f"{path}: has {len(shapes)} shapes, and GPT has positions, tokens and "
            f"{_ARRAYS_OF_LAYER} a layer; copy it again"
        )
    return shapes
