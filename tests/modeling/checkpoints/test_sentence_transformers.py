"""Directories of sentence-transformers, read and written.

What their vectors are is computed here by NumPy. By hand, sentence-transformers 6.2
computed the same to 2e-6 from directories of both sides, for all these modules.
"""

import functools
import itertools
import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import bert_reborn as bert
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import conversion, google, sentence_transformers
from modeling.configs import config as config_lib
from modeling.features.text_vectors import Projection, TextVectors
from tests import daily, read_model, tiny, tiny_family, tiny_gpt

TEXTS = ["the film was great", "awful", "a sea and a very very good shop , really"]
WIDTH = 32
OLD = "sentence_transformers.models."
NEW = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
OLD_FLAGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
SETTINGS, POOLING = "config_sentence_transformers.json", "1_Pooling/config.json"
DENSE = ((16, "activation.Tanh", True), (8, "linear.Identity", False))


@pytest.fixture(scope="module")
def network_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    tiny.write_model(path / "google", num_hidden_layers=1)
    bert.load(path / "google", max_seq_length=40).save(path / "hf", "hugging_face")
    return path / "hf"


@pytest.fixture
def write(network_dir, tmp_path):
    """A function that makes a directory as one of the forms of the library has it."""

    def make(
        pooling="mean",
        dense=(),
        normalize=False,
        new=True,
        place="",
        name="st",
        network=network_dir,
    ):
        root = tmp_path / name
        shutil.copytree(network, root / place)
        modules = [("Transformer", place), ("Pooling", "1_Pooling")]
        values = {"embedding_dimension": WIDTH, "pooling_mode": pooling}
        if not new:
            values = {mode: mode == OLD_FLAGS[pooling] for mode in OLD_FLAGS.values()}
            values["word_embedding_dimension"] = WIDTH
        put(root / "1_Pooling" / "config.json", values)
        rng, width = np.random.default_rng(1), WIDTH
        for units, activation, bias in dense:
            folder = f"{len(modules)}_Dense"
            modules.append(("Dense", folder))
            kind = f"torch.nn.modules.{activation}"
            sizes = {"in_features": width, "out_features": units, "bias": bias}
            put(root / folder / "config.json", {**sizes, "activation_function": kind})
            tensors = {"linear.weight": rng.normal(size=(units, width))}
            if bias:
                tensors["linear.bias"] = rng.normal(size=units)
            tensors = {key: v.astype(np.float32) for key, v in tensors.items()}
            path = root / folder / "model.safetensors"
            safetensors.numpy.save_file(tensors, path)
            width = units
        if normalize:
            modules.append(("Normalize", f"{len(modules)}_Normalize"))
        listed = [
            {"idx": i, "name": str(i), "path": path, "type": NEW[kind]}
            for i, (kind, path) in enumerate(modules)
        ]
        if not new:
            for entry in listed:
                entry["type"] = OLD + entry["type"].rpartition(".")[2]
        put(root / "modules.json", listed)
        put(root / place / "sentence_bert_config.json", {"max_seq_length": 24})
        return root

    return make


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def change(path, **values):
    put(path, json.loads(path.read_text()) | values)


@functools.cache
def read_tokens(directory, texts):
    """The vectors [S, D] of the tokens of each text by the network alone."""
    network = bert.load(directory, head="none", max_seq_length=24)
    inputs = network.encode(texts)
    hidden = np.asarray(network.model(inputs)["sequence_output"])
    lengths = inputs["input_mask"].numpy().sum(axis=1)
    return [tokens[:length] for tokens, length in zip(hidden, lengths, strict=True)]


def compute(directory, pooling, dense=(), normalize=False, texts=TEXTS):
    """The vectors by NumPy, from the last layer of the network alone."""
    rows = read_tokens(directory, tuple(texts))
    pool = {
        "cls": lambda tokens: tokens[0],
        "mean": lambda tokens: tokens.mean(axis=0),
        "max": lambda tokens: tokens.max(axis=0),
        "lasttoken": lambda tokens: tokens[-1],
    }[pooling]
    values = np.stack([pool(row) for row in rows])
    for j, (_, activation, _) in enumerate(dense):
        path = directory / f"{j + 2}_Dense" / "model.safetensors"
        tensors = safetensors.numpy.load_file(path)
        values = values @ tensors["linear.weight"].T + tensors.get("linear.bias", 0)
        values = np.tanh(values) if activation.endswith("Tanh") else values
    norm = np.linalg.norm(values, axis=1, keepdims=True)
    return values / norm if normalize else values


@pytest.mark.parametrize(
    ("pooling", "dense", "normalize", "new"),
    [
        ("cls", (), True, True),
        ("mean", (), False, False),
        pytest.param("max", (), True, False, marks=pytest.mark.slow),
        ("lasttoken", (), False, True),
        pytest.param("mean", DENSE[:1], True, True, marks=pytest.mark.slow),
        ("cls", DENSE, False, False),
    ],
)
def test_vectors_are_those_of_the_modules(write, pooling, dense, normalize, new):
    path = write(pooling, dense, normalize, new)
    loaded = bert.load(path)
    actual = loaded.embed(TEXTS)
    wanted = compute(path, pooling, dense, normalize)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)  # the order of sums
    # Every part counts.
    other = "mean" if pooling != "mean" else "cls"
    for twin in (
        (other, dense, normalize),
        (pooling, dense, not normalize),
        *([(pooling, dense[:-1], normalize)] if dense else []),
    ):
        value = compute(path, *twin)
        assert value.shape != wanted.shape or np.abs(value - wanted).max() > 1e-2
    assert loaded.embed([]).shape == (0, actual.shape[1])
    # The files of the other version have the same modules.
    twin = sentence_transformers.read(
        write(pooling, dense, normalize, not new, name="b")
    )
    assert twin.text_vectors == loaded.modules.text_vectors


@pytest.mark.parametrize(
    ("names", "first"),
    [("passage document", "document"), ("corpus passage", "passage"), ("a", "")],
)
def test_prompt_of_a_passage_is_that_of_encode_document(names, first):
    """A directory with several names has the prompt that the library finds first."""
    prompts = {name: f"{name}: " for name in names.split()}
    kept = sentence_transformers.SentenceTransformer(
        text_vectors=TextVectors(), prompts=prompts
    )
    assert kept.usual_prompts() == {"query": "", "passage": f"{first}: " * bool(first)}


@pytest.mark.parametrize("form", ["hugging_face", "google"])
def test_saved_directory_has_equal_vectors(write, tmp_path, form):
    path = write("max", DENSE, True)
    put(
        path / "config_sentence_transformers.json",
        {
            "prompts": {"query": "the ", "passage": ""},
            "default_prompt_name": "query",
            "similarity_fn_name": "dot",
        },
    )
    loaded = bert.load(path)
    loaded.save(tmp_path / "saved", form)
    loaded.save(tmp_path / "saved", form, overwrite=True)
    again = bert.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.embed(TEXTS), loaded.embed(TEXTS))
    assert again.max_seq_length == loaded.max_seq_length == 24
    for name in ("text_vectors", "prompts", "default_prompt", "similarity"):
        kept = getattr(again.modules, name)
        assert kept == getattr(loaded.modules, name), name
    # In the library's own form the projections are in its folders, and nowhere else.
    has_weights = (tmp_path / "saved" / "2_Dense" / "model.safetensors").exists()
    assert has_weights == (form == "hugging_face")
    if has_weights:
        keys = safetensors.numpy.load_file(tmp_path / "saved" / "model.safetensors")
        assert not any("projection" in key or "linear" in key for key in keys)
        for folder in ("2_Dense", "3_Dense"):
            before, after = (
                safetensors.numpy.load_file(root / folder / "model.safetensors")
                for root in (path, tmp_path / "saved")
            )
            assert sorted(before) == sorted(after)
            for key, value in before.items():
                np.testing.assert_array_equal(after[key], value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "pooling", "forms"),
    [
        ("roberta", "mean", ("hugging_face",)),
        *(
            pytest.param(*each, ("google",), marks=pytest.mark.slow)
            for each in itertools.product(tiny_family.NETWORKS, ("mean", "cls"))
        ),
    ],
)
def test_relatives_of_bert_have_vectors(write, tmp_path, model_type, pooling, forms):
    network = tiny_family.write_model(tmp_path / "network", model_type)
    weights = network / "model.safetensors"
    bare = safetensors.numpy.load_file(weights)  # as the library saves a network
    bare = {key.split(".", 1)[1]: value for key, value in bare.items()}
    safetensors.numpy.save_file(bare, weights)
    path = write(pooling, DENSE, network=network)
    loaded = bert.load(path)
    assert "newly" not in loaded.source and "not used" not in loaded.source
    expected = compute(path, pooling, DENSE)
    np.testing.assert_allclose(loaded.embed(TEXTS), expected, atol=1e-5)
    other = compute(path, "cls" if pooling == "mean" else "mean", DENSE)
    assert np.abs(other - expected).max() > 1e-3
    for form in forms:
        loaded.save(tmp_path / form, form)
        again = bert.load(tmp_path / form)
        np.testing.assert_array_equal(again.embed(TEXTS), loaded.embed(TEXTS))


def test_written_files_are_those_of_the_library(tmp_path):
    raw = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1}
    raw |= {"num_attention_heads": 2, "intermediate_size": 16}
    config = config_lib.BertConfig.from_dict({**raw, "max_position_embeddings": 20})
    vectors = TextVectors("last", True, (Projection(4, "tanh", False),))
    model = pretrainers.build("text_encoder", None, config, text_vectors=vectors)
    files = {
        name: json.loads(text)
        for name, text in sentence_transformers.files(model).items()
    }
    folders = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    kinds = [OLD + kind for kind in ("Transformer", "Pooling", "Dense", "Normalize")]
    assert files.pop("modules.json") == [
        {"idx": i, "name": str(i), "path": folder, "type": kind}
        for i, (folder, kind) in enumerate(zip(folders, kinds, strict=True))
    ]
    assert files == {
        "1_Pooling/config.json": {
            "word_embedding_dimension": 8,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": False,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "pooling_mode_weightedmean_tokens": False,
            "pooling_mode_lasttoken": True,
            "include_prompt": True,
        },
        "2_Dense/config.json": {
            "in_features": 8,
            "out_features": 4,
            "bias": False,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
        "3_Normalize/config.json": {},
        "sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    }
    conversion.write_directory(tmp_path, model, "hugging_face")
    assert sentence_transformers.read(tmp_path).text_vectors == vectors
    held = json.loads((tmp_path / "config.json").read_text())
    assert held["architectures"] == ["BertModel"]


@pytest.mark.parametrize("place", ["0_Transformer", "0_BertModel"])
def test_network_in_a_folder_is_found(write, place):
    path = write("mean", DENSE[:1], place=place)
    loaded = bert.load(path)
    assert loaded.max_seq_length == 24
    assert loaded.source.startswith(str(path / place / "model.safetensors"))
    wanted = compute(path, "mean", DENSE[:1])
    np.testing.assert_allclose(loaded.embed(TEXTS), wanted, atol=1e-5)
    assert model_directory.locate(path).config_file == str(path / place / "config.json")
    other = shutil.copytree(path / place, path / "other")  # which no module names
    assert sentence_transformers.read(other) is None


def test_directory_without_modules_has_none(network_dir):
    assert sentence_transformers.read(network_dir) is None
    loaded = bert.load(network_dir, max_seq_length=24)
    assert loaded.modules is None and type(loaded.model).__name__ == "BertModel"
    with pytest.raises(ValueError, match=r"--head=text_encoder: .* has no such head"):
        read_model.read(network_dir, loaded.model.config, "text_encoder")


def test_length_is_the_directorys(write):
    path = write()
    assert bert.load(path).max_seq_length == 24
    assert bert.load(path, max_seq_length=16).max_seq_length == 16
    file, tokenizer = path / "sentence_bert_config.json", path / "tokenizer_config.json"
    file.unlink()  # version 6 has no length in it
    for length, wanted in ((20, 20), (10**30, 48), (4000, 48), (None, 48)):
        change(tokenizer, model_max_length=length)
        assert bert.load(path).max_seq_length == wanted
    # A new head is another task.
    assert bert.load(path, labels=["a", "b"], max_seq_length=30).max_seq_length == 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["Transformer", pytest.param("BERT", marks=pytest.mark.slow)]
)
def test_directory_before_release_2_opens(write, kind):
    """Its config.json is of the modules, and the network is in a folder."""
    path = write("mean", new=False, place=f"0_{kind}")
    expected = bert.load(path).embed(TEXTS)
    put(path / "config.json", {"__version__": "1.2.0"})
    modules = json.loads((path / "modules.json").read_text())
    modules[0]["type"] = OLD + kind
    put(path / "modules.json", modules)
    settings = path / f"0_{kind}" / "sentence_bert_config.json"
    settings.rename(settings.with_name("sentence_roberta_config.json"))
    loaded = bert.load(path)
    assert loaded.max_seq_length == 24
    np.testing.assert_array_equal(loaded.embed(TEXTS), expected)
    # Another network beside the modules is not the one that they name.
    tiny.write_model(path, num_hidden_layers=1)
    np.testing.assert_array_equal(bert.load(path).embed(TEXTS), expected)
    shutil.rmtree(path / f"0_{kind}")
    with pytest.raises(
        ValueError, match=f"modules.json: there is no .*/0_{kind}; copy"
    ):
        bert.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dense", "size"),
    [((), 8), pytest.param(DENSE[:1], 40, marks=pytest.mark.slow)],
)
def test_vectors_are_cut_to_truncate_dim(write, tmp_path, dense, size):
    """After they are scaled, as SentenceTransformer(DIR, truncate_dim=8) does."""
    path = write("mean", dense, normalize=True)
    whole = bert.load(path).embed(TEXTS)
    put(path / SETTINGS, {"truncate_dim": size})
    loaded = bert.load(path)
    actual = loaded.embed(TEXTS)
    width = min(size, whole.shape[1])
    assert (actual.shape, loaded.embed([]).shape) == ((3, width), (0, width))
    np.testing.assert_array_equal(actual, whole[:, :size])
    for form in ("hugging_face", "google"):
        loaded.save(tmp_path / form, form)
        again = bert.load(tmp_path / form)
        np.testing.assert_array_equal(again.embed(TEXTS), actual)
        held = json.loads((tmp_path / form / SETTINGS).read_text())
        assert held["truncate_dim"] == size


@pytest.mark.parametrize(
    "name",
    daily.params(
        ["cosine", "dot", "euclidean", "manhattan"], lambda name: name == "cosine"
    ),
)
def test_similarity_is_that_of_the_settings(write, name):
    path = write("max")
    put(path / SETTINGS, {"similarity_fn_name": name})
    loaded = bert.load(path)
    a, b = (loaded.embed(texts) for texts in (TEXTS[:2], TEXTS))
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    difference = a[:, None] - b
    wanted = {
        "cosine": a @ b.T / norms,
        "dot": a @ b.T,
        "euclidean": -np.sqrt((difference**2).sum(-1)),
        "manhattan": -np.abs(difference).sum(-1),
    }
    actual = loaded.similarity(TEXTS[:2], TEXTS)
    np.testing.assert_allclose(actual, wanted[name], rtol=1e-5, atol=1e-5)
    assert all(np.abs(actual - wanted[k]).max() > 0.01 for k in wanted.keys() - {name})


def test_unknown_keys_are_named(write, caplog):
    path = write("mean", DENSE[:1])
    common = {"__version__": {}, "default_prompt_name": None, "model_type": "a"}
    put(path / SETTINGS, {**common, "prompts": {}})
    change(path / "sentence_bert_config.json", do_lower_case=False, unpad_inputs=True)
    bert.load(path)
    assert "unknown keys" not in caplog.text
    put(path / SETTINGS, {"truncate_dimensions": 8, "none": None})
    change(path / "sentence_bert_config.json", query_length=9)
    change(path / "2_Dense/config.json", dropout=0.1)
    change(path / POOLING, scale=2)
    bert.load(path)
    named = [r.getMessage() for r in caplog.records if "unknown keys" in r.getMessage()]
    assert sorted(named) == sorted(
        f"{path}/{file}: unknown keys, without effect: {key}"
        for file, key in (
            (SETTINGS, "truncate_dimensions"),
            ("sentence_bert_config.json", "query_length"),
            ("2_Dense/config.json", "dropout"),
            (POOLING, "scale"),
        )
    )


def test_case_is_that_of_the_modules(write):
    path = write()
    change(path / "tokenizer_config.json", do_lower_case=False)
    upper = ["The FILM"]
    before = bert.load(path, check_case=False).tokens(upper[0])
    change(path / "sentence_bert_config.json", do_lower_case=True)
    after = bert.load(path).tokens(upper[0])
    assert "[UNK]" in before and after == ["[CLS]", "the", "film", "[SEP]"]


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (
            POOLING,
            {"pooling_mode": ["cls", "mean"]},
            "the pooling cls and mean is none of",
        ),
        (
            POOLING,
            {"pooling_mode": None, "pooling_mode_mean_sqrt_len_tokens": True},
            "the pooling mean_sqrt_len_tokens is none of",
        ),
        (
            POOLING,
            {"pooling_mode": None, "pooling_mode_cls_token": 1},
            "pooling_mode_cls_token is 1, which is not of type bool; correct it",
        ),
        (POOLING, {"include_prompt": False}, "include_prompt is false, and only true"),
        (
            POOLING,
            {"embedding_dimension": 0},
            "embedding_dimension is 0; give 1 or more",
        ),
        (
            POOLING,
            {"embedding_dimension": 64},
            r"in_features=32 and out_features=16, and the vectors before have 64",
        ),
        ("2_Dense/config.json", {"out_features": None}, "out_features=None, and the"),
        ("2_Dense/config.json", {"bias": "yes"}, 'bias is "yes", which is not of type'),
        (
            "2_Dense/config.json",
            {"activation_function": "own.Tanh"},
            "activation_function is own.Tanh, and none of torch.nn: Tanh, Identity",
        ),
        (
            "2_Dense/config.json",
            {"activation_function": "torch.nn.modules.activation.ELU"},
            "activation_function is torch.nn.modules.activation.ELU",
        ),
        (
            "2_Dense/config.json",
            {"use_residual": True},
            "use_residual is true, and only",
        ),
        (
            "2_Dense/config.json",
            {"module_input_name": "token_embeddings"},
            'module_input_name is "token_embeddings", and only "sentence_embedding"',
        ),
        (
            "2_Dense/config.json",
            {"out_features": 17},
            r"'linear.weight': \(16, 32\).* want \{'linear.weight': \(17, 32\)",
        ),
        (
            "2_Dense/config.json",
            {"out_features": 2**31},
            r"'linear.weight': \(16, 32\).* want \{'linear.weight': \(2147483648, 32\)",
        ),
        (
            "2_Dense/config.json",
            {"bias": False},
            r"'linear.bias': \(16,\).*\}, and the modules before want",
        ),
        (SETTINGS, {"prompts": {"query": 1}}, "prompt 'query' is 1; give a string"),
        (SETTINGS, {"prompts": ["a"]}, "prompts is .*, which is not of type dict"),
        (
            SETTINGS,
            {"prompts": {"a": ""}, "default_prompt_name": "query"},
            "default_prompt_name='query' is none of the prompts, a; correct",
        ),
        (SETTINGS, {"truncate_dim": 0}, "truncate_dim is 0; give 1 or more"),
        (
            SETTINGS,
            {"similarity_fn_name": "maxsim"},
            "similarity_fn_name is maxsim; correct it to one of cosine, dot, euclidean",
        ),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            'transformer_task is "fill-mask", and only "feature-extraction"',
        ),
        (
            "sentence_bert_config.json",
            {"max_seq_length": True},
            "max_seq_length is true, which is not of type int",
        ),
    ],
)
def test_what_is_not_computed_is_refused(write, file, values, message):
    path = write("mean", DENSE[:1])
    put(path / SETTINGS, {})
    change(path / file, **values)
    with pytest.raises(ValueError, match=message) as caught:
        bert.load(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text and ";" in text


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"a": 1}, "null is no type and folder; copy it"),
        (["Pooling"], r'"Pooling" is no type and folder'),
        ([], "the modules are none, not Transformer, Pooling, up to 4 Dense, Norm"),
        ([("Transformer", "")], "the modules are Transformer, not"),
        ([("LSTM", "")], "the modules are LSTM, not"),
        ([("own.Pooling", "")], r"the modules are own\.Pooling, not"),
        (
            [("Transformer", ""), ("Pooling", "p"), ("Normalize", "n"), ("Dense", "d")],
            "the modules are Transformer, Pooling, Normalize, Dense, not",
        ),
        (
            [("Transformer", ""), ("Pooling", "p"), *[("Dense", "d")] * 5],
            "Dense, Dense, Dense, Dense, Dense, not .* up to 4 Dense",
        ),
        ([("Transformer", "../other")], r'"\.\./other".* is no type and folder'),
        ([("Transformer", "..")], r"is no type and folder"),
    ],
)
def test_other_modules_are_refused(write, modules, message):
    path = write()
    if isinstance(modules, list):
        for i, each in enumerate(modules):
            if isinstance(each, tuple):
                kind = each[0] if "." in each[0] else OLD + each[0]
                modules[i] = {"type": kind, "path": each[1]}
    put(path / "modules.json", modules)
    with pytest.raises(ValueError, match=message) as caught:
        bert.load(path)
    assert str(caught.value).startswith(str(path / "modules.json"))
    # The network alone is for every other task.
    assert bert.load(path, head="none", max_seq_length=24).modules is None
    assert bert.load(path, labels=["a", "b"], max_seq_length=24).modules is None
    assert model_directory.locate(path).init_checkpoint == str(path)


@pytest.mark.parametrize("file", ["modules.json", POOLING, "2_Dense/config.json"])
def test_damaged_or_missing_json_is_refused_with_its_name(write, file):
    path = write("mean", DENSE[:1])
    (path / file).write_text('{"a": ')
    with pytest.raises(ValueError, match=f"{file}: cannot be read .*; copy it again"):
        bert.load(path)
    (path / file).unlink()
    if file != "modules.json":
        with pytest.raises(ValueError, match=f"{file}: cannot be read"):
            bert.load(path)


def test_half_precision_is_read(write):
    path = write("mean", DENSE[:1])
    weights = path / "2_Dense" / "model.safetensors"
    whole = safetensors.numpy.load_file(weights)
    half = {key: value.astype(ml_dtypes.bfloat16) for key, value in whole.items()}
    safetensors.numpy.save_file(half, weights)
    kernel = bert.load(path).model.projections[0].kernel
    np.testing.assert_array_equal(kernel, half["linear.weight"].T.astype(np.float32))


def test_pickled_and_damaged_projections_are_refused(write):
    path = write("mean", DENSE[:1])
    weights = path / "2_Dense" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"2_Dense.*: not a readable safetensors file"):
        bert.load(path)
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(
        ValueError, match=r"2_Dense/pytorch_model\.bin is not read \(save it as"
    ):
        bert.load(path)


def test_pooling_of_another_width_is_refused(write):
    path = write()
    change(path / POOLING, embedding_dimension=64)
    with pytest.raises(
        ValueError, match=r"reads vectors of 64 .* hidden_size=32; give"
    ):
        bert.load(path)


def test_last_token_of_a_network_from_left_to_right(write, tmp_path):
    path = write("lasttoken")
    change(path / "config.json", is_decoder=True)
    vectors = bert.load(path).embed(TEXTS)
    np.testing.assert_allclose(vectors, compute(path, "lasttoken"), atol=1e-5)
    config = bert.load(path).model.config
    kind = TextVectors("cls", is_normalized=False)  # here its last token
    model = pretrainers.build("text_encoder", None, config, text_vectors=kind)
    written = json.loads(sentence_transformers.files(model)[POOLING])
    assert written["pooling_mode_lasttoken"] and not written["pooling_mode_cls_token"]
    change(path / POOLING, pooling_mode="cls")
    with pytest.raises(ValueError, match=r"is cls, but no other token .* --head=none"):
        read_model.read(path, config)


def test_gpt_without_special_tokens_is_refused(tmp_path):
    path = tiny_gpt.write_model(tmp_path / "gpt2")
    listed = [{"type": OLD + kind, "path": ""} for kind in ("Transformer", "Pooling")]
    put(path / "modules.json", listed)
    change(path / "config.json", pooling_mode="mean")
    with pytest.raises(ValueError, match="no rows for the special tokens around"):
        bert.load(path)


def test_run_keeps_its_projections_in_the_checkpoint(write, tmp_path):
    path = write("mean", DENSE, True)
    loaded = bert.load(path)
    run = tmp_path / "run"
    run.mkdir()
    for file in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(path / file, run)
    (run / "bert_config.json").write_text(loaded.model.config.to_json_string())
    google.save(run / "model.ckpt-7", loaded.model)
    (run / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    for name, text in sentence_transformers.files(loaded.model).items():
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(text)
    again = bert.load(run)
    np.testing.assert_array_equal(again.embed(TEXTS), loaded.embed(TEXTS))
    assert "projection_0/kernel" not in again.source
