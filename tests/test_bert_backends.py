"""bert_reborn.py on JAX and PyTorch, beside TensorFlow: equal ids, and outputs to 1e-5.

Each backend is a process, tests/bert_outputs.py, and is left out where it is not
installed.
"""

import json
import pathlib
import re

import numpy as np
import pytest

import bert_reborn as bert
from cli import library
from data_pipeline.classification import labels
from data_pipeline.text import byte_pairs
from modeling import pretrainers
from modeling.checkpoints import conversion
from modeling.configs import config_files, gpt_config
from tests import bert_outputs, test_bert, tiny, tiny_elmo, tiny_family, tiny_gpt
from tests.modeling import test_backends
from training import model_directory

ROOT = pathlib.Path(__file__).parents[1]
ROUNDING = 1e-5


def write(path, model, tokenizer):
    path.mkdir()
    conversion.write_directory(path, model, "hugging_face", tokenizer=tokenizer)


def write_pair(path, google, tokenizer):
    raw = json.loads((google / "bert_config.json").read_text())
    file = path.parent.parent / "pair.json"
    file.write_text(json.dumps(tiny.encoder_decoder(raw)))
    model = pretrainers.build("seq2seq", None, config_files.read(file))
    write(path, model, tokenizer)


def write_gpt(path):
    letters = [*"abcdefghijklmnopqrstuvwxyz,."]
    vocab = [*letters, *(f"{letter}</w>" for letter in letters), "the</w>", "<unk>"]
    config = gpt_config.GptConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.1,
    )
    model = pretrainers.build("language_model", None, config)
    write(path, model, byte_pairs.GptTokenizer(vocab, []))


def write_classifier(path, google, classes):
    opened, length = model_directory.open_directory(google, 24)
    built = opened.build_new(classes)
    library.make_loaded(built, opened, length).save(path, "hugging_face")


LABELS = ("bad", "fine", "good")
CLASSES = {
    "run": labels.Labels(LABELS),
    "many": labels.Labels(LABELS, "multi_label"),
    "choice": labels.Labels(LABELS, "choice"),
    "orders": labels.Labels(LABELS, pair_input="both_orders"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Directories of all kinds: models that work, and those that are refused."""
    folder = tmp_path_factory.mktemp("backends")
    models, refused, other = (folder / x for x in ("models", "refused", "other"))
    for each in (models, refused, other):
        each.mkdir()
    google = tiny.write_model(refused / "google", num_hidden_layers=1)
    tiny_elmo.write_model(refused / "elmo")
    loaded = bert.load(google)
    bert.load(google, labels=LABELS).save(models / "bert", "hugging_face")
    test_bert.write_text_encoder(models / "text_encoder", loaded)
    write_pair(models / "pair", google, loaded.tokenizer)
    write_gpt(other / "gpt")
    for name, classes in CLASSES.items():
        write_classifier(models / name, google, classes)
    for kind in ("roberta", "albert", "electra"):
        tiny_family.write_model(models / kind, kind)
    tiny_gpt.write_model(other / "gpt2")
    for kind in ("gpt", "gpt2"):  # with the special tokens, which are drawn
        bert.load(other / kind).save(models / kind, "hugging_face")
    return folder


def compare(backend, folder, names):
    """Asserts that a backend's outputs are TensorFlow's, and what it saved, too."""
    for name in names:
        actual = dict(np.load(folder / backend / f"{name}.npz"))
        expected = bert_outputs.compute(bert.load(folder / "models" / name))
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            message = f"{name}: {key}"
            if value.dtype.kind == "f":
                np.testing.assert_allclose(
                    actual[key], value, atol=ROUNDING, rtol=0, err_msg=message
                )
            else:
                np.testing.assert_array_equal(actual[key], value, err_msg=message)


def check(backend, folder, names):
    program = "-m", "tests.bert_outputs", str(folder), *names
    done = test_backends.run(backend, *program)
    assert done.returncode == 0, done.stderr
    compare(backend, folder, names)
    # What the backend saved is read here, and gives the same outputs.
    for name in names:
        pair = (bert.load(folder / place / name) for place in (backend, "models"))
        actual, expected = map(bert_outputs.compute, pair)
        for key, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(actual[key], value, atol=ROUNDING, rtol=0)
    return json.loads((folder / backend / "refused.json").read_text())


@pytest.mark.parametrize("backend", test_backends.BACKENDS)
def test_a_backend_gives_the_ids_and_outputs_of_tensorflow(backend, folder):
    refused = check(backend, folder, ["bert"])
    need = f"KERAS_BACKEND={backend}: {{}} by TensorFlow alone; set KERAS_BACKEND="
    by_tensorflow = need.format("texts are written and models exported")
    for name in ("write", "export"):
        assert refused[name].startswith(by_tensorflow)
    assert refused["elmo"].startswith(need.format("ELMo is computed"))
    assert refused["google"].startswith("TensorFlow is needed here, but cannot be")
    actual = dict(np.load(folder / backend / "fit.npz"))
    expected = bert_outputs.fit(folder / "models" / "bert")
    assert test_backends.largest(actual, expected) < ROUNDING
    start = bert.load(folder / "models" / "bert").model
    moved = [
        np.abs(expected[path] - variable).max()
        for variable in start.trainable_variables
        if (path := variable.path.split("/", 1)[1]).startswith("bert/")
    ]
    assert np.median(moved) > 100 * ROUNDING  # key biases never move


@pytest.mark.slow
@pytest.mark.parametrize("backend", test_backends.BACKENDS)
def test_every_directory_on_a_backend(backend, folder):
    names = sorted(path.name for path in folder.glob("models/*"))
    assert len(names) > 10
    check(backend, folder, names)


def test_another_text_has_visibly_other_outputs(folder):
    loaded = bert.load(folder / "models" / "bert")
    first, second = loaded.embed(["the film", "the sea"])
    assert np.abs(first - second).max() > 1e-2


PAGE = (ROOT / "docs" / "backends.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def test_blocks_of_the_page_run(folder, tmp_path):
    model = folder / "models" / "text_encoder"
    # A block is also shown for several devices: it goes before the models are made.
    blocks = [BLOCKS[0], BLOCKS[2], BLOCKS[1], BLOCKS[3]]
    blocks.insert(1, "import keras")
    code = "\n".join(blocks).replace('"models/minilm', f'"{model}')
    code = code.replace("=64", "=24").replace("output/fine-tuned", str(tmp_path / "x"))
    # The vocabulary lacks most words of the messages.
    code = code.replace("length=24", "length=24, check_tokenizer=False")
    (tmp_path / "page.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"sys.modules['tensorflow'] = None\n{code}\n"
        "import numpy as np\n"
        "np.testing.assert_allclose(vectors, compiled, atol=1e-5)\n"
    )
    flag = "--xla_force_host_platform_device_count=2"
    done = test_backends.run("jax", str(tmp_path / "page.py"), XLA_FLAGS=flag)
    assert done.returncode == 0, done.stderr
