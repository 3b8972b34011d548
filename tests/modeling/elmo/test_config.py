"""The options of an ELMo: what they say, what they must not say."""

import json
import pathlib

import pytest

from modeling.configs import config_files
from modeling.elmo import config as elmo_config

ROOT = pathlib.Path(__file__).parents[3]
OPTIONS = {
    "lstm": {"dim": 6, "projection_dim": 4, "n_layers": 2, "cell_clip": 3},
    "char_cnn": {
        "filters": [[1, 3], [2, 4]],
        "embedding": {"dim": 5},
        "n_characters": 261,
        "n_highway": 1,
    },
    "dropout": 0.1,
    "n_epochs": 10,
    "of_another_program": {"a": [1]},
}


def changed(key, value):
    """The options with another value at a key with dots."""
    raw = json.loads(json.dumps(OPTIONS))
    *outer, last = key.split(".")
    inner = raw
    for name in outer:
        inner = inner[name]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return raw


def read(tmp_path, raw):
    path = tmp_path / "any.json"
    path.write_text(json.dumps(raw))
    return config_files.read(path)


# Of the releases, as their authors count them; the softmax is no part of the network.
SIZES = {"original": 93.6, "medium": 28.0, "small": 13.6, "mini": 3.0}


@pytest.mark.parametrize("name", SIZES)
def test_shapes_have_the_sizes_of_the_releases(name):
    config = config_files.read(ROOT / "configs" / f"elmo_{name}.json")
    assert round(config.num_weights() / 1e6, 1) == SIZES[name]
    assert (config.cell_clip, config.proj_clip, config.dropout) == (3, 3, 0.1)


def test_options_are_read_in_our_words(tmp_path):
    config = read(tmp_path, OPTIONS)
    assert isinstance(config, elmo_config.ElmoConfig)
    assert (config.lstm_dim, config.projection_dim, config.hidden_size) == (6, 4, 8)
    assert config.filters == ((1, 3), (2, 4)) and config.num_filters == 7
    assert (config.cell_clip, config.proj_clip) == (3, 0.0)
    assert config.reads_characters and config.has_projection
    assert not config.is_left_to_right
    words = {"lstm": OPTIONS["lstm"], "n_tokens_vocab": 9}
    assert not read(tmp_path, words).reads_characters


def test_what_is_written_is_read_again_with_keys_of_others(tmp_path):
    config = read(tmp_path, OPTIONS)
    raw = config.to_dict()
    assert raw["of_another_program"] == {"a": [1]} and raw["n_epochs"] == 10
    assert raw["char_cnn"]["n_characters"] == 262
    assert read(tmp_path, raw) == config


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lstm.dim", None, "lstm.dim is missing"),
        ("lstm.dim", 3, "projection_dim=4 exceeds dim=3"),
        ("lstm.dim", 6.5, "lstm.dim=6.5 is not a whole number"),
        ("lstm.cell_clip", -1, "cell_clip=-1"),
        ("lstm.use_skip_connections", "yes", "'yes' is not true or false"),
        ("char_cnn.n_characters", 300, "n_characters is 300, and only 261 or 262 is"),
        ("char_cnn.activation", "gelu", "activation='gelu' is not one of"),
        ("char_cnn.filters", [[51, 2]], "a width of 51 exceeds"),
        ("char_cnn.filters", [[0, 2]], "width of filters=0"),
        ("char_cnn.filters", [3], r"filters=\[3\] are not pairs of a width and a"),
        ("bidirectional", False, "bidirectional is False, and only True"),
        ("dropout", 1.0, "dropout=1.0"),
        ("char_cnn", None, "n_tokens_vocab says how many"),
    ],
)
def test_contradictions_name_key_and_value(tmp_path, key, value, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, changed(key, value))
    assert "any.json" in str(caught.value)
