"""Tests of training/feature_cache.py: what is computed, kept and read."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import batching, packing
from modeling import models
from modeling.features import head_config
from tests.training import steps
from training import feature_cache

ROWS = 11


def rows(seed=0, num_sequences=1, label=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 9, ROWS * num_sequences)
    packed = packing.Packed(
        tokens=rng.integers(1, 30, lengths.sum()).astype(np.int32),
        splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=np.minimum(lengths, 5).astype(np.int32),
        num_sequences=num_sequences,
    )
    targets = {"label_ids": np.full(ROWS, label, np.int32)}
    return batching.Examples(packed, str, lambda: f"label {label}", targets)


class Model:
    reads_texts = False
    states_shape = 2, 1

    config = "tiny"
    dtype_policy = types.SimpleNamespace(name="float32")

    def __init__(self, weight=2.0, trainable=False, layer_mix="last"):
        weights = [np.array([weight], np.float32)]
        self.network = types.SimpleNamespace(trainable=trainable, variables=weights)
        self.weight, self.source = weight, self
        self.reading = types.SimpleNamespace(layer_mix=layer_mix)

    def layer_states(self, batch):
        ids = tf.cast(batch["input_ids"], tf.float32)[..., None, None]  # [B, S, 1, 1]
        return tf.concat([ids, self.weight * ids], axis=2)


class Work:
    def __init__(self, kind="auto"):
        self.cache = feature_cache.FeatureCache(kind)
        self.computed = []

    def batches(self, model, *, size=4, pad_to=None, **splits):
        plan = steps.plan(batch_size=size, predict_batch_size=3)
        wrapped = self.cache.add_states(splits, model, plan)
        return {
            split: list(examples.batches(examples.evaluation_order(size), pad_to))
            for split, examples in wrapped.items()
        }


@pytest.fixture
def work(monkeypatch):
    compute = feature_cache.compute

    def start(kind="auto"):
        work = Work(kind)

        def counted(model, settings, split, rows):
            work.computed.append(split)
            return compute(model, settings, split, rows)

        monkeypatch.setattr(feature_cache, "compute", counted)
        return work

    return start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "num_sequences", "pad_to"),
    [((models.BertTagger,), 1, None), ((models.BertClassifier, "compared"), 2, 10)],
)
def test_outputs_are_those_of_the_network(
    tiny_config, work, kind, num_sequences, pad_to
):
    """Batches and lengths are composed otherwise than where they were computed."""
    reading = head_config.HeadConfig(freeze_encoder=True)
    keras.utils.set_random_seed(5)
    model = kind[0](tiny_config, 3, *kind[1:], reading=reading)
    model.build()
    examples = rows(num_sequences=num_sequences)
    actual = work().batches(model, pad_to=pad_to, train=examples)["train"]
    wanted = examples.batches(examples.evaluation_order(4), pad_to)
    assert len(actual) == len(wanted) == 3
    batch, cached = list(wanted)[-1], actual[-1]  # which has a row of no example
    states = cached.pop("layer_states")
    assert cached.keys() == batch.keys()
    for name, value in batch.items():
        np.testing.assert_array_equal(cached[name], value)
    mask = batch["input_mask"].numpy()
    length = 1 if model.source.reads_texts else mask.shape[-1]
    assert states.shape == (*mask.shape[:-1], length, 1, 8)
    outputs = [
        model(each)["logits"].numpy()
        for each in (
            *(batch, {**batch, "layer_states": states}),
            {**batch, "layer_states": states[::-1]},  # the model looks at them
        )
    ]
    if not model.source.reads_texts:
        assert not np.any(states.numpy()[mask == 0])
        outputs = [output[mask == 1] for output in outputs]
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-5)
    assert np.abs(outputs[2] - outputs[0]).max() > 1e-2


@pytest.mark.slow
def test_states_serve_equal_rows_and_weights(work):
    work = work()

    def computed(model, **splits):
        before = len(work.computed)
        actual = work.batches(model, **splits)
        for batch in actual[next(iter(splits))]:
            ids, states = batch["input_ids"].numpy(), batch["layer_states"].numpy()
            np.testing.assert_array_equal(states[:, :, 0, 0], ids)
            np.testing.assert_array_equal(states[:, :, 1, 0], model.weight * ids)
        return work.computed[before:]

    first, other = rows(), rows(seed=1)
    assert computed(Model(), train=first, dev=other) == ["train", "dev"]
    assert computed(Model(), train=first, dev=other) == []
    # As of another seed: labels, and rows that are read anew.
    assert computed(Model(), train=rows(label=1), dev=rows(seed=1)) == []
    assert computed(Model(), train=rows(seed=2)) == ["train"]
    assert computed(Model(layer_mix="top"), train=first) == ["train"]
    assert computed(Model(weight=3.0), train=first) == ["train"]
    # The same rows are scored and predicted.
    assert len(computed(Model(weight=4.0), dev=first, test=first)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("room", "fits"), [(0, True), (-1, False)])
def test_auto_keeps_states_up_to_a_limit_for_all_splits(
    work, monkeypatch, capsys, room, fits
):
    total = 4 * 2 * (rows().packed.lengths.sum() + rows(seed=1).packed.lengths.sum())
    monkeypatch.setattr(feature_cache, "_AUTO_BYTES", total + room)
    splits = {"train": rows(), "dev": rows(seed=1)}
    splits["test"] = splits["dev"]  # which counts once
    actual = work().batches(Model(), **splits)
    has_states = {
        "layer_states" in batch for split in actual.values() for batch in split
    }
    assert has_states == {fits}
    out = capsys.readouterr().out
    assert out.count("numbers of the frozen network, 0.00 GB in memory\n") == 2 * fits
    assert out.count("runs in each step; --feature_cache=memory") == (not fits)
    batches = work("memory").batches(Model(), train=rows())["train"]
    assert all("layer_states" in batch for batch in batches)
