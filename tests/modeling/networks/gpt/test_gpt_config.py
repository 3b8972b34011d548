"""Configs of GPT and GPT-2, by the files of releases and of Hugging Face."""

import json

import pytest

from modeling.configs import config as config_lib
from modeling.configs import config_files
from modeling.networks.gpt import config as gpt_config

HPARAMS = {"n_vocab": 9, "n_ctx": 6, "n_embd": 8, "n_head": 2, "n_layer": 3}


@pytest.fixture
def read(tmp_path):
    def read_raw(raw):
        (tmp_path / "any.json").write_text(json.dumps(raw))
        return config_files.read(tmp_path / "any.json")

    return read_raw


def test_network_follows_from_the_file(read):
    gpt_2 = read(HPARAMS)
    assert (gpt_2.kind, gpt_2.norm_first, gpt_2.joined_table) == ("GPT-2", True, False)
    assert (gpt_2.vocab_size, gpt_2.max_position_embeddings) == (9, 6)
    assert (gpt_2.hidden_size, gpt_2.intermediate_size) == (8, 32)
    assert gpt_2.to_hparams() == HPARAMS
    gpt = read({"model_type": "openai-gpt", "vocab_size": 11, "joined_table": True})
    assert (gpt.kind, gpt.joined_table, gpt.num_outputs) == ("GPT", True, 523)
    assert (gpt.num_attention_heads, gpt.num_hidden_layers) == (12, 12)
    theirs = read({"model_type": "openai-gpt", "vocab_size": 40478})
    assert (theirs.kind, theirs.joined_table) == ("GPT", False)
    assert theirs.num_outputs == 40478
    assert theirs.num_weights() == 116534784  # as in the first release
    bert = read({"vocab_size": 5, "attention": "causal"})
    assert isinstance(bert, config_lib.BertConfig) and bert.is_left_to_right


@pytest.mark.parametrize("model_type", gpt_config.MODEL_TYPES)
def test_what_is_written_is_read_again(read, model_type):
    raw = {
        "model_type": model_type,
        **{"vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 5},
        **{"embd_pdrop": 0.3, "resid_pdrop": 0.2, "attn_pdrop": 0.4, "note": "kept"},
    }
    config = read(raw)
    assert (config.embedding_dropout_prob, config.hidden_dropout_prob) == (0.3, 0.2)
    assert config.attention_probs_dropout_prob == 0.4
    assert config.intermediate_size == 32 and config.unknown_keys() == ["note"]
    written = config.to_dict()
    assert read(written) == config
    assert {key: written[key] for key in raw} == raw
    assert "joined_table" not in written and "n_inner" not in written
    wide = read({**raw, "n_inner": 12})
    assert wide.intermediate_size == 12 and wide.to_dict()["n_inner"] == 12


@pytest.mark.parametrize(
    ("model_type", "key", "name", "function", "written"),
    [
        ("openai-gpt", "afn", "gelu", "gelu_tanh", "gelu"),
        ("openai-gpt", "afn", "gelu_new", "gelu_tanh", "gelu"),
        ("gpt2", "activation_function", "gelu", "gelu_erf", "gelu"),
        ("gpt2", "activation_function", "gelu_pytorch_tanh", "gelu_tanh", "gelu_new"),
    ],
)
def test_activations_are_named_as_there(read, model_type, key, name, function, written):
    raw = {"model_type": model_type, "vocab_size": 5, key: name}
    assert read(raw).hidden_act == function
    assert read(raw).to_dict()[key] == written


GPT_2 = {"model_type": "gpt2", "vocab_size": 5}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"scale_attn_weights": False}, "scale_attn_weights is False, and only True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "only False is supported"),
        ({"tie_word_embeddings": False}, "only True is supported"),
        ({"add_cross_attention": True}, "only False is supported"),
        ({"joined_table": True}, "joined_table is of GPT"),
        ({"joined_table": 1}, "joined_table=1 is not true or false"),
        ({"n_head": 5}, "n_embd=768 is not a multiple of n_head=5; correct"),
        ({"n_layer": "12"}, "n_layer='12' is not a whole number"),
        ({"n_embd": None}, "n_embd=None is not a whole number"),
        ({"embd_pdrop": 1}, "embd_pdrop=1 is not a number of 0 or more and less"),
        (
            {"activation_function": {"a": 1}},
            r"Unsupported activation: {'a': 1}; activation_function must be one of "
            r"\['gelu', 'gelu_new', 'gelu_pytorch_tanh', 'relu', 'tanh'\]",
        ),
        ({"model_type": "openai-gpt", "afn": "swish"}, "swish; afn must be one of"),
        (
            {"model_type": None},
            "model_type is None, and the networks that can be read are those of bert, "
            "ernie, distilbert, roberta, xlm-roberta, .*, "
            "openai-gpt, gpt2, encoder-decoder; give a model of one",
        ),
        ({"model_type": ["gpt2"]}, r"model_type is \['gpt2'\], and the networks"),
        ({"model_type": "xlnet"}, "model_type is 'xlnet', and the networks"),
    ],
)
def test_other_networks_are_refused(read, raw, message):
    with pytest.raises(ValueError, match=f"any.json: .*{message}"):
        read({**GPT_2, **raw})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([[1, 2], [3, 2], [2]], "any.json: the file holds no JSON object"),
        ({"n_vocab": 4}, "the key n_ctx is missing"),
        ({"model_type": "gpt2"}, "the key vocab_size is missing"),
        ({**HPARAMS, "n_embd": None}, "n_embd=None is not a whole number of 1 or"),
        ("text", "holds no JSON object"),
        ([], "any.json: the file holds no JSON object; copy it again"),
        ([1, 2], "any.json: the file holds no JSON object; copy it again"),
    ],
)
def test_other_files_are_refused(read, raw, message):
    with pytest.raises(ValueError, match=message):
        read(raw)
