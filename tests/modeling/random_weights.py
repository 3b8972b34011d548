"""Models all of whose weights are random, so that none is equal by chance."""

import dataclasses

import numpy as np

from modeling import pretrainers
from modeling.checkpoints import names
from modeling.networks.elmo import config as elmo_config
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from modeling.networks.gpt import config as gpt_config

GPT = gpt_config.GptConfig(
    vocab_size=61,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=24,
    joined_table=True,
)
GPT_2 = dataclasses.replace(GPT, joined_table=False, norm_first=True)
ELMO = elmo_config.ElmoConfig(
    projection_dim=4, lstm_dim=6, num_hidden_layers=2, filters=((1, 3),), num_highway=1
)


def configs(bert):
    pair = fitting(bert, "seq2seq")
    return {"bert": bert, "gpt": GPT, "gpt2": GPT_2, "elmo": ELMO, "pair": pair}


def fitting(config, head):
    if head == "seq2seq" and config.network == "bert":
        return encoder_decoder_config.EncoderDecoderConfig.from_berts(
            config, config, decoder_start_token_id=1, eos_token_id=2
        )
    if head != "language_model" or config.is_left_to_right:
        return config
    return dataclasses.replace(config, attention="causal")


def random_model(config, head="classifier", num_classes=3, seed=1):
    """A model none of whose variables has the value that it is born with."""
    config = fitting(config, head)
    model = pretrainers.build(head, num_classes, config)
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape).astype(np.float32))
    return model


def values(model):
    """{Google name: array}."""
    return {
        name.google: np.asarray(variable)
        for name, variable in names.named_variables(model)
    }


def assert_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
