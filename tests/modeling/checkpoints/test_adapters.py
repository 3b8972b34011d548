"""LoRA's adapters in PEFT's files, merged where a model is opened."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

import bert_reborn as bert
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import adapters, checkpoint, names, places
from modeling.networks import catalogue
from tests import family_weights
from tests.modeling import random_weights
from tests.refusals import refused
from training import checkpoints as run_checkpoints

IDS = np.int32([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 0, 0]])
MASK = np.int32(IDS > 0)
SIZES = {"model_type": "bert", "vocab_size": 13, "hidden_size": 8}
SIZES |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
SIZES |= {"max_position_embeddings": 8, "hidden_act": "gelu"}
GPT_2 = {"model_type": "gpt2", "vocab_size": 13, "n_embd": 8, "n_layer": 2}
GPT_2 |= {"n_head": 2, "n_positions": 8}
LAYER = "bert.encoder.layer."
# Config, settings, {module: shapes of A and B}, head, and logits of peft 0.21.
RECORDED = {
    "bert": (
        SIZES,
        {
            "use_rslora": True,
            "lora_alpha": 5,
            "alpha_pattern": {"layer.1.output.dense": 2},
        },
        {
            f"{LAYER}{i}.{name}": ([3, width], [8, 3])
            for i in range(2)
            for name, width in (
                ("attention.self.query", 8),
                ("attention.output.dense", 8),
                ("output.dense", 12),
            )
        },
        "classifier",
        [[-1.5630133, 0.225337, -0.1071337], [-1.5850105, 0.2277323, -0.0940332]],
    ),
    "gpt2": (
        GPT_2,
        {"lora_alpha": 5, "rank_pattern": {"h.1.attn.c_attn": 4}},
        {
            f"transformer.h.{i}.{name}": ([rank, width], [units, rank])
            for i in range(2)
            for name, width, units, rank in (
                ("attn.c_attn", 8, 24, 4 if i else 2),
                ("attn.c_proj", 8, 8, 2),
                ("mlp.c_proj", 32, 8, 2),
            )
        },
        "score",
        [[-0.436314, -0.2295029, -0.1586721], [-0.3463579, -0.303647, -0.1730567]],
    ),
}


def draw_base(directory, config):
    """A network in Hugging Face's files whose weights are drawn by their names."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"])
    )
    read = model_directory.read_config(str(directory / "config.json"))
    model = random_weights.random_model(read, "none")
    shapes = {
        row.hugging_face: row.to_hugging_face(np.asarray(variable)).shape
        for row, variable in names.named_variables(model)
    }
    weights = family_weights.draw(shapes)
    safetensors.numpy.save_file(weights, directory / "model.safetensors")
    return weights


def write_adapter(directory, config, tensors):
    directory.mkdir(exist_ok=True)
    config = {"peft_type": "LORA", "r": 2, "peft_version": "0.21.2", **config}
    (directory / "adapter_config.json").write_text(json.dumps(config))
    named = {f"base_model.model.{name}": value for name, value in tensors.items()}
    safetensors.numpy.save_file(named, directory / "adapter_model.safetensors")
    return directory


@pytest.fixture
def make(tmp_path):
    """Writes a recorded case; returns the directory of its adapter."""

    def write(name, **more):
        config, settings, modules, head, _ = RECORDED[name]
        draw_base(tmp_path / "base", config)
        shapes = {f"{head}.weight": [3, 8]}
        if name == "bert":
            shapes[f"{head}.bias"] = [3]
        for module, pair in modules.items():
            for which, shape in zip("AB", pair, strict=True):
                shapes[f"{module}.lora_{which}.weight"] = shape
        tensors = family_weights.draw(shapes, seed=1)
        settings = {"base_model_name_or_path": str(tmp_path / "base"), **settings}
        return write_adapter(tmp_path / "adapter", {**settings, **more}, tensors)

    return write


def logits(directory):
    config = model_directory.read_config(
        model_directory.locate(directory, needs_all=False).config_file
    )
    model = pretrainers.build("classifier", 3, config)
    report = checkpoint.load(model, directory)
    assert "with the adapter" in str(report) and not report.missing
    features = {"input_ids": IDS, "input_mask": MASK, "segment_ids": 0 * IDS}
    return np.asarray(model(features)["logits"])


@pytest.mark.parametrize("name", RECORDED)
def test_model_with_adapter_computes_what_peft_computes(make, name):
    directory = make(name)
    np.testing.assert_allclose(logits(directory), RECORDED[name][-1], atol=2e-6)
    # Each setting matters: without it the adapter has another scale.
    settings = json.loads((directory / "adapter_config.json").read_text())
    for key in ("use_rslora", "alpha_pattern", "lora_alpha"):
        if key in settings:
            less = {k: v for k, v in settings.items() if k != key}
            (directory / "adapter_config.json").write_text(json.dumps(less))
            assert np.abs(logits(directory) - RECORDED[name][-1]).max() > 1e-3, key


def test_model_beside_its_adapter_goes_first(make, tmp_path):
    directory = make("bert", base_model_name_or_path="owner/name-of-no-model")
    for file in ("config.json", "vocab.txt", "model.safetensors"):
        shutil.copy(tmp_path / "base" / file, directory)
    np.testing.assert_allclose(logits(directory), RECORDED["bert"][-1], atol=2e-6)
    (directory / "model.safetensors").unlink()
    with refused("owner/name-of-no-model: no such directory"):
        logits(directory)


def test_model_below_comes_from_the_hub(make, tmp_path, monkeypatch):
    calls = []

    def download(hub_id, name):
        calls.append((hub_id, name))
        return str(tmp_path / "base")

    monkeypatch.setattr(places, "download", download)
    directory = make("bert", base_model_name_or_path="owner/base")
    np.testing.assert_allclose(logits(directory), RECORDED["bert"][-1], atol=2e-6)
    assert {*calls} == {("owner/base", "base_model_name_or_path")}


def test_identity_of_a_run_is_of_scale_and_base_too(make, tmp_path):
    directory = make("bert")
    first = run_checkpoints.identity(str(directory))
    assert run_checkpoints.identity(str(directory)) == first
    weights = directory / "adapter_model.safetensors"
    tensors = safetensors.numpy.load_file(weights)
    doubled = {name: 2 * value for name, value in tensors.items()}
    settings = json.loads((directory / "adapter_config.json").read_text())
    scaled = json.dumps({**settings, "lora_alpha": 77}).encode()
    for path, content, key in (
        (tmp_path / "base" / "model.safetensors", b"others", "adapter"),
        (directory / "adapter_config.json", scaled, "adapter"),
        (weights, safetensors.numpy.save(doubled), "init_checkpoint"),
    ):
        before = path.read_bytes()
        path.write_bytes(content)
        actual = run_checkpoints.identity(str(directory))
        assert {name for name in first if actual[name] != first[name]} == {key}
        path.write_bytes(before)


def test_loaded_model_has_head_words_and_labels(make):
    loaded = bert.load(make("bert"), check_tokenizer=False)
    assert type(loaded.model).__name__ == "BertClassifier"
    assert loaded.model.num_classes == 3
    assert loaded.tokens("a h") == ["[CLS]", "a", "h", "[SEP]"]


def test_whole_weights_and_wrapped_names_take_the_place_of_the_base(tmp_path):
    """As PEFT names biases and embeddings below its layers, of a bare network."""
    weights = draw_base(tmp_path / "base", SIZES)
    name = "encoder.layer.0.attention.self.query"
    table = "embeddings.word_embeddings"
    tensors = {
        f"{name}.lora_A.weight": np.ones((2, 8), np.float16),
        f"{name}.lora_B.weight": np.ones((8, 2), np.float16),
        f"{name}.base_layer.bias": np.full(8, 3, np.float32),
        f"{table}.lora_embedding_A": np.ones((2, 13), np.float32),
        f"{table}.lora_embedding_B": np.full((8, 2), 0.5, np.float32),
        "pooler.modules_to_save.dense.bias": np.full(8, 5, np.float32),
    }
    settings = {"lora_alpha": 6, "base_model_name_or_path": "../base", "bias": "all"}
    directory = write_adapter(tmp_path / "adapter", settings, tensors)
    file = places.open_file(directory)
    rows = {
        row.path: row
        for row in names.network_rows(
            model_directory.read_config(str(tmp_path / "base" / "config.json"))
        )
    }
    read = {path: file.read(row) for path, row in rows.items()}
    query = "bert/block_0/attention/query"
    expected = weights[f"bert.{name}.weight"].T + 6 / 2 * 2
    np.testing.assert_allclose(read[f"{query}/kernel"], expected, rtol=1e-6)
    np.testing.assert_array_equal(read[f"{query}/bias"], 3)
    words = weights["bert.embeddings.word_embeddings.weight"] + 6 / 2 * 2 * 0.5
    np.testing.assert_allclose(
        read["bert/embeddings/word_embeddings"], words, rtol=1e-6
    )


def test_tables_that_peft_reads_without_their_adapter_are_named(tmp_path, caplog):
    """As after merge_and_unload(); DeBERTa's forward reads the table's weight."""
    config = {**SIZES, "model_type": "deberta-v2", "relative_attention": True}
    config |= {"pos_att_type": ["c2p"], "position_buckets": 4}
    weights = draw_base(tmp_path / "base", config)
    table = "deberta.encoder.rel_embeddings"
    rows = len(weights[f"{table}.weight"])
    tensors = {
        f"{table}.lora_embedding_A": np.ones((2, rows), np.float32),
        f"{table}.lora_embedding_B": np.ones((8, 2), np.float32),
    }
    settings = {"lora_alpha": 2, "base_model_name_or_path": "../base"}
    read = model_directory.read_config(str(tmp_path / "base" / "config.json"))
    file = places.open_file(write_adapter(tmp_path / "a", settings, tensors), read)
    (row,) = (row for row in names.network_rows(read) if "relative/table" in row.path)
    expected = weights[f"{table}.weight"] + 2
    np.testing.assert_allclose(file.read(row), expected, rtol=1e-6)
    assert "rel_embeddings counts, as after merge_and_unload() of PEFT" in caplog.text


REFUSED = {
    "dora": {"use_dora": True},
    "ia3": {"peft_type": "IA3"},
    "prompt": {"peft_type": "PROMPT_TUNING"},
    "pissa": {"init_lora_weights": "pissa_niter_4"},
    "bias": {"lora_bias": True},
    "replication": {"layer_replication": [[0, 1]]},
    "tokens": {"trainable_token_indices": [1]},
    "unknown": {"a_key_of_tomorrow": 3},
}


def test_factor_that_is_no_number_is_refused(make):
    with refused("adapter_config.json: lora_alpha='8' is no number"):
        bert.load(make("bert", lora_alpha="8"))


@pytest.mark.parametrize("patterns", [[1], {"(": 3}])
def test_patterns_that_are_none_are_refused(make, patterns):
    with refused(f"alpha_pattern={patterns!r} are no patterns and their factors"):
        bert.load(make("bert", alpha_pattern=patterns))


def test_adapter_without_tensors_is_refused(make):
    directory = make("bert")
    safetensors.numpy.save_file({}, directory / "adapter_model.safetensors")
    with refused("adapter_model.safetensors: holds no tensor, and "):
        bert.load(directory)


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_are_not_done_are_refused_by_key_and_value(make, name):
    ((key, value),) = REFUSED[name].items()
    message = f"adapter_config.json: {key}={value!r} is not done, of an adapter of PEFT"
    with refused(message, "merge_and_unload()"):
        bert.load(make("bert", **REFUSED[name]))


def test_parts_that_fit_no_weight_are_refused(make, tmp_path):
    directory = make("bert")
    path = directory / "adapter_model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    name = f"{LAYER}0.attention.self.query"
    key = f"base_model.model.{name}.lora_A.weight"
    for change, wrong in (
        ({key: np.ones((3, 9), np.float32)}, "a weight of [8, 8]"),
        ({key: np.ones((4, 8), np.float32)}, "a weight of [8, 8]"),
        ({key.replace("0", "5"): tensors[key]}, "no weight, or not both of A and B"),
    ):
        safetensors.numpy.save_file({**tensors, **change}, path)
        with refused("adapter_model.safetensors: bert.encoder.layer.", wrong):
            logits(directory)
    path.write_bytes(b"1234567890")
    with refused(f"{path}: not a readable safetensors file"):
        logits(directory)


def test_adapter_of_an_adapter_is_refused(make, tmp_path):
    directory = make("bert")
    other = {"base_model_name_or_path": str(directory), "lora_alpha": 2}
    some = {"head.weight": np.ones([1], np.float32)}
    write_adapter(tmp_path / "second", other, some)
    with refused("second/adapter_config.json", "of a model without adapter"):
        bert.load(tmp_path / "second")


def ends(config, *wanted):
    """The ends of the paths of targets, without their layers."""
    paths = adapters.find_targets(config, wanted)
    return sorted({path.split("/", 2)[-1].removesuffix("/kernel") for path in paths})


def test_targets_are_named_as_by_peft(tiny_config):
    config = tiny_config
    usual = ["attention/query", "attention/value"]
    assert ends(config) == ends(config, "query", "value") == usual
    assert ends(config, "attention.output.dense") == ["attention/output"]
    assert ends(config, "output.dense") == ["attention/output", "ffn_out"]
    attention = ["attention/key", "attention/output", *usual]
    whole = ["ffn_in", "ffn_out", *attention]
    assert ends(config, "all-linear") == sorted({*whole, "kernel"})
    found = adapters.find_targets(config, [r"encoder\.layer\.0\.attention\..*"])
    assert len(found) == 4 and all("block_0" in path for path in found)
    gpt = random_weights.GPT_2
    assert ends(gpt) == ["attention/query_key_value"]
    assert ends(gpt, "c_proj") == ["attention/output", "ffn_out"]


@pytest.mark.parametrize(
    "model_type, usual",
    [
        ("distilbert", "q_lin v_lin"),
        ("electra", "query value"),
        ("albert", "query value"),
        ("deberta-v2", "query_proj value_proj"),
        ("modernbert", "Wqkv"),
    ],
)
def test_usual_targets_are_those_of_queries_and_values(model_type, usual):
    config = catalogue.of_model_type(model_type).config(vocab_size=20)
    rows = adapters.find_targets(config, ())
    assert {adapters.module(row).split(".")[-1] for row in rows.values()} == {
        *usual.split()
    }
    count = len({*rows} & {row.path for row in names.network_rows(config)})
    assert count % len(usual.split()) == 0 and len(rows) == count


def test_targets_of_no_layer_are_refused(tiny_config):
    with refused("--lora_targets=c_attn is no linear layer of BERT; give dense, key"):
        ends(tiny_config, "query", "c_attn")
    with refused("--lora_targets=(query is no regular expression"):
        ends(tiny_config, "(query")
    with refused(
        "--lora_rank is for linear layers that PEFT can name, and a network of ELMo has"
    ):
        ends(random_weights.ELMO)
