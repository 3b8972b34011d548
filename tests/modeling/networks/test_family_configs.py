"""Configs of BERT's relatives: keys of files, and what is refused."""

import dataclasses
import json

import pytest

from modeling.configs import config_files
from modeling.networks import roberta
from tests import family_weights

CASES = family_weights.read_cases()
CASES |= family_weights.read_cases(family_weights.MPNET)
NETWORKS = ("distilbert", "roberta", "electra", "albert", "mpnet")
# albert_config.json of the base model of google-research/albert.
ALBERT = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "embedding_size": 128,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 30000,
}


def write(folder, raw, name="config.json"):
    path = folder / name
    path.write_text(json.dumps(raw))
    return path


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("bert")])
def test_all_keys_are_kept(tmp_path, name):
    raw = CASES[name].config
    config = config_files.read(write(tmp_path, raw))
    assert config.unknown_keys() == []
    assert config.to_dict().items() >= raw.items()
    assert config.to_hugging_face() == config.to_dict()
    again = config_files.read(write(tmp_path, config.to_dict()))
    assert again == config
    assert config_files.from_values(dataclasses.asdict(config)) == config


def test_positions_are_those_of_texts():
    raw = CASES["roberta-Model-pad_5"].config
    config = roberta.RobertaConfig.from_dict(raw)
    assert raw["max_position_embeddings"] == config.num_position_rows == 16
    assert (config.max_position_embeddings, config.first_position) == (10, 6)
    config = roberta.RobertaConfig.from_dict(
        {"model_type": "xlm-roberta", "vocab_size": 9, "max_position_embeddings": 514}
    )
    assert (config.max_position_embeddings, config.first_position) == (512, 2)


def test_albert_of_google(tmp_path):
    """Its gelu is the tanh form, as that of google-research/bert is."""
    config = config_files.read(write(tmp_path, ALBERT, "albert_config.json"))
    assert (config.kind, config.hidden_act) == ("ALBERT", "gelu_tanh")
    assert (config.num_hidden_layers, config.num_blocks) == (12, 1)
    assert config.unknown_keys() == []
    theirs = {**ALBERT, "model_type": "albert"}
    for raw in (theirs, ALBERT):
        config = config_files.read(write(tmp_path, raw))
        assert (config.kind, config.hidden_act) == ("ALBERT", "gelu_erf")
    # The table of words, 30000 x 128, and one layer for twelve.
    layer = 4 * 769 * 768 + 769 * 3072 + 3073 * 768 + 4 * 768
    assert config.num_weights() == 30516 * 128 + 129 * 768 + layer


COMMON = [  # {changes}, of None for a key that is left out, and the message
    ({"vocab_size": None}, "the key vocab_size is missing; give the config"),
    ({"is_decoder": True}, "is_decoder is True, and only False is supported"),
    ({"attention": "causal"}, "'causal', and only 'bidirectional' is supported"),
    ({"add_cross_attention": True}, "add_cross_attention is True, and only False"),
    ({"position_embedding_type": "relative_key"}, "and only 'absolute' is supported"),
    ({"vocab_size": "40"}, "vocab_size='40' is not a whole number of 1 or more"),
    ({"tie_word_embeddings": "no"}, "='no' is not true or false; correct the config"),
    ({"initializer_range": -1}, "=-1 is not a number of 0 or more"),
    ({"model_type": "deberta"}, "model_type is 'deberta', and the networks that can"),
]
OWN = {
    "distilbert": [
        ({"dim": "8"}, "dim='8' is not a whole number of 1 or more; correct"),
        ({"n_heads": 3}, "dim=8 is not a multiple of n_heads=3; correct the config"),
        ({"activation": "gelu_foo"}, "gelu_foo; activation must be one of"),
        ({"dropout": 1}, "dropout=1 is not a number of 0 or more and less than 1"),
    ],
    "roberta": [
        (
            {"max_position_embeddings": 2},
            "=2, and the first position is 2, pad_token_id",
        ),
        ({"max_position_embeddings": "514"}, "max_position_embeddings='514' is not a"),
        ({"pad_token_id": -1}, "pad_token_id=-1 is not a whole number"),
        ({"pad_token_id": True}, "pad_token_id=True is not a whole number"),
        ({"type_vocab_size": 0}, "type_vocab_size=0 is not a whole number of 1"),
        ({"hidden_act": 3}, "Unsupported activation: 3; hidden_act must be one of"),
    ],
    "electra": [
        ({"embedding_size": 0}, "embedding_size=0 is not a whole number of 1 or more"),
        ({"summary_type": "mean"}, "summary_type is 'mean', and only 'first' is"),
        ({"summary_activation": "tanh"}, "is 'tanh', and only 'gelu' is supported"),
        ({"summary_use_proj": False}, "summary_use_proj is False, and only True"),
    ],
    "albert": [
        ({"inner_group_num": 2}, "inner_group_num is 2, and only 1 is supported"),
        ({"num_hidden_groups": 0}, "num_hidden_groups=0 is not a whole number"),
        ({"num_hidden_groups": 3}, "=3 is more than num_hidden_layers=2; correct"),
        ({"layer_norm_eps": 0}, "layer_norm_eps=0 is not a number greater than 0"),
    ],
    "mpnet": [
        (
            {"relative_attention_num_buckets": 31},
            "relative_attention_num_buckets=31 is less than 32, which MPNet reads",
        ),
        ({"pad_token_id": 0}, "pad_token_id is 0, and only 1 is supported"),
        ({"max_position_embeddings": 2}, "=2, and the first position is 2"),
    ],
}


@pytest.mark.parametrize(
    ("network", "changes", "message"),
    [(name, *row) for name in NETWORKS for row in COMMON + OWN[name]],
)
def test_other_networks_are_refused(tmp_path, network, changes, message):
    raw = CASES[f"{network}-Model"].config
    config_files.read(write(tmp_path, raw))
    raw = {key: v for key, v in {**raw, **changes}.items() if v is not None}
    with pytest.raises(ValueError, match=r"config\.json: ") as refused:
        config_files.read(write(tmp_path, raw))
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_model_type_is_needed_where_classes_are_of_a_relative(tmp_path):
    for name, model_type in (
        ("roberta-ForMaskedLM", "roberta"),
        ("xlmr-Model", "roberta"),
        ("distilbert-Model", "distilbert"),
        ("electra-Model", "electra"),
    ):
        raw = dict(CASES[name].config)
        assert raw.pop("model_type")
        message = f'relative of BERT; add "model_type": "{model_type}", or that of'
        with pytest.raises(ValueError, match=message):
            config_files.read(write(tmp_path, raw))
    raw = {**CASES["bert-ForPreTraining"].config, "hidden_act": "gelu"}
    del raw["model_type"]
    assert config_files.read(write(tmp_path, raw)).kind == "BERT"


def test_an_encoder_decoder_has_sides_of_bert(tmp_path):
    side = CASES["roberta-ForMaskedLM"].config
    raw = {
        "model_type": "encoder-decoder",
        "encoder": side,
        "decoder": {**side, "is_decoder": True, "add_cross_attention": True},
        "decoder_start_token_id": 1,
        "eos_token_id": 2,
    }
    message = "encoder: model_type is 'roberta', and only 'bert' or 'ernie' is"
    with pytest.raises(ValueError, match=message):
        config_files.read(write(tmp_path, raw))
