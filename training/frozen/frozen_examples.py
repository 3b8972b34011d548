"""Examples whose batches hold what a frozen network says of them."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from contract import features
from terminal import native_log, progress
from training import fine_tuning
from training.distribution import devices
from training.frozen import layer_states


class Rows(fine_tuning.Examples, Protocol):
    """Examples that a network can be asked about: data_pipeline's batching.Examples."""

    @property
    def sequence_lengths(self) -> np.ndarray:
        """int64 [N, G], tokens of each sequence."""

    def input_digest(self) -> str:
        """A short text that differs where tokens do."""


@dataclasses.dataclass(frozen=True)
class FrozenNetwork:
    """A model whose network is not trained, and how a run asks it.

    Attributes:
        model: a models.BertModel with a `source`, a FeatureSource.
    """

    model: Any
    settings: fine_tuning.Settings

    @functools.cached_property
    def digest(self) -> str:
        """Differs where the states of equal rows do."""
        identity = json.dumps(self.model.source.states_identity(), sort_keys=True)
        found = hashlib.sha256(identity.encode())
        for variable in self.model.network.variables:
            found.update(np.ascontiguousarray(variable).data)
        return found.hexdigest()

    def key(self, rows: Rows) -> str:
        """Differs where the states do."""
        both = f"{self.digest} {rows.input_digest()}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]

    def places(self, rows: Rows) -> layer_states.Places:
        """Those of the states of each token, or of each text."""
        counts = rows.sequence_lengths
        of_texts = self.model.source.reads_texts
        return layer_states.places(np.ones_like(counts) if of_texts else counts)

    def states(self, rows: Rows, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields examples int [B], -1 for any, and float32 [B, G, S, K, W] of them.

        Every process yields all of them; `name` is that of the progress.
        """
        strategy = self.settings.run.strategy
        predict = fine_tuning.compiled(self._layer_states, self.settings)
        size = devices.fitting_batch_size(self.settings.predict_batch_size, strategy)
        order = rows.evaluation_order(size)[::-1]  # the longest first, as to score
        batches = rows.batches(order, self.settings.pad_to).map(_inputs)
        tracked = progress.track(
            devices.distributed(strategy, batches), len(order), f"{name}: batch"
        )
        num_sequences = rows.sequence_lengths.shape[1]
        for batch, indices in zip(tracked, order, strict=True):
            shares = predict(batch)[features.LAYER_STATES].numpy()[np.newaxis]
            native_log.end()  # TensorFlow is up
            whole = devices.whole_batches(strategy, shares)
            yield indices, whole.reshape(size, num_sequences, *whole.shape[-3:])

    def _layer_states(self, batch: Any, training: bool) -> dict[str, Any]:
        return {features.LAYER_STATES: self.model.source.layer_states(batch)}


def _inputs(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: batch[name] for name in features.ENCODER_INPUTS}


@dataclasses.dataclass(frozen=True)
class FrozenExamples:
    """Rows whose batches have LAYER_STATES.

    `states` is called when the first batch is wanted.
    """

    rows: Rows
    states: Callable[[], layer_states.States]

    def digest(self) -> str:
        """That of the rows, as is all that is asked here."""
        return self.rows.digest()

    def names(self, indices: np.ndarray) -> list[str]:
        """As `rows.names`."""
        return self.rows.names(indices)

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `rows.training_order`."""
        return self.rows.training_order(**settings)

    def evaluation_order(self, batch_size: int) -> np.ndarray:
        """As `rows.evaluation_order`."""
        return self.rows.evaluation_order(batch_size)

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As `rows.batches`, with LAYER_STATES float32 [B, S, K, W].

        S is 1 for states of texts, and of an example of G sequences they are [B, G, S,
        K, W].
        """
        states = self.states()

        def with_states(indices: Any, batch: dict[str, Any]) -> dict[str, Any]:
            mask = batch[features.INPUT_MASK]  # [B, S] or [B, G, S]
            length = 1 if states.are_of_texts else tf.shape(mask)[-1]
            found = tf.numpy_function(states.padded, [indices, length], tf.float32)
            if len(mask.shape) == 2:
                found = tf.squeeze(found, axis=1)
            static = [1] if states.are_of_texts else mask.shape[-1:]
            found.set_shape([*mask.shape[:-1], *static, *states.values.shape[1:]])
            return {**batch, features.LAYER_STATES: found}

        numbered = tf.data.Dataset.from_tensor_slices(order)
        both = tf.data.Dataset.zip((numbered, self.rows.batches(order, pad_to)))
        return both.map(with_states, num_parallel_calls=1).prefetch(2)
