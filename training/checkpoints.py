"""The checkpoints of one run: written whole, kept by number, resumed from.

`model.ckpt-<step>` holds weights, slots and step under the original's names,
`model.ckpt-<step>.json` the scores and scales of the run. That is little: seed and step
determine the order of the data and every dropout mask.
"""

import glob
import itertools
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from contract import atomic_files, errors, file_names, remote_files
from modeling.checkpoints import adapters, google, places

GLOBAL_STEP = "global_step"
_TRAINED = "trained"  # beside a weight to evaluate with that is another one
_NAME = re.compile(r"model\.ckpt-(\d+)\.index$")
# Of a state: the first never stands without the second.
_PAIRS = (("best_step", "best_score"), ("num_train_steps", "learning_rate"))
# How files of weights end, of any program.
_WEIGHTS = [
    ".index",
    ".data-*",
    ".safetensors",
    ".bin",
    ".keras",
    ".h5",
    ".hdf5",
]


class RunCheckpoints:
    """Saves and restores model and optimizer in one directory.

    Args:
        variables: {checkpoint name: variable} of the model.
        optimizer: a built one, or None to save weights only.
        max_to_keep: number of newest checkpoints to keep; the best is kept as well.
        writes: False for a process that leaves writing to the chief.
    """

    def __init__(
        self,
        directory: str,
        variables: Mapping[str, Any],
        optimizer: Any,
        *,
        max_to_keep: int,
        writes: bool = True,
    ):
        self.directory = directory
        self.variables = dict(variables)
        self._optimizer = optimizer
        self._names = {id(variable): name for name, variable in variables.items()}
        for variable, slots in optimizer.named_slots() if optimizer else ():
            for name, slot in slots.items():
                self.variables[f"{self._names[id(variable)]}/{name}"] = slot
        self._max_to_keep = max_to_keep
        self._writes = writes

    def save(self, step: int, state: dict[str, Any]) -> str:
        """Writes `model.ckpt-<step>` and deletes the oldest; returns its prefix.

        Raises OSError where it cannot be written; earlier checkpoints stay.
        """
        prefix = os.path.join(self.directory, f"model.ckpt-{step}")
        if not self._writes:
            return prefix
        try:
            atomic_files.write_text(f"{prefix}.json", json.dumps(state, sort_keys=True))
            google.write(prefix, {**self._tensors(), GLOBAL_STEP: np.int64(step)})
        except tf.errors.OpError as error:
            raise OSError(
                f"{atomic_files.unwritable(prefix, error)}; the same command goes on "
                "from the checkpoint before"
            ) from error
        kept = all_checkpoints(self.directory)
        kept = [path for path in kept if path != prefix] + [prefix]
        dropped = [
            p
            for p in kept[: -self._max_to_keep]
            if step_of(p) != state.get("best_step")
        ]
        for path in dropped:
            name = os.path.basename(path)
            for file in remote_files.matching(self.directory, f"{name}.*"):
                tf.io.gfile.remove(file)
        kept = [path for path in kept if path not in dropped]
        best = [path for path in kept if step_of(path) == state.get("best_step")]
        _write_state(self.directory, kept, used=(best or kept)[-1])
        return prefix

    def _tensors(self) -> dict[str, Any]:
        """{name: values}; a weight is that to evaluate with, the trained one beside."""
        tensors = dict(self.variables)
        others = self._optimizer.evaluation_weights() if self._optimizer else ()
        for variable, value in others:
            name = self._names[id(variable)]
            tensors |= {name: value, f"{name}/{_TRAINED}": variable}
        return tensors

    def restore(self) -> tuple[int, dict[str, Any]] | None:
        """Loads the newest readable checkpoint; returns its step and state, or None.

        Raises ValueError if none of them is readable, or one belongs to another model.
        """
        if self._writes:
            unfinished = f"{file_names.CHECKPOINT_PREFIX}-*{atomic_files.SUFFIX}*"
            for left in remote_files.matching(self.directory, unfinished):
                tf.io.gfile.remove(left)  # of a process that was killed while saving
        prefixes = all_checkpoints(self.directory)
        for prefix in reversed(prefixes):
            try:
                return self.load(prefix)
            except (tf.errors.OpError, IndexError) as error:
                logging.warning(
                    "%s cannot be read (%s); trying the one before", prefix, error
                )
        if prefixes:
            raise errors.InputError(
                f"{self.directory}: none of {len(prefixes)} checkpoints can be read; "
                "start again with --overwrite_output_dir"
            )
        return None

    def load(self, prefix: str) -> tuple[int, dict[str, Any]]:
        """Assigns every variable from one checkpoint; returns its step and state."""
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        values = {}
        for name, variable in self.variables.items():
            trained = f"{name}/{_TRAINED}"
            key = trained if trained in shapes else name
            if shapes.get(key) != list(variable.shape):
                raise errors.InputError(
                    f"{prefix}: {name} is {shapes.get(key, 'missing')}, this run wants"
                    f" {list(variable.shape)}; choose another --output_dir or add "
                    "--overwrite_output_dir"
                )
            values[name] = reader.get_tensor(key)
        state = read_state(f"{prefix}.json")
        for name, variable in self.variables.items():
            variable.assign(values[name])
        return int(reader.get_tensor(GLOBAL_STEP)), state


def read_state(path: str) -> dict[str, Any]:
    """The state beside a checkpoint; tf.errors.DataLossError where it is damaged."""
    if not tf.io.gfile.exists(path):
        return {}
    try:
        with tf.io.gfile.GFile(path) as file:
            state = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise tf.errors.DataLossError(None, None, f"{path}: {error}") from error
    is_whole = isinstance(state, dict) and all(
        type(value) in (int, float) for value in state.values()
    )
    if not (is_whole and all(b in state for a, b in _PAIRS if a in state)):
        text = f"{path}: holds other things than the numbers of a run"
        raise tf.errors.DataLossError(None, None, text)
    return state


def all_checkpoints(directory: str) -> list[str]:
    """Prefixes of the complete checkpoints in a directory, by step."""
    paths = remote_files.matching(directory, "model.ckpt-*.index")
    prefixes = [path[: -len(".index")] for path in paths if _NAME.search(path)]
    return sorted(prefixes, key=step_of)


def identity(path: str) -> dict[str, str]:
    """A digest of initial weights, wherever they are.

    `path` is a prefix, a file or a directory, as for --init_checkpoint, or "".
    InputError is raised where no weights are.
    """
    if not path:
        return {"init_checkpoint": "random weights"}
    path = path.removesuffix(".index")
    if tf.io.gfile.isdir(path):
        path = places.latest(path) or path
    directory, name = os.path.split(path)
    patterns = [glob.escape(name) + ending for ending in ("", ".index", ".data-*")]
    if tf.io.gfile.isdir(path):
        directory, patterns = path, [f"*{ending}" for ending in _WEIGHTS]
    files = sorted(
        file for each in patterns for file in remote_files.matching(directory, each)
    )
    if not files:
        raise errors.InputError(
            f"--init_checkpoint={path}: no weights there; correct the path"
        )
    digests = {"init_checkpoint": f"digest {remote_files.digest(files)}"}
    if directory == path and adapters.is_there(path):
        base = places.find_base(path)  # of which the files are those above, or others
        more = (remote_files.matching(base, f"*{ending}") for ending in _WEIGHTS)
        rest = sorted({*itertools.chain.from_iterable(more)} - {*files})
        rest.append(os.path.join(path, file_names.ADAPTER_CONFIG))
        digests["adapter"] = f"digest {remote_files.digest(rest)}"
    return digests


def step_of(prefix: str) -> int:
    """The step of a checkpoint."""
    return int(prefix.rsplit("-", 1)[1])


def _write_state(directory: str, prefixes: list[str], *, used: str) -> None:
    """Points TensorFlow's tools at the best checkpoint, or else at the newest."""
    relative = [os.path.basename(prefix) for prefix in prefixes]
    lines = [f'model_checkpoint_path: "{os.path.basename(used)}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in relative]
    atomic_files.write_text(
        os.path.join(directory, "checkpoint"), "\n".join(lines) + "\n"
    )
