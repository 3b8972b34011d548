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

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from data_pipeline.extraction import lines
from tasks import extraction
from tests import tiny

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"
DOCS = HERE.parent / "docs" / "embeddings.md"
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


@pytest.fixture(scope="module")
def file_of(model_dir, tmp_path_factory):
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

    def call(*arguments):
        with np.load(file_of("npz", *arguments)) as actual:
            return dict(actual)

    return call


@pytest.fixture(scope="module")
def all_layers(arrays):
    """The arrays of the embedding output and of layers 0 to 3, [T, 5, D]."""
    embedding = arrays("--combine=embedding")["values"]
    actual = arrays("--layers=0,1,2,3")
    return {**actual, "values": np.concatenate([embedding, actual["values"]], axis=1)}


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


@pytest.mark.slow
def test_batch_of_many_lines_is_cut(arrays, monkeypatch):
    """One of 2**31 was filled up, without an end."""
    sizes, batches = [], lines.TextLines.batches

    def sized(self, batch_size, **options):
        sizes.append(batch_size)
        return batches(self, batch_size, **options)

    usual = arrays("--combine=embedding")
    monkeypatch.setattr(lines.TextLines, "batches", sized)
    cut = arrays("--combine=embedding", "--batch_size=9999")
    assert sizes == [256]
    np.testing.assert_allclose(cut["values"], usual["values"], atol=1e-6)


@pytest.mark.slow
def test_vectors_of_sentences_are_those_of_sentence_transformers(minilm_dir, tmp_path):
    with np.load(HERE / "minilm_sentences.npz") as reference:
        texts, wanted = reference["texts"].tolist(), reference["vectors"]
    (tmp_path / "input.txt").write_text("\n".join(texts), encoding="utf-8")
    path = tmp_path / "output.npz"
    done = run(
        f"--pretrained={minilm_dir} --input_file={tmp_path}/input.txt",
        f"--output_file={path} --output_format=npz --layers=-1 --batch_size=3",
        "--pooling=mean --normalize",
    )
    assert done.code == 0, done.err
    np.testing.assert_allclose(np.load(path)["values"][:, 0], wanted, atol=1e-4)


def means_of_lines(all_layers, layers):
    splits = all_layers["splits"].tolist()
    assert np.diff(splits).tolist() == LENGTHS
    return np.stack(
        [
            all_layers["values"][start:end, layers].mean(axis=0)
            for start, end in itertools.pairwise(splits)
        ]
    )


def test_vectors_of_lines_are_means_or_those_of_cls(arrays, all_layers):
    actual = arrays("--layers=-1", "--pooling=mean", "--normalize")
    means = means_of_lines(all_layers, [4])
    norm = np.linalg.norm(means, axis=-1, keepdims=True)
    np.testing.assert_allclose(actual["values"], means / norm, atol=1e-5)
    actual = arrays("--layers=-1", "--pooling=cls")["values"]
    first = all_layers["values"][all_layers["splits"][:-1], 4:]
    np.testing.assert_allclose(actual, first, atol=1e-6)


@pytest.mark.slow
def test_batches_and_stretches_do_not_matter(arrays, all_layers, monkeypatch):
    # At most two tokens of five layers wait.
    monkeypatch.setattr(extraction, "MAX_WAITING_VALUES", 32 * 4 * 5 * 2)
    actual = arrays("--layers=0,1,2,3", "--batch_size=2")
    wanted = all_layers["values"][:, 1:]
    np.testing.assert_allclose(actual["values"], wanted, atol=1e-5)
    np.testing.assert_array_equal(actual["input_ids"], all_layers["input_ids"])


@pytest.mark.slow
def test_json_has_the_values_of_the_arrays(file_of, all_layers):
    vectors = [
        [[v["values"] for v in token["layers"]] for token in line["features"]]
        for line in objects(file_of("jsonl"))
    ]
    vectors = np.concatenate([np.array(line, np.float32) for line in vectors])
    np.testing.assert_allclose(vectors, all_layers["values"][:, :0:-1], atol=1e-6)


def snippets():
    return re.findall(r"^```python\n(.*?)^```", DOCS.read_text("utf-8"), re.M | re.S)


@pytest.mark.slow
def test_documented_code_reads_every_format(
    tmp_path, monkeypatch, file_of, all_layers, model_dir
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output").mkdir()
    last, pooled = "--layers=-1", ("--pooling=mean", "--normalize")
    for name, form, options in (
        ("tokens", "jsonl", ()),
        ("tokens", "npz", ()),
        ("sentences", "npz", pooled),
    ):
        shutil.copy(file_of(form, last, *options), f"output/{name}.{form}")
    lines = means_of_lines(all_layers, [4])[:, 0]
    lines /= np.linalg.norm(lines, axis=-1, keepdims=True)
    wanted = {"tokens": all_layers["values"][:, 4], "sentences": lines}
    seen: list = []
    names: dict = {}
    for code in snippets():
        before = names if "import " not in code else {}  # what goes on with the last
        names = dict(before)
        exec(code.replace("models/minilm", str(model_dir)), names)
        for name in wanted.keys() & (names.keys() - before.keys()):
            value = np.concatenate([np.reshape(v, (-1, 32)) for v in names[name]])
            np.testing.assert_allclose(value, wanted[name], atol=1e-5, err_msg=code)
            seen.append(name)
    assert sorted(seen) == ["sentences", "tokens", "tokens"]


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


def test_format_of_earlier_versions_names_those_that_are_left():
    done = run("--input_file=a --output_file=b --output_format=tfrecord")
    assert done.code == 1 and "should be one of <jsonl|npz>" in done.err
