"""The outputs of a frozen network, kept in memory while a command runs.

They are computed when the first batch of a split is wanted, and serve all that the
command does with equal rows and weights: epochs, evaluations, seeds, runs of a grid.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import batching
from training import driver, inference
from training.distribution import devices

KINDS = ("auto", "memory", "none")
# Of the memory that is free, what the states of all splits may take by default.
_COMFORTABLE = 0.25
_ITEM_BYTES = 4  # of a float32
# What this process may take, and what the machine has to spare, where Linux has it.
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
_MEMORY = "/proc/meminfo"


class States(NamedTuple):
    """K vectors of each token of a split, or of each text.

    Sequences lie end to end without padding, in the order of the rows.

    Attributes:
        values: float32 [T, K, W].
        starts: int64 [N, G], where each sequence of each example begins.
        counts: int64 [N, G], its vectors.
    """

    values: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    @property
    def are_of_texts(self) -> bool:
        """Whether every sequence has one."""
        return bool(np.all(self.counts == 1))

    def padded(self, indices: np.ndarray, length: int) -> np.ndarray:
        """The states of examples int [B], -1 for any, as float32 [B, G, S, K, W].

        Sequences are filled up with zeros to S = `length`.
        """
        indices = np.maximum(indices, 0)
        starts = self.starts[indices][..., np.newaxis]  # [B, G, 1]
        counts = self.counts[indices][..., np.newaxis]
        columns = np.arange(length)
        rows = starts + np.minimum(columns, counts - 1)
        states = np.take(self.values, rows, axis=0)
        states[columns >= counts] = 0.0
        return states


class FeatureCache:
    """Keeps the states of a frozen network while a command runs.

    Args:
        kind: "auto" keeps them where they are a small part of the memory that is free,
            and else has the network run in each step; "memory" keeps them or raises
            InputError.
    """

    def __init__(self, kind: str):
        self._kind = kind
        self._states: dict[str, States] = {}  # by network and rows
        self._network = ""  # digest of the network of these states
        self._fits: bool | None = None  # the states of all splits

    def add_states(
        self,
        splits: Mapping[str, batching.Examples],
        model: Any,
        settings: driver.Settings,
    ) -> Mapping[str, batching.Examples]:
        """The splits, whose batches have the states of a model with a frozen network.

        The model has a `source`, a FeatureSource.
        """
        network = _FrozenNetwork(model, settings)
        wrapped = {
            id(rows): _RowsWithStates(
                packed=rows.packed,
                names=rows.names,
                digest=rows.digest,
                targets=rows.targets,
                rows=rows,
                states=functools.partial(self._find, network, splits, split),
            )
            for split, rows in splits.items()
        }
        return {split: wrapped[id(rows)] for split, rows in splits.items()}

    def _find(
        self,
        network: "_FrozenNetwork",
        splits: Mapping[str, batching.Examples],
        split: str,
    ) -> States | None:
        """The states that are there; else they are computed. None without room."""
        if network.digest != self._network:  # another seed may draw another network
            self._states, self._network = {}, network.digest
        rows = splits[split]
        key = rows.input_digest()
        if key not in self._states and self._fits is not False:
            name = f"frozen network, {split} rows: batch"
            batches = network.batches(rows, name)
            first = next(batches)
            if not self._has_room(network, splits, first[1].shape[-2:]):
                return None
            states = network.collect(rows, itertools.chain([first], batches))
            size = " x ".join(f"{axis:,}" for axis in states.values.shape)
            print(
                f"features: {split}, {size} numbers of the frozen network, "
                f"{states.values.nbytes / 1e9:.2f} GB in memory",
                flush=True,
            )
            self._states[key] = states
        return self._states.get(key)

    def _has_room(
        self,
        network: "_FrozenNetwork",
        splits: Mapping[str, batching.Examples],
        shape: Sequence[int],
    ) -> bool:
        """Whether [..., K, W] of all splits fit; decided once."""
        if self._fits is not None:
            return self._fits
        counts = {id(rows): network.counts(rows).sum() for rows in splits.values()}
        needed = int(sum(counts.values())) * math.prod(shape) * _ITEM_BYTES
        free = free_memory()
        limit = free if self._kind == "memory" else int(_COMFORTABLE * free)
        strategy = network.settings.run.strategy
        self._fits = bool(devices.gathered(strategy, needed <= limit).all())
        if self._fits:
            return True
        size = (
            f"the frozen network's outputs for all rows take {needed / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB of memory are free"
        )
        if self._kind == "memory":
            raise errors.InputError(
                f"--feature_cache=memory: {size}; have the network run in each step: "
                "--feature_cache=none"
            )
        print(f"features: {size}; the network runs in each step")
        return False


@dataclasses.dataclass(frozen=True)
class _FrozenNetwork:
    """A model whose network is not trained, and how to run it."""

    model: Any
    settings: driver.Settings

    @functools.cached_property
    def digest(self) -> str:
        """Differs where the states of equal rows do."""
        identity = json.dumps(self.model.source.states_identity(), sort_keys=True)
        digest = hashlib.sha256(identity.encode())
        for variable in self.model.network.variables:
            digest.update(np.ascontiguousarray(variable).data)
        return digest.hexdigest()

    def counts(self, rows: batching.Examples) -> np.ndarray:
        """int64 [N, G], how many states each sequence has."""
        lengths = rows.sequence_lengths.astype(np.int64)
        return np.ones_like(lengths) if self.model.source.reads_texts else lengths

    def batches(
        self, rows: batching.Examples, name: str
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields examples int [B], -1 for any, and float32 [B, G, S, K, W] of them.

        Every process yields all of them; `name` is that of the progress.
        """
        strategy = self.settings.run.strategy
        predict = inference.predict_function(
            self._layer_states, strategy, jit_compile=self.settings.run.jit_compile
        )
        size = devices.fitting_batch_size(self.settings.predict_batch_size, strategy)
        order = rows.evaluation_order(size)[::-1]  # the longest first, as to score
        batches = rows.batches(order, self.settings.pad_to).map(_network_inputs)
        outputs = inference.run_batches(predict, batches, strategy, name, len(order))
        num_sequences = rows.sequence_lengths.shape[1]
        for indices, output in zip(order, outputs, strict=True):
            shares = output[features.LAYER_STATES][np.newaxis]
            whole = devices.whole_batches(strategy, shares)
            yield indices, whole.reshape(size, num_sequences, *whole.shape[-3:])

    def collect(
        self, rows: batching.Examples, batches: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> States:
        """The states of all rows, from their `batches`."""
        counts = self.counts(rows)
        starts = np.cumsum(counts).reshape(counts.shape) - counts
        values: np.ndarray | None = None
        for indices, batch in batches:
            if values is None:
                values = np.empty((counts.sum(), *batch.shape[-2:]), np.float32)
            for index, example in zip(indices, batch, strict=True):
                if index < 0:
                    continue
                places = zip(starts[index], counts[index], example, strict=True)
                for start, count, sequence in places:
                    values[start : start + count] = sequence[:count]
        assert values is not None
        return States(values, starts, counts)

    def _layer_states(self, batch: Any, training: bool) -> dict[str, Any]:
        return {features.LAYER_STATES: self.model.source.layer_states(batch)}


def _network_inputs(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: batch[name] for name in features.ENCODER_INPUTS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RowsWithStates(batching.Examples):
    """Rows whose batches have LAYER_STATES.

    `states` is called when the first batch is wanted.
    """

    rows: batching.Examples
    states: Callable[[], States | None]

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As `rows.batches`, with LAYER_STATES float32 [B, S, K, W].

        S is 1 for states of texts, and of an example of G sequences they are [B, G, S,
        K, W].
        """
        states = self.states()
        if states is None:
            return self.rows.batches(order, pad_to)

        def with_states(indices: Any, batch: dict[str, Any]) -> dict[str, Any]:
            mask = batch[features.INPUT_MASK]  # [B, S] or [B, G, S]
            length = 1 if states.are_of_texts else tf.shape(mask)[-1]
            values = tf.numpy_function(states.padded, [indices, length], tf.float32)
            if len(mask.shape) == 2:
                values = tf.squeeze(values, axis=1)
            static = [1] if states.are_of_texts else mask.shape[-1:]
            values.set_shape([*mask.shape[:-1], *static, *states.values.shape[1:]])
            return {**batch, features.LAYER_STATES: values}

        numbered = tf.data.Dataset.from_tensor_slices(order)
        both = tf.data.Dataset.zip((numbered, self.rows.batches(order, pad_to)))
        return both.map(with_states, num_parallel_calls=1).prefetch(2)


def free_memory() -> int:
    """Bytes of memory that are free, where Linux has it; else all there are."""
    sizes = []
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int(_read(path)) for path in _CGROUP)
        sizes.append(limit - used)
    with contextlib.suppress(OSError):
        matched = re.search(r"^MemAvailable:\s+(\d+) kB$", _read(_MEMORY), re.M)
        sizes += [int(matched[1]) * 1024] if matched else []
    return min(sizes) if sizes else _all_memory()


def _all_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
