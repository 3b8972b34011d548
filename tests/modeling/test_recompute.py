"""Training with less memory: a block is computed again for its gradient."""

import dataclasses
import json
import re
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers
from modeling.checkpoints import keras_files
from tests.modeling import random_weights

LAYERS = 2


@pytest.fixture
def shallow_config(tiny_config):
    """One layer, because each of them takes its time to compile."""
    return dataclasses.replace(tiny_config, num_hidden_layers=1)


def build(config, head, recompute):
    keras.utils.set_random_seed(5)
    classes = 3 if head in pretrainers.CLASS_HEADS else None
    config = random_weights.fitting(config, head)
    return pretrainers.build(head, classes, config, recompute=recompute)


def step(model):
    """(features, seed) -> the sum of some function of the outputs, and gradients."""
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


def assert_equal(actual, expected):
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def assert_close(actual, expected):
    """Up to the rounding of float32, of sums in another order."""
    for ours, theirs in zip(actual, expected, strict=True):
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6 * scale)


# The others read the encoder's output in their own ways; a classifier and a tagger are
# in the two tests after this one.
DAILY_HEADS = ("none",)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(head, marks=[] if head in DAILY_HEADS else pytest.mark.slow)
        for head in pretrainers.HEADS
    ],
)
def test_gradients_are_the_same(tiny_config, tiny_features, head):
    """With dropout, whose masks are the same in both passes."""
    features = constants(tiny_features)
    kept, again = (
        tf.function(step(build(tiny_config, head, r))) for r in (False, True)
    )
    expected = arrays(kept(features, seed_of(5)))
    actual = arrays(again(features, seed_of(5)))
    # The bare model's loss reads every layer, and gradients that meet at the output of
    # a block are added in another order.
    (assert_close if head == "none" else assert_equal)(actual, expected)
    # Another mask gives another gradient, so dropout was there.
    other = arrays(again(features, seed_of(6)))
    assert max(np.abs(a - b).max() for a, b in zip(other, actual, strict=True)) > 0.01


def count(function, features, kind):
    """Operations of a kind in the graph of a function."""
    graph = function.get_concrete_function(features, seed_of(5)).graph
    return sum(operation.type == kind for operation in graph.get_operations())


@pytest.mark.slow
def test_blocks_are_computed_twice(tiny_config, tiny_features):
    features = constants(tiny_features)
    kept, again = (
        tf.function(step(build(tiny_config, "classifier", r))) for r in (False, True)
    )
    assert count(kept, features, "Softmax") == LAYERS
    assert count(again, features, "Softmax") == 2 * LAYERS
    # The dropout of the head and of the embeddings is drawn once, as before.
    draw = "StatelessRandomUniformFullIntV2"
    assert count(kept, features, draw) > 0
    drawn_in_blocks = count(again, features, draw) - count(kept, features, draw)
    per_place = count(kept, features, draw) // (2 + 3 * LAYERS)
    assert drawn_in_blocks == 3 * LAYERS * per_place
    # And the table is read once; what the last block picks is picked again.
    assert count(again, features, "GatherV2") == count(kept, features, "GatherV2") + 1


def test_only_training_is_computed_twice(tiny_config, tiny_features):
    """Without a seed the graph is the same, operation for operation."""
    features = constants(tiny_features)

    def operations(recompute):
        model = build(tiny_config, "classifier", recompute)
        run = tf.function(lambda features: step_without_seed(model, features))
        graph = run.get_concrete_function(features).graph
        return [operation.type for operation in graph.get_operations()]

    def step_without_seed(model, features):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(features)["logits"])
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    assert operations(True) == operations(False)


@pytest.mark.slow
def test_xla_computes_blocks_twice(shallow_config, tiny_features):
    """It merges equal operations, and must not merge the two passes."""
    features = constants(tiny_features)
    kept, again = (
        tf.function(step(build(shallow_config, "classifier", r)), jit_compile=True)
        for r in (False, True)
    )
    for function, times in ((kept, 1), (again, 2)):
        program = function.experimental_get_compiler_ir(features, seed_of(5))
        # The exponentials of softmax; nothing else in the network has any.
        found = re.findall(r" exponential\(", program(stage="optimized_hlo"))
        assert len(found) == times
    expected = arrays(kept(features, seed_of(5)))
    actual = arrays(again(features, seed_of(5)))
    assert_close(actual, expected)


@pytest.mark.parametrize("recompute", [False, True])
def test_keras_file_keeps_it(tiny_config, tmp_path, recompute):
    path = f"{tmp_path}/m.keras"
    keras_files.save(build(tiny_config, "span", recompute), path)
    again = keras_files.load(path)
    assert again.recompute == again.network.recompute == recompute


def test_older_keras_file_loads(tiny_config, tiny_features, tmp_path):
    """One that was written before there was a choice, and that names a policy."""
    model = build(tiny_config, "span", True)
    keras_files.save(model, f"{tmp_path}/new.keras")
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
