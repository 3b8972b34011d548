"""Runs a model over all examples of a split, on any number of devices."""

import numpy as np

from training import reporting


def predict(predict_function, batches, order, strategy):
    """The model's outputs for every example, in the order of the examples.

    Args:
        predict_function: what training.steps.predict_function builds.
        batches: tf.data.Dataset of features, one element a row of `order`.
        order: int [steps, B] index of each example; -1 marks filling to be dropped.
        strategy: the tf.distribute.Strategy.

    Returns:
        {output name: array [N, ...]}.
    """
    indices = order.reshape(-1)
    is_real = indices >= 0
    results: dict[str, list[np.ndarray]] = {}
    distributed = strategy.experimental_distribute_dataset(batches)
    for features in reporting.progress(distributed, len(order), "predicting"):
        for name, value in predict_function(features).items():
            results.setdefault(name, []).append(value.numpy())
    outputs = {}
    for name, values in results.items():
        stacked = np.concatenate(values)[is_real]
        outputs[name] = np.empty_like(stacked)
        outputs[name][indices[is_real]] = stacked
    return outputs


def mean_loss(losses, batch_size):
    """The mean over batches of their means; what an Estimator calls `loss`.

    It differs from the mean over examples where the last batch is not full.

    Args:
        losses: float [N], in input order.
        batch_size: --eval_batch_size.
    """
    starts = range(0, len(losses), batch_size)
    return np.float32(np.mean([np.mean(losses[s : s + batch_size]) for s in starts]))
