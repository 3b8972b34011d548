"""Layers that turn an encoder's output into the answers of a task.

A head takes `sequence_output` or `pooled_output`, never an encoder. Logits are float32.
"""

import keras
from keras import ops

from modeling import activations, bert, dropout_sites, kernels
from modeling.configs import keras_configs

# run_classifier.py and run_squad.py fix these, whatever the config has.
HEAD_STDDEV = 0.02
HEAD_DROPOUT = 0.1


class ClassifierHead(keras_configs.Configured, keras.layers.Layer):
    """Dropout and logits on the pooled output; run_classifier.py's create_model.

    Call shapes: pooled_output [B, D] -> logits [B, C] float32; of a tagger [B, S, D] ->
    [B, S, C]. With `is_shared`, [B, G, D] -> [B, G, C], where dropout takes the same
    entries from all vectors of an example, as GPT's does: what differs between choices
    is then the choices alone.
    """

    arguments = ("num_classes", "is_gpt")
    parts = ("logits",)
    only_dtype = "float32"

    def __init__(self, num_classes, is_gpt=False, **kwargs):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.is_gpt = is_gpt
        self.logits = bert.OutputProjection(
            num_classes, HEAD_STDDEV, is_gpt, name="logits"
        )

    def call(self, pooled_output, seed=None, is_shared=False):
        if is_shared:
            ones = ops.ones_like(pooled_output[:, 0])  # [B, D]
            mask = kernels.dropout(ones, HEAD_DROPOUT, seed, dropout_sites.HEAD)
            return self.logits(pooled_output * mask[:, None])
        hidden = kernels.dropout(pooled_output, HEAD_DROPOUT, seed, dropout_sites.HEAD)
        return self.logits(hidden)


class DenseClassifierHead(keras_configs.Configured, keras.layers.Layer):
    """Logits by a dense layer that reads the first token, as Hugging Face has them.

    For a choice it may have a dense layer of another name, its summary.

    Call shapes: as ClassifierHead.
    """

    arguments = ("config", "num_classes", "is_choice")
    parts = ("dense", "logits")
    only_dtype = "float32"

    def __init__(self, config, num_classes, is_choice=False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.num_classes = config, num_classes
        self.is_choice = is_choice
        self.settings = config.spec.classifier_of(config)
        is_summary = is_choice and self.settings.has_summary
        names = ("summary", "logits") if is_summary else ("dense", "out_proj")
        self.drops_input = self.settings.drops_input and not is_summary
        units = config.hidden_size, num_classes
        self.dense, self.logits = (
            bert.OutputProjection(size, HEAD_STDDEV, name=name)
            for size, name in zip(units, names, strict=True)
        )

    def call(self, first, seed=None, is_shared=False):
        activation, rate, *_ = self.settings
        if self.drops_input:
            before, site = self.settings.input_rate, dropout_sites.DENSE_CLASSIFIER
            before = rate if before is None else before
            first = kernels.dropout(first, before, seed, site)
        hidden = self.dense(first)
        hidden = activations.activate(activation, hidden, training=seed is not None)
        hidden = kernels.dropout(hidden, rate, seed, dropout_sites.HEAD)
        return self.logits(hidden)


class SpanHead(keras_configs.Configured, keras.layers.Layer):
    """Start and end logits of an answer (BERT section 4.2); run_squad.py.

    Call shapes: sequence_output [B, S, D] -> start, end logits [B, S] float32 each.
    """

    arguments = ()
    parts = ("logits",)
    only_dtype = "float32"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.logits = bert.OutputProjection(2, HEAD_STDDEV, name="logits")

    def call(self, sequence_output, seed=None):
        logits = self.logits(sequence_output)  # [B, S, 2]
        return logits[..., 0], logits[..., 1]
