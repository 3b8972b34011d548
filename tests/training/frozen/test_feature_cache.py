"""Tests of training/frozen with a small network: what is computed, kept and read."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.examples import batching, packing
from modeling import models
from modeling.configs import readings
from tests import full_disk
from training import errors, fine_tuning, run
from training.frozen import feature_cache, frozen_examples, layer_states

ROWS = 11


def rows(seed=0, num_sequences=1, label=0):
    """Examples of 3 to 8 tokens a sequence; batches of 4 fill the last one up."""
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


@pytest.fixture(scope="module")
def make(tiny_config):
    """A function (kind, how it reads its network) -> the same small model each time."""

    def make(kind=models.BertTagger, *given, freeze_encoder=True, seed=5, **reading):
        keras.utils.set_random_seed(seed)
        read = readings.Reading(freeze_encoder=freeze_encoder, **reading)
        model = kind(
            dataclasses.replace(tiny_config, num_hidden_layers=2),
            *(3, *given),
            reading=read,
        )
        model.build()
        return model

    return make


@pytest.fixture
def work(monkeypatch, tmp_path):
    """A Work, whose output directory is new."""
    work = Work(tmp_path / "out")
    states = frozen_examples.FrozenNetwork.states

    def counted(self, examples, name):
        work.computed.append(name)
        return states(self, examples, name)

    monkeypatch.setattr(frozen_examples.FrozenNetwork, "states", counted)
    return work


class Work:
    """Wraps tasks as a run does, and notes what was computed."""

    def __init__(self, output_dir):
        self.output_dir = output_dir
        self.computed = []

    @property
    def files(self):
        return sorted(self.output_dir.rglob("*.*"))

    def cache(self, kind="auto", directory=""):
        return feature_cache.FeatureCache(kind, str(directory), str(self.output_dir))

    def batches(self, cache, model, size=4, pad_to=None, **splits):
        """All batches of each split, in the order of evaluations."""
        others = ("model", "load_weights", "store", "objective", "score")
        task = fine_tuning.Task(
            splits=splits, **dict.fromkeys((*others, "predict", "export"))
        )
        its_own = run.Settings(
            output_dir=str(self.output_dir),
            seed=1,
            plan=None,
            strategy=tf.distribute.get_strategy(),
            optimizer=None,
            batch_size=size,
        )
        settings = fine_tuning.Settings(run=its_own, predict_batch_size=3)
        wrapped = cache.wrapped(task, model, settings)
        return {
            split: list(examples.batches(examples.evaluation_order(size), pad_to))
            for split, examples in wrapped.splits.items()
        }

    def states(self, cache, model, **splits):
        found = self.batches(cache, model, **splits)
        return [batch["layer_states"].numpy() for s in splits for batch in found[s]]


@pytest.mark.parametrize("pad_to", [None, 10])
@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize(
    ("model_kind", "num_sequences", "shape"),
    [
        ((models.BertTagger,), 1, (1, 8)),
        ((models.BertClassifier,), 1, (1, 8)),
        ((models.BertClassifier, "compared"), 2, (1, 8)),
    ],
)
def test_outputs_are_those_of_the_network(
    make, work, kind, model_kind, num_sequences, shape, pad_to
):
    """With batches and lengths of another composition than those of the cache."""
    model, examples = make(*model_kind), rows(num_sequences=num_sequences)
    with work.cache(kind) as cache:
        found = work.batches(cache, model, pad_to=pad_to, train=examples)["train"]
    order = examples.evaluation_order(4)
    assert order[-1, -1] == -1 and len(order) == 3
    for batch, cached in zip(examples.batches(order, pad_to), found, strict=True):
        states = cached.pop("layer_states")
        assert cached.keys() == batch.keys()
        mask = batch["input_mask"].numpy()
        for name, value in batch.items():
            np.testing.assert_array_equal(cached[name], value)
        length = 1 if model.reads_texts else mask.shape[-1]
        assert states.shape == (*mask.shape[:-1], length, *shape)
        wanted = model(batch)["logits"].numpy()
        given = model({**batch, "layer_states": states})["logits"].numpy()
        is_real = mask > 0 if not model.reads_texts else np.full(wanted.shape[:-1], 1)
        np.testing.assert_allclose(given[is_real > 0], wanted[is_real > 0], atol=1e-5)
        # The model looks at them; and they are not the same everywhere.
        other = model({**batch, "layer_states": states[::-1]})["logits"].numpy()
        assert np.abs(other - wanted)[is_real > 0].max() > 1e-2
        if not model.reads_texts:
            assert not np.any(states.numpy()[mask == 0])
