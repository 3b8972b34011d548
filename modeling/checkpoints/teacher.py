"""A teacher: the directory of a classifier that is fine-tuned already."""

import zlib

import numpy as np

from contract import errors
from modeling.checkpoints import checkpoint, conversion


def read(path, config):
    """Reads a classifier with its weights; `path` is as in checkpoint.find.

    Raises:
        ValueError: it has no classifier's head, or as in `conversion.read`.
    """
    file = checkpoint.open_file(path, config)
    try:
        conversion.find_head(file, config, "classifier")
    except ValueError as error:
        raise errors.InputError(
            f"--teacher: {file.source} has no head of a classifier; fine-tune it with "
            "--do_train, and give the --output_dir of that run"
        ) from error
    return conversion.read(path, config, "classifier").model


def digest(model):
    """Eight hexadecimal digits that differ where weights do."""
    value = 0
    for variable in model.variables:
        value = zlib.crc32(np.ascontiguousarray(variable).tobytes(), value)
    return f"{value:08x}"
