"""Tests of modeling/configs/config.py."""

import json
import math
import pathlib
import subprocess
import sys

import pytest

from modeling.configs import config

SIZES = {
    "vocab_size": 99,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
}
RATE = "a number of 0 or more and less than 1"
MULTILINGUAL = {  # what the multilingual and Chinese releases say besides
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}


def test_only_the_vocabulary_has_no_default():
    defaults = config.BertConfig.from_dict({"vocab_size": 7})
    # modeling.py, BertConfig.__init__; type_vocab_size is 16 there and 2 in releases.
    assert defaults == config.BertConfig(
        vocab_size=7,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu_tanh",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=512,
        type_vocab_size=16,
        initializer_range=0.02,
        layer_norm_epsilon=1e-12,
        extra={},
    )
    with pytest.raises(ValueError, match="the key vocab_size is missing"):
        config.BertConfig.from_dict({"hidden_size": 12})


@pytest.mark.parametrize(
    ("written", "google", "hugging_face"),
    [
        ("gelu", "gelu_tanh", "gelu_erf"),
        ("GELU", "gelu_tanh", "gelu_erf"),
        ("relu", "relu", "relu"),
        ("tanh", "tanh", "tanh"),
        ("linear", "linear", "linear"),
        ("gelu_erf", "gelu_erf", None),
        ("", "linear", None),
        (None, "linear", None),
        ("gelu_new", None, "gelu_tanh"),
        ("gelu_pytorch_tanh", None, "gelu_tanh"),
        ("swish", None, None),
    ],
)
def test_activation_means_what_its_world_means(written, google, hugging_face):
    raw = {**SIZES, "hidden_act": written}
    for dialect, expected in (
        (raw, google),
        ({**raw, "model_type": "bert"}, hugging_face),
    ):
        if expected is None:
            with pytest.raises(ValueError, match="Unsupported activation: "):
                config.BertConfig.from_dict(dialect)
        else:
            assert config.BertConfig.from_dict(dialect).hidden_act == expected


def test_hugging_face_defaults_differ_from_googles():
    read = config.BertConfig.from_dict
    assert read({"vocab_size": 7}).type_vocab_size == 16
    assert read({"vocab_size": 7, "model_type": "bert"}).type_vocab_size == 2
    assert read({"vocab_size": 7, "model_type": "bert"}).hidden_act == "gelu_erf"
    wide = read({"vocab_size": 7, "model_type": "bert", "layer_norm_eps": 1e-5})
    assert wide.layer_norm_epsilon == 1e-5


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "roberta", "'roberta', and only 'bert' is"),
        ("position_embedding_type", "relative_key", "only 'absolute' is supported"),
        ("add_cross_attention", True, "add_cross_attention is True, and only False"),
    ],
)
def test_other_architectures_are_refused(key, value, message):
    with pytest.raises(ValueError, match=message):
        config.BertConfig.from_dict({**SIZES, "model_type": "bert", key: value})


def test_heads_must_divide_the_hidden_size():
    with pytest.raises(ValueError, match="hidden_size=12 is not a multiple of num_"):
        config.BertConfig.from_dict({**SIZES, "num_attention_heads": 5})


def test_ambiguous_activation_names_are_no_values_of_the_field():
    with pytest.raises(ValueError, match="hidden_act='gelu' is not one of"):
        config.BertConfig(vocab_size=7, hidden_act="gelu")


def test_unknown_keys_are_kept_and_reported():
    raw = {**SIZES, **MULTILINGUAL, "embeding_size": 4, "adapters": [1]}
    read = config.BertConfig.from_dict(raw)
    assert read.unknown_keys() == ["adapters", "embeding_size"]
    written = read.to_dict()
    assert {key: written[key] for key in raw} == raw
    assert config.BertConfig.from_dict({**SIZES, **MULTILINGUAL}).unknown_keys() == []


def test_json_string_is_the_originals(tmp_path):
    raw = {**SIZES, "hidden_act": "gelu", "pooler_type": "x", "initializer_range": 0.5}
    text = config.BertConfig.from_dict(raw).to_json_string()
    full = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, **raw}
    # modeling.py, BertConfig.to_json_string.
    assert text == json.dumps(full, indent=2, sort_keys=True) + "\n"
    assert text.startswith('{\n  "attention_probs_dropout_prob": 0.1,\n')
    path = tmp_path / "bert_config.json"
    path.write_text(text, encoding="utf-8")
    again = config.BertConfig.from_json_file(path)
    assert again == config.BertConfig.from_dict(raw)
    assert again.to_json_string() == text


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "tanh", "linear"])
def test_config_survives_either_format(activation):
    raw = {**SIZES, "model_type": "bert", "hidden_act": activation, "use_cache": True}
    read = config.BertConfig.from_dict({**raw, "layer_norm_eps": 1e-5})
    as_google = read.to_dict()
    assert "model_type" not in as_google  # which would change what "gelu" means
    assert config.BertConfig.from_dict(as_google) == read
    as_hugging_face = read.to_hugging_face()
    assert as_hugging_face["model_type"] == "bert"
    assert as_hugging_face["hidden_act"] == activation
    assert as_hugging_face["layer_norm_eps"] == 1e-5
    assert as_hugging_face["use_cache"] is True
    again = config.BertConfig.from_dict(as_hugging_face)
    assert again.to_hugging_face() == as_hugging_face
    assert again.hidden_act == read.hidden_act


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "the file holds no JSON object"),
        ('{"hidden_size": 12}', "the key vocab_size is missing"),
        (
            '{"vocab_size": 9, "hidden_size": "32"}',
            "hidden_size='32' is not a whole number of 1 or more; correct the config",
        ),
    ],
)
def test_errors_name_the_file(tmp_path, text, message):
    path = tmp_path / "some_config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        config.BertConfig.from_json_file(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("vocab_size", None, "a whole number of 1 or more"),
        ("hidden_size", 12.0, "a whole number of 1 or more"),
        ("num_attention_heads", True, "a whole number of 1 or more"),
        ("num_attention_heads", 0, "a whole number of 1 or more"),
        ("type_vocab_size", -2, "a whole number of 1 or more"),
        ("num_hidden_layers", [2], "a whole number of 1 or more"),
        ("hidden_dropout_prob", "0.1", RATE),
        ("hidden_dropout_prob", None, RATE),
        ("hidden_dropout_prob", 1.5, RATE),
        ("hidden_dropout_prob", 1, RATE),
        ("attention_probs_dropout_prob", -0.1, RATE),
        ("attention_probs_dropout_prob", 1.0, RATE),
        ("initializer_range", float("nan"), "a number of 0 or more"),
        ("layer_norm_eps", 0.0, "a number greater than 0"),
    ],
)
def test_what_is_no_such_number_is_refused(key, value, wanted):
    with pytest.raises(ValueError) as caught:
        config.BertConfig.from_dict({**SIZES, key: value})
    assert str(caught.value) == f"{key}={value!r} is not {wanted}; correct the config"


def test_weights_are_counted():
    from modeling import models  # here, because all else is plain Python

    model = models.BertModel(config.BertConfig(**SIZES))
    model.build()
    encoder = [v for v in model.trainable_variables if "/pooler/" not in v.path]
    assert len(encoder) == 2 * 16 + 5
    counted = sum(math.prod(variable.shape) for variable in encoder)
    assert config.BertConfig(**SIZES).num_weights() == counted


def test_whole_numbers_are_numbers():
    raw = {**SIZES, "hidden_dropout_prob": 0, "initializer_range": 1}
    read = config.BertConfig.from_dict(raw)
    assert (read.hidden_dropout_prob, read.initializer_range) == (0, 1)


@pytest.mark.parametrize("value", [3, ["gelu"], True])
def test_activation_that_is_no_name_is_refused(value):
    with pytest.raises(ValueError, match="Unsupported activation: "):
        config.BertConfig.from_dict({**SIZES, "hidden_act": value})


def test_directory_is_no_config(tmp_path):
    with pytest.raises(OSError, match=r"cannot be read .*; give the bert_c"):
        config.BertConfig.from_json_file(tmp_path)


def test_config_needs_no_tensorflow():
    code = (
        "import sys; from modeling.configs import config; "
        "config.BertConfig.from_dict({'vocab_size': 9}).to_json_string(); "
        "sys.exit(bool({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    root = pathlib.Path(config.__file__).parents[2]
    assert subprocess.call([sys.executable, "-c", code], cwd=root) == 0
