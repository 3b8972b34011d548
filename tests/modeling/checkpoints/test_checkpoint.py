"""checkpoint.py and google.py: finding, checking, loading and writing checkpoints."""

import contextlib
import dataclasses
import re
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import (
    checkpoint,
    conversion,
    google,
    keras_files,
    names,
    places,
)
from tests import full_disk, killed
from tests.modeling.random_weights import assert_equal, configs, random_model, values

FILES = {**conversion.FILES, "keras": keras_files.MODEL_FILE}
FORMATS = ("google", "hugging_face", "keras")
FIRST = "bert/embeddings/word_embeddings"
HEAD = ("output_weights", "output_bias")
BILLION = 10**9
WEIGHTS = {"w": np.ones(2, np.float32)}


def check_path(config, path, **options):
    checkpoint.check_file(config, places.open_file(path, config), **options)


def stored(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def write(folder, model, target):
    """Writes a model; returns the path of the weights."""
    if target == "keras":
        model.save(folder / FILES[target])
    else:
        conversion.write(folder, model, target)
    return folder / FILES[target]


@pytest.fixture(scope="module")
def golden_values(golden_dir):
    return stored(golden_dir / "bert_model.ckpt")


@pytest.fixture(scope="module")
def model(tiny_config):
    return random_model(tiny_config, "none")


@pytest.fixture(scope="module", params=FORMATS)
def path(request, model, tmp_path_factory):
    return write(tmp_path_factory.mktemp("written"), model, request.param)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001", "", None])
def test_release_is_found_by_prefix_file_or_directory(golden_dir, ending):
    prefix = f"{golden_dir}/bert_model.ckpt"
    assert places.find(golden_dir if ending is None else prefix + ending) == prefix


def test_checkpoint_of_a_moved_directory_lies_beside_its_state(model, tmp_path, capfd):
    for step in (5, 12, 20):
        google.save(tmp_path / f"model.ckpt-{step}", model)
    state = tmp_path / "checkpoint"
    state.write_text('model_checkpoint_path: "/old/model.ckpt-12"\n')
    assert places.find(tmp_path) == str(tmp_path / "model.ckpt-12")
    assert capfd.readouterr() == ("", "")
    state.write_text('model_checkpoint_path: "/old/model.ckpt-13"\n')
    with pytest.raises(ValueError, match="3 checkpoints there"):
        places.find(tmp_path)


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
    slots = "adam_m", "adam_v_1", "Adam"  # the last one of another program
    moments = {f"{FIRST}/{slot}": np.zeros_like(pretrainer[FIRST]) for slot in slots}
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
    folder = tmp_path_factory.mktemp("networks")
    paths = {}
    for network, config in configs(tiny_config).items():
        head = "seq2seq" if network == "pair" else "none"
        google.save(folder / network, random_model(config, head))
        paths[network] = config, folder / network
    return paths


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


def test_kind_and_each_size_are_compared(networks):
    for one, (config, _) in networks.items():
        for other, (theirs, path) in networks.items():
            message = (
                f"has weights of {theirs.kind}, but the config is of {config.kind};"
            )
            if one == other:
                check_path(config, path)
                continue
            with pytest.raises(ValueError, match=f"^{path}: {message} give the config"):
                check_path(config, path)
    for network, key, value, in_file in SIZES:
        config, path = networks[network]
        *side, field = key.split(".")
        changed = dataclasses.replace(
            getattr(config, side[0]) if side else config, **{field: value}
        )
        other = dataclasses.replace(config, **{side[0]: changed}) if side else changed
        message = f"{config.key_in_file(key)}={value} (the file has {in_file})"
        for allows in (None, True):
            with pytest.raises(ValueError, match=f"config has .*{re.escape(message)}"):
                check_path(other, path, allows_missing=allows)


def test_each_format_has_the_sizes(path, tiny_config):
    """They are compared before a network is built: no memory holds some of these."""
    check_path(tiny_config, path)
    for _, key, value, in_file in (row for row in SIZES if row[0] == "bert"):
        other = dataclasses.replace(tiny_config, **{key: value})
        message = rf"config has {key}={value} \(the file has {in_file}\); give the con"
        with pytest.raises(ValueError, match=message):
            check_path(other, path)
    other = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    message = f"config has num_hidden_layers={BILLION}, but the file has 2; give"
    with pytest.raises(ValueError, match=f"{message} .* or --allow_missing_weights to"):
        check_path(other, path, allows_missing=False)
    with pytest.raises(ValueError, match=f"{message} [^-]*$"):
        check_path(other, path)
    check_path(other, path, allows_missing=True)


def test_missing_weights_are_random_only_where_it_is_allowed(
    model, tiny_config, tmp_path
):
    name = "bert/encoder/layer_0/output/dense/bias"
    google.save(tmp_path / "a.ckpt", model, left_out=[name])
    with pytest.raises(ValueError, match=f"lacks {name} of the 37 variables of the"):
        check_path(tiny_config, tmp_path / "a.ckpt")
    deeper = random_model(dataclasses.replace(tiny_config, num_hidden_layers=4), "none")
    before = values(deeper)
    with pytest.raises(ValueError, match="num_hidden_layers=4, but the file has 2"):
        checkpoint.load(deeper, tmp_path / "a.ckpt")
    report = checkpoint.load(deeper, tmp_path / "a.ckpt", allows_missing=True)
    assert len(report.missing) == 33
    assert f"38 of 71 variables assigned; newly initialised: {name}, " in str(report)
    assert str(report).endswith(" and 25 more")
    kept = {name: before[name] for name in report.missing}
    assert_equal(values(deeper), {**values(model), **kept})


def test_layers_beyond_the_config_are_one_warning(tmp_path, tiny_config, caplog):
    deep = random_model(dataclasses.replace(tiny_config, num_hidden_layers=5), "none")
    google.save(tmp_path / "a.ckpt", deep)
    shallow = pretrainers.build("none", None, tiny_config)
    report = checkpoint.load(shallow, tmp_path / "a.ckpt")
    assert len(report.unused) == 48
    assert "; in the file but not used: bert/encoder/layer_2/" in str(report)
    assert str(report).endswith(" and 40 more")
    checkpoint.load(deep, tmp_path / "a.ckpt")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "WARNING",
        f"{tmp_path}/a.ckpt: has 5 layers, and the config has num_hidden_layers=2; "
        "the last ones are not used",
    )


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_named(path, tiny_config, tmp_path, value):
    (target,) = (form for form, name in FILES.items() if name == path.name)
    damaged = random_model(tiny_config, "none")
    kernel = damaged.network.blocks[1].ffn_in.kernel
    array = np.array(kernel)
    array[3, 4:6] = value
    kernel.assign(array)
    damaged_path = write(tmp_path, damaged, target)
    (row,) = (row for row, v in names.named_variables(damaged) if v is kernel)
    message = f"{row.key(target)} has 2 of 384 numbers that are nan or infinite in flo"
    with pytest.raises(ValueError, match=f"{path.name}: {message}"):
        checkpoint.load(damaged, damaged_path)


@pytest.mark.parametrize("target", ["google", "hugging_face"])
def test_head_of_other_labels_is_left_out_and_reported(tiny_config, tmp_path, target):
    five = random_model(tiny_config, num_classes=5)
    write(tmp_path, five, target)
    model = random_model(tiny_config, seed=2)
    head = {name: values(model)[name] for name in HEAD}
    report = checkpoint.load(model, tmp_path)
    assert report.missing == HEAD and report.unused == ()
    assert_equal(values(model), {**values(five), **head})
    with pytest.raises(ValueError, match="lacks output_weights, output_bias of a tr"):
        checkpoint.load_trained(model, tmp_path)
    with pytest.raises(ValueError, match="there is no trained model in --output_dir"):
        checkpoint.load_trained(model, "")


def test_only_what_a_checkpoint_lacks_is_drawn(path, tiny_config, monkeypatch):
    """The head, with the values that it has where everything is drawn first."""
    drawn, scopes = [], (contextlib.nullcontext(), checkpoint.drawing_after())
    initializer = keras.initializers.TruncatedNormal
    draw = initializer.__call__

    def count(self, shape, dtype=None):
        drawn.append(tuple(shape))
        return draw(self, shape, dtype)

    monkeypatch.setattr(initializer, "__call__", count)
    models = []
    for scope in scopes:
        keras.utils.set_random_seed(3)
        drawn.clear()
        with scope:
            models.append(pretrainers.build("classifier", 3, tiny_config))
            checkpoint.load(models[-1], path)
        assert len(drawn) > 9 or scope is scopes[1]
    if path.name != "model.keras":  # from which Keras makes a model of its own
        assert set(drawn) == {models[0].classifier.logits.kernel.shape}
    assert_equal(values(models[1]), values(models[0]))


def test_path_without_a_checkpoint_is_refused(tiny_config, tmp_path):
    absent = tmp_path / "gone" / "bert_model.ckpt"
    with pytest.raises(ValueError, match=f"no checkpoint there .*{absent}.index"):
        places.find(absent)
    with pytest.raises(ValueError, match="no checkpoint in this directory; give a"):
        places.find(tmp_path)
    for name in ("b.safetensors", "a.safetensors"):
        (tmp_path / "two").mkdir(exist_ok=True)
        (tmp_path / "two" / name).touch()
    with pytest.raises(ValueError, match=r"two: .*, and lie in a.*, b.*; rename the"):
        places.find(tmp_path / "two")
    (tmp_path / "bert_model.ckpt.index").mkdir()
    with pytest.raises(ValueError, match=r"directory \(it holds bert_model.*two\); "):
        places.find(tmp_path)
    for path in (tmp_path, tmp_path / "bert_model.ckpt"):
        with pytest.raises(ValueError, match="no checkpoint"):
            places.find(path)
    google.write(tmp_path / "b.ckpt", {"resnet/w": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="none of its 1 variables belongs to a BERT"):
        checkpoint.load(random_model(tiny_config), tmp_path)
    google.write(tmp_path / "a.ckpt", WEIGHTS)
    with pytest.raises(ValueError, match=r"2 checkpoints there \(.*a\.ckpt, .*b\.ckpt"):
        places.find(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "b.ckpt"\n', "utf-8")
    assert places.find(tmp_path) == str(tmp_path / "b.ckpt")


@pytest.mark.parametrize("fails_at", [0, 1])
def test_killed_writing_leaves_nothing_to_read(tmp_path, fails_at):
    prefix = tmp_path / "model.ckpt"
    with killed.at_call(tf.io.gfile, "rename", number=fails_at):
        google.write(prefix, WEIGHTS)
    with pytest.raises(ValueError, match="no checkpoint"):
        places.find(prefix)
    google.write(prefix, WEIGHTS)
    assert_equal(stored(prefix), WEIGHTS)
    assert len(list(tmp_path.iterdir())) == 2


def test_full_disk_keeps_no_part_of_a_checkpoint(tmp_path):
    (other := tmp_path / "model.ckpt-2.incomplete.index").touch()
    large = dict.fromkeys("ab", np.ones(2**20, np.float32))
    with full_disk.full_disk(after=2**20), pytest.raises(tf.errors.OpError):
        google.write(tmp_path / "model.ckpt", large)
    assert list(tmp_path.iterdir()) == [other]


def test_config_is_compared_when_it_is_opened(model, tiny_config, tmp_path):
    google.save(tmp_path / "a.ckpt", model)
    deep = dataclasses.replace(tiny_config, num_hidden_layers=BILLION)
    (tmp_path / "bert_config.json").write_text(deep.to_json_string())
    files = types.SimpleNamespace(
        config_file=f"{tmp_path}/bert_config.json",
        vocab_file="v",
        init_checkpoint=str(tmp_path / "a.ckpt"),
        allows_missing=False,
    )
    with pytest.raises(ValueError, match="but the file has 2; give the config file"):
        model_directory.open_weights(files, deep, 60, 32)
    files.allows_missing = True  # and then the memory is checked
    with pytest.raises(ValueError, match=r"config\.json: .* weights are .* GB, and"):
        model_directory.open_weights(files, deep, 60, 32)
    # A run that resumes does without its first checkpoint.
    files.init_checkpoint = f"{tmp_path}/gone.ckpt"
    opened = model_directory.open_weights(files, tiny_config, 60, 32)
    assert opened == (tiny_config, None)
