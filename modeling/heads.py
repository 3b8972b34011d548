"""Layers that turn an encoder's output into the answers of a task.

A head takes `sequence_output` or `pooled_output`, never an encoder. Logits are always
float32; under a mixed policy only those of token_heads.py, whose matrices are large,
compute them in the half type.
"""

import keras
from keras import ops

from contract import features
from modeling.configs import keras_configs
from modeling.operations import fast_ops

# run_classifier.py and run_squad.py fix these, whatever the config says.
HEAD_STDDEV = 0.02
HEAD_DROPOUT = 0.1
HEAD_SITE = 4095  # where dropout is drawn, beyond the sites of any encoder's depth


class OutputProjection(keras_configs.Configured, keras.layers.Layer):
    """Logits from a [C, D] matrix that is used transposed, as the original stores it.

    Call shapes: [..., D] -> [..., C] in float32.
    """

    arguments = ("units", "stddev")
    only_dtype = "float32"

    def __init__(self, units, stddev=HEAD_STDDEV, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stddev = stddev

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(self.units, input_shape[-1]),
            initializer=keras.initializers.TruncatedNormal(stddev=self.stddev),
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(self.units,), initializer="zeros", name="bias"
        )

    def call(self, inputs):
        return ops.matmul(inputs, ops.transpose(self.kernel)) + self.bias


class ClassifierHead(keras_configs.Configured, keras.layers.Layer):
    """Dropout and logits on the pooled output; run_classifier.py's create_model.

    Call shapes: pooled_output [B, D] -> logits [B, C] float32. With `is_shared`, [B, G,
    D] -> [B, G, C], where dropout takes the same entries from all vectors of an
    example, as GPT's does: what differs between choices is then the choices alone.
    """

    arguments = ("num_classes",)
    only_dtype = "float32"
    projection_kind = OutputProjection

    def __init__(self, num_classes, **kwargs):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.logits = self.projection_kind(num_classes, name="logits")

    def build(self, input_shape):
        self.logits.build(input_shape)

    def call(self, pooled_output, seed=None, is_shared=False):
        if is_shared:
            ones = ops.ones_like(pooled_output[:, 0])  # [B, D]
            mask = fast_ops.dropout(ones, HEAD_DROPOUT, seed, HEAD_SITE)
            return self.logits(pooled_output * mask[:, None])
        hidden = fast_ops.dropout(pooled_output, HEAD_DROPOUT, seed, HEAD_SITE)
        return self.logits(hidden)


class TaggerHead(ClassifierHead):
    """The same on every position (BERT section 5.3).

    Call shapes: sequence_output [B, S, D] -> logits [B, S, C] float32.
    """


class SpanHead(keras_configs.Configured, keras.layers.Layer):
    """Start and end logits of an answer (BERT section 4.2); run_squad.py.

    Call shapes: sequence_output [B, S, D] -> start, end logits [B, S] float32 each.
    """

    arguments = ()
    only_dtype = "float32"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.logits = OutputProjection(2, name="logits")

    def build(self, input_shape):
        self.logits.build(input_shape)

    def call(self, sequence_output):
        logits = self.logits(sequence_output)  # [B, S, 2]
        return logits[..., 0], logits[..., 1]


def probabilities(problem_type, logits):
    """Softmax or, for multi_label, sigmoid of [B, C]; the number of a regression."""
    if problem_type in features.ONE_OF_SEVERAL:
        return ops.softmax(logits)
    return ops.sigmoid(logits) if problem_type == "multi_label" else logits


def answering(problem_type, model):
    """A function of features: a classifier's outputs, and its `probabilities`."""

    def forward(features):
        outputs = model(features, training=False)
        shares = probabilities(problem_type, outputs["logits"])
        return {"probabilities": shares, **outputs}

    return forward
