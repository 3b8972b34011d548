"""Calls of training steps, as the loop makes them."""

import numpy as np
import tensorflow as tf

from training import train_step
from training.optimizers import bert_adam


def make(
    model,
    objective,
    optimizer=None,
    strategy=None,
    *,
    kind=train_step.TrainStep,
    **options,
):
    """A step that trains the model, by default with Adam on one device."""
    optimizer = optimizer or bert_adam.BertAdam()
    optimizer.build(model.trainable_variables)
    strategy = strategy or tf.distribute.get_strategy()
    options = {"seed": 1, "jit_compile": False, **options}
    return kind(model, optimizer, objective, strategy, **options)


def call(run, batches, rates, *, step=0, count=None, scaling=None):
    """Results and scaling after `count` steps, by default one for each rate."""
    results, scaling = run(
        iter(batches),
        tf.constant(rates, tf.float32),
        tf.constant(len(rates) if count is None else count),
        tf.constant(step, tf.int64),
        scaling or train_step.Scaling.from_state({}),
    )
    return {name: float(value) for name, value in results.items()}, scaling.to_state()


def repeat(features):
    return tf.data.Dataset.from_tensors(features).repeat()


def weights(model):
    """{path within the model: array}."""
    return {v.path.split("/", 1)[1]: np.asarray(v) for v in model.trainable_variables}


def assert_close(actual, expected, atol=1e-5):
    """Compares weights, but for those that have no gradient but rounding.

    Softmax ignores what is added to all keys alike, and Adam moves their biases all the
    same.
    """
    assert actual.keys() == expected.keys()
    for path, value in expected.items():
        if not path.endswith("key/bias"):
            np.testing.assert_allclose(actual[path], value, atol=atol, err_msg=path)
