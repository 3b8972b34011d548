"""extract_features.py from end to end: against the original's recorded output, against
sentence-transformers' vectors, and on the small model of tests/tiny.py.

tests/golden/extract_features/ holds what the original wrote for input.txt with the
network beside it (length 32, layers -1 to -3).

minilm_sentences.npz was made once, on a CPU, with transformers 5.23.0 and PyTorch
2.15.0: the last layer of all-MiniLM-L6-v2, its mean over the tokens of each of eight
texts written for this, scaled to the length 1, which is what sentence-transformers
does with this model. It holds texts, vectors float32 [8, 384] and num_tokens.
"""

import functools
import itertools
import json
import pathlib
import re
import shutil

import h5py
import numpy as np
import pytest
import tensorflow as tf

import bert
import extract_features
from tests import tiny

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"
DOCS = HERE.parent / "docs" / "features.md"
TEXT = (
    "the film was great\n\na b c ||| the sea\nreally awful and very very bad shop\nz\n"
)
LENGTHS = [6, 2, 8, 9, 3]  # of tokens


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncased_model")
    return tiny.write_model(path, num_hidden_layers=4)


@pytest.fixture
def input_file(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text(TEXT)
    return path


def run(*arguments):
    return tiny.run_script("extract_features", *arguments)


def extract(model_dir, input_file, name, *arguments):
    """Runs the script, which must end well; returns the path of its output."""
    path = input_file.with_name(name)
    done = run(
        f"--pretrained={model_dir}",
        f"--input_file={input_file}",
        f"--output_file={path}",
        "--max_seq_length=16",
        *arguments,
    )
    assert done.code == 0, done.err
    return path


def objects(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def vectors_of(path):
    """Arrays [S, K, W] of each line of JSON."""
    return [
        np.array(
            [[v["values"] for v in token["layers"]] for token in line["features"]],
            np.float32,
        )
        for line in objects(path)
    ]


@pytest.fixture(scope="module")
def file_of(model_dir, tmp_path_factory):
    """A function from an ending and arguments to the output, made once."""
    directory = tmp_path_factory.mktemp("outputs")
    (directory / "input.txt").write_text(TEXT)
    numbers = itertools.count()

    @functools.cache
    def call(form, *arguments):
        name = f"{next(numbers)}.{form}"
        form = f"--output_format={form}"
        return extract(model_dir, directory / "input.txt", name, form, *arguments)

    return call


@pytest.fixture(scope="module")
def arrays(file_of):
    """A function from arguments to the arrays of an .npz file."""

    def call(*arguments):
        with np.load(file_of("npz", *arguments)) as found:
            return dict(found)

    return call


@pytest.fixture(scope="module")
def all_layers(arrays):
    """The arrays of the embedding output and of layers 0 to 3, [T, 5, D]."""
    embedding = arrays("--combine=embedding")["values"]
    found = arrays("--layers=0,1,2,3")
    return {**found, "values": np.concatenate([embedding, found["values"]], axis=1)}


def test_output_is_the_originals(minilm_dir, tmp_path):
    model = GOLDEN / "tiny_uncased"
    path = tmp_path / "output.jsonl"
    done = run(
        f"--input_file={GOLDEN}/extract_features/input.txt",
        f"--output_file={path}",
        f"--bert_config_file={model}/bert_config.json",
        f"--init_checkpoint={model}/bert_model.ckpt",
        f"--vocab_file={minilm_dir}/vocab.txt",  # the uncased one
        "--layers=-1,-2,-3",
        "--max_seq_length=32",
        "--batch_size=2",
        "--use_tpu=False",
        "--num_tpu_cores=8",
        "--use_one_hot_embeddings=True",
    )
    assert done.code == 0, done.err
    expected = GOLDEN / "extract_features" / "expected.jsonl"
    number = r"-?\d+(?:\.\d+)?(?:e-\d+)?"  # indices and values
    texts = [file.read_text("ascii") for file in (path, expected)]
    numbers = [np.array(re.findall(number, text), float) for text in texts]
    # Keys, tokens, order, spaces and line ends are equal, and every value nearly so.
    assert re.sub(number, "0", texts[0]) == re.sub(number, "0", texts[1])
    np.testing.assert_allclose(*numbers, atol=1e-4)
    for line in texts[0].splitlines():
        assert json.dumps(json.loads(line)) == line
    assert "5 lines from" in done.out and "1 cut to 32" in done.out


def vectors_of_sentences(model_dir, directory, pooling):
    """Vectors of minilm_sentences.npz, and what they are by the reference."""
    with np.load(HERE / "minilm_sentences.npz") as reference:
        texts, wanted = reference["texts"].tolist(), reference["vectors"]
    (directory / "input.txt").write_text("\n".join(texts), encoding="utf-8")
    path = directory / "output.npz"
    done = run(
        f"--pretrained={model_dir}",
        f"--input_file={directory}/input.txt",
        f"--output_file={path}",
        "--output_format=npz",
        "--layers=-1",
        f"--pooling={pooling}",
        "--normalize",
        "--batch_size=3",
    )
    assert done.code == 0, done.err
    return np.load(path)["values"][:, 0], wanted


@pytest.mark.slow
def test_vectors_of_sentences_are_those_of_sentence_transformers(minilm_dir, tmp_path):
    found, wanted = vectors_of_sentences(minilm_dir, tmp_path, "mean")
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_defaults_are_the_originals(file_of):
    found = objects(file_of("jsonl"))
    assert [line["linex_index"] for line in found] == [0, 1, 2, 3, 4]
    assert [len(line["features"]) for line in found] == LENGTHS
    tokens = [token["token"] for token in found[2]["features"]]
    assert tokens == ["[CLS]", "a", "b", "c", "[SEP]", "the", "sea", "[SEP]"]
    token = found[0]["features"][0]
    assert [layer["index"] for layer in token["layers"]] == [-1, -2, -3, -4]


def test_layers_are_combined(arrays, all_layers):
    """tests/modeling/test_vectors.py has the other combinations."""
    combined = arrays("--combine=sum_last_4", "--layer_weights=0,0,1,2")
    assert combined["layers"].tolist() == ["sum_last_4"]
    layers = all_layers["values"]
    wanted = layers[:, 2] + 2 * layers[:, 1]
    np.testing.assert_allclose(combined["values"][:, 0], wanted, atol=1e-5)


def means_of_lines(all_layers, layers):
    """Arrays [5, K, D]: means over the tokens of a line."""
    splits = all_layers["splits"].tolist()
    assert np.diff(splits).tolist() == LENGTHS
    return np.stack(
        [
            all_layers["values"][start:end, layers].mean(axis=0)
            for start, end in itertools.pairwise(splits)
        ]
    )


def test_normalized_vectors_have_the_length_1(arrays, all_layers):
    found = arrays("--layers=-1", "--pooling=mean", "--normalize")
    means = means_of_lines(all_layers, [4])
    norm = np.linalg.norm(means, axis=-1, keepdims=True)
    np.testing.assert_allclose(found["values"], means / norm, atol=1e-5)


def test_cls_is_the_first_token(arrays, all_layers):
    found = arrays("--layers=-1", "--pooling=cls")["values"]
    first = all_layers["values"][all_layers["splits"][:-1], 4:]
    np.testing.assert_allclose(found, first, atol=1e-6)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(1, marks=pytest.mark.slow),
        2,
        pytest.param(64, marks=pytest.mark.slow),
    ],
)
def test_batches_and_stretches_do_not_matter(arrays, all_layers, monkeypatch, size):
    # At most that many tokens of five layers wait.
    monkeypatch.setattr(extract_features, "MAX_WAITING_VALUES", 32 * 4 * 5 * size)
    found = arrays("--layers=0,1,2,3", f"--batch_size={size}")
    wanted = all_layers["values"][:, 1:]
    np.testing.assert_allclose(found["values"], wanted, atol=1e-5)
    np.testing.assert_array_equal(found["input_ids"], all_layers["input_ids"])


def test_json_has_the_values_of_the_arrays(file_of, all_layers):
    found = np.concatenate(vectors_of(file_of("jsonl")))
    np.testing.assert_allclose(found, all_layers["values"][:, :0:-1], atol=1e-6)


def test_hdf5_has_all_layers_without_cls_and_sep(file_of, all_layers):
    ends = all_layers["splits"].tolist()
    with h5py.File(file_of("hdf5")) as file:
        assert len(file) == len(LENGTHS)
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            wanted = all_layers["values"][start + 1 : end - 1].swapaxes(0, 1)
            np.testing.assert_allclose(file[str(number)], wanted, atol=1e-6)


def snippets():
    return re.findall(r"^```python\n(.*?)^```", DOCS.read_text("utf-8"), re.M | re.S)


@pytest.mark.slow
def test_documented_code_reads_every_format(tmp_path, monkeypatch, file_of, all_layers):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output").mkdir()
    last, pooled = "--layers=-1", ("--pooling=mean", "--normalize")
    shutil.copy(file_of("hdf5"), "output/vectors.hdf5")
    for name, form, flags in (
        ("tokens", "jsonl", ()),
        ("tokens", "npz", ()),
        ("tokens", "tfrecord", ()),
        ("sentences", "npz", pooled),
        ("sentences", "tfrecord", pooled),
    ):
        shutil.copy(file_of(form, last, *flags), f"output/{name}.{form}")
    lines = means_of_lines(all_layers, [4])[:, 0]
    lines /= np.linalg.norm(lines, axis=-1, keepdims=True)
    wanted = {"tokens": all_layers["values"][:, 4], "sentences": lines}
    seen = []
    for code in snippets():
        names: dict = {}
        exec(code, names)
        for found, line in zip(names.get("layers", ()), LENGTHS, strict=False):
            assert found.shape == (5, line - 2, 32)
            seen.append("layers")
        for name in wanted.keys() & names.keys():
            value = np.concatenate([np.reshape(v, (-1, 32)) for v in names[name]])
            np.testing.assert_allclose(value, wanted[name], atol=1e-5, err_msg=code)
            seen.append(name)
    assert seen.count("layers") == len(LENGTHS)
    seen = [name for name in seen if name != "layers"]
    assert sorted(seen) == ["sentences", "sentences", "tokens", "tokens", "tokens"]


@pytest.mark.slow
def test_attention_follows_from_the_weights(model_dir, all_layers):
    """Against NumPy, from the weights in the file and the vectors of the layers."""
    maps = bert.load(str(model_dir), max_seq_length=16).attention("the film was great")
    assert maps.shape == (4, 2, 6, 6)
    hidden = all_layers["values"][: LENGTHS[0]]  # [S, 5, D]
    read = tf.train.load_checkpoint(str(model_dir / "bert_model.ckpt")).get_tensor
    for layer in range(4):
        place = f"bert/encoder/layer_{layer}/attention/self"
        query, key = (
            hidden[:, layer] @ read(f"{place}/{name}/kernel")
            + read(f"{place}/{name}/bias")
            for name in ("query", "key")
        )
        query, key = (x.reshape(-1, 2, 16).transpose(1, 0, 2) for x in (query, key))
        scores = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(16.0))
        wanted = scores / scores.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(maps[layer], wanted, atol=1e-6)
    assert np.ptp(maps, axis=(0, 1)).max() > 0.05  # layers and heads differ


def test_pooler_is_not_needed_and_other_weights_are(model_dir, input_file, tmp_path):
    reader = tf.train.load_checkpoint(str(model_dir / "bert_model.ckpt"))
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith("bert/")]
    bare = [name for name in names if "/pooler/" not in name]
    less = [name for name in bare if "layer_2/output/dense" not in name]
    for prefix, kept in (("bare", bare), ("less", less)):
        tf.raw_ops.SaveV2(
            prefix=str(tmp_path / prefix),
            tensor_names=kept,
            shape_and_slices=[""] * len(kept),
            tensors=[reader.get_tensor(name) for name in kept],
        )

    def run_on(prefix, output):
        return run(
            f"--pretrained={model_dir}",
            f"--init_checkpoint={tmp_path}/{prefix}",
            f"--input_file={input_file}",
            f"--output_file={tmp_path}/{output}",
            "--max_seq_length=16",
        )

    done = run_on("bare", "a")
    assert done.code == 0, done.err
    assert "newly initialised: bert/pooler/dense/kernel, bert/pooler/de" in done.out
    done = run_on("less", "b")
    assert (done.code, (tmp_path / "b").exists()) == (2, False)
    place = "bert/encoder/layer_2/output/dense"
    assert f"lacks {place}/kernel, {place}/bias of the 69 variables" in done.err


def refused(model_dir, input_file, *arguments):
    """The message of a run that ends before it writes."""
    path = input_file.with_name("refused")
    done = run(
        f"--pretrained={model_dir}",
        f"--input_file={input_file}",
        f"--output_file={path}",
        "--max_seq_length=16",
        *arguments,
    )
    assert done.code == 2
    assert not list(path.parent.glob("refused*"))
    # A busy machine says how far it is before the disk is full.
    said = [line for line in done.err.splitlines() if "extracting: " not in line]
    assert len(said) == 1
    return said[0]


WRONG = {
    "--input_file=no.txt": "--input_file=no.txt: no such file; check",
    "--input_file=": "--input_file is empty; name a file",
    "--output_file=": "--output_file is empty; name a file",
    "--output_file={}/./input.txt": "is --input_file",
    "--output_file={}": "is a directory",
    "--layers=-1,x": "--layers=-1,x are not finite numbers",
    "--layers=4": "--layers: layer 4, and the network has 4",
    "--layers=-1 --combine=last": "leave out --layers or --combine",
    "--layer_weights=1,x": "--layer_weights=1,x are not finite numbers",
    "--layer_weights=1,nan": "--layer_weights=1,nan are not finite numbers",
    "--combine=sum_last_4 --layer_weights=1": "has 1 numbers",
    "--max_seq_length=49": "sequence length 49",
    "--bert_config_file=no.json": "no.json",
    "--vocab_file=no.txt": "no.txt: no such file; give the file that",
    "--init_checkpoint=no.ckpt": "no.ckpt: no such file; give a prefix such",
    "--input_file={}/empty": "empty: is empty",
    "--pretrained= --bert_config_file={}/input.txt": "--init_checkpoint is missing",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_input_is_refused(model_dir, input_file, tmp_path, arguments):
    (tmp_path / "empty").write_text("")
    flags = arguments.format(tmp_path).split()
    assert WRONG[arguments] in refused(model_dir, input_file, *flags)
    assert input_file.read_text() == TEXT


def test_failure_while_writing_is_one_line(model_dir, input_file, monkeypatch):
    def full(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left")

    monkeypatch.setattr(tf.io.gfile, "rename", full)
    message = refused(model_dir, input_file, "--layers=-1")
    assert "refused: cannot be written (no space left)" in message
