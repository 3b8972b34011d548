"""conversion.py: heads, formats, added rows, comparison.

hugging_face_heads.npz was made once, on a CPU, with transformers 5.23.0 and PyTorch
2.15.0: four heads on one encoder of random weights (standard deviation 0.4; one layer,
16 wide, exact gelu), on two texts of 10 and 7 tokens. It holds the features, the arrays
by the names of their state_dict under `weights/`, and the outputs by head.
"""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import comparison, conversion, google, hugging_face
from modeling.configs import config
from tests import daily, full_disk, read_model
from tests.modeling.random_weights import assert_equal, configs, random_model, values

REFERENCE = pathlib.Path(__file__).with_name("hugging_face_heads.npz")
# head: class, parts of the names of its weights, {output here: output there}
HEADS = {
    "pretraining": (
        "BertForPreTraining",
        ("cls.", "bert.pooler."),
        {
            "masked_lm_logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    ),
    "classifier": (
        "BertForSequenceClassification",
        ("classifier:", "bert.pooler."),
        {"logits": "logits"},
    ),
    "tagger": ("BertForTokenClassification", ("tagger:",), {"logits": "logits"}),
    "span": (
        "BertForQuestionAnswering",
        ("qa_outputs.",),
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
}
POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
ORDER = ("cls/seq_relationship/output_weights", "cls/seq_relationship/output_bias")


@pytest.fixture(scope="module")
def reference():
    with np.load(REFERENCE) as arrays:
        return dict(arrays)


def write_hugging_face(folder, reference, head):
    """The directory that transformers would have saved; returns its config."""
    architecture, own, _ = HEADS[head]
    parts = tuple(f"weights/{p}" for p in ("bert.embeddings.", "bert.encoder.", *own))
    tensors = {
        key.removeprefix("weights/").removeprefix(f"{head}:"): value
        for key, value in reference.items()
        if key.startswith(parts)
    }
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    raw = {
        "model_type": "bert",
        "architectures": [architecture],
        "vocab_size": 40,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
        "hidden_act": "gelu",
    }
    return config.BertConfig.from_dict(raw)


@pytest.mark.parametrize("head", HEADS)
def test_heads_compute_what_hugging_faces_do(reference, tmp_path, head):
    """One layer of float32 differs by less than 1e-6; asserted is 1e-5."""
    shape = write_hugging_face(tmp_path, reference, head)
    read = read_model.read(tmp_path, shape)
    assert (read.format, read.head) == ("hugging_face", head)
    assert read.report.missing == (POOLER if head in ("tagger", "span") else ())
    assert read.report.unused == ()
    positions = np.tile(np.arange(10, dtype=np.int32), (2, 1))
    features = {**reference, "masked_lm_positions": positions}
    outputs = read.model(features)
    for ours, theirs in HEADS[head][2].items():
        wanted = reference[f"{head}/{theirs}"]
        np.testing.assert_allclose(outputs[ours], wanted, atol=1e-5, rtol=0)
    # The twin: the other gelu.
    other = dataclasses.replace(shape, hidden_act="gelu_tanh")
    moved = read_model.read(tmp_path, other).model(features)[ours]
    assert np.abs(moved - wanted).max() > 5e-5


THERE_AND_BACK = ("google", "hugging_face", "google")
DAILY = [("bert", "classifier"), ("bert", "pretraining")]
DAILY += [("gpt", "language_model"), ("gpt2", "classifier")]
OTHERS = [
    ("bert", head)
    for head in pretrainers.HEADS
    # Only ELECTRA has a discriminator: test_bert_family.py
    if ("bert", head) not in DAILY and head != "discriminator"
]
OTHERS += [("gpt", "classifier"), ("gpt2", "language_model"), ("gpt2", "tagger")]
OTHERS += [("elmo", "none")]


@pytest.mark.parametrize(
    ("network", "head"),
    daily.params([*DAILY, *OTHERS], lambda pair: pair in DAILY),
)
def test_round_trip_through_all_formats_is_exact(tiny_config, tmp_path, network, head):
    model = random_model(configs(tiny_config)[network], head)
    wanted = values(model)
    targets = ("google", "hdf5", "google")
    for number, target in enumerate(targets if network == "elmo" else THERE_AND_BACK):
        folder = tmp_path / str(number)
        folder.mkdir()
        conversion.write_directory(folder, model, target)
        # A classifier and a tagger have the same names, but other configs.
        config_file = model_directory.locate(folder, needs_all=False).config_file
        read = read_model.read(folder, model_directory.read_config(config_file))
        assert (read.format, read.head) == (target, head)
        assert read.report.missing == read.report.unused == ()
        assert_equal(values(read.model), wanted)
        assert comparison.compare(model, read.model) == 0
        model = read.model
    first, last = (next((tmp_path / n).glob("*.data-00000-of-00001")) for n in "02")
    assert first.read_bytes() == last.read_bytes()


def write_google(folder, *tensors):
    merged = {name: value for one in tensors for name, value in one.items()}
    google.write(folder / "m.ckpt", merged)
    return folder / "m.ckpt"


def test_head_follows_from_names_and_config(tiny_config, tmp_path):
    """A classifier and a tagger have the same names of weights."""
    conversion.write(tmp_path, random_model(tiny_config, "tagger"), "google")
    # Values of other types are as if there were none.
    for architectures, choice, head in (
        (None, "auto", "classifier"),
        (float("inf"), "auto", "classifier"),
        ([3], "tagger", "tagger"),
        (["BertForTokenClassification"], "auto", "tagger"),
        (["BertForTokenClassification"], "classifier", "classifier"),
        (["BertForFeatures"], "none", "none"),
    ):
        extra = {"architectures": architectures, "problem_type": 5}
        described = dataclasses.replace(tiny_config, extra=extra)
        assert read_model.read(tmp_path, described, choice).head == head
        assert hugging_face.stated_problem_type(described) == ""
    for other in (["BertForTokenX"], "BertForTokenX"):
        described = dataclasses.replace(tiny_config, extra={"architectures": other})
        with pytest.raises(ValueError, match="the head of BertForTokenX is not known"):
            read_model.read(tmp_path, described)


def test_every_name_is_accounted_for(tiny_config, tmp_path):
    span = values(random_model(tiny_config, "span"))
    moments = {f"{name}/adam_m": value for name, value in span.items()}
    odd = {"global_step": np.int64(9), "my/table": np.zeros(2, np.float32)}
    path = write_google(tmp_path, span, moments, odd)
    read = read_model.read(path, tiny_config)
    assert str(read).splitlines() == [
        f"input: {path} (google), head: span",
        "converted: 41 variables (encoder 37, pooler 2, span 2)",
        "left out: 42 variables (adam_m 41, global_step 1), which are training "
        "states, buffers and copies",
        "left over: my/table",
    ]
    bare = read_model.read(path, tiny_config, "none")
    head = ("cls/squad/output_bias", "cls/squad/output_weights")
    assert bare.report.unused == (*head, "my/table")


def test_several_heads_and_layers_too_many_are_refused(tiny_config, tmp_path):
    both = [values(random_model(tiny_config, head)) for head in ("span", "pretraining")]
    path = write_google(tmp_path, *both)
    with pytest.raises(ValueError, match="several heads, pretraining and span; choose"):
        read_model.read(path, tiny_config)
    assert read_model.read(path, tiny_config, "span").head == "span"
    with pytest.raises(ValueError, match=r"no such head \(it has: pretraining and sp"):
        read_model.read(path, tiny_config, "classifier")
    other = dataclasses.replace(tiny_config, num_hidden_layers=1)
    message = "has 2 layers, but its config has num_hidden_layers=1; give"
    with pytest.raises(ValueError, match=message):
        read_model.read(path, other, "span")


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (
            norm := "bert/encoder/layer_1/output/LayerNorm/beta",
            f"lacks {norm} of the 37",
        ),
        (POOLER[1], f"lacks {POOLER[1]}, though it has others"),
        ("output_weights", r"output_weights is \[\], and its bias \[3\]"),
    ],
)
def test_half_a_part_is_refused(tiny_config, tmp_path, left_out, message):
    tensors = values(random_model(tiny_config, "classifier"))
    del tensors[left_out]
    with pytest.raises(ValueError, match=message):
        read_model.read(write_google(tmp_path, tensors), tiny_config)


def test_masked_lm_alone_stays_alone(tiny_config, tmp_path):
    model = random_model(tiny_config, "pretraining")
    missing = (*POOLER, *ORDER)
    for target in ("google", "hugging_face"):
        conversion.write(tmp_path, model, target, left_out=missing)
        path = tmp_path / conversion.FILES[target]
        read = read_model.read(path, tiny_config)
        assert set(read.report.missing) == set(missing)
        assert comparison.compare(model, read.model, missing) == 0
    raw = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert raw["architectures"] == ["BertForMaskedLM"]


def test_compare_sees_every_change(tiny_config):
    first, second = (random_model(tiny_config, "classifier") for _ in range(2))
    assert comparison.compare(first, second) == 0
    value = np.array(second.classifier.logits.bias)
    value[1] = np.nextafter(value[1], 9)
    second.classifier.logits.bias.assign(value)
    with pytest.raises(ValueError, match="output_bias was not kept"):
        comparison.compare(first, second)
    assert comparison.compare(first, second, ["output_bias"]) == 0
    relu = dataclasses.replace(tiny_config, hidden_act="relu")
    with pytest.raises(ValueError, match="the config was not kept"):
        comparison.compare(first, random_model(relu, "classifier"))
    first.network.pooler.bias.assign(np.full(16, np.nan, np.float32))
    with pytest.raises(ValueError, match="differ by nan; nothing is written"):
        comparison.compare(first, first)


def test_number_of_rows(tiny_config):
    for tokens, wanted, rows in (
        (0, 0, 60),
        (63, 0, 63),
        (63, 190, 190),
        (0, 1000, 1000),
        (63, 62, "=62: there are 60 rows and 63 tokens; give 63"),
        (63, 191, "=191: 63 tokens leave more than 127"),
    ):
        if isinstance(rows, int):
            assert conversion.count_rows(tiny_config, tokens, wanted) == rows
        else:
            with pytest.raises(ValueError, match=rows):
                conversion.count_rows(tiny_config, tokens, wanted)


def test_what_has_no_room_is_one_line(tiny_config, tmp_path):
    model = random_model(tiny_config, "none")
    message = f"^{tmp_path}: cannot be written \\([^\n]*too large[^\n]*make room there"
    for target in ("google", "hugging_face"):
        with full_disk.full_disk(after=500), pytest.raises(OSError, match=message):
            conversion.write(tmp_path, model, target)
