"""Calls of training steps, as the loop makes them."""

import numpy as np
import tensorflow as tf

from data_pipeline.batches import batching
from training import run_plan, train_step
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
    stop = options.pop("stop", None)
    return kind(
        plan(strategy=strategy, **options), model, optimizer, objective, stop=stop
    )


def plan(output_dir="", *, strategy=None, **options):
    """The plan of a run on one device, without training."""
    strategy = strategy or tf.distribute.get_strategy()
    options = {"seed": 1, "batch_size": 8, **options}
    return run_plan.Plan(output_dir=str(output_dir), strategy=strategy, **options)


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
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    return batching.without_autotuning(dataset)  # whose thread may keep the end waiting


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
