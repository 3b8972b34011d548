"""Tests of modeling/checkpoints/comparison.py, and of what loading refuses."""

import dataclasses
import time
import types

import numpy as np
import pytest

from modeling import pretrainers
from modeling.checkpoints import (
    checkpoint,
    conversion,
    google,
    listings,
    names,
    pretrained,
)
from modeling.configs import config
from tests.modeling.random_weights import random_model, values

FORMATS = ("google", "hugging_face", "keras")
BILLION = 10**9


@pytest.fixture(scope="module")
def model(tiny_config):
    return random_model(tiny_config, "none")


@pytest.fixture(scope="module", params=FORMATS)
def path(request, model, tmp_path_factory):
    """A checkpoint of two layers in each of the formats."""
    path = tmp_path_factory.mktemp("written")
    conversion.write(path, model, request.param)
    return path / conversion.FILES.get(request.param, request.param)


@pytest.mark.parametrize(
    ("key", "value", "in_file"),
    [
        ("vocab_size", 61, 60),
        ("hidden_size", 18, 16),
        ("intermediate_size", 25, 24),
        ("max_position_embeddings", 33, 32),
        ("type_vocab_size", 3, 2),
        ("vocab_size", BILLION, 60),
    ],
)
def test_each_size_is_compared(path, tiny_config, key, value, in_file):
    checkpoint.check(tiny_config, path)
    other = dataclasses.replace(tiny_config, **{key: value})
    message = rf"the config says {key}={value} \(the file has {in_file}\); give the con"
    for allows in (None, True):
        with pytest.raises(ValueError, match=message):
            checkpoint.check(other, path, allows_missing=allows)


@pytest.mark.parametrize("layers", [3, BILLION])
def test_deeper_config_is_refused_before_a_network_is_built(path, tiny_config, layers):
    other = dataclasses.replace(tiny_config, num_hidden_layers=layers)
    started = time.monotonic()
    with pytest.raises(ValueError) as caught:
        checkpoint.check(other, path, allows_missing=False)
    assert time.monotonic() - started < 5  # building three layers takes a tenth
    said = f"the config says num_hidden_layers={layers}, but the file has 2; give the"
    assert said in str(caught.value)
    assert str(caught.value).endswith(
        "or --allow_missing_weights to train them from random values"
    )
    with pytest.raises(ValueError) as caught:
        checkpoint.check(other, path)
    assert "--allow" not in str(caught.value)
    checkpoint.check(other, path, allows_missing=True)


def test_missing_layer_is_random_only_where_it_is_allowed(model, tiny_config, tmp_path):
    google.save(tmp_path / "a.ckpt", model)
    deeper = random_model(dataclasses.replace(tiny_config, num_hidden_layers=4), "none")
    before = values(deeper)
    with pytest.raises(ValueError, match="num_hidden_layers=4, but the file has 2"):
        checkpoint.load(deeper, tmp_path / "a.ckpt")
    report = checkpoint.load(deeper, tmp_path / "a.ckpt", allows_missing=True)
    assert len(report.missing) == 32
    assert str(report).endswith(
        "39 of 71 variables assigned; newly initialised: layers 2 to 3"
    )
    after = values(deeper)
    for name, value in values(model).items():
        np.testing.assert_array_equal(after[name], value)
    for name in report.missing:
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize(
    "name",
    ["bert/embeddings/LayerNorm/beta", "bert/encoder/layer_0/output/dense/bias"],
)
def test_every_variable_of_the_encoder_is_needed(model, tiny_config, tmp_path, name):
    google.save(tmp_path / "a.ckpt", model, left_out=[name])
    with pytest.raises(ValueError, match=f"lacks {name} of the 37 variables of embe"):
        checkpoint.check(tiny_config, tmp_path / "a.ckpt")
    again = random_model(tiny_config, "none", seed=2)
    report = checkpoint.load(again, tmp_path / "a.ckpt", allows_missing=True)
    assert str(report).endswith(f"newly initialised: {name}")


def test_layers_beyond_the_config_are_one_warning(tmp_path, tiny_config, caplog):
    deep = random_model(dataclasses.replace(tiny_config, num_hidden_layers=5), "none")
    google.save(tmp_path / "a.ckpt", deep)
    shallow = pretrainers.build("none", None, tiny_config)
    report = checkpoint.load(shallow, tmp_path / "a.ckpt")
    assert len(report.unused) == 48
    assert str(report).endswith("; in the file but not used: layers 2 to 4")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"{tmp_path}/a.ckpt: has 5 layers, but the config says num_hidden_layers=2; in "
        "the file but not used: layers 2 to 4"
    )
    checkpoint.load(deep, tmp_path / "a.ckpt")
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (
            ["a", "bert/encoder/layer_1/output/dense/bias"],
            "a, bert/encoder/layer_1/output/dense/bias",
        ),
        (
            [row.google for i in (9, 10, 12) for row in names._block(i)],
            "layers 9 to 10 and 12",
        ),
        (["z", *(row.hugging_face for row in names._block(0))], "layers 0, z"),
    ],
)
def test_whole_layers_are_listed_by_their_numbers(keys, text):
    assert listings.of_keys(keys) == text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named(
    path, model, tiny_config, tmp_path, value
):
    variable = model.network.blocks[1].ffn_in.kernel
    before = np.array(variable)
    damaged = before.copy()
    damaged[3, 4:6] = value
    variable.assign(damaged)
    form = next(f for f in FORMATS if conversion.FILES.get(f, f) == path.name)
    conversion.write(tmp_path, model, form)
    variable.assign(before)
    again = pretrainers.build("none", None, tiny_config)
    checkpoint.load(again, path)
    kept = values(again)
    with pytest.raises(ValueError) as caught:
        checkpoint.load(again, tmp_path / path.name)
    (row,) = (
        r for r in names.encoder("BERT", 2) if r.path == "bert/block_1/ffn_in/kernel"
    )
    key = row.key(form if form in ("google", "hugging_face") else "keras")
    said = f"{path.name}: {key} has 2 of 384 numbers that are nan or infinite in float"
    assert said in str(caught.value)
    assert values(again).keys() == kept.keys()


def test_network_that_no_memory_holds_is_refused(tiny_config):
    pretrained.check_memory(tiny_config, "c.json")
    huge = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    with pytest.raises(ValueError, match=r"^c\.json: describes a network of 1,9\d\d,"):
        pretrained.check_memory(huge, "c.json")


def test_config_is_compared_when_it_is_opened(model, tiny_config, tmp_path):
    """Before data are read, and again where weights are loaded."""
    google.save(tmp_path / "a.ckpt", model)
    raw = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    (tmp_path / "config.json").write_text(raw.to_json_string())
    files = types.SimpleNamespace(
        config_file=f"{tmp_path}/config.json",
        vocab_file="v",
        init_checkpoint=str(tmp_path / "a.ckpt"),
        allows_missing=False,
    )
    with pytest.raises(ValueError, match="but the file has 2; give the config file"):
        pretrained.open_config(files, 60, 32)
    files.allows_missing = True  # and then the memory is asked
    with pytest.raises(ValueError, match=r"config\.json: describes a network of"):
        pretrained.open_config(files, 60, 32)
    # A run that resumes does without its first checkpoint.
    (tmp_path / "config.json").write_text(tiny_config.to_json_string())
    files.init_checkpoint = f"{tmp_path}/gone.ckpt"
    assert pretrained.open_config(files, 60, 32) == tiny_config
    assert config.BertConfig.from_json_file(files.config_file) == tiny_config
