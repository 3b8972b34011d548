"""How a run reads a network: by flags, or as its weights were trained."""

import json
import re

import pytest

from modeling.features import head_config

GIVEN = {"layer_mix": "learned", "head": "bilstm", "feature_dropout": 0.5}


@pytest.fixture
def weights(tmp_path):
    for name, text in head_config.HeadConfig(**GIVEN).files().items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def test_what_differs_lies_beside_the_weights(weights, tmp_path):
    assert head_config.ORIGINAL.files() == {}
    assert json.loads((tmp_path / "head.json").read_text()) == GIVEN
    for place in (weights, f"{weights}/model.ckpt-7"):
        assert head_config.read_beside(place) == head_config.HeadConfig(**GIVEN)
    assert (
        head_config.read_beside(f"{weights}/none/model.ckpt-7") == head_config.ORIGINAL
    )


def test_flags_say_it_for_training_and_weights_afterwards(weights):
    run = head_config.choose
    assert run({"head": "bilstm"}, weights, trains=True).layer_mix == "last"
    assert run({}, weights, trains=False) == head_config.HeadConfig(**GIVEN)
    assert run(GIVEN, weights, trains=False) == head_config.HeadConfig(**GIVEN)
    assert run(GIVEN, "", trains=False) == head_config.HeadConfig(**GIVEN)
    printed = "--head=linear is not what the model was trained with, bilstm (" + weights
    with pytest.raises(ValueError, match=re.escape(printed)):
        run({"head": "linear"}, weights, trains=False)
    with pytest.raises(ValueError, match=r"there is no .*none/head\.json\); leave"):
        run({"head": "bilstm"}, f"{weights}/none/model.ckpt-7", trains=False)


def test_pairs_are_joined_by_heads_that_can(weights, tmp_path):
    pair = head_config.choose(GIVEN, weights, trains=True, num_texts=2)
    assert pair.joins_pairs
    assert not head_config.choose({}, "", trains=True, num_texts=2).joins_pairs
    with pytest.raises(ValueError, match="reads of one text, and the rows have 2"):
        head_config.choose({}, weights, trains=False, num_texts=2)
    (tmp_path / "head.json").write_text(pair.files()["head.json"])
    assert head_config.choose({}, weights, trains=False, num_texts=3) == pair
    with pytest.raises(ValueError, match="reads of two texts, and the rows have 1"):
        head_config.choose({}, weights, trains=False)


@pytest.mark.parametrize(
    "raw",
    [
        '{"haed": "bilstm"}',
        '{"bilstm_units": "9"}',
        '{"layer_mix": "learned", "layer_mix_norm": true}',
        "[]",
    ],
)
def test_unknown_files_are_refused(tmp_path, raw):
    (tmp_path / "head.json").write_text(raw)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/head.json: ")):
        head_config.read_beside(str(tmp_path))


def test_options_that_are_gone_are_read_where_they_were_not_in_use():
    values = {**GIVEN, "layer_mix_norm": False, "layer_mix_l2": 0.0}
    assert head_config.from_values(values) == head_config.HeadConfig(**GIVEN)
    with pytest.raises(ValueError, match=r"layer_mix_l2=0\.1 is unknown here"):
        head_config.from_values({**values, "layer_mix_l2": 0.1})
