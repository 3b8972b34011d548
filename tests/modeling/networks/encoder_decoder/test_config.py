"""The config of an encoder-decoder: Hugging Face's file, and what is refused."""

import copy
import json
import pathlib

import pytest

from contract import features
from modeling.configs import config as config_lib
from modeling.configs import config_files
from modeling.networks.encoder_decoder import config as encoder_decoder_config

FILE = pathlib.Path(__file__).parents[3] / "golden/seq2seq/hugging_face/config.json"
RAW = json.loads(FILE.read_text("utf-8"))
BERT = config_lib.BertConfig(vocab_size=67, hidden_size=32, num_attention_heads=4)


def read(**changes):
    """The recorded config; `decoder__x` is the key x of the decoder, None is none."""
    raw = copy.deepcopy(RAW)
    for key, value in changes.items():
        *side, key = key.split("__")
        where = raw[side[0]] if side else raw
        if value is None:
            del where[key]
        else:
            where[key] = value
    return encoder_decoder_config.EncoderDecoderConfig.from_dict(raw)


def test_file_says_both_networks():
    config = config_files.read(FILE)
    assert config == read()
    assert (config.network, config.kind) == ("encoder_decoder", "encoder-decoder")
    assert config.encoder.attention == "bidirectional"
    assert config.decoder.attention == "causal"
    assert config.decoder.hidden_act == "gelu_tanh"  # gelu_new
    assert (config.decoder_start_token_id, config.eos_token_id) == (2, 3)
    assert (config.num_hidden_layers, config.num_outputs) == (4, 67)
    assert config.unknown_keys() == []
    older = read(eos_token_id=None, decoder__eos_token_id=5, pad_token_id=None)
    assert (older.eos_token_id, older.pad_token_id) == (5, 0)
    more = read(colour="red", encoder__size=1, decoder__top_k=5)
    assert more.unknown_keys() == ["colour", "encoder.size"]


def test_two_berts_become_a_pair():
    pair = encoder_decoder_config.EncoderDecoderConfig.from_berts(
        BERT, BERT, decoder_start_token_id=1, eos_token_id=2
    )
    assert pair.encoder == BERT and pair.decoder.is_left_to_right
    wider = pair.with_vocab_size(70)
    assert (wider.vocab_size, wider.num_outputs) == (70, 70)
    assert wider.num_weights() - pair.num_weights() == 2 * 3 * 32
    own = pair.with_vocabulary(["[UNK]", "[CLS]", "a", "[PAD]", "[SEP]"])
    assert (own.vocab_size, own.num_outputs) == (5, 5)
    assert own.decoder_tokens == features.DecoderTokens(start=1, end=4, padding=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "t5"}, "model_type is 't5', not 'encoder-decoder'"),
        ({"encoder__model_type": "roberta"}, "encoder: model_type is 'roberta'"),
        (
            {"decoder__model_type": "gpt2"},
            "decoder: model_type is 'gpt2', and only 'bert'",
        ),
        ({"decoder__add_cross_attention": False}, "add_cross_attention is not true"),
        ({"decoder__is_decoder": False}, "the decoder's bidirectional; set is_decoder"),
        ({"encoder__is_decoder": True}, "the encoder's attention is causal"),
        ({"decoder__hidden_size": 64}, r"32 of the encoder and 64 of the decoder"),
        ({"encoder__vocab_size": "67"}, "encoder: vocab_size='67' is not a whole"),
        ({"decoder": None}, "decoder: the key is missing"),
        ({"decoder_start_token_id": None}, r"start_token_id is missing.*\[CLS\]"),
        ({"eos_token_id": None}, r'add "eos_token_id": the id of \[SEP\]'),
        ({"eos_token_id": 67}, r"eos_token_id=67 is not a token.*0\.\.66"),
        ({"eos_token_id": 3.0}, "eos_token_id=3.0 is not a token"),
        (
            {"decoder_start_token_id": 3, "eos_token_id": 3},
            "decoder_start_token_id=3 is eos_token_id as well, so that the end of a",
        ),
        ({"pad_token_id": 3, "eos_token_id": 3}, "pad_token_id=3 is eos_token_id as"),
        ({"tie_encoder_decoder": True}, "both sides have the same weights"),
    ],
)
def test_other_networks_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        read(**changes)
