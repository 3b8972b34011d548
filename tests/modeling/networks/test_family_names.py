"""Files of BERT's relatives: names of Google, and files of other networks."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import checkpoint, conversion, google, names
from modeling.networks import albert, catalogue, distilbert, electra, roberta
from tests import family_weights, read_model, tiny_family
from tests.modeling.random_weights import assert_equal, random_model, values

CASES = family_weights.read_cases()
SIZES = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
}
NARROW = {**SIZES, "embedding_size": 6}
ALBERT = albert.AlbertConfig(**NARROW)
# Names in checkpoints of google-research/albert: variable scopes of its modeling.py
# and run_pretraining.py, and shapes for the sizes above.
DENSE, NORM = ("bias", "kernel"), ("beta", "gamma")
LAYER = "bert/encoder/transformer/group_0/inner_group_0"
OF_ALBERT = {
    "bert/embeddings/word_embeddings": (40, 6),
    "bert/embeddings/token_type_embeddings": (2, 6),
    "bert/embeddings/position_embeddings": (16, 6),
    "bert/embeddings/LayerNorm/beta": (6,),
    "bert/embeddings/LayerNorm/gamma": (6,),
    "bert/encoder/embedding_hidden_mapping_in/kernel": (6, 8),
    "bert/encoder/embedding_hidden_mapping_in/bias": (8,),
    **{
        f"{LAYER}/attention_1/{name}/{part}": (8, 8) if part == "kernel" else (8,)
        for name in ("self/query", "self/key", "self/value", "output/dense")
        for part in DENSE
    },
    f"{LAYER}/ffn_1/intermediate/dense/kernel": (8, 12),
    f"{LAYER}/ffn_1/intermediate/dense/bias": (12,),
    f"{LAYER}/ffn_1/intermediate/output/dense/kernel": (12, 8),
    f"{LAYER}/ffn_1/intermediate/output/dense/bias": (8,),
    **{
        f"{LAYER}/{n}/{part}": (8,)
        for n in ("LayerNorm", "LayerNorm_1")
        for part in NORM
    },
    "bert/pooler/dense/kernel": (8, 8),
    "bert/pooler/dense/bias": (8,),
    "cls/predictions/transform/dense/kernel": (8, 6),
    "cls/predictions/transform/dense/bias": (6,),
    "cls/predictions/transform/LayerNorm/beta": (6,),
    "cls/predictions/transform/LayerNorm/gamma": (6,),
    "cls/predictions/output_bias": (40,),
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}
# And of google-research/electra, beside embeddings and layers like BERT's.
OF_ELECTRA = {
    "pretraining": {
        "generator_predictions/dense/kernel",
        "generator_predictions/dense/bias",
        "generator_predictions/LayerNorm/beta",
        "generator_predictions/LayerNorm/gamma",
        "generator_predictions/output_bias",
    },
    "discriminator": {
        f"discriminator_predictions/{name}/{part}"
        for name in ("dense", "dense_1")
        for part in DENSE
    },
}


def stored(folder):
    """{name: shape} in a checkpoint of TensorFlow."""
    variables = tf.train.list_variables(str(folder / "bert_model.ckpt"))
    return {name: tuple(shape) for name, shape in variables}


def test_names_of_albert_are_googles(tmp_path):
    conversion.write(tmp_path, random_model(ALBERT, "pretraining"), "google")
    assert stored(tmp_path) == OF_ALBERT
    grouped = albert.AlbertConfig(**NARROW, num_hidden_groups=2)
    second = {name.replace("group_0/inner", "group_1/inner") for name in OF_ALBERT}
    conversion.write(tmp_path / "2", random_model(grouped, "pretraining"), "google")
    assert stored(tmp_path / "2").keys() == OF_ALBERT.keys() | second


@pytest.mark.parametrize("head", OF_ELECTRA)
def test_names_of_electra_are_googles(tmp_path, head):
    model = random_model(electra.ElectraConfig(**NARROW), head)
    conversion.write(tmp_path, model, "google")
    others = {name for name in stored(tmp_path) if not name.startswith("electra/")}
    assert others == OF_ELECTRA[head]
    kernel = stored(tmp_path)["electra/embeddings_project/kernel"]
    assert kernel == (6, 8)
    assert "electra/encoder/layer_1/attention/self/query/kernel" in stored(tmp_path)


def test_release_of_albert_is_opened(tmp_path):
    """Weights under another prefix, albert_config.json without a model_type."""
    model = random_model(ALBERT, "pretraining")
    google.save(tmp_path / "model.ckpt-best", model)
    raw = {**ALBERT.to_dict(), "hidden_act": "gelu"}
    del raw["model_type"]
    (tmp_path / "albert_config.json").write_text(json.dumps(raw))
    for ending in ("model", "vocab"):
        (tmp_path / f"30k-clean.{ending}").write_text("")
    files = model_directory.locate(tmp_path)
    assert files.vocab_file == str(tmp_path / "30k-clean.model")
    assert files.config_file == str(tmp_path / "albert_config.json")
    config = model_directory.read_config(files.config_file)
    assert config.network_alone() == ALBERT
    read = read_model.read(files.init_checkpoint, config)
    assert read.head == "pretraining" and read.report.unused == ()
    assert_equal(values(read.model), values(model))
    assert "albert_config.json" in conversion.OWN_FILES


@pytest.fixture
def write(tmp_path):
    """Writes the weights of a case beside the changed config of another one."""

    def make(weights, config, **changes):
        folder = tmp_path / f"{weights}-{config}"
        CASES[weights].write(folder)
        raw = {**CASES[config].config, **changes}
        (folder / "config.json").write_text(json.dumps(raw))
        return folder, model_directory.read_config(folder / "config.json")

    return make


BERT = "bert-ForPreTraining"
MISMATCHES = [  # weights, config, its changes, message
    ("roberta-Model", "", {"vocab_size": 41}, "vocab_size=41 (the file has 40)"),
    (
        "roberta-Model",
        "",
        {"max_position_embeddings": 20},
        "max_position_embeddings=20 (the file has 16)",
    ),
    ("roberta-Model", "", {"type_vocab_size": 2}, "type_vocab_size=2 (the file has 1)"),
    ("distilbert-Model", "", {"dim": 4}, "has dim=4 (the file has 8)"),
    ("distilbert-Model", "", {"n_layers": 3}, "has n_layers=3, but the file has 2"),
    (
        "distilbert-Model",
        "",
        {"n_layers": 1},
        "2 layers, but its config has n_layers=1",
    ),
    ("electra-Model", "", {"embedding_size": 8}, "=8 (the file has 6)"),
    ("electra-Model-equal", "electra-Model", {}, "embedding_size=6 (the file has 8)"),
    (BERT, "albert-Model", {}, "has weights of BERT, but the config is of ALBERT"),
    ("albert-ForMaskedLM", BERT, {}, "weights of ALBERT, but the config is of BERT"),
    (
        "albert-Model",
        "",
        {"num_hidden_groups": 2},
        "has num_hidden_groups=2, but the file has 1",
    ),
    (
        "albert-Model-groups",
        "",
        {"num_hidden_groups": 1},
        "has 2 layers, but its config has num_hidden_groups=1",
    ),
    ("roberta-ForMaskedLM", BERT, {}, "weights of RoBERTa, but the config is of BERT"),
    ("electra-ForPreTraining", "roberta-Model", {}, "weights of ELECTRA, but the conf"),
]


@pytest.mark.parametrize(("weights", "config", "changes", "message"), MISMATCHES)
def test_files_of_other_networks_are_refused(write, weights, config, changes, message):
    folder, read = write(weights, config or weights, **changes)
    with pytest.raises(ValueError, match=r"model\.safetensors: ") as refused:
        read_model.read(folder, read)
    text = str(refused.value)
    assert message in text and "\n" not in text
    assert text.endswith("give the config file of this checkpoint")


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        ("electra-ForMaskedLM", "discriminator", "has no such head (it has: pretr"),
        ("electra-ForPreTraining", "pretraining", "no such head (it has: discrimi"),
        ("roberta-ForSequenceClassification", "tagger", "no such head (it has: class"),
        ("roberta-ForTokenClassification", "classifier", "names of another head of R"),
        ("distilbert-ForTokenClassification", "classifier", "though it has others of"),
    ],
)
def test_heads_of_other_tasks_are_refused(write, name, head, message):
    folder, config = write(name, name)
    assert read_model.read(folder, config).head not in (head, "none")
    with pytest.raises(ValueError, match="head") as refused:
        read_model.read(folder, config, head)
    assert message in str(refused.value)


def test_discriminators_are_electras():
    config = distilbert.DistilBertConfig(**SIZES)
    with pytest.raises(ValueError, match="no head 'discriminator'; choose"):
        pretrainers.build("discriminator", None, config)


@pytest.mark.parametrize("model_type", ["roberta", "albert"])
def test_poolers_of_any_name_may_be_missing(tmp_path, model_type):
    """Of a tagger, which does without; a classifier of ALBERT reads it."""
    config = CASES[f"{model_type}-ForTokenClassification"].config
    config = catalogue.of_model_type(model_type).config.from_dict(config)
    tagger = random_model(config, "tagger")
    pooler = [name for name in values(tagger) if "/pooler/" in name]
    assert len(pooler) == 2
    google.save(tmp_path / "a.ckpt", tagger, left_out=pooler)
    again = pretrainers.build("tagger", 3, config)
    report = checkpoint.load_trained(again, tmp_path / "a.ckpt")
    assert sorted(report.missing) == sorted(pooler)
    drawn = conversion.copy_random(again, report.missing)
    assert drawn.keys() == set(pooler)
    assert conversion.list_unchanged(again, drawn) == [*drawn]
    classifier = random_model(config, "classifier")
    assert classifier.uses_pooler == (model_type == "albert")
    if classifier.uses_pooler:
        google.save(tmp_path / "b.ckpt", classifier, left_out=pooler)
        with pytest.raises(ValueError, match=r"lacks bert/pooler/dense/\w+, .*train"):
            checkpoint.load_trained(classifier, tmp_path / "b.ckpt")


@pytest.mark.parametrize("kind", tiny_family.NETWORKS)
def test_head_of_other_labels_begins_anew(tmp_path, kind):
    config = catalogue.of_model_type(kind).config(**SIZES, model_type=kind)
    model = random_model(config, "classifier", 4)
    google.save(tmp_path / "a.ckpt", model)
    fresh = pretrainers.build("classifier", 3, config)
    before = values(fresh)
    report = checkpoint.load(fresh, tmp_path / "a.ckpt")
    logits = [name for name in before if before[name].shape[:1] == (3,)]
    assert sorted(report.missing) == sorted(logits) and len(logits) == 2
    wanted = {**values(model), **{name: before[name] for name in logits}}
    assert_equal(values(fresh), wanted)


def test_idle_copies_are_no_weights(write):
    """Buffers, and the table of words that a masked-LM head is tied to."""
    folder, config = write("roberta-ForMaskedLM", "roberta-ForMaskedLM")
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    table = tensors["roberta.embeddings.word_embeddings.weight"]
    more = {
        "roberta.embeddings.position_ids": np.arange(16)[None],
        "lm_head.decoder.weight": table.copy(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].copy(),
    }
    safetensors.numpy.save_file({**tensors, **more}, path)
    read = read_model.read(folder, config)
    assert read.report.unused == () and read.states.keys() >= more.keys()
    more["lm_head.decoder.weight"][3, 3] += 1
    safetensors.numpy.save_file({**tensors, **more}, path)
    with pytest.raises(ValueError, match=r"lm_head\.decoder\.weight differs from rob"):
        read_model.read(folder, config)
    shutil.rmtree(folder)


def test_untied_head_has_a_table_and_the_bias_of_its_product():
    for make, keys in {
        roberta.RobertaConfig: (
            "lm_head.bias",
            "lm_head.decoder.bias",
            "lm_head.decoder.weight",
        ),
        distilbert.DistilBertConfig: (
            *["vocab_projector.bias"] * 2,
            "vocab_projector.weight",
        ),
    }.items():
        tied, own = (
            {
                path: row.hugging_face
                for path, row in names.head_rows(
                    make(**SIZES, tie_word_embeddings=is_tied)
                ).items()
                if path.startswith(("masked_lm", "next_sentence"))
            }
            for is_tied in (True, False)
        )
        assert tied["masked_lm/bias"] == keys[0] and len(tied) == 5
        head = {"masked_lm/bias": keys[1], "masked_lm/table": keys[2]}
        assert own == {**tied, **head}


def test_layers_are_numbered_in_all_formats():
    for kind in tiny_family.NETWORKS:
        network = catalogue.of_model_type(kind)
        layers = [row for number in range(3) for row in network.layer_rows(number)]
        for row in [*network.input_rows(), *layers]:
            place = row.path.split("/")[1]
            number = int(place[6:]) if place.startswith("block_") else None
            for key in (row.path, row.google, row.hugging_face):
                assert catalogue.layer_number(key) == number, key
