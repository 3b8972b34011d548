"""Runs a model over held-out data, on any number of devices."""

import collections

import numpy as np
import tensorflow as tf

from terminal import native_log, progress
from training.distribution import devices


class Remembered:
    """A function of held-out data, and its last result with the weights of one step.

    Args:
        evaluate: scores the model's current weights; equal arguments and weights give
            equal results.
    """

    def __init__(self, evaluate):
        self._evaluate = evaluate
        self._last: tuple = ()
        self._kept: tuple = ()

    def __call__(self, *arguments):
        result = self._evaluate(*arguments)
        self._last = (arguments, result)
        return result

    def keep(self, step):
        """Says that the last call was with the weights of this step."""
        self._kept = (step, *self._last)

    def at(self, step, *arguments):
        """The result with the model's current weights, which are those of this step."""
        if self._kept and self._kept[:2] == (step, arguments):
            return self._kept[2]
        return self(*arguments)


def predict(predict_function, batches, order, strategy, name="predicting: batch"):
    """The model's outputs for every example, in the order of the examples.

    Outputs [N, ...] of tokens are padded to the longest batch: -inf, or -1 for
    integers.

    Args:
        predict_function: built by training.steps.predict_function.
        batches: tf.data.Dataset of features, one batch a row of `order`.
        order: int [steps, B] index of each example; -1 marks padding to be dropped.
        name: of the progress.
    """
    indices = order.reshape(-1)
    is_real = indices >= 0
    results: dict[str, list[np.ndarray]] = {}
    distributed = devices.distributed(strategy, batches)
    for features in progress.track(distributed, len(order), name):
        for name, value in predict_function(features).items():
            results.setdefault(name, []).append(value.numpy())
        native_log.end()  # TensorFlow is up
    outputs = {}
    for name, values in results.items():
        shares = np.stack(_equally_long(values))  # [steps, B / processes, ...]
        whole = devices.whole_batches(strategy, shares)
        stacked = whole.reshape(-1, *whole.shape[2:])[is_real]
        outputs[name] = np.empty_like(stacked)
        outputs[name][indices[is_real]] = stacked
    return outputs


def predict_all(predict_function, settings, examples, batch_size=None, **progress):
    """`predict` for all rows; arguments as of `predict_rows`, or of `predict`.

    Without a `batch_size` it is that of predictions.
    """
    strategy = settings.run.strategy
    size = batch_size or settings.predict_batch_size
    order = examples.evaluation_order(devices.fitting_batch_size(size, strategy))
    order = order[::-1]  # a batch too long for the memory is the first
    batches = examples.batches(order, settings.pad_to)
    return predict(predict_function, batches, order, strategy, **progress)


def predict_rows(predict_function, examples, rows, settings):
    """`predict` for some rows, int [N] ascending; examples of one length go together.

    Args:
        examples: a fine_tuning.Examples.
        settings: a fine_tuning.Settings.
    """
    strategy = settings.run.strategy
    size = devices.fitting_batch_size(settings.eval_batch_size, strategy)
    order = examples.evaluation_order(size)
    order = order[np.isin(order, rows)]
    order = np.pad(order, (0, -len(order) % size), constant_values=-1)
    order = order.reshape(-1, size)
    batches = examples.batches(order, settings.pad_to)
    places = np.where(order < 0, -1, np.searchsorted(rows, order))
    return predict(predict_function, batches, places, strategy)


def _equally_long(arrays):
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


def objective_scores(evaluate_function, batches, num_batches, strategy):
    """{name: np.float32} of losses and metrics over `num_batches` batches.

    `loss` is the mean over batches, as in an Estimator; its parts and the metrics are
    over all batches as if they were one. steps.evaluate_function builds the function;
    `batches` are for devices.distributed.
    """
    loss = 0.0
    totals: dict[str, float] = collections.defaultdict(float)
    counts: dict[str, float] = collections.defaultdict(float)
    distributed = devices.distributed(strategy, batches)
    for features in progress.track(distributed, num_batches, "evaluating: batch"):
        found = tf.nest.map_structure(float, evaluate_function(features))
        native_log.end()  # TensorFlow is up
        pairs = dict(found["metrics"])
        for part, total in found["totals"].items():
            loss += total / found["counts"][part] / num_batches
            pairs[part] = (total, _exact_count(part, found))
        for name, (total, count) in pairs.items():
            totals[name] += total
            counts[name] += count
    scores = {name: totals[name] / (counts[name] or 1.0) for name in sorted(totals)}
    return {name: np.float32(score) for name, score in {"loss": loss, **scores}.items()}


def _exact_count(part, found):
    """The count of a part; its accuracy's, which has no epsilon, where there is one."""
    accuracy = part.removesuffix("_loss") + "_accuracy"
    return found["metrics"].get(accuracy, (0, found["counts"][part]))[1]


def mean_loss(losses, batch_size):
    """The mean of the batches' means of float [N]; what an Estimator calls `loss`."""
    starts = range(0, len(losses), batch_size)
    return np.float32(np.mean([np.mean(losses[s : s + batch_size]) for s in starts]))


def first_batch(predict_function, batches, strategy):
    """The features of one batch and the model's outputs, dicts of arrays [B, ...]."""
    features = next(iter(devices.distributed(strategy, batches)))
    outputs = predict_function(features)
    local = {
        name: np.concatenate(strategy.experimental_local_results(value))
        for name, value in features.items()
    }

    def whole(shares):
        return devices.whole_batches(strategy, np.asarray(shares)[None])[0]

    return tuple(
        {name: whole(value) for name, value in part.items()}
        for part in (local, outputs)
    )
