"""The networks on JAX and PyTorch, beside TensorFlow.

Weights are so wide that logits are of order 1; 1e-5 is the rounding of float32. Each
backend is a process, tests/backend_outputs.py, and is left out where it is not
installed.
"""

import dataclasses
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from contract import features as contract_features
from modeling.checkpoints import conversion, keras_files, pretrained
from tests import backend_outputs, backend_training, family_weights
from tests.modeling import left_to_right, random_weights

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
BACKENDS = ("jax", "torch")
ROUNDING, VISIBLE = 1e-5, 1e-2
HEADS = {
    "bert": ("classifier", "tagger", "span", "pretraining", "text_encoder"),
    "gpt": ("classifier", "language_model"),
    "gpt2": ("language_model",),
    "pair": ("seq2seq",),
}
EVERY = [(network, head) for network, heads in HEADS.items() for head in heads]
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.1}
OF_EACH_DAY = [("bert", "pretraining"), ("gpt2", "language_model")]


def run(backend, *arguments, **environment):
    """The completed process of a program on a backend."""
    if not importlib.util.find_spec(backend):
        pytest.skip(f"{backend} is not installed")
    environment |= {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def check(backend, folder, models):
    """Asserts that a backend computes what TensorFlow does, of {name: its model}."""
    done = run(backend, "-m", "tests.backend_outputs", str(folder))
    assert done.returncode == 0, done.stderr
    for name, (model, features) in models.items():
        actual = dict(np.load(folder / backend / f"{name}.npz"))
        expected = backend_outputs.compute(model, features)
        if backend == "jax":
            calls = {k: v for k, v in expected.items() if k.startswith("call/")}
            expected |= {k.replace("call/", "jit/"): v for k, v in calls.items()}
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(
                actual[key], value, atol=ROUNDING, rtol=0, err_msg=f"{name}: {key}"
            )


def make(network, head, tiny_config):
    """A model none of whose weights has the value that it is born with."""
    config = random_weights.configs(tiny_config)[network]
    model = random_weights.random_model(config, head)
    for variable in model.trainable_variables:
        variable.assign(0.3 * variable)
    return model


def check_heads(backend, heads, folder, tiny_config, features):
    """`check` of directories of Hugging Face for BERT, and else of Keras' files."""
    models = {}
    for network, head in heads:
        name, model = f"{network}-{head}", make(network, head, tiny_config)
        models[name] = model, features
        np.savez(folder / f"{name}.npz", **features)
        if network == "bert" and head != "text_encoder":  # which needs a tokenizer
            (folder / name).mkdir()
            conversion.write(str(folder / name), model, "hugging_face")
        else:
            model.save(folder / f"{name}.keras")
    check(backend, folder, models)
    # Keras' files of the backend are read by TensorFlow.
    for name, (model, _) in models.items():
        again = keras_files.load(str(folder / backend / f"{name}.keras"))
        random_weights.assert_equal(*map(random_weights.values, (again, model)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_without_tensorflow_computes_what_it_computes(
    backend, tiny_config, tiny_features, tmp_path
):
    check_heads(backend, OF_EACH_DAY, tmp_path, tiny_config, tiny_features)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_head_on_a_backend(backend, tiny_config, tiny_features, tmp_path):
    check_heads(backend, EVERY, tmp_path, tiny_config, tiny_features)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_recorded_networks_on_a_backend(backend, tmp_path):
    models = {}
    for name, case in family_weights.read_cases().items():
        written = tmp_path / "cases" / name
        case.write(written)
        config = pretrained.read_config(str(written / "config.json"))
        config = dataclasses.replace(config, **DROPOUT)
        model = conversion.read(str(written), config).model
        # Keras' file has what the case lacks, such as a pooler of random values.
        model.save(tmp_path / f"{name}.keras")
        features = case.features()
        np.savez(tmp_path / f"{name}.npz", **features)
        models[name] = model, features
    assert len(models) > 10
    check(backend, tmp_path, models)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_recordings_of_the_originals_on_a_backend(
    backend, golden_pretrainer, forward_record, shared_file, tmp_path
):
    """Networks whose outputs on TensorFlow are the originals' in other tests."""
    gpt = dict(np.load(shared_file("golden/gpt/tiny_gpt.npz")))
    ids, mask = gpt["X"].reshape(8, 24, 2)[..., 0], gpt["M"].reshape(8, 24)
    pair = GOLDEN / "seq2seq"
    names = ("input_ids", "input_mask", "decoder_input_ids", "decoder_mask")
    texts = {key: np.load(pair / "tiny_seq2seq.npz")[key] for key in names}
    texts |= {"segment_ids": 0 * texts["input_ids"], "labels": texts["decoder_mask"]}
    config = pretrained.read_config(str(pair / "hugging_face" / "config.json"))
    gpt_2 = left_to_right.gpt_2(shared_file("golden/gpt2/tiny_model/model.ckpt.index"))
    tokens = np.load(shared_file("golden/gpt2/tiny_gpt2.npz"))["tokens"]
    models = {
        "bert": (golden_pretrainer, forward_record),
        "gpt": (left_to_right.gpt(gpt), left_to_right.features(ids, mask)),
        "gpt2": (gpt_2, left_to_right.features(tokens)),
        "pair": (conversion.read(str(pair / "hugging_face"), config).model, texts),
    }
    wanted = {*contract_features.ENCODER_INPUTS, *names, "labels"}
    for name, (model, values) in models.items():
        features = {k: np.asarray(v) for k, v in values.items() if k in wanted}
        if name == "bert":
            features["masked_lm_positions"] = forward_record["masked_lm_positions"]
        features = {k: v.astype(np.int32) for k, v in features.items()}
        models[name] = model, features
        np.savez(tmp_path / f"{name}.npz", **features)
        model.save(tmp_path / f"{name}.keras")
    check(backend, tmp_path, models)


def write_trainings(folder, tiny_config, batch_size=8):
    """Classifiers of two networks, and rows whose tokens no batch repeats."""
    rng = np.random.default_rng(5)
    config = dataclasses.replace(
        tiny_config, vocab_size=99, num_hidden_layers=2, initializer_range=0.3
    )
    for network in ("bert", "gpt2"):
        made = random_weights.configs(config)[network]
        made = dataclasses.replace(made, vocab_size=99)
        model = random_weights.pretrainers.build("classifier", 3, made)
        model.save(folder / f"{network}.keras")
        rows = [rng.permutation(np.arange(3, 99)) for _ in range(20)]
        ids = np.concatenate(rows).reshape(160, 12).astype(np.int32)
        labels = ids[:, 1] % 3
        lengths = 12 - ids[:, :1] % 5
        np.savez(
            folder / f"{network}.npz",
            labels=labels,
            input_ids=ids,
            input_mask=(np.arange(12) < lengths).astype(np.int32),
            segment_ids=(np.arange(12) > 5 + 0 * lengths).astype(np.int32),
        )


def trained(folder, network):
    return dict(np.load(folder / f"{network}-trained.npz"))


def largest(actual, expected):
    assert actual.keys() == expected.keys()
    return max(np.abs(actual[key] - expected[key]).max() for key in expected)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_after_twenty_steps_of_fit(backend, tiny_config, tmp_path):
    write_trainings(tmp_path, tiny_config)
    for clip_norm in (1.0, 0.0):
        done = run(backend, "-m", "tests.backend_training", tmp_path, str(clip_norm))
        assert done.returncode == 0, done.stderr
        for network in ("bert", "gpt2"):
            path = tmp_path / f"{network}.keras"
            expected = backend_training.train(path, clip_norm)
            assert largest(trained(tmp_path, network), expected) < ROUNDING
            # Another norm gives visibly other weights.
            other = backend_training.train(path, 0.1)
            assert largest(other, expected) > 1e-3


@pytest.mark.slow
def test_eight_devices_of_jax_train_as_one(tiny_config, tmp_path):
    write_trainings(tmp_path, tiny_config)
    results = []
    for count in (1, 8):
        flag = f"--xla_force_host_platform_device_count={count}"
        arguments = "-m", "tests.backend_training", tmp_path, "1.0", "1e-4"
        done = run("jax", *arguments, XLA_FLAGS=flag)
        assert done.returncode == 0, done.stderr
        results.append({name: trained(tmp_path, name) for name in ("bert", "gpt2")})
        assert results[-1]["bert"]["devices"] == count
    for name, expected in results[0].items():
        assert largest(results[1][name], {**expected, "devices": 8}) < 1e-6
    # The weights have moved, and follow from the rows.
    assert (
        largest(
            results[0]["bert"],
            backend_training.train(tmp_path / "bert.keras", 0.1, 1e-4),
        )
        > 1e-4
    )


def test_another_token_gives_visibly_other_outputs(tiny_config, tiny_features):
    model = make("bert", "pretraining", tiny_config)
    first = model(tiny_features)["masked_lm_logits"]
    ids = tiny_features["input_ids"] + (np.arange(10) == 5).astype(np.int32)
    second = model({**tiny_features, "input_ids": ids})["masked_lm_logits"]
    assert np.abs(first - second).max() > VISIBLE
    # And another step has other dropout.
    tensors = {name: np.asarray(value) for name, value in tiny_features.items()}
    first, second = (backend_outputs.gradients(model, tensors, x) for x in (5, 6))
    assert largest(first, second) > 10 * ROUNDING
