"""BertConfig, and what all configs share."""

import json
import math

import pytest

from modeling.configs import config, config_files

SIZES = {
    "vocab_size": 99,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
}
WHOLE = "a whole number of 1 or more"
RATE = "a number of 0 or more and less than 1"
MULTILINGUAL = {  # further keys of the multilingual and Chinese releases
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
read = config.BertConfig.from_dict


def test_only_the_vocabulary_has_no_default():
    # modeling.py, BertConfig.__init__; type_vocab_size is 16 there and 2 in releases.
    assert read({"vocab_size": 7}) == config.BertConfig(
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
    theirs = read({"vocab_size": 7, "model_type": "bert"})
    assert (theirs.type_vocab_size, theirs.hidden_act) == (2, "gelu_erf")
    with pytest.raises(ValueError, match="the key vocab_size is missing"):
        read({"hidden_size": 12})


def test_activation_means_what_its_world_means():
    for written, google, hugging_face in (
        ("GELU", "gelu_tanh", "gelu_erf"),
        ("gelu_erf", "gelu_erf", None),
        (None, "linear", None),
        ("gelu_new", None, "gelu_tanh"),
        ("gelu_pytorch_tanh", None, "gelu_tanh"),
        (["gelu"], None, None),
        *((name, name, name) for name in ("relu", "tanh", "linear")),
    ):
        raw = {**SIZES, "hidden_act": written}
        theirs = {**raw, "model_type": "bert"}
        for dialect, expected in ((raw, google), (theirs, hugging_face)):
            if expected is None:
                with pytest.raises(ValueError, match="Unsupported activation: "):
                    read(dialect)
            else:
                assert read(dialect).hidden_act == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "roberta", "is 'roberta', and only 'bert' or 'ernie' is"),
        ("position_embedding_type", "relative_key", "only 'absolute' is supported"),
        ("add_cross_attention", True, "add_cross_attention is True, and only False"),
        ("num_attention_heads", 5, "hidden_size=12 is not a multiple of num_att"),
        ("attention", "left", "attention='left' is not one of"),
    ],
)
def test_other_networks_are_refused(key, value, message):
    with pytest.raises(ValueError, match=message):
        read({**SIZES, "model_type": "bert", key: value})
    with pytest.raises(ValueError, match="hidden_act='gelu' is not one of"):
        config.BertConfig(vocab_size=7, hidden_act="gelu")  # means two functions


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("vocab_size", None, WHOLE),
        ("hidden_size", 12.0, WHOLE),
        ("num_attention_heads", True, WHOLE),
        ("type_vocab_size", 0, WHOLE),
        ("hidden_dropout_prob", "0.1", RATE),
        ("hidden_dropout_prob", 1, RATE),
        ("attention_probs_dropout_prob", -0.1, RATE),
        ("initializer_range", float("nan"), "a number of 0 or more"),
        ("layer_norm_eps", 0.0, "a number greater than 0"),
    ],
)
def test_what_is_no_such_number_is_refused(key, value, wanted):
    message = f"^{key}={value!r} is not {wanted}; correct the config$"
    with pytest.raises(ValueError, match=message):
        read({**SIZES, key: value})
    rates = read({**SIZES, "hidden_dropout_prob": 0, "initializer_range": 1})
    assert (rates.hidden_dropout_prob, rates.initializer_range) == (0, 1)


def test_unknown_keys_are_kept_and_reported():
    raw = {**SIZES, **MULTILINGUAL, "embeding_size": 4, "adapters": [1]}
    assert read(raw).unknown_keys() == ["adapters", "embeding_size"]
    written = read(raw).to_dict()
    assert {key: written[key] for key in raw} == raw
    assert read({**SIZES, **MULTILINGUAL}).unknown_keys() == []


def test_json_string_is_the_originals(tmp_path):
    raw = {**SIZES, "hidden_act": "gelu", "pooler_type": "x", "initializer_range": 0.5}
    text = read(raw).to_json_string()
    full = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, **raw}
    # modeling.py, BertConfig.to_json_string.
    assert text == json.dumps(full, indent=2, sort_keys=True) + "\n"
    path = tmp_path / "bert_config.json"
    path.write_text(text, encoding="utf-8")
    again = config.BertConfig.from_json_file(path)
    assert again == read(raw) and again.to_json_string() == text


@pytest.mark.parametrize(
    ("name", "more", "activation"),
    [
        ("bert_config.json", {}, "gelu_tanh"),
        ("config.json", {}, "gelu_erf"),
        ("bert_config.json", {"model_type": "bert"}, "gelu_erf"),
        # A run writes it with keys of the library, and with Google's activations.
        ("bert_config.json", {"architectures": ["BertModel"]}, "gelu_tanh"),
        ("other.json", {}, "gelu_tanh"),
        ("other.json", {"transformers_version": "2.1.0"}, "gelu_erf"),
        ("other.json", {"_name_or_path": "a/b"}, "gelu_erf"),
    ],
)
def test_file_without_model_type_has_its_makers_defaults(
    tmp_path, caplog, name, more, activation
):
    """Hugging Face's files of 2019 have no model_type, and gelu was exact there."""
    sizes = {key: SIZES[key] for key in SIZES if key != "type_vocab_size"}
    path = tmp_path / name
    path.write_text(json.dumps({**sizes, "hidden_act": "gelu", **more}))
    rows = 2 if activation == "gelu_erf" else 16
    for opened in (config_files.read(path), config.BertConfig.from_json_file(path)):
        assert (opened.hidden_act, opened.type_vocab_size) == (activation, rows)
    is_guessed = activation == "gelu_erf" and "model_type" not in more
    assert ("no model_type; read as Hugging Face's bert" in caplog.text) == is_guessed


def test_preset_of_kerashub_is_named(tmp_path):
    path = tmp_path / "config.json"
    raw = {"module": "keras_hub.src.models", "registered_name": "BertBackbone"}
    path.write_text(json.dumps(raw))
    with pytest.raises(
        ValueError, match=r"config\.json: describes a preset of KerasHub"
    ):
        config_files.read(path)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "tanh", "linear"])
def test_config_survives_either_format(activation):
    raw = {**SIZES, "model_type": "bert", "hidden_act": activation, "use_cache": True}
    ours = read({**raw, "layer_norm_eps": 1e-5})
    assert ours.layer_norm_epsilon == 1e-5
    as_google = ours.to_dict()
    assert "model_type" not in as_google  # which would change what "gelu" means
    assert read(as_google) == ours
    as_hugging_face = ours.to_hugging_face()
    kept = {**raw, "layer_norm_eps": 1e-5}
    assert {key: as_hugging_face[key] for key in kept} == kept
    assert "is_decoder" not in as_hugging_face and "attention" not in as_google
    again = read(as_hugging_face)
    assert again.to_hugging_face() == as_hugging_face
    assert again.hidden_act == ours.hidden_act
    causal = read({"vocab_size": 5, "attention": "causal"})
    assert causal.to_dict()["attention"] == "causal"
    theirs = causal.to_hugging_face()
    assert theirs["is_decoder"] is True and "attention" not in theirs
    assert read(theirs).is_left_to_right


def test_weights_are_counted():
    from modeling import models  # here, because all else is plain Python

    model = models.BertModel(config.BertConfig(**SIZES))
    model.build()
    encoder = [v for v in model.trainable_variables if "/pooler/" not in v.path]
    assert len(encoder) == 2 * 16 + 5
    counted = sum(math.prod(variable.shape) for variable in encoder)
    assert config.BertConfig(**SIZES).num_weights() == counted
