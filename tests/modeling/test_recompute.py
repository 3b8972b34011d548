"""Training with less memory: a block is computed again for its gradient."""

import json
import zipfile

import keras
import numpy as np
import tensorflow as tf

from modeling import pretrainers
from modeling.checkpoints import keras_files
from tests.modeling import random_weights


def build(config, head, recompute):
    keras.utils.set_random_seed(5)
    classes = 3 if head in pretrainers.CLASS_HEADS else None
    config = random_weights.fitting(config, head)
    return pretrainers.build(head, classes, config, recompute=recompute)


def step(model):
    variables = [variable.value for variable in model.trainable_variables]

    def run(features, seed):
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(features, training=True, seed=seed))
            loss = tf.add_n([tf.reduce_sum(tf.sin(value)) for value in outputs])
        return loss, tape.gradient(loss, variables)

    return run


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def arrays(results):
    """Tensors as they are: IndexedSlices give rows and indices; None is dropped."""
    flat = tf.nest.flatten(results, expand_composites=True)
    return [np.asarray(value) for value in flat if value is not None]


def constants(features):
    return {name: tf.constant(value) for name, value in features.items()}


def test_gradients_are_the_same_and_blocks_are_computed_twice(
    tiny_config, tiny_features
):
    features = constants(tiny_features)
    kept, again = (
        tf.function(step(build(tiny_config, "classifier", r))) for r in (False, True)
    )
    for function, times in ((kept, 2), (again, 4)):  # of two layers
        graph = function.get_concrete_function(features, seed_of(5)).graph
        types = [operation.type for operation in graph.get_operations()]
        assert types.count("Softmax") == times
    actual = arrays(again(features, seed_of(5)))
    for ours, theirs in zip(actual, arrays(kept(features, seed_of(5))), strict=True):
        # Up to the rounding of float32, of sums in another order.
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6 * scale)
    # Another mask gives another gradient, so dropout was there.
    other = arrays(again(features, seed_of(6)))
    assert max(np.abs(a - b).max() for a, b in zip(other, actual, strict=True)) > 0.01


def test_keras_file_keeps_it_or_is_older(tiny_config, tiny_features, tmp_path):
    model = build(tiny_config, "span", True)
    keras_files.save(model, f"{tmp_path}/new.keras")
    again = keras_files.load(f"{tmp_path}/new.keras")
    assert again.recompute and again.network.recompute
    with (
        zipfile.ZipFile(tmp_path / "new.keras") as new,
        zipfile.ZipFile(tmp_path / "old.keras", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            if name == "config.json":
                policy = keras.saving.serialize_keras_object(model.dtype_policy)
                written = f'"dtype": {json.dumps(policy)}'.encode()
                assert b'"dtype"' not in content
                content = content.replace(b'"recompute": true', written)
                assert b"recompute" not in content and written in content
            old.writestr(name, content)
    again = keras_files.load(f"{tmp_path}/old.keras")
    assert again.recompute is False
    for name, value in model(tiny_features).items():
        np.testing.assert_array_equal(again(tiny_features)[name], value)
