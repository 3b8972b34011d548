"""Whole steps under XLA, as a TPU runs them; there is no TPU to try it on.

A TPU compiles what a replica does in a step from the batch to the updated weights.
Here a stand-in for a strategy does the same on the CPU. XLA joins operations, which
moves float32 values of order 1 by about 1e-7; three steps of Adam, which divides by
small roots, make about 1e-6 of it.
"""

import pytest
import tensorflow as tf

from modeling import losses
from tests.training import steps
from training import inference

NUM_STEPS = 3
# Operations that a TPU lacks, or would leave to the host at each step.
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


def train(model, objective, features, strategy):
    """Results, scores and weights after some steps in two micro-batches."""
    options = {"micro_batches": 2, "scales_loss": True}
    run = steps.make(model, objective, strategy=strategy, **options)
    results, _ = steps.call(run, steps.repeat(features), [0.01] * NUM_STEPS)
    evaluate = inference.evaluate_function(
        model, objective, strategy, jit_compile=False
    )
    scores = tf.nest.map_structure(float, evaluate(features))
    return (results, scores), steps.weights(model)


@pytest.fixture(scope="module")
def runs(build_pretrainer, make_pretraining_features):
    """The same run compiled and not, and what was compiled; with dropout."""
    whole, features = Whole(), make_pretraining_features(4, 3)
    return *(
        train(build_pretrainer(0.1), losses.pretraining(), features, strategy)
        for strategy in (whole, tf.distribute.get_strategy())
    ), whole


@pytest.mark.slow
def test_compiled_steps_train_to_the_same_weights(runs):
    (results, weights), (others, other_weights), _ = runs
    for first, second in zip(
        tf.nest.flatten(results), tf.nest.flatten(others), strict=True
    ):
        assert first == pytest.approx(second, rel=1e-4)
    assert results[0]["steps"] == NUM_STEPS and results[0]["loss"] > 0.5
    # Adam's first steps are as long whatever the gradient, and so is rounding.
    steps.assert_close(weights, other_weights, atol=2e-5)


def complaints(graph):
    """Operations that no TPU runs, in a graph and in all functions that it calls."""
    definition = graph.as_graph_def(add_shapes=True)
    functions = definition.library.function
    actual = []
    for nodes in [definition.node, *(function.node_def for function in functions)]:
        for node in nodes:
            if any(word in node.op for word in HOST_OPERATIONS):
                actual.append(f"{node.name} is {node.op}, of the host")
            if tf.string.as_datatype_enum in types_of(node):
                actual.append(f"{node.name} ({node.op}) has text")
            for shape in node.attr["_output_shapes"].list.shape:
                known = not shape.unknown_rank and all(d.size >= 0 for d in shape.dim)
                if not known and node.op != OF_SHAPES:
                    actual.append(f"{node.name} ({node.op}) has an unknown shape")
    return actual


def types_of(node):
    return [
        kind
        for attribute in node.attr.values()
        for kind in (attribute.type, *attribute.list.type)
    ]


@pytest.mark.slow
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
