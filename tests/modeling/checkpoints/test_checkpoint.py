"""checkpoint.py and google.py: finding, checking, loading and writing checkpoints."""

import dataclasses
import re
import shutil
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import models, pretrainers
from modeling.checkpoints import (
    checkpoint,
    conversion,
    google,
    hugging_face,
    names,
    pretrained,
)
from tests.modeling.random_weights import (
    assert_equal,
    configs,
    random_model,
    values,
)

FORMATS = ("google", "hugging_face", "keras")
FIRST = "bert/embeddings/word_embeddings"
HEAD = ("output_weights", "output_bias")
POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
BILLION = 10**9


def stored(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def write(folder, model, target):
    """Writes a model; returns the path of the weights."""
    conversion.write(folder, model, target)
    return folder / conversion.FILES[target]


def w(value=0.0):
    return {"w": np.full(2, value, np.float32)}


@pytest.fixture(scope="module")
def golden_values(golden_dir):
    return stored(golden_dir / "bert_model.ckpt")


@pytest.fixture(scope="module")
def model(tiny_config):
    return random_model(tiny_config, "none")


@pytest.fixture(scope="module", params=FORMATS)
def path(request, model, tmp_path_factory):
    """A checkpoint of two layers in each of the formats."""
    return write(tmp_path_factory.mktemp("written"), model, request.param)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001", "", None])
def test_release_is_found_by_prefix_file_or_directory(golden_dir, ending):
    prefix = f"{golden_dir}/bert_model.ckpt"
    assert checkpoint.find(golden_dir if ending is None else prefix + ending) == prefix


def test_release_is_loaded_and_written_as_it_was(
    golden_pretrainer, golden_dir, golden_values, tmp_path
):
    report = checkpoint.load(golden_pretrainer, golden_dir)
    assert len(golden_values) == 62
    assert sorted(report.assigned) == sorted(golden_values)
    assert report.missing == report.unused == ()
    assert report.global_step is None
    assert str(report) == f"{report.source}: 62 of 62 variables assigned"
    assert_equal(values(golden_pretrainer), golden_values)
    prefix = tmp_path / "bert_model.ckpt"
    google.save(prefix, golden_pretrainer)
    assert_equal(stored(prefix), golden_values)
    tensors = google.variables(golden_pretrainer)
    google.write(prefix, {**tensors, "global_step": np.int64(7)})
    assert stored(prefix)["global_step"].dtype == np.int64
    assert checkpoint.load(golden_pretrainer, prefix).global_step == 7
    assert checkpoint.load_trained(golden_pretrainer, golden_dir).missing == ()


def test_report_accounts_for_every_name(tiny_config, tmp_path):
    pretrainer = values(random_model(tiny_config, "pretraining"))
    moments = {f"{FIRST}/adam_m": np.zeros(3), f"{FIRST}/adam_v_1": np.zeros(3)}
    step = {"global_step": np.int64(40)}
    google.write(tmp_path / "model.ckpt", {**pretrainer, **moments, **step})
    model = random_model(tiny_config, "classifier", seed=2)
    head = {name: values(model)[name] for name in HEAD}
    report = checkpoint.load(model, tmp_path / "model.ckpt")
    encoder = {k: v for k, v in pretrainer.items() if k.startswith("bert/")}
    assert sorted(report.assigned) == sorted(encoder)
    assert report.missing == HEAD
    assert report.unused == tuple(sorted(pretrainer.keys() - encoder.keys()))
    assert report.global_step == 40
    assert "newly initialised: output_weights, output_bias" in str(report)
    assert "in the file but not used: cls/predictions/output_bias, " in str(report)
    assert_equal(values(model), {**encoder, **head})


@pytest.fixture(scope="module")
def networks(tiny_config, tmp_path_factory):
    """{network: (its config, a checkpoint)} of every kind."""
    folder = tmp_path_factory.mktemp("networks")
    paths = {}
    for network, config in configs(tiny_config).items():
        head = "seq2seq" if network == "pair" else "none"
        google.save(folder / network, random_model(config, head))
        paths[network] = config, folder / network
    return paths


def test_network_of_another_kind_is_refused(networks):
    for one, (config, _) in networks.items():
        for other, (theirs, path) in networks.items():
            message = (
                f"has weights of {theirs.kind}, but the config is of {config.kind};"
            )
            if one == other:
                checkpoint.check(config, path)
                continue
            with pytest.raises(ValueError, match=f"^{path}: {message} give the config"):
                checkpoint.check(config, path)


SIZES = [
    ("bert", "vocab_size", 61, 60),
    ("bert", "hidden_size", 18, 16),
    ("bert", "intermediate_size", 25, 24),
    ("bert", "max_position_embeddings", 33, 32),
    ("bert", "type_vocab_size", 3, 2),
    ("bert", "vocab_size", BILLION, 60),
    ("gpt", "intermediate_size", 96, 128),
    ("gpt2", "max_position_embeddings", 25, 24),
    ("pair", "decoder.intermediate_size", 96, 24),
    ("pair", "encoder.num_hidden_layers", 3, 2),
    ("pair", "decoder.num_hidden_layers", 1, 2),
    ("pair", "encoder.vocab_size", 68, 60),
    ("elmo", "lstm_dim", 8, 6),
    ("elmo", "projection_dim", 5, 4),
    ("elmo", "char_dim", 5, 16),
    ("elmo", "num_highway", 2, 1),
    ("elmo", "filters", ((1, 4),), ((1, 3),)),
]


@pytest.mark.parametrize(("network", "key", "value", "in_file"), SIZES)
def test_each_size_is_compared(networks, network, key, value, in_file):
    config, path = networks[network]
    *side, field = key.split(".")
    changed = dataclasses.replace(
        getattr(config, side[0]) if side else config, **{field: value}
    )
    other = dataclasses.replace(config, **{side[0]: changed}) if side else changed
    message = f"{config.key_in_file(key)}={value} (the file has {in_file})"
    for allows in (None, True):
        with pytest.raises(ValueError, match=f"the config says .*{re.escape(message)}"):
            checkpoint.check(other, path, allows_missing=allows)


@pytest.mark.parametrize(
    ("key", "value", "in_file"), [row[1:] for row in SIZES if row[0] == "bert"]
)
def test_each_format_has_the_sizes(path, tiny_config, key, value, in_file):
    checkpoint.check(tiny_config, path)
    other = dataclasses.replace(tiny_config, **{key: value})
    message = rf"the config says {key}={value} \(the file has {in_file}\); give the con"
    with pytest.raises(ValueError, match=message):
        checkpoint.check(other, path)


@pytest.mark.parametrize("layers", [3, BILLION])
def test_deeper_config_is_refused_before_a_network_is_built(path, tiny_config, layers):
    other = dataclasses.replace(tiny_config, num_hidden_layers=layers)
    message = f"the config says num_hidden_layers={layers}, but the file has 2; give"
    started = time.monotonic()
    with pytest.raises(ValueError, match=f"{message} .* or --allow_missing_weights to"):
        checkpoint.check(other, path, allows_missing=False)
    assert time.monotonic() - started < 5  # building three layers takes a tenth
    with pytest.raises(ValueError, match=f"{message} [^-]*$"):
        checkpoint.check(other, path)
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
    kept = {name: before[name] for name in report.missing}
    assert_equal(values(deeper), {**values(model), **kept})


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
    checkpoint.load(deep, tmp_path / "a.ckpt")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "WARNING",
        f"{tmp_path}/a.ckpt: has 5 layers, but the config says num_hidden_layers=2; in "
        "the file but not used: layers 2 to 4",
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["a", "bert/encoder/layer_1/b"], "a, bert/encoder/layer_1/b"),
        (
            [row.google for i in (9, 10, 12) for row in names._bert_layer(i)],
            "layers 9 to 10 and 12",
        ),
        (["z", *(row.hugging_face for row in names._bert_layer(0))], "layers 0, z"),
        ([row.google for row in names._gpt_layer(2)], "layers 2"),
    ],
)
def test_whole_layers_are_listed_by_their_numbers(keys, text):
    assert checkpoint.list_keys(keys) == text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named(path, tiny_config, tmp_path, value):
    (target,) = (form for form, name in conversion.FILES.items() if name == path.name)
    damaged = random_model(tiny_config, "none")
    kernel = damaged.network.blocks[1].ffn_in.kernel
    array = np.array(kernel)
    array[3, 4:6] = value
    kernel.assign(array)
    damaged_path = write(tmp_path, damaged, target)
    (row,) = (row for row, v in names.named_variables(damaged) if v is kernel)
    again = pretrainers.build("none", None, tiny_config)
    message = f"{row.key(target)} has 2 of 384 numbers that are nan or infinite in flo"
    with pytest.raises(ValueError, match=f"{path.name}: {message}"):
        checkpoint.load(again, damaged_path)


@pytest.mark.parametrize("target", ["google", "hugging_face"])
def test_head_of_other_labels_is_left_out_and_reported(tiny_config, tmp_path, target):
    five = random_model(tiny_config, num_classes=5)
    write(tmp_path, five, target)
    model = random_model(tiny_config, seed=2)
    head = {name: values(model)[name] for name in HEAD}
    report = checkpoint.load(model, tmp_path)
    assert report.missing == HEAD and report.unused == ()
    assert_equal(values(model), {**values(five), **head})
    with pytest.raises(ValueError, match="lacks output_weights, output_bias, so it"):
        checkpoint.load_trained(model, tmp_path)
    with pytest.raises(ValueError, match="there is no trained model in --output_dir"):
        checkpoint.load_trained(model, "")


@pytest.mark.parametrize(("kind", "is_whole"), [("span", True), ("classifier", False)])
def test_trained_model_needs_the_pooler_only_where_it_reads_it(
    tiny_config, tmp_path, kind, is_whole
):
    """Hugging Face's files of spans and of tags have none."""
    hugging_face.save(tmp_path, random_model(tiny_config, kind), left_out=POOLER)
    again = random_model(tiny_config, kind, seed=2)
    if is_whole:
        assert checkpoint.load_trained(again, tmp_path).missing == POOLER
    else:
        with pytest.raises(ValueError, match=r"lacks bert/pooler/dense/kernel, bert"):
            checkpoint.load_trained(again, tmp_path)


def test_path_without_a_checkpoint_is_refused(tiny_config, tmp_path):
    absent = tmp_path / "gone" / "bert_model.ckpt"
    with pytest.raises(ValueError, match=f"no checkpoint there .*{absent}.index"):
        checkpoint.find(absent)
    with pytest.raises(ValueError, match="no checkpoint in this directory; give a"):
        checkpoint.find(tmp_path)
    (tmp_path / "bert_model.ckpt.index").mkdir()
    for path in (tmp_path, tmp_path / "bert_model.ckpt"):
        with pytest.raises(ValueError, match="no checkpoint"):
            checkpoint.find(path)
    google.write(tmp_path / "b.ckpt", {"resnet/w": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="none of its 1 variables belongs to a BERT"):
        checkpoint.load(random_model(tiny_config), tmp_path)
    google.write(tmp_path / "a.ckpt", w())
    with pytest.raises(ValueError, match=r"2 checkpoints there \(.*a\.ckpt, .*b\.ckpt"):
        checkpoint.find(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "b.ckpt"\n', "utf-8")
    assert checkpoint.find(tmp_path) == str(tmp_path / "b.ckpt")


@pytest.mark.parametrize("damage", ["header", "cut", "changed", "absent"])
def test_damaged_files_are_one_line(golden_dir, golden_pretrainer, tmp_path, damage):
    for path in golden_dir.glob("bert_model.ckpt.*"):
        shutil.copy(path, tmp_path)
    index = tmp_path / "bert_model.ckpt.index"
    data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
    content = data.read_bytes()
    if damage == "header":
        index.write_bytes(index.read_bytes()[:700])
    elif damage == "cut":
        data.write_bytes(content[:1000])
    elif damage == "changed":
        data.write_bytes(content[:-3] + bytes([content[-3] ^ 8]) + content[-2:])
    else:
        data.unlink()
    message = (
        f"^{tmp_path}/bert_model.ckpt: not a readable TensorFlow checkpoint [^\n]+$"
    )
    with pytest.raises(ValueError, match=message):
        checkpoint.load(golden_pretrainer, tmp_path)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_interrupted_writing_leaves_nothing_to_read(tmp_path, monkeypatch, fails_at):
    renamed = []
    rename = tf.io.gfile.rename

    def interrupted(source, target, overwrite):
        if len(renamed) == fails_at:
            raise KeyboardInterrupt
        renamed.append(target)
        rename(source, target, overwrite=overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", interrupted)
    prefix = tmp_path / "model.ckpt"
    with pytest.raises(KeyboardInterrupt):
        google.write(prefix, w())
    assert not (tmp_path / "model.ckpt.index").exists()
    with pytest.raises(ValueError, match="no checkpoint"):
        checkpoint.find(prefix)
    monkeypatch.undo()
    google.write(prefix, w(1))
    np.testing.assert_array_equal(stored(prefix)["w"], [1, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
    ]


def test_names_are_of_all_weights_whatever_the_model_is_called(tiny_config):
    """The seed of `fit` is no variable of any checkpoint; all others are."""
    first, second = (models.BertClassifier(tiny_config, 3, name=n) for n in ("a", None))
    first.build()
    second.build()
    assert google.variables(first).keys() == values(second).keys()
    first.network.trainable = False
    named = names.named_variables(first)
    assert len(named) == 2 * 16 + 7 + 2
    left_out = {v.path for v in first.variables} - {v.path for _, v in named}
    assert len(left_out) == 1 and "fit_seed" in left_out.pop()


def test_network_that_no_memory_holds_is_refused(tiny_config):
    pretrained.check_memory(tiny_config, "c.json")
    huge = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    with pytest.raises(ValueError, match=r"^c\.json: describes a network of 1,9\d\d,"):
        pretrained.check_memory(huge, "c.json")


def test_config_is_compared_when_it_is_opened(model, tiny_config, tmp_path):
    """Before data are read, and again where weights are loaded."""
    google.save(tmp_path / "a.ckpt", model)
    deep = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    (tmp_path / "config.json").write_text(deep.to_json_string())
    files = types.SimpleNamespace(
        config_file=f"{tmp_path}/config.json",
        vocab_file="v",
        init_checkpoint=str(tmp_path / "a.ckpt"),
        allows_missing=False,
    )
    with pytest.raises(ValueError, match="but the file has 2; give the config file"):
        pretrained.open_config(files, 60, 32)
    files.allows_missing = True  # and then the memory is checked
    with pytest.raises(ValueError, match=r"config\.json: describes a network of"):
        pretrained.open_config(files, 60, 32)
    # A run that resumes does without its first checkpoint.
    (tmp_path / "config.json").write_text(tiny_config.to_json_string())
    files.init_checkpoint = f"{tmp_path}/gone.ckpt"
    assert pretrained.open_config(files, 60, 32) == tiny_config
