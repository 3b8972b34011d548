"""Vectors of held-out rows, for TensorBoard's embedding projector."""

import os

import numpy as np
from tensorboard.plugins import projector

from contract import atomic_files
from training.results import evaluation

MAX_ROWS = 5000  # a browser turns so many without effort
_DIRECTORY = "eval"  # of the curves: TensorBoard looks where it finds some
_CONFIG = "projector_config.pbtxt"  # TensorBoard's name
# The file is read line by line and cell by cell, without quotes.
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write(predict_function, examples, columns, settings):
    """Writes vectors, labels and texts of all rows, or MAX_ROWS at equal distances.

    Raises OSError if they cannot be written.

    Args:
        predict_function: built by training.steps.predict_function, of {"vectors"}.
        examples: a fine_tuning.Examples.
        columns: rows, int [N] -> {column: N texts}, two columns or more.
        settings: a fine_tuning.Settings.
    """
    count = len(examples)
    rows = np.linspace(0, count - 1, min(count, MAX_ROWS)).astype(np.int32)
    outputs = evaluation.predict_rows(predict_function, examples, rows, settings)
    found = outputs["vectors"]
    if not settings.run.writes:
        return
    named = columns(rows)
    config = projector.ProjectorConfig()
    shown = config.embeddings.add()
    shown.tensor_name = "dev"
    shown.tensor_path, shown.metadata_path = "vectors.tsv", "metadata.tsv"
    shown.tensor_shape.extend(found.shape)
    table = [named, *zip(*named.values(), strict=True)]
    directory = os.path.join(settings.run.output_dir, _DIRECTORY)
    files = {
        shown.tensor_path: (_line(f"{x:.6g}" for x in row) for row in found),
        shown.metadata_path: (_line(c.translate(_ESCAPES) for c in r) for r in table),
        _CONFIG: [str(config)],
    }
    atomic_files.write({os.path.join(directory, n): t for n, t in files.items()})
    print(f"projector: vectors of {len(rows)} of {count} dev rows in {directory}")


def _line(cells):
    return "\t".join(cells) + "\n"
