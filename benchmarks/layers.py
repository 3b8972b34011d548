"""Times the operations of modeling/fast_ops.py against the plain ones, in pairs.

    python benchmarks/layers.py --tokens=24

Prints one JSON object: median milliseconds of a forward and a backward pass of each
operation and of the plain one in the same rounds, and the matrix-product peak.
"""

import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from training import environment

environment.prepare()  # before TensorFlow is imported

import keras
import tensorflow as tf
from absl import app, flags

from benchmarks import ours
from modeling import fast_ops

FLAGS = flags.FLAGS


def forward_backward(operation, x):
    """A compiled function that runs the operation and its gradient once."""

    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = operation(x)
        return tape.gradient(y, x)

    return lambda: run(x)


def milliseconds(operations, x):
    """Median time of each on `x`; one call of each a round, so that drift hits all."""
    functions = {name: forward_backward(op, x) for name, op in operations.items()}
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(FLAGS.rounds):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: round(statistics.median(t), 3) for name, t in times.items()}


def main(_):
    """Times each operation beside the plain one."""
    batch, length = FLAGS.batch_size, FLAGS.tokens
    inner = tf.random.normal([batch, length, 4 * FLAGS.hidden_size])
    weights = tf.random.normal([batch, FLAGS.heads, length, length])
    seed = tf.Variable([1, 2], dtype=tf.int64)
    layer = keras.layers.Dropout(0.1)
    gelu = {
        "ours": lambda x: fast_ops.gelu(x, approximate=True, fused=True),
        "plain": lambda x: tf.nn.gelu(x, approximate=True),
    }
    dropout = {
        "ours": lambda x: fast_ops.dropout(x, 0.1, seed, 1),
        "keras": lambda x: layer(x, training=True),
    }
    results = {
        "peak_gflops": round(ours.peak_gflops()),
        "gelu": milliseconds(gelu, inner),
        "dropout": milliseconds(dropout, weights),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    flags.DEFINE_integer("tokens", 128, "Length of the sequences.")
    flags.DEFINE_integer("batch_size", 32, "Sequences.")
    flags.DEFINE_integer("hidden_size", 384, "Width of the network.")
    flags.DEFINE_integer("heads", 12, "Attention heads.")
    flags.DEFINE_integer("rounds", 20, "Calls of each that are timed.")
    app.run(main)
