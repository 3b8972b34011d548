"""Weights of tokens against finite differences, and against sums of a linear model."""

import keras
import numpy as np
import pytest

from modeling import models
from modeling.configs import config as config_lib
from modeling.features import attribution
from modeling.networks import catalogue
from tests import daily

CONFIG = {
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 8,
    "type_vocab_size": 2,
    "initializer_range": 0.5,
    "hidden_act": "gelu",
}
SHAPE = {
    key: value
    for key, value in CONFIG.items()
    if key not in ("hidden_act", "type_vocab_size")
}
FEATURES = {
    "input_ids": np.array([[1, 4, 7, 2, 0], [1, 9, 3, 5, 2]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], np.int32),
    "segment_ids": np.zeros((2, 5), np.int32),
}


RELATIVES = {  # and what their configs have besides
    "distilbert": {},
    "roberta": {},
    "mpnet": {},
    "nomic_bert": {"type_vocab_size": 2},
    "electra": {"embedding_size": 6},
    "albert": {"embedding_size": 6},
}


@pytest.fixture(
    scope="module",
    params=daily.params(["bert", *RELATIVES], lambda name: name == "bert"),
)
def model(request):
    keras.utils.set_random_seed(4)
    config = config_lib.BertConfig.from_dict(CONFIG)
    if request.param in RELATIVES:
        kind = catalogue.of_model_type(request.param).config
        config = kind(**SHAPE, **RELATIVES[request.param])
    made = models.BertClassifier(config, 3)
    made.build()
    for variable in made.classifier.trainable_variables:
        variable.assign(variable * 25.0)  # a head begins too near to 0 to say much
    return made


def test_weight_is_how_the_logit_moves_with_the_words_embedding(model):
    """d logit / d scale of the row of the table, for words that occur once."""
    actual = attribution.token_weights(model, FEATURES)
    logits, weights = actual["logits"].numpy(), actual["weights"].numpy()
    best = logits.argmax(axis=1)
    table = model.network.embeddings.word_embeddings
    before, step = table.numpy(), 1e-3
    for row, place in ((0, 1), (0, 2), (1, 1), (1, 3)):
        moved = []
        for sign in (1, -1):
            changed = before.copy()
            changed[FEATURES["input_ids"][row, place]] *= 1 + sign * step
            table.assign(changed)
            moved.append(model(FEATURES)["logits"].numpy()[row, best[row]])
        table.assign(before)
        slope = (moved[0] - moved[1]) / (2 * step)
        # float32 logits of about 1 are known to 1e-7, so slopes to 1e-4
        assert weights[row, place] == pytest.approx(slope, abs=1e-3, rel=1e-3)
    assert np.abs(weights).max() > 0.03
    # padding is not read
    assert weights[0, 4] == pytest.approx(0.0, abs=1e-6)
