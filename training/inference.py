"""Runs a model over batches, on any number of devices: the one loop without training.

Evaluation, prediction, extraction and the states of a frozen network use `run_batches`.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.batches import batching, packing
from modeling import losses
from terminal import progress
from training import carried_states, run_plan, train_step
from training.distribution import devices

Function = Callable[[Any], dict[str, Any]]  # features of a batch -> its outputs


def predict_function(
    model: Callable[..., dict[str, Any]],
    strategy: tf.distribute.Strategy,
    *,
    jit_compile: bool,
) -> Function:
    """Builds the compiled function from features [B, ...] to this process's outputs.

    `model` is called as model(features, training=False).
    """

    @train_step.graph_function(jit_compile=True if jit_compile else None)
    def forward(features):
        return model(features, training=False)

    def replica_predict(features):
        # A function for each replica; `run` would share one, and its variables.
        return forward(features)

    def predict(features):
        outputs = strategy.run(replica_predict, args=(features,))
        # No exchange between devices, whose shapes must not change from call to call.
        return {
            name: tf.concat(strategy.experimental_local_results(value), axis=0)
            for name, value in outputs.items()
        }

    if jit_compile or strategy.num_replicas_in_sync > 1:
        return train_step.graph_function(predict, reduce_retracing=True)
    traced = {}

    def predict_any_shape(features):
        # One trace for all shapes: retracing would make one of the first shape, too.
        names, rank = tuple(features), features["input_mask"].ndim
        any_size = [None] * rank
        if names not in traced:
            specs = {  # what each token has, such as its layer states, has one size
                name: tf.TensorSpec([*any_size, *v.shape[rank:]][: v.ndim], v.dtype)
                for name, v in features.items()
            }
            traced[names] = train_step.graph_function(predict, input_signature=[specs])
        return traced[names](features)

    return predict_any_shape


def evaluate_function(
    model: Any,
    objective: losses.Objective,
    strategy: tf.distribute.Strategy,
    *,
    jit_compile: bool,
    states: carried_states.CarriedStates | None = None,
) -> Function:
    """Builds the compiled function that scores one batch, without dropout.

    Features [B, ...] -> {"totals": {part: ...}, "counts": {part: ...}, "metrics":
    {name: (total, count)}}, float32 sums over the whole batch, so no logits leave the
    devices. A batch begins with the `states` that the one before ended with.
    """

    @train_step.graph_function(jit_compile=True if jit_compile else None)
    def forward(features):
        outputs = model(features, training=False)
        results = {
            "totals": objective.totals(features, outputs),
            "counts": objective.counts(features),
            "metrics": objective.metrics(features, outputs),
        }
        if states:
            results[carried_states.STATES] = states.choose(outputs)
        return results

    def replica_evaluate(features):
        results = states.run(forward, features) if states else forward(features)
        return train_step.sum_over_replicas(results)

    @train_step.graph_function(reduce_retracing=True)
    def evaluate(features):
        results = strategy.run(replica_evaluate, args=(features,))
        return train_step.first_replica(strategy, results)

    return evaluate


def run_batches(
    function: Function,
    batches: Any,
    strategy: tf.distribute.Strategy,
    name: str,
    num_batches: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields what the function returns for each batch, as NumPy's arrays.

    `batches` are as in devices.distributed, or a list where there is one replica;
    `name` is that of the progress, which the caller shows where `num_batches` is None.
    """
    is_list = isinstance(batches, list)
    distributed = batches if is_list else devices.distributed(strategy, batches)
    if num_batches is None:
        tracked = progress.with_first_named(distributed, name)
    else:
        tracked = progress.track(distributed, num_batches, name)
    for features in tracked:
        outputs = tf.nest.map_structure(lambda v: v.numpy(), function(features))
        yield outputs


def predict(
    function: Function,
    batches: tf.data.Dataset,
    order: np.ndarray,
    strategy: tf.distribute.Strategy,
    name: str = "predicting: batch",
    *,
    report: Callable[[int], object] | None = None,
) -> dict[str, np.ndarray]:
    """The model's outputs for every example, in the order of the examples.

    Outputs [N, ...] of tokens are padded to the longest batch: -inf, or -1 for
    integers.

    Args:
        function: a predict_function.
        batches: features, one batch a row of `order`.
        order: int [steps, B] index of each example; -1 marks padding to be dropped.
        report: called with the examples done after each batch, in place of progress.
    """
    indices = order.reshape(-1)
    is_real = indices >= 0
    results: dict[str, list[np.ndarray]] = {}
    count = None if report else len(order)
    all_outputs = run_batches(function, batches, strategy, name, count)
    for step, outputs in enumerate(all_outputs, start=1):
        for output, value in outputs.items():
            results.setdefault(output, []).append(value)
        if report:
            report(np.count_nonzero(order[:step] >= 0))
    ordered = {}
    for output, values in results.items():
        shares = np.stack(_pad_equally(values))  # [steps, B / processes, ...]
        whole = devices.whole_batches(strategy, shares)
        stacked = whole.reshape(-1, *whole.shape[2:])[is_real]
        ordered[output] = np.empty_like(stacked)
        ordered[output][indices[is_real]] = stacked
    return ordered


def _pad_equally(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Pads arrays [B, S, ...] to the longest S; leaves [B] alone."""
    if arrays[0].ndim == 1:
        return arrays
    longest = max(array.shape[1] for array in arrays)
    filling = -np.inf if arrays[0].dtype.kind == "f" else -1
    none = [(0, 0)] * (arrays[0].ndim - 2)
    return [
        np.pad(
            array,
            [(0, 0), (0, longest - array.shape[1]), *none],
            constant_values=filling,
        )
        for array in arrays
    ]


def packed_function(
    model: Callable[..., dict[str, Any]], batch_size: int
) -> Callable[..., dict[str, np.ndarray]]:
    """Builds the function from a packing.Packed to `predict` for all its examples.

    It runs on the devices of the current strategy, and takes the options of `predict`.
    """
    strategy = tf.distribute.get_strategy()
    function = predict_function(model, strategy, jit_compile=False)

    def predict_packed(packed: packing.Packed, **options: Any) -> dict[str, np.ndarray]:
        size = min(batch_size, len(packed))
        order = batching.evaluation_order(packed.lengths, size)[::-1]
        if len(order) == strategy.num_replicas_in_sync == 1:
            # To make a Dataset takes ten times as long as to answer one text.
            batches: Any = [packing.gather(packed, order[0])]
        else:
            batches = batching.batches(packed, order)
        return predict(function, batches, order, strategy, **options)

    return predict_packed


class Predictor:
    """Runs a function of features over the rows of a split.

    `batch_size` is that of devices.fitting_batch_size; batches are as long as their
    longest text, or `pad_to` tokens.
    """

    def __init__(
        self,
        function: Function,
        strategy: tf.distribute.Strategy,
        *,
        batch_size: int,
        pad_to: int | None = None,
    ):
        self._function, self._strategy = function, strategy
        self._batch_size, self._pad_to = batch_size, pad_to

    def __call__(
        self,
        examples: batching.Examples,
        *,
        batch_size: int | None = None,
        name: str = "predicting: batch",
    ) -> dict[str, np.ndarray]:
        """`predict` for all rows."""
        order = examples.evaluation_order(self._fitting(batch_size, len(examples)))
        order = order[::-1]  # a batch too long for the memory is the first
        batches = examples.batches(order, self._pad_to)
        return predict(self._function, batches, order, self._strategy, name)

    def rows(
        self, examples: batching.Examples, rows: np.ndarray
    ) -> dict[str, np.ndarray]:
        """`predict` for some rows, int [N] ascending; equal lengths go together."""
        size = self._fitting(None, len(examples))
        order = examples.evaluation_order(size)
        order = order[np.isin(order, rows)]
        order = np.pad(order, (0, -len(order) % size), constant_values=-1)
        order = order.reshape(-1, size)
        batches = examples.batches(order, self._pad_to)
        places = np.where(order < 0, -1, np.searchsorted(rows, order))
        return predict(self._function, batches, places, self._strategy)

    def _fitting(self, batch_size: int | None, num_rows: int) -> int:
        size = batch_size or self._batch_size
        return devices.fitting_batch_size(size, self._strategy, num_rows)


def predictor(
    plan: run_plan.Plan,
    model: Callable[..., dict[str, Any]],
    batch_size: int | None = None,
) -> Predictor:
    """Runs a model, or any function of features and `training`, over rows of a run."""
    return Predictor(
        predict_function(model, plan.strategy, jit_compile=plan.jit_compile),
        plan.strategy,
        batch_size=batch_size or plan.predict_batch_size,
        pad_to=plan.pad_to,
    )


def objective_scores(
    function: Function,
    batches: Any,
    num_batches: int,
    strategy: tf.distribute.Strategy,
) -> dict[str, np.float32]:
    """{name: score} of losses and metrics over all batches.

    `loss` is the mean over batches, as in an Estimator; its parts and the metrics are
    over all batches as if they were one. `function` is an evaluate_function.
    """
    loss = 0.0
    totals: dict[str, float] = collections.defaultdict(float)
    counts: dict[str, float] = collections.defaultdict(float)
    for sums in run_batches(
        function, batches, strategy, "evaluating: batch", num_batches
    ):
        sums = tf.nest.map_structure(float, sums)
        pairs = dict(sums["metrics"])
        for part, total in sums["totals"].items():
            loss += total / sums["counts"][part] / num_batches
            pairs[part] = (total, _exact_count(part, sums))
        for name, (total, count) in pairs.items():
            totals[name] += total
            counts[name] += count
    scores = {name: totals[name] / (counts[name] or 1.0) for name in sorted(totals)}
    return {name: np.float32(score) for name, score in {"loss": loss, **scores}.items()}


def _exact_count(part: str, sums: Mapping[str, Any]) -> float:
    """The count of a part; its accuracy's, which has no epsilon, where there is one."""
    accuracy = part.removesuffix("_loss") + "_accuracy"
    return sums["metrics"].get(accuracy, (0, sums["counts"][part]))[1]


class Extracted(NamedTuple):
    """An example's number from 0, int32 [S] tokens and values [...]."""

    unique_id: int
    input_ids: np.ndarray
    values: np.ndarray


def extract_in_order(
    function: Function,
    batches: Any,
    strategy: tf.distribute.Strategy,
    *,
    report: Callable[..., object],
    cut: Callable[[np.ndarray, int], np.ndarray],
    first: int = 0,
) -> Iterator[list[Extracted]]:
    """Yields results without a gap, from number `first` on, once they are complete.

    Args:
        function: a predict_function; its outputs are unique_ids int [B], where -1 marks
            padding that is dropped, input_ids and input_mask [B, S], and values [B,
            ...].
        report: called with (tokens done, lines=lines done) after each batch.
        cut: values of an example, and its length without padding -> those to keep.
    """
    waiting: dict[int, Extracted] = {}
    num_tokens = num_lines = 0
    next_id = first
    for outputs in run_batches(function, batches, strategy, "extracting: first batch"):
        lengths = outputs["input_mask"].sum(axis=1)
        for row, unique_id in enumerate(outputs["unique_ids"].tolist()):
            if unique_id < 0:
                continue
            length = int(lengths[row])
            waiting[unique_id] = Extracted(
                unique_id,
                outputs["input_ids"][row, :length],
                cut(outputs["values"][row], length),
            )
            num_tokens += length
            num_lines += 1
        ready = []
        while next_id in waiting:
            ready.append(waiting.pop(next_id))
            next_id += 1
        if ready:
            yield ready
        report(num_tokens, lines=num_lines)


class CachedEvaluation:
    """A function of held-out data, and its last result with the weights of one step."""

    def __init__(self, evaluate: Callable[..., Any]):
        self._evaluate = evaluate
        self._last: tuple = ()
        self._kept: tuple = ()

    def __call__(self, *arguments: Any) -> Any:
        scored = self._evaluate(*arguments)
        self._last = (arguments, scored)
        return scored

    def keep(self, step: int) -> None:
        """Keeps the last call's result, which was with the weights of this step."""
        self._kept = (step, *self._last)

    def at(self, step: int, *arguments: Any) -> Any:
        """The result with the model's current weights, which are those of this step."""
        if self._kept and self._kept[:2] == (step, arguments):
            return self._kept[2]
        return self(*arguments)
