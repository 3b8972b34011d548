"""Where the states of a frozen network are kept, in memory or in files.

They are computed when the first batch of a split is wanted, and serve all that a
command does with equal rows and weights: epochs, evaluations, seeds, runs of a grid.
"""

import collections
import dataclasses
import functools
import itertools
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from contract import errors, file_names
from training import fine_tuning
from training.distribution import devices
from training.frozen import frozen_examples, layer_states

KINDS = ("auto", "memory", "disk", "none")
# Of the memory that is free, what the states of all splits may take.
_COMFORTABLE = 0.25


class FeatureCache:
    """Keeps states while a command runs and, if asked to, after it.

    A context manager: its files below an output directory go when a command ends well.
    One that is stopped leaves them to the command that goes on.

    Args:
        kind: one of KINDS. "auto" is memory where the states are a small part of what
            is free, else disk, which it is as well where `directory` is given; "none"
            has the network run in each step.
        directory: a local one for files that stay, and that commands may share; or "".
        output_dir: of the command.

    Raises:
        ValueError: the directory is not local, or not used.
    """

    def __init__(self, kind: str, directory: str, output_dir: str):
        if directory and kind in ("memory", "none"):
            raise errors.InputError(
                f"--feature_cache_dir={directory} is for files, and --feature_cache="
                f"{kind} writes none; leave one of them out"
            )
        self._kind = "disk" if directory else kind
        self._stays = bool(directory)
        own = os.path.join(output_dir, file_names.FEATURE_CACHE)
        self._directory = directory or own
        self._is_local = "://" not in self._directory
        if self._kind == "disk" and not self._is_local:
            raise errors.InputError(
                f"{self._directory} is no local directory, whose files can be mapped "
                "into memory; name one with --feature_cache_dir"
            )
        self._held: dict[str, layer_states.States] = {}
        self._held_of = ""  # FrozenNetwork.digest
        self._is_roomy: bool | None = None  # memory, for all splits

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._held.clear()
        if kind is None and not self._stays and self._is_local:
            shutil.rmtree(self._directory, ignore_errors=True)

    def wrapped(
        self, task: fine_tuning.Task, model: Any, settings: fine_tuning.Settings
    ) -> fine_tuning.Task:
        """The task, whose examples have the states of the model if it is frozen."""
        if model.network.trainable and self._stays:
            raise errors.InputError(
                f"--feature_cache_dir={self._directory} keeps what a frozen network "
                "says, and this one is trained; add --freeze_encoder, or leave it out"
            )
        if self._kind == "none" or model.network.trainable:
            return task
        network = frozen_examples.FrozenNetwork(model, settings)
        each: Mapping[str, Any] = task.splits
        found = {
            id(rows): frozen_examples.FrozenExamples(
                rows, functools.partial(self._states, network, each, split)
            )
            for split, rows in each.items()
        }
        splits = {split: found[id(rows)] for split, rows in each.items()}
        return dataclasses.replace(task, splits=splits)

    def _states(
        self,
        network: frozen_examples.FrozenNetwork,
        splits: Mapping[str, Any],
        split: str,
    ) -> layer_states.States:
        """Those that are held, or lie in a file; else they are computed."""
        if network.digest != self._held_of:  # a seed may be that of the network, too
            self._held, self._held_of = {}, network.digest
        key = network.key(splits[split])
        if key not in self._held:
            places = network.places(splits[split])
            path = os.path.join(self._directory, f"{key}.npy")
            values = self._read(network, path, places.total)
            if values is None:
                values = self._computed(network, splits, split, path)
            where = path if isinstance(values, np.memmap) else "memory"
            size = " x ".join(f"{axis:,}" for axis in values.shape)
            print(
                f"features: {split}, {size} numbers of the frozen network, "
                f"{values.nbytes / 1e9:.2f} GB in {where}",
                flush=True,
            )
            self._held[key] = layer_states.States(values, places)
        return self._held[key]

    def _read(
        self, network: frozen_examples.FrozenNetwork, path: str, num_rows: int
    ) -> np.ndarray | None:
        """What a run with equal rows and weights has written; None if none has."""
        if self._kind == "memory" or not self._is_local:
            return None
        values = layer_states.opened(path, num_rows)
        strategy = network.settings.run.strategy
        devices.check_agreement(strategy, int(values is not None), path)
        return values

    def _computed(
        self,
        network: frozen_examples.FrozenNetwork,
        splits: Mapping[str, Any],
        split: str,
        path: str,
    ) -> np.ndarray:
        its_own, places = network.settings.run, network.places(splits[split])
        batches = network.states(splits[split], f"frozen network, {split} rows")
        first = next(batches)
        batches = itertools.chain([first], batches)
        shape = (places.total, *first[1].shape[-2:])
        if self._takes_memory(network, splits, shape[1:]):
            values = np.empty(shape, layer_states.DTYPE)
            places.fill(batches, values.__setitem__)
            return values
        if its_own.writes:
            with layer_states.written(path, shape, shared=self._stays) as put:
                places.fill(batches, put)
        else:  # this process takes part, and another writes
            collections.deque(batches, maxlen=0)
        devices.wait_for_all(its_own.strategy, f"write {path}")
        found = self._read(network, path, places.total)
        assert found is not None
        return found

    def _takes_memory(
        self,
        network: frozen_examples.FrozenNetwork,
        splits: Mapping[str, Any],
        width: Sequence[int],
    ) -> bool:
        """Whether there is room for [..., K, W] of all splits; decided once."""
        if self._kind == "disk" or self._is_roomy is not None:
            return bool(self._is_roomy)
        every = {id(rows): network.places(rows).total for rows in splits.values()}
        needed = sum(every.values()) * math.prod(width) * layer_states.DTYPE.itemsize
        free = layer_states.free_memory()
        limit = free if self._kind == "memory" else int(_COMFORTABLE * free)
        strategy = network.settings.run.strategy
        self._is_roomy = bool(devices.gathered(strategy, needed <= limit).all())
        if not self._is_roomy and (self._kind == "memory" or not self._is_local):
            raise errors.InputError(
                f"--feature_cache={self._kind}: what the frozen network says of all "
                f"rows takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory "
                "are free; name a local --feature_cache_dir, or have the network run "
                "in each step: --feature_cache=none"
            )
        return self._is_roomy
