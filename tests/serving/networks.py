"""Small networks whose answers differ from text to text."""

import keras
import tensorflow as tf

from modeling.configs import config


def config_for(vocab, **changes):
    """A BertConfig of one layer for a list of tokens."""
    sizes = {
        "vocab_size": len(vocab),
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "initializer_range": 0.5,
    }
    return config.BertConfig(**{**sizes, **changes})


def build(make_model):
    """The model, always of the same weights, with a wider head than one is born with.

    Returns:
        The model, and the tensors of its variables.
    """
    keras.utils.set_random_seed(3)
    model = make_model()
    model.build()
    kernel = next(v for v in model.variables if v.path.endswith("logits/kernel"))
    kernel.assign(tf.random.stateless_normal(kernel.shape, [1, 2]))
    return model, [variable.value for variable in model.variables]
