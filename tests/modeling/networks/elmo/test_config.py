"""The options of an ELMo: how they are read, and what is refused."""

import dataclasses
import json
import pathlib

import pytest

from modeling.configs import config_files
from modeling.networks.elmo import config as elmo_config

ROOT = pathlib.Path(__file__).parents[4]
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
# Millions of weights in the releases, as their authors count; without the softmax.
RELEASES = {"original": 93.6, "medium": 28.0, "small": 13.6, "mini": 3.0}


def changed(key, value):
    """The options with another value at a key with dots; None is no key."""
    raw = json.loads(json.dumps(OPTIONS))
    *outer, last = key.split(".")
    inner = raw
    for name in outer:
        inner = inner[name]
    inner[last] = value
    if value is None:
        del inner[last]
    return raw


@pytest.fixture
def read(tmp_path):
    def read_raw(raw):
        (tmp_path / "any.json").write_text(json.dumps(raw))
        return config_files.read(tmp_path / "any.json")

    return read_raw


@pytest.mark.parametrize("name", RELEASES)
def test_shapes_have_the_sizes_of_the_releases(name):
    config = config_files.read(ROOT / "configs" / f"elmo_{name}.json")
    assert round(config.num_weights() / 1e6, 1) == RELEASES[name]
    assert (config.cell_clip, config.proj_clip, config.dropout) == (3, 3, 0.1)


def test_options_are_read_and_written(read):
    config = read(OPTIONS)
    assert isinstance(config, elmo_config.ElmoConfig)
    assert (config.lstm_dim, config.projection_dim, config.hidden_size) == (6, 4, 8)
    assert config.filters == ((1, 3), (2, 4)) and config.num_filters == 7
    assert (config.cell_clip, config.proj_clip) == (3, 0.0)
    assert config.has_projection
    assert not config.is_left_to_right
    raw = config.to_dict()
    assert raw["of_another_program"] == {"a": [1]} and raw["n_epochs"] == 10
    assert raw["char_cnn"]["n_characters"] == 262
    assert "proj_clip" not in raw["lstm"] and "n_tokens_vocab" not in raw
    assert read(raw) == config
    assert config.unknown_keys() == ["of_another_program.a"]
    stored = {**dataclasses.asdict(config), "share_embedding_softmax": False}
    assert config_files.from_values(stored) == config  # of an earlier version


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lstm.dim", None, "lstm.dim is missing"),
        ("lstm.dim", 3, "projection_dim=4 exceeds dim=3"),
        ("lstm.dim", 6.5, "lstm.dim=6.5 is not a whole number"),
        ("lstm.n_layers", 0, "lstm.n_layers=0 is not a whole number of 1 or more"),
        ("lstm.cell_clip", -1, "cell_clip=-1"),
        ("lstm.use_skip_connections", "yes", "'yes' is not true or false"),
        ("char_cnn.n_characters", 300, "n_characters is 300, and only 261 or 262 is"),
        ("char_cnn.activation", "gelu", "activation='gelu' is not one of"),
        ("char_cnn.filters", [[51, 2]], "a width of 51 exceeds"),
        ("char_cnn.filters", [[0, 2]], "width of filters=0"),
        ("char_cnn.filters", [3], r"filters=\[3\] are not pairs of a width and a"),
        ("bidirectional", False, "bidirectional is False, and only True"),
        ("share_embedding_softmax", True, "softmax is True, and only False"),
        ("dropout", 1.0, "dropout=1.0"),
        ("char_cnn", None, "without char_cnn reads ids of words"),
    ],
)
def test_contradictions_name_key_and_value(read, key, value, message):
    with pytest.raises(ValueError, match=rf"any\.json: .*{message}"):
        read(changed(key, value))
