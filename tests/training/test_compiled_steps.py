"""Whole steps under XLA, as a TPU runs them; there is no TPU to try it on.

A TPU compiles what a replica does in a step from the batch to the updated weights.
Here a stand-in for a strategy does the same on the CPU. XLA joins operations, which
moves float32 values of order 1 by about 1e-7; three steps of Adam, which divides by
small roots, make about 1e-6 of it.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from training import inference, optimizers, train_step

NUM_STEPS = 3
# What a TPU cannot do, or would ask the host for at each step.
HOST_OPERATIONS = ("PyFunc", "Print", "Assert", "Summary", "Send", "Recv", "Host")
# Its result is how many axes are summed, which XLA finds out when it compiles.
OF_SHAPES = "BroadcastGradientArgs"


class Whole:
    """One replica, each of whose functions is compiled as one; keeps their graphs."""

    num_replicas_in_sync = 1

    def __init__(self):
        self.compiled, self.graphs = {}, []

    def run(self, function, args):
        if function not in self.compiled:
            self.compiled[function] = tf.function(
                function, jit_compile=True, autograph=False
            )
        whole = self.compiled[function]
        self.graphs.append(whole.get_concrete_function(*args).graph)
        return whole(*args)

    def experimental_local_results(self, value):
        return (value,)


@pytest.fixture(scope="module")
def pretraining_features(make_pretraining_features):
    return make_pretraining_features(4, 3)


def trained(model, objective, features, strategy, **options):
    """Results, scores and weights after some steps in two micro-batches."""
    adam = optimizers.BertAdam()
    adam.build(model.trainable_variables)
    run = train_step.TrainStep(
        *(model, adam, objective, strategy),
        seed=1,
        jit_compile=False,
        micro_batches=2,
        **options,
    )
    results, _ = run(
        iter(tf.data.Dataset.from_tensors(features).repeat()),
        tf.fill([NUM_STEPS], 0.01),
        tf.constant(NUM_STEPS),
        tf.constant(0, tf.int64),
        train_step.Scaling.from_state({}),
    )
    evaluate = inference.evaluate_function(
        model, objective, strategy, jit_compile=False
    )
    found = tf.nest.map_structure(float, (results, evaluate(features)))
    weights = {
        v.path.split("/", 1)[1]: np.asarray(v) for v in model.trainable_variables
    }
    return found, weights


@pytest.fixture(
    scope="module",
    params=[
        # test_precision.py compiles a training step of one head every day.
        pytest.param("pretraining", marks=pytest.mark.slow),
        pytest.param("classifier", marks=pytest.mark.slow),
    ],
)
def runs(request, build_pretrainer, build_classifier, pretraining_features):
    """The same run compiled and not, and what was compiled; with dropout."""
    features, options = pretraining_features, {"scales_loss": True}
    build = functools.partial(build_pretrainer, dropout=0.1)
    objective = losses.pretraining()
    if request.param == "classifier":  # without what scaled gradients need
        features = {n: v for n, v in features.items() if n.startswith(("input", "seg"))}
        features["label_ids"] = np.array([0, 1, 2, 1], np.int32)
        build, objective = build_classifier, losses.classifier("classification")
        options = {}
    whole = Whole()
    compiled = trained(build(), objective, features, whole, **options)
    default = tf.distribute.get_strategy()
    return compiled, trained(build(), objective, features, default, **options), whole


def test_compiled_steps_train_to_the_same_weights(runs):
    (results, weights), (others, other_weights), _ = runs
    for first, second in zip(
        tf.nest.flatten(results), tf.nest.flatten(others), strict=True
    ):
        assert first == pytest.approx(second, rel=1e-4)
    assert results[0]["steps"] == NUM_STEPS and results[0]["loss"] > 0.5
    assert weights.keys() == other_weights.keys()
    for path, value in weights.items():
        # What has no gradient but rounding is moved by Adam all the same.
        if not path.endswith("key/bias"):
            # Adam's first steps are as long whatever the gradient, and so is rounding.
            np.testing.assert_allclose(
                value, other_weights[path], atol=2e-5, err_msg=path
            )


def complaints(graph):
    """What no TPU could run of a graph and of all functions that it calls."""
    definition = graph.as_graph_def(add_shapes=True)
    functions = definition.library.function
    found = []
    for nodes in [definition.node, *(function.node_def for function in functions)]:
        for node in nodes:
            if any(word in node.op for word in HOST_OPERATIONS):
                found.append(f"{node.name} is {node.op}, of the host")
            if tf.string.as_datatype_enum in types_of(node):
                found.append(f"{node.name} ({node.op}) has text")
            for shape in node.attr["_output_shapes"].list.shape:
                known = not shape.unknown_rank and all(d.size >= 0 for d in shape.dim)
                if not known and node.op != OF_SHAPES:
                    found.append(f"{node.name} ({node.op}) has an unknown shape")
    return found


def types_of(node):
    return [
        kind
        for attribute in node.attr.values()
        for kind in (attribute.type, *attribute.list.type)
    ]


def test_compiled_steps_have_nothing_that_a_tpu_lacks(runs):
    *_, whole = runs
    assert len(whole.graphs) == 2  # a step of training, evaluation
    for graph in whole.graphs:
        assert complaints(graph) == []
    # They were looked at with the functions inside, forward, backward and the update.
    definition = whole.graphs[0].as_graph_def()
    inside = {n.op for f in definition.library.function for n in f.node_def}
    everything = inside | {node.op for node in definition.node}
    assert {"SparseSoftmaxCrossEntropyWithLogits", "TanhGrad"} <= inside
    assert {"While", "AssignVariableOp", "Sqrt"} <= everything
