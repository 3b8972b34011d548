"""BERT's relatives, by what they do otherwise: one network after the other.

Their configs are in configs/bert_family.py.
"""

import keras
from keras import ops

from modeling import bert, dropout_sites, heads, kernels
from modeling.configs import keras_configs


class SharedPass:
    """One pass through a block whose weights several layers share.

    It is called as a bert.EncoderBlock; dropout differs from that of other passes.
    """

    def __init__(self, block, number):
        self.block, self.number = block, number
        self.attention = block.attention

    def build(self, input_shape):
        """Creates the variables of the block, once."""
        if not self.block.built:
            self.block.build(input_shape)

    def __call__(self, *inputs, seed=None, **options):
        seed = dropout_sites.seed_of_pass(seed, self.number)
        return self.block(*inputs, seed=seed, **options)


class AlbertEncoder(bert.BertEncoder):
    """ALBERT (Lan et al., 2020): layers share the weights of a few blocks.

    `groups` are the blocks with weights, `blocks` a SharedPass a layer.
    """

    def make_blocks(self, count):
        """So many passes; the layers of a group follow each other."""
        self.groups = super().make_blocks(self.config.num_hidden_groups)
        groups = (self.groups[i * len(self.groups) // count] for i in range(count))
        return [SharedPass(group, i) for i, group in enumerate(groups)]


class DiscriminatorHead(keras_configs.Configured, keras.layers.Layer):
    """Whether each token was replaced (Clark et al., 2020, section 2).

    Call shapes: [B, S, D] -> logits [B, S] float32, above 0 for a replaced token.
    """

    only_dtype = "float32"
    parts = ("dense", "logits")

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = bert.dense(config, config.hidden_size, "dense")
        self.logits = bert.dense(config, 1, "logits")

    def call(self, hidden, training=False):
        hidden = self.dense(ops.cast(hidden, "float32"))
        hidden = bert.activate(self.config.hidden_act, hidden, training=training)
        return self.logits(hidden)[..., 0]


# {kind: activation, dropout, and whether it comes before the dense layer as well}.
DENSE_CLASSIFIERS = {
    "DistilBERT": ("relu", 0.2, False),
    "RoBERTa": ("tanh", 0.1, True),
    "ELECTRA": ("gelu_erf", 0.1, True),
}


class DenseClassifierHead(keras_configs.Configured, keras.layers.Layer):
    """Logits by a dense layer that reads the first token, as Hugging Face has them.

    For a choice ELECTRA has a dense layer of another name, its summary.

    Call shapes: as heads.ClassifierHead.
    """

    arguments = ("config", "num_classes", "is_choice")
    parts = ("dense", "logits")
    only_dtype = "float32"

    def __init__(self, config, num_classes, is_choice=False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.num_classes = config, num_classes
        self.is_choice = is_choice
        self.settings = DENSE_CLASSIFIERS[config.kind]
        is_summary = is_choice and config.kind == "ELECTRA"
        names = ("summary", "logits") if is_summary else ("dense", "out_proj")
        self.drops_input = self.settings[2] and not is_summary
        units = config.hidden_size, num_classes
        self.dense, self.logits = (
            bert.OutputProjection(size, heads.HEAD_STDDEV, name=name)
            for size, name in zip(units, names, strict=True)
        )

    def call(self, first, seed=None, is_shared=False):
        activation, rate, _ = self.settings
        if self.drops_input:
            site = dropout_sites.DENSE_CLASSIFIER
            first = kernels.dropout(first, rate, seed, site)
        hidden = self.dense(first)
        hidden = bert.activate(activation, hidden, training=seed is not None)
        hidden = kernels.dropout(hidden, rate, seed, dropout_sites.HEAD)
        return self.logits(hidden)
