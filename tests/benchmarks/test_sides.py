"""Both sides of a comparison get the same work, and do it."""

import dataclasses
import importlib
import math
import sys
from unittest import mock

import keras
import numpy as np
import pytest

from benchmarks import ours, preparation, report, rows, sides
from tests import tiny, tiny_questions, tiny_tags

STEPS = 3
THEIR_NAMES = {
    "input_ids": "input_ids",
    "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}
BATCH = 4


@pytest.fixture(autouse=True)
def small_peak(monkeypatch):
    monkeypatch.setattr(sides, "PEAK_SIZE", 64)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(path, num_hidden_layers=1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    table = tiny.write_tsv(directory / "table.tsv", None, tiny.rows(30))
    flipped = [(label, text) for text, label in tiny.rows(30)]
    tags = directory / "tags.conll"
    tiny_tags.write_conll(tags, tiny_tags.sentences(20))
    return {
        "sms": str(tiny.write_tsv(directory / "sms.tsv", None, flipped)),
        "sst2": str(table),
        "tagging": str(tags),
        "squad": str(tiny_questions.version_1(directory / "squad.json", 12)),
    }


def prepare(name, model_dir, directory, path=None, **changes):
    row = rows.ROWS[name]._replace(
        **{"batch_size": BATCH, "max_seq_length": 24, "warm_up": 1, **changes}
    )
    columns = {"sms": (1, 0), "sst2": (0, 1), "vectors": (0, 1)}.get(name, ())
    prepared = preparation.prepare(
        row=row._asdict(),
        directory=directory,
        pretrained_dir=str(model_dir),
        path=path,
        columns=columns,
        steps=STEPS,
    )
    return row, prepared, sides.Job(**prepared["job"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "chance"),
    [
        ("pretraining", math.log(43) + math.log(2)),  # words of tiny's vocabulary
        ("sms", math.log(3)),
        ("tagging", math.log(7)),  # O, and B and I of three types
        ("squad", math.log(16)),
        ("left_to_right", math.log(43)),
    ],
)
def test_row_trains_on_its_work(name, chance, model_dir, paths, tmp_path, monkeypatch):
    """The loss of the first steps is about that of guessing, on real labels."""
    monkeypatch.setattr(preparation, "MASKED_TOKENS", 3)
    small = {"vocab_size": 43, "hidden_size": 24, "num_hidden_layers": 1}
    gpt_2 = dataclasses.replace(preparation.GPT_2, **small)
    monkeypatch.setattr(preparation, "GPT_2", gpt_2)
    row, prepared, job = prepare(name, model_dir, tmp_path / "row", paths.get(name))
    assert prepared["examples"] == STEPS * BATCH
    (turn,) = report.add_figures(row, prepared, [ours.run(job)])
    assert 0.6 * chance < turn["loss"] < 1.8 * chance
    assert turn["figure"] == pytest.approx(STEPS * BATCH / turn["seconds"])
    share = prepared["gflop"] / turn["seconds"] / turn["peak_gflops"]
    assert turn["share_of_peak"] == pytest.approx(share)


def test_bfloat16_is_of_one_turn_alone(monkeypatch):
    def policy(job=None):
        return {"policy": keras.config.dtype_policy().name}

    monkeypatch.setattr(ours, "peak_gflops", lambda dtype: 1.0)
    monkeypatch.setattr(ours, "ACTIONS", {"train": policy})
    job = sides.Job("train", "classifier", 2, "", "", 1, 1, precision="bfloat16")
    assert ours.run(job)["policy"] == "mixed_bfloat16"
    assert policy() == {"policy": "float32"}


@pytest.mark.parametrize("name", ["sst2", "tagging"])
def test_peer_gets_our_batches(name, model_dir, paths, tmp_path):
    """`Work.batches` pads with NumPy as our pipeline does, to the number."""
    _, _, job = prepare(name, model_dir, tmp_path / "row", paths.get(name))
    work = sides.Work.load(job.work)
    theirs = list(work.batches(job.warm_up + STEPS))
    own = [{k: v.numpy() for k, v in b.items()} for b in ours.batches_of(work)]
    assert len(theirs) == len(own) == job.warm_up + STEPS
    for mine, other in zip(own, theirs, strict=True):
        assert mine.keys() == other.keys()
        for feature, values in mine.items():
            np.testing.assert_array_equal(values, other[feature], feature)
            assert values.dtype == other[feature].dtype
    # The twin: batches of another order are others.
    moved = dataclasses.replace(work, order=np.roll(work.order, 1, axis=1))
    first = next(moved.batches(1))
    assert any(np.any(first[k] != theirs[0][k]) for k in first)


def test_peer_gets_the_texts_of_a_pair_one_after_the_other(model_dir, tmp_path):
    table = [(label, text) for text, label in tiny.rows(30)]
    path = str(tiny.write_tsv(tmp_path / "near.tsv", None, table))
    _, _, job = prepare("vectors", model_dir, tmp_path / "row", path)
    work = sides.Work.load(job.work)
    pairs = zip(work.batches(3), ours.batches_of(work).take(3), strict=True)
    for theirs, own in pairs:
        for name in ("input_ids", "input_mask", "segment_ids"):
            rows = np.reshape(own[name], (2 * BATCH, -1))
            np.testing.assert_array_equal(rows, theirs[name])
        assert own["packed_sources"].shape[0] < 2 * BATCH
    result = ours.run(job)
    assert result["seconds"] > 0 and 0 < result["loss"] < 20


@pytest.fixture
def peer(monkeypatch):
    """benchmarks/peer.py without its libraries."""
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    monkeypatch.delitem(sys.modules, "benchmarks.peer", raising=False)
    yield importlib.import_module("benchmarks.peer")
    sys.modules.pop("benchmarks.peer")


def test_peer_gets_our_features_under_its_names(peer):
    batch = {
        "input_ids": np.array([[5, 6, 7, 8], [9, 4, 0, 0]], np.int32),
        "input_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32),
        "segment_ids": np.array([[0, 0, 1, 1], [0, 1, 0, 0]], np.int32),
    }
    tags = {"label_ids": np.array([[-1, 0, 2, -1], [-1, 1, -1, -1]], np.int32)}
    named = peer.arguments({**batch, **tags})
    assert named.keys() == {*THEIR_NAMES.values(), "labels"}
    for mine, other in THEIR_NAMES.items():
        np.testing.assert_array_equal(named[other], batch[mine])
    assert named["labels"].tolist() == [[-100, 0, 2, -100], [-100, 1, -100, -100]]
    masked = {
        "masked_lm_positions": np.array([[0, 2], [1, 0]], np.int32),
        "masked_lm_ids": np.array([[11, 12], [13, 14]], np.int32),
        "masked_lm_weights": np.ones((2, 2), np.float32),
        "next_sentence_labels": np.array([1, 0], np.int32),
    }
    named = peer.arguments({**batch, **masked})
    assert named["labels"].tolist() == [[11, -100, 12, -100], [14, 13, -100, -100]]
    assert named["next_sentence_label"].tolist() == [1, 0]
    assert {values.dtype for values in named.values()} == {np.dtype(np.int64)}


def work_of(lengths, order, targets=None):
    splits = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.zeros(splits[-1], np.int32)
    return sides.Work(tokens, splits, np.array(lengths), order, targets or {}, {})


def test_useful_work_is_counted_by_hand():
    shape = {
        "hidden_size": 2,
        "intermediate_size": 3,
        "num_hidden_layers": 5,
        "vocab_size": 7,
    }
    job = sides.Job("predict", "classifier", 2, "", "", warm_up=1, steps=2)
    order = np.array([[0, 0], [0, 1], [1, 2]])  # the first is warm-up
    work = work_of([10, 20, 40], order)
    blocks = 5 * (4 * 2 * 2 + 2 * 2 * 3)  # weights
    tokens = 10 + 20 + 20 + 40
    expected = 2 * blocks * tokens / 1e9
    assert sides.useful_gflop(shape, work, job) == pytest.approx(expected)
    training = dataclasses.replace(job, action="train")
    masked = {"masked_lm_weights": np.array([[1, 1], [1, 0], [1, 1]])}
    gflop = sides.useful_gflop(shape, work_of([10, 20, 40], order, masked), training)
    head = 2 * 2 + 2 * 7
    masked_tokens = 2 + 1 + 1 + 2
    assert gflop == pytest.approx(6 * (blocks * tokens + head * masked_tokens) / 1e9)
    # From left to right all tokens but the first are predicted, by the table alone.
    training = dataclasses.replace(training, head="language_model")
    gflop = sides.useful_gflop(shape, work, training)
    predicted = 2 * 7 * (tokens - 4)
    assert gflop == pytest.approx(6 * (blocks * tokens + predicted) / 1e9)
    # Four texts are written, and nothing is asked of their last tokens.
    new = 4 * sides.NEW_TOKENS
    gflop = sides.useful_gflop(
        shape, work, dataclasses.replace(training, action="write")
    )
    expected = 2 * (blocks * (tokens + new - 4) + 2 * 7 * new) / 1e9
    assert gflop == pytest.approx(expected)


def test_warm_up_is_not_timed(monkeypatch):
    clock = [0]
    monkeypatch.setattr(sides.time, "perf_counter", lambda: clock[0])

    def made():
        for seconds in (7, 2, 3):
            clock[0] += 100  # to make it
            yield seconds

    def run(seconds):
        clock[0] += seconds

    assert sides.seconds_of(run, made(), 1) == [2, 3]
    assert sides.seconds_of(run, made(), 0) == [7, 2, 3]
