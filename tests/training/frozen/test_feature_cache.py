"""Tests of training/frozen: what is computed, kept and read."""

import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from data_pipeline.batches import batching, packing
from modeling import models
from modeling.features import head_config
from tests import full_disk
from training import fine_tuning, run
from training.frozen import feature_cache, frozen_examples, layer_states

ROWS = 11
GB = 10**9


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


class Model:
    """States that are easy to tell: a token's id times 1 and times a weight."""

    reads_texts = False

    def __init__(self, weight=2.0, trainable=False, identity="last"):
        weights = [np.array([weight], np.float32)]
        self.network = types.SimpleNamespace(trainable=trainable, variables=weights)
        self.weight, self.identity = weight, identity
        self.source = self

    def states_identity(self):
        return {"layer_mix": self.identity}

    def layer_states(self, batch):
        ids = tf.cast(batch["input_ids"], tf.float32)[..., None, None]  # [B, S, 1, 1]
        return tf.concat([ids, self.weight * ids], axis=2)


class Work:
    """Wraps tasks as a run does, and notes what was computed."""

    def __init__(self, output_dir):
        self.output_dir = output_dir
        self.computed = []

    @property
    def files(self):
        return [path for path in self.output_dir.rglob("*") if path.is_file()]

    def cache(self, kind="auto", directory=""):
        return feature_cache.FeatureCache(kind, str(directory), str(self.output_dir))

    def batches(self, cache, model, *, size=4, pad_to=None, **splits):
        """{split: all batches, in the order of evaluations}."""
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
        wrapped = cache.wrapped(task, model, settings).splits
        assert (wrapped == splits) == model.network.trainable
        return {
            split: list(examples.batches(examples.evaluation_order(size), pad_to))
            for split, examples in wrapped.items()
        }


@pytest.fixture
def work(monkeypatch, tmp_path):
    work = Work(tmp_path / "out")
    states = frozen_examples.FrozenNetwork.states

    def counted(self, examples, name):
        work.computed.append(name.split()[-2])
        return states(self, examples, name)

    monkeypatch.setattr(frozen_examples.FrozenNetwork, "states", counted)
    return work


@pytest.mark.parametrize(
    ("cache_kind", "kind", "num_sequences", "pad_to"),
    [
        ("disk", (models.BertTagger,), 1, None),
        ("memory", (models.BertClassifier, "compared"), 2, 10),
    ],
)
def test_outputs_are_those_of_the_network(
    tiny_config, work, cache_kind, kind, num_sequences, pad_to
):
    """Batches and lengths are composed otherwise than where they were computed."""
    reading = head_config.HeadConfig(freeze_encoder=True)
    keras.utils.set_random_seed(5)
    model = kind[0](tiny_config, 3, *kind[1:], reading=reading)
    model.build()
    examples = rows(num_sequences=num_sequences)
    with work.cache(cache_kind) as cache:
        found = work.batches(cache, model, pad_to=pad_to, train=examples)["train"]
    wanted = examples.batches(examples.evaluation_order(4), pad_to)
    assert len(found) == len(wanted) == 3
    batch, cached = list(wanted)[-1], found[-1]  # which has a row of no example
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


def test_states_stand_where_their_tokens_do(work):
    examples = rows()
    with work.cache("memory") as cache:
        for batch in work.batches(cache, Model(), train=examples)["train"]:
            ids = batch["input_ids"].numpy()
            states = batch["layer_states"].numpy()
            np.testing.assert_array_equal(states[:, :, 0, 0], ids)
            np.testing.assert_array_equal(states[:, :, 1, 0], 2 * ids)
    assert work.computed == ["train"] and not work.files


def test_states_serve_equal_rows_and_weights(work):
    with work.cache() as cache:

        def computed(model, **splits):
            before = len(work.computed)
            found = work.batches(cache, model, **splits)
            for batch in found[next(iter(splits))]:
                ids = batch["input_ids"].numpy()
                np.testing.assert_array_equal(
                    batch["layer_states"].numpy()[:, :, 1, 0], model.weight * ids
                )
            return work.computed[before:]

        first, other = rows(), rows(seed=1)
        assert computed(Model(), train=first, dev=other) == ["train", "dev"]
        assert computed(Model(), train=first, dev=other) == []
        # As of another seed: labels, and rows that are read anew.
        assert computed(Model(), train=rows(label=1), dev=rows(seed=1)) == []
        assert computed(Model(), train=rows(seed=2)) == ["train"]
        assert computed(Model(identity="top"), train=first) == ["train"]
        assert computed(Model(weight=3.0), train=first) == ["train"]
        # The same rows are scored and predicted.
        assert len(computed(Model(weight=4.0), dev=first, test=first)) == 1


def test_network_that_is_trained_runs_each_time(work):
    with work.cache() as cache:
        (batch, *_) = work.batches(cache, Model(trainable=True), train=rows())["train"]
    assert "layer_states" not in batch and not work.computed


def test_files_go_with_the_command_that_ends_well(work):
    def states(cache):
        found = work.batches(cache, Model(), train=rows())["train"]
        return [batch["layer_states"].numpy() for batch in found]

    with pytest.raises(errors.Stopped), work.cache("disk") as cache:
        wanted = states(cache)
        raise errors.Stopped(15)
    (path,) = work.files
    assert path.parent == work.output_dir / "feature_cache"
    # The command that goes on maps the file.
    with work.cache("auto") as cache:
        found = states(cache)
        (held,) = cache._held.values()
        assert isinstance(held.values, np.memmap)
    assert work.computed == ["train"] and not work.files
    for before, after in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(after, before)


def test_file_that_a_killed_command_has_begun_is_written_anew(work):
    def states(cache):
        found = work.batches(cache, Model(), train=rows())["train"]
        return [batch["layer_states"].numpy() for batch in found]

    with pytest.raises(errors.Stopped), work.cache("disk") as cache:
        wanted = states(cache)
        raise errors.Stopped(15)
    (path,) = work.files
    data = path.read_bytes()
    path.with_name(f"{path.name}.incomplete").write_bytes(data[: len(data) // 2])
    path.unlink()
    with work.cache("disk") as cache:
        found = states(cache)
        assert work.files == [path] and path.read_bytes() == data
    assert work.computed == ["train", "train"] and not work.files
    for before, after in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(after, before)


def test_files_of_a_named_directory_stay(work, tmp_path, capsys):
    place = tmp_path / "shared"
    for number in range(2):
        with work.cache("auto", place) as cache:
            work.batches(cache, Model(), train=rows())
        (path,) = place.iterdir()
        said = capsys.readouterr().out
        total = rows().packed.lengths.sum()
        assert said == (
            f"features: train, {total} x 2 x 1 numbers of the frozen network, "
            f"0.00 GB in {path}\n"
        )
        assert work.computed == ["train"], number
    assert np.load(path).shape == (total, 2, 1)


@pytest.mark.parametrize(("free", "is_in_memory"), [(8, True), (7, False)])
def test_auto_takes_a_quarter_of_free_memory_for_all_splits(
    work, monkeypatch, free, is_in_memory
):
    total = 4 * 2 * (rows().packed.lengths.sum() + rows(seed=1).packed.lengths.sum())
    monkeypatch.setattr(layer_states, "free_memory", lambda: free * total // 2)
    with work.cache() as cache:
        work.batches(cache, Model(), train=rows(), dev=rows(seed=1))
        assert (not work.files) == is_in_memory and len(work.files) in (0, 2)


def test_full_disk_is_one_line(work, monkeypatch):
    def refused(match):
        with work.cache("disk") as cache, pytest.raises(OSError, match=match):
            work.batches(cache, Model(), train=rows())
        assert not work.files

    with full_disk.full_disk(after=150):
        refused(r"feature_cache/\w+\.npy: cannot .*File too large")
    usage = shutil.disk_usage(work.output_dir)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    refused(r"takes 0\.0 GB, and 0\.0 GB are free; make room .*--feature_cache=none")


def test_memory_that_is_too_small_is_refused(work, monkeypatch):
    monkeypatch.setattr(layer_states, "free_memory", lambda: 100)
    with (
        work.cache("memory") as cache,
        pytest.raises(errors.InputError, match=r"=memory: .* memory are"),
    ):
        work.batches(cache, Model(), train=rows())


def test_damaged_file_is_named(work, tmp_path):
    with work.cache(directory=tmp_path) as cache:
        work.batches(cache, Model(), train=rows())
    (path,) = tmp_path.glob("*.npy")
    path.write_bytes(path.read_bytes()[:-40])
    with (
        work.cache(directory=tmp_path) as cache,
        pytest.raises(errors.InputError, match=rf"{path}: cannot be read .*remove it"),
    ):
        work.batches(cache, Model(), train=rows())


@pytest.mark.parametrize(
    ("kind", "directory", "output_dir", "match"),
    [
        ("none", "here", "out", "--feature_cache_dir=here is for files, and --feature"),
        ("memory", "here", "out", "--feature_cache=memory writes none; leave one"),
        ("auto", "gs://bucket/x", "out", "gs://bucket/x is no local directory"),
        ("disk", "", "gs://bucket/run", "gs://bucket/run/feature_cache is no local"),
    ],
)
def test_contradictions_are_refused(kind, directory, output_dir, match):
    with pytest.raises(ValueError, match=match):
        feature_cache.FeatureCache(kind, directory, output_dir)


def test_free_memory_is_that_of_the_container(tmp_path, monkeypatch):
    for name, text in (("max", f"{2 * GB}\n"), ("current", f"{GB // 2}\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  4000000 kB\n")
    paths = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(layer_states, "_CGROUP", paths)
    monkeypatch.setattr(layer_states, "_MEMORY", tmp_path / "meminfo")
    assert layer_states.free_memory() == 3 * GB // 2
    (tmp_path / "max").write_text("max\n")  # no limit
    assert layer_states.free_memory() == 4_096_000_000
    monkeypatch.setattr(layer_states, "_MEMORY", tmp_path / "none")
    assert layer_states.free_memory() > GB // 2
