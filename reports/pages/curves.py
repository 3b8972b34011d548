"""The curves of a run, from its event files, so that a resumed run has all of them."""

import os

import numpy as np
from tensorboard.backend.event_processing import event_file_loader, io_wrapper
from tensorboard.util import tensor_util

POINTS = 400  # of a curve; a screen has no more
_KINDS = ("train", "eval")  # directories below that of a run, as reporting.py has them


def read(directory: str) -> dict[str, list[list[float]]]:
    """{name such as "train/loss": [[step, value], ...]}, of each step the last value.

    A longer curve keeps POINTS of its points, the first and the last among them.
    """
    found: dict[str, dict[int, float]] = {}
    for kind in _KINDS:
        for event in _events(os.path.join(directory, kind)):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = tensor_util.make_ndarray(value.tensor).item()
                    found.setdefault(value.tag, {})[event.step] = number
    return {name: _thinned(sorted(points.items())) for name, points in found.items()}


def _events(directory):
    """All events of a directory, in the order in which they were written."""
    files = io_wrapper.tf.io.gfile
    if not files.isdir(directory):
        return
    names = sorted(filter(io_wrapper.IsTensorFlowEventsFile, files.listdir(directory)))
    for name in names:
        loader = event_file_loader.EventFileLoader(os.path.join(directory, name))
        yield from loader.Load()


def _thinned(points):
    keep = np.unique(np.linspace(0, len(points) - 1, POINTS).round().astype(int))
    return [[points[i][0], float(f"{points[i][1]:.6g}")] for i in keep]
