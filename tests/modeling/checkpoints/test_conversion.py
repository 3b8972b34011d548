"""Tests of modeling/checkpoints/conversion.py.

hugging_face_heads.npz was made once, on a CPU, with transformers 5.23.0 and PyTorch
2.15.0: four heads on one encoder of random weights (standard deviation 0.4; one layer,
16 wide, exact gelu), on two texts of 10 and 7 tokens. It holds the features, the arrays
by the names of their state_dict under `weights/`, and the outputs by head.
"""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

from modeling import pretrainers
from modeling.checkpoints import (
    conversion,
    google,
    hugging_face,
    keras_files,
)
from modeling.configs import config
from modeling.elmo import config as elmo_config
from tests import full_disk
from tests.modeling.random_weights import assert_equal, random_model, values

REFERENCE = pathlib.Path(__file__).with_name("hugging_face_heads.npz")
# head: parts of the names of its weights, {output here: output there}
HEADS = {
    "pretraining": (
        ("cls.", "bert.pooler."),
        {
            "masked_lm_logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    ),
    "classifier": (("classifier:", "bert.pooler."), {"logits": "logits"}),
    "tagger": (("tagger:",), {"logits": "logits"}),
    "span": (
        ("qa_outputs.",),
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
}
ARCHITECTURES = {
    "pretraining": "BertForPreTraining",
    "classifier": "BertForSequenceClassification",
    "tagger": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")


@pytest.fixture(scope="module")
def reference():
    with np.load(REFERENCE) as arrays:
        return dict(arrays)


def write_hugging_face(folder, reference, head):
    """The directory that transformers would have saved; returns its config."""
    parts = ("bert.embeddings.", "bert.encoder.", *HEADS[head][0])
    tensors = {
        key.removeprefix("weights/").removeprefix(f"{head}:"): value
        for key, value in reference.items()
        if key.startswith(tuple(f"weights/{part}" for part in parts))
    }
    folder.mkdir(exist_ok=True)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    raw = {
        "model_type": "bert",
        "architectures": [ARCHITECTURES[head]],
        "vocab_size": 40,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
        "hidden_act": "gelu",
    }
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    return config.BertConfig.from_dict(raw)


@pytest.mark.parametrize("head", HEADS)
def test_heads_compute_what_hugging_faces_do(reference, tmp_path, head):
    """One layer of float32 differs by less than 1e-6; asserted is 1e-5."""
    read = conversion.read(
        tmp_path, write_hugging_face(tmp_path, reference, head), "auto"
    )
    assert (read.format, read.head) == ("hugging_face", head)
    assert read.report.missing == (POOLER if head in ("tagger", "span") else ())
    assert read.report.unused == ()
    positions = np.tile(np.arange(10, dtype=np.int32), (2, 1))
    outputs = read.model({**reference, "masked_lm_positions": positions})
    for ours, theirs in HEADS[head][1].items():
        wanted = reference[f"{head}/{theirs}"]
        np.testing.assert_allclose(outputs[ours], wanted, atol=1e-5, rtol=0)
    # The other gelu is seen, and so is a head whose classes change places.
    other = dataclasses.replace(read.model.config, hidden_act="gelu_tanh")
    moved = conversion.read(tmp_path, other).model
    moved = moved({**reference, "masked_lm_positions": positions})[ours]
    assert np.abs(moved - wanted).max() > 5e-5
    assert np.abs(wanted[..., ::-1] - wanted).max() > 1e-2


DAILY_HEADS = ("classifier", "pretraining")  # the network of all is the same


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(head, marks=[] if head in DAILY_HEADS else pytest.mark.slow)
        for head in pretrainers.HEADS
    ],
)
def test_round_trip_through_all_formats_is_exact(tiny_config, tmp_path, head):
    model = random_model(tiny_config, head)
    described = hugging_face.describe(model)
    wanted = values(model)
    for number, target in enumerate(("google", "hugging_face", "keras", "google")):
        folder = tmp_path / str(number)
        folder.mkdir()
        conversion.write(folder, model, target)
        # The names of a classifier are those of a tagger: the config tells them apart.
        read = conversion.read(folder, described)
        assert (read.format, read.head) == (target, head)
        assert read.report.missing == read.report.unused == ()
        assert_equal(values(read.model), wanted)
        assert conversion.compare(model, read.model) == 0
        model = read.model
    first, last = (next((tmp_path / n).glob("*.data-00000-of-00001")) for n in "03")
    assert first.read_bytes() == last.read_bytes()


def test_classifier_and_tagger_are_told_apart(tiny_config, tmp_path):
    conversion.write(tmp_path, random_model(tiny_config, "tagger"), "google")
    assert conversion.read(tmp_path, tiny_config).head == "classifier"
    assert conversion.read(tmp_path, tiny_config, "tagger").head == "tagger"
    extra = {"architectures": ["BertForTokenClassification"]}
    told = dataclasses.replace(tiny_config, extra=extra)
    assert conversion.read(tmp_path, told).head == "tagger"
    assert conversion.read(tmp_path, told, "classifier").head == "classifier"


def write_google(folder, *dicts):
    merged = {name: value for one in dicts for name, value in one.items()}
    google.write(folder / "m.ckpt", merged)
    return folder / "m.ckpt"


def test_every_name_is_accounted_for(tiny_config, tmp_path):
    span = values(random_model(tiny_config, "span"))
    moments = {f"{name}/adam_m": value for name, value in span.items()}
    odd = {"global_step": np.int64(9), "my/table": np.zeros(2, np.float32)}
    path = write_google(tmp_path, span, moments, odd)
    read = conversion.read(path, tiny_config)
    assert str(read).splitlines() == [
        f"input: {path} (google), head: span",
        "converted: 41 variables (encoder 37, pooler 2, span 2)",
        "left out: 42 of training, buffers and copies",
        "left over: my/table",
    ]
    bare = conversion.read(path, tiny_config, "none")
    assert bare.report.unused == (
        "cls/squad/output_bias",
        "cls/squad/output_weights",
        "my/table",
    )


def test_several_heads_must_be_chosen_from(tiny_config, tmp_path):
    both = [values(random_model(tiny_config, head)) for head in ("span", "pretraining")]
    path = write_google(tmp_path, *both)
    with pytest.raises(ValueError, match="several heads, pretraining and span; say by"):
        conversion.read(path, tiny_config)
    assert conversion.read(path, tiny_config, "span").head == "span"
    with pytest.raises(ValueError, match=r"no such head \(it has: pretraining and sp"):
        conversion.read(path, tiny_config, "classifier")


def test_head_of_another_kind_must_be_named(tiny_config, tmp_path):
    conversion.write(tmp_path, random_model(tiny_config, "classifier"), "google")
    for odd in (None, 5, {"a": 1}, [], [3], float("inf")):  # as if there were none
        extra = {"architectures": odd, "problem_type": odd}
        config = dataclasses.replace(tiny_config, extra=extra)
        assert hugging_face.architecture(config) == ""
        assert hugging_face.stated_problem_type(config) == ""
    extra = {"architectures": ["BertForFeatures"]}
    told = dataclasses.replace(tiny_config, extra=extra)
    with pytest.raises(ValueError, match="a head of BertForFeatures, which is"):
        conversion.read(tmp_path, told)
    assert conversion.read(tmp_path, told, "classifier").head == "classifier"
    assert conversion.read(tmp_path, told, "none").head == "none"
    told = dataclasses.replace(tiny_config, extra={"architectures": "BertForTokenX"})
    with pytest.raises(ValueError, match="a head of BertForTokenX, which is not"):
        conversion.read(tmp_path, told)


@pytest.mark.parametrize(
    "left_out", ["bert/encoder/layer_1/output/LayerNorm/beta", POOLER[1], "output_bias"]
)
def test_half_a_part_is_refused(tiny_config, tmp_path, left_out):
    tensors = values(random_model(tiny_config, "classifier"))
    if left_out == "output_bias":  # by which a head is found: take the other one
        left_out = "output_weights"
    del tensors[left_out]
    others = " of the 37 var" if "/encoder/" in left_out else ", though it has others"
    with pytest.raises(ValueError, match=f"lacks {left_out}{others}"):
        conversion.read(write_google(tmp_path, tensors), tiny_config)


def test_masked_lm_alone_stays_alone(tiny_config, tmp_path):
    model = random_model(tiny_config, "pretraining")
    missing = (*POOLER, "cls/seq_relationship/output_weights")
    missing = (*missing, "cls/seq_relationship/output_bias")
    for target in ("google", "hugging_face"):
        conversion.write(tmp_path, model, target, left_out=missing)
        path = tmp_path / conversion.FILES[target]
        read = conversion.read(path, tiny_config)
        assert set(read.report.missing) == set(missing)
        assert conversion.compare(model, read.model, missing) == 0
    raw = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert raw["architectures"] == ["BertForMaskedLM"]
    described = hugging_face.describe(model, missing)
    assert described.extra["architectures"] == ["BertForMaskedLM"]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (1, "has 2 layers, but its config says num_hidden_layers=1; give"),
        (3, "the config says num_hidden_layers=3, but the file has 2; give"),
    ],
)
def test_config_of_another_depth(tiny_config, tmp_path, layers, message):
    path = write_google(tmp_path, values(random_model(tiny_config, "none")))
    other = dataclasses.replace(tiny_config, num_hidden_layers=layers)
    with pytest.raises(ValueError, match=message):
        conversion.read(path, other)


def test_compare_sees_every_change(tiny_config):
    first = random_model(tiny_config, "classifier")
    second = random_model(tiny_config, "classifier")
    assert conversion.compare(first, second) == 0
    value = np.array(second.classifier.logits.bias)
    value[1] = np.nextafter(value[1], 9)
    second.classifier.logits.bias.assign(value)
    with pytest.raises(ValueError, match="output_bias was not kept"):
        conversion.compare(first, second)
    assert conversion.compare(first, second, ["output_bias"]) == 0
    relu = dataclasses.replace(tiny_config, hidden_act="relu")
    with pytest.raises(ValueError, match="the config was not kept"):
        conversion.compare(first, random_model(relu, "classifier"))


def test_weights_that_are_no_numbers_are_refused(tiny_config):
    model = random_model(tiny_config, "none")
    model.network.pooler.bias.assign(np.full(16, np.nan, np.float32))
    with pytest.raises(ValueError, match="differ by nan; nothing is written"):
        conversion.compare(model, model)


def test_new_rows_are_the_mean(tiny_config, tiny_features):
    model = random_model(tiny_config, "pretraining")
    grown = conversion.grow(model, 63)
    assert grown.config.vocab_size == 63 and model.config.vocab_size == 60
    old, new = values(model), values(grown)
    for name in ("bert/embeddings/word_embeddings", "cls/predictions/output_bias"):
        np.testing.assert_array_equal(new[name][:60], old[name])
        mean = old[name].mean(axis=0, dtype=np.float64)
        for row in new[name][60:]:
            np.testing.assert_allclose(row, mean, rtol=1e-6)
        del old[name], new[name]
    assert_equal(new, old)
    assert conversion.compare(model, grown) <= conversion.TOLERANCE
    # So the logit of a new token is the mean of the others.
    before = np.asarray(model(tiny_features)["masked_lm_logits"])
    after = np.asarray(grown(tiny_features)["masked_lm_logits"])
    for i in range(60, 63):
        np.testing.assert_allclose(after[..., i], before.mean(axis=-1), atol=1e-4)
    assert conversion.grow(model, 60) is model


def test_rows_that_are_wanted(tiny_config):
    assert conversion.num_rows(tiny_config, 0) == 60
    assert conversion.num_rows(tiny_config, 50) == 60
    assert conversion.num_rows(tiny_config, 63) == 63
    assert conversion.num_rows(tiny_config, 63, 64) == 64
    assert conversion.num_rows(tiny_config, 63, 190) == 190
    with pytest.raises(
        ValueError, match="=62: there are 60 rows and 63 tokens, and no"
    ):
        conversion.num_rows(tiny_config, 63, 62)
    with pytest.raises(ValueError, match="=191: there are 63 tokens, and at most 127"):
        conversion.num_rows(tiny_config, 63, 191)
    assert conversion.num_rows(tiny_config, 0, 1000) == 1000


@pytest.mark.parametrize("target", conversion.FORMATS)
def test_disk_that_is_full_is_one_line(tiny_config, tmp_path, target):
    elmo = elmo_config.ElmoConfig(projection_dim=4, lstm_dim=6, filters=((1, 3),))
    model = random_model(elmo if target == "hdf5" else tiny_config, "none")
    said = (
        f"^{tmp_path}(/weights.hdf5)?: cannot be written "
        "\\([^\n]*File too large[^\n]*make room there"
    )
    with full_disk.full_disk(after=500), pytest.raises(OSError, match=said) as caught:
        conversion.write(tmp_path, model, target)
    assert "\n" not in str(caught.value) and "node" not in str(caught.value)


def test_weights_of_keras_are_begun_where_there_is_room(
    tiny_config, tmp_path, monkeypatch
):
    """HDF5 ends the process when the disk is full, so it is not tried."""
    model = random_model(tiny_config, "none")
    conversion.write(tmp_path, model, keras_files.WEIGHTS_FILE)
    path = tmp_path / keras_files.WEIGHTS_FILE
    needed = path.stat().st_size
    path.unlink()
    usage = shutil.disk_usage(tmp_path)._replace(free=needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    said = f"{needed - 1} bytes are free, \\d+ are needed.*make room there"
    with pytest.raises(OSError, match=said):
        conversion.write(tmp_path, model, keras_files.WEIGHTS_FILE)
    assert not path.exists()
    usage = usage._replace(free=10 * needed)
    conversion.write(tmp_path, model, keras_files.WEIGHTS_FILE)
    assert path.exists()


def test_batch_fits_any_config(tiny_config):
    small = dataclasses.replace(
        tiny_config, max_position_embeddings=3, type_vocab_size=1, vocab_size=2
    )
    for shape in (tiny_config, small):
        batch = conversion.make_batch(shape)
        assert batch["input_ids"].max() == shape.vocab_size - 1 or shape is tiny_config
        assert batch["segment_ids"].max() == shape.type_vocab_size - 1
        assert batch["input_mask"].sum(axis=1).min() > 0
        model = random_model(shape, "pretraining")
        assert conversion.compare(model, model) == 0
