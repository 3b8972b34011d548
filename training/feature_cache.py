"""The outputs of a frozen network, kept in memory while a command runs.

They are computed when the first batch of a split is wanted, and serve all that the
command does with equal rows and weights: epochs, evaluations, seeds, runs of a grid.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.batches import batching
from training import inference, run_plan
from training.distribution import devices

AUTO = "auto"
_AUTO_BYTES = 4e9  # that the states of all splits may take by default
_ITEM_BYTES = 4  # of a float32


class FeatureCache:
    """Keeps the states of a frozen network while a command runs.

    `kind` "auto" keeps them up to `_AUTO_BYTES`, and else has the network run in each
    step; "memory" keeps them always.
    """

    def __init__(self, kind: str):
        self._limit = _AUTO_BYTES if kind == AUTO else math.inf
        self._states: dict[str, tf.RaggedTensor] = {}  # by digest of the rows
        self._network = ""  # digest of the network of these states

    def add_states(
        self,
        splits: Mapping[str, batching.Examples],
        model: Any,
        plan: run_plan.Plan,
    ) -> Mapping[str, batching.Examples]:
        """The splits, whose batches have the states of a model with a frozen network.

        The model has a `source`, a FeatureSource.
        """
        if any(rows.packed.counts is not None for rows in splits.values()):
            print("features: windows are not kept, so the network runs in each step")
            return splits
        every = {id(rows): (split, rows) for split, rows in splits.items()}
        count = sum(_counts(model, rows).sum() for _, rows in every.values())
        size = count * math.prod(model.source.states_shape) * _ITEM_BYTES
        if size > self._limit:
            print(
                f"features: {size / 1e9:.1f} GB for all rows are over 4 GB, so the "
                "network runs in each step; --feature_cache=memory keeps them"
            )
            return splits
        network = _digest(model)
        wrapped = {
            key: _RowsWithStates(
                packed=rows.packed,
                names=rows.names,
                digest=rows.digest,
                targets=rows.targets,
                rows=rows,
                states=functools.partial(self._find, network, model, plan, split, rows),
                reads_texts=model.source.reads_texts,
            )
            for key, (split, rows) in every.items()
        }
        return {split: wrapped[id(rows)] for split, rows in splits.items()}

    def _find(self, network, model, plan, split, rows) -> tf.RaggedTensor:
        if network != self._network:  # another seed may draw another network
            self._states, self._network = {}, network
        key = rows.input_digest()
        if key not in self._states:
            values = compute(model, plan, split, rows)
            with tf.device("CPU:0"):
                self._states[key] = tf.RaggedTensor.from_row_lengths(
                    values, _counts(model, rows).ravel()
                )
            size = " x ".join(f"{axis:,}" for axis in values.shape)
            print(
                f"features: {split}, {size} numbers of the frozen network, "
                f"{values.nbytes / 1e9:.2f} GB in memory",
                flush=True,
            )
        return self._states[key]


def _counts(model: Any, rows: batching.Examples) -> np.ndarray:
    """int64 [N, G], how many states each sequence has."""
    lengths = rows.sequence_lengths.astype(np.int64)
    return np.ones_like(lengths) if model.source.reads_texts else lengths


def _digest(model: Any) -> str:
    """Differs where the states of equal rows do."""
    source = model.source
    choice = source.reading, source.reads_texts, model.dtype_policy.name
    digest = hashlib.sha256(repr((model.config, choice)).encode())
    for variable in model.network.variables:
        digest.update(np.ascontiguousarray(variable).data)
    return digest.hexdigest()


def compute(
    model: Any, plan: run_plan.Plan, split: str, rows: batching.Examples
) -> np.ndarray:
    """The states of all sequences end to end without padding, float32 [T, K, W].

    Processes share the work, and each has all states.
    """
    counts = _counts(model, rows)
    starts = np.cumsum(counts).reshape(counts.shape) - counts
    values = np.empty((counts.sum(), *model.source.states_shape), np.float32)

    def layer_states(batch, training):
        return {features.LAYER_STATES: model.source.layer_states(batch)}

    strategy = plan.strategy
    predict = inference.predict_function(
        layer_states, strategy, jit_compile=plan.jit_compile
    )
    size = devices.fitting_batch_size(plan.predict_batch_size, strategy, len(rows))
    order = rows.evaluation_order(size)[::-1]  # the longest first, as to score
    batches = rows.batches(order, plan.pad_to).map(_network_inputs)
    name = f"frozen network, {split} rows: batch"
    outputs = inference.run_batches(predict, batches, strategy, name, len(order))
    for indices, output in zip(order, outputs, strict=True):
        shares = output[features.LAYER_STATES][np.newaxis]
        whole = devices.whole_batches(strategy, shares)  # [1, B, ...]
        whole = whole.reshape(size, counts.shape[1], *whole.shape[-3:])
        for index, example in zip(indices, whole, strict=True):
            if index < 0:
                continue
            places = zip(starts[index], counts[index], example, strict=True)
            for start, count, sequence in places:
                values[start : start + count] = sequence[:count]
    return values


def _network_inputs(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: batch[name] for name in features.ENCODER_INPUTS}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class _RowsWithStates(batching.Examples):
    """Rows whose batches have LAYER_STATES.

    `states` are called when the first batch is wanted, [N * G, (S), K, W].
    """

    rows: batching.Examples
    states: Callable[[], tf.RaggedTensor]
    reads_texts: bool

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As `rows.batches`, with LAYER_STATES float32 [B, S, K, W].

        S is 1 for states of texts, and of an example of G sequences they are [B, G, S,
        K, W].
        """
        states, num_sequences = self.states(), self.packed.num_sequences

        def add_states(indices: Any, batch: dict[str, Any]) -> dict[str, Any]:
            mask = batch[features.INPUT_MASK]  # [B, S] or [B, G, S]
            places = tf.maximum(indices, 0)[:, tf.newaxis] * num_sequences
            places = tf.reshape(places + tf.range(num_sequences), [-1])
            length = 1 if self.reads_texts else tf.shape(mask)[-1]
            shape = tf.stack([-1, length, *states.shape[2:]])
            values = tf.gather(states, places).to_tensor(shape=shape)
            values = tf.reshape(
                values, tf.concat([tf.shape(mask)[:-1], shape[1:]], axis=0)
            )
            static = [1] if self.reads_texts else mask.shape[-1:]
            values.set_shape([*mask.shape[:-1], *static, *states.shape[2:]])
            return {**batch, features.LAYER_STATES: values}

        numbered = tf.data.Dataset.from_tensor_slices(order)
        both = tf.data.Dataset.zip((numbered, self.rows.batches(order, pad_to)))
        return both.map(add_states, num_parallel_calls=1).prefetch(2)
