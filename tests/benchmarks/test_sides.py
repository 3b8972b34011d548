"""Both sides of a comparison get the same work, and do it."""

import dataclasses
import importlib
import json
import math
import sys
from unittest import mock

import numpy as np
import pytest

from benchmarks import ours, preparation, report, rows, sides
from tests import tiny

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
    return tiny.write_model(path, tiny.LETTERS, num_hidden_layers=1)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    table = [(label, text) for text, label in tiny.rows(30)]
    return str(tiny.write_tsv(tmp_path_factory.mktemp("data") / "t.tsv", None, table))


def prepare(name, model_dir, directory, path=None, **changes):
    row = rows.ROWS[name]._replace(
        **{"batch_size": BATCH, "max_seq_length": 24, "warm_up": 1, **changes}
    )
    prepared = preparation.prepare(
        row=row._asdict(),
        directory=directory,
        pretrained_dir=str(model_dir),
        path=path,
        steps=STEPS,
    )
    return row, prepared, sides.Job(**prepared["job"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "chance"),
    [
        ("classifier", math.log(2)),
        ("pretraining", math.log(69) + math.log(2)),  # words of the vocabulary
        ("start", math.log(6)),  # labels of the sample messages
        ("fine_tuning", math.log(6)),
        ("pairs", math.log(BATCH)),
    ],
)
def test_row_trains_on_its_work(name, chance, model_dir, pairs, tmp_path, monkeypatch):
    """The loss of the first steps is about that of guessing, on real labels."""
    monkeypatch.setattr(preparation, "MASKED_TOKENS", 3)
    path = pairs if name == "pairs" else None
    row, prepared, job = prepare(name, model_dir, tmp_path / "row", path)
    assert prepared["examples"] == STEPS * BATCH
    row = row._replace(unit="sequences/s")
    turn = ours.run(job)
    report.add_figures(row, prepared["examples"], None, turn)
    assert 0.4 * chance < turn["loss"] < 1.8 * chance
    assert turn["figure"] == pytest.approx(STEPS * BATCH / turn["seconds"])


def test_both_sides_read_the_same_batches(model_dir, tmp_path):
    _, _, job = prepare("start", model_dir, tmp_path / "row", max_seq_length=48)
    theirs = sides.read_batches(job)
    own = list(ours.dataset_of(job).as_numpy_iterator())
    assert len(theirs) == len(own) == job.warm_up + STEPS
    assert len({batch["input_ids"].shape for batch in theirs}) > 1
    for mine, other in zip(own, theirs, strict=True):
        assert mine.keys() == other.keys()
        for feature, values in mine.items():
            np.testing.assert_array_equal(values, other[feature], feature)
            assert values.dtype == other[feature].dtype
    # A trial reads fewer.
    assert len(sides.read_batches(dataclasses.replace(job, steps=1))) == job.warm_up + 1


def test_peer_gets_both_texts_of_a_pair(model_dir, pairs, tmp_path, peer):
    _, _, job = prepare("pairs", model_dir, tmp_path / "row", pairs)
    batch = sides.read_batches(job)[0]
    (own,) = ours.dataset_of(job).take(1)
    assert own["packed_sources"].shape[0] < 2 * BATCH
    for column, theirs in enumerate(peer.columns(batch)):
        width = theirs["input_ids"].shape[1]
        assert theirs["input_mask"][:, -1].any()  # no longer than its longest
        for name, values in theirs.items():
            np.testing.assert_array_equal(own[name][:, column, :width], values)
            assert not own[name][:, column, width:].numpy().any()


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
    named = peer.arguments({**batch, "label_ids": np.array([2, 0], np.int32)})
    assert named.keys() == {*THEIR_NAMES.values(), "labels"}
    for mine, other in THEIR_NAMES.items():
        np.testing.assert_array_equal(named[other], batch[mine])
    assert named["labels"].tolist() == [2, 0]
    masked = {
        "masked_lm_positions": np.array([[0, 2], [1, 0]], np.int32),
        "masked_lm_ids": np.array([[11, 12], [13, 14]], np.int32),
        "masked_lm_weights": np.ones((2, 2), np.float32),
        "next_sentence_labels": np.array([1, 0], np.int32),
    }
    named = peer.arguments({**batch, **masked})
    assert named["labels"].tolist() == [[11, 12], [13, 14]]
    assert named["places"].tolist() == [[0, 2], [1, 0]]
    assert named["next_sentence_label"].tolist() == [1, 0]
    assert {values.dtype for values in named.values()} == {np.dtype(np.int64)}


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


def test_answers_are_likeliest_classes_or_cosines(tmp_path):
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps([["a"], ["b"]]), encoding="utf-8")
    checked = tmp_path / "checked.json"
    checked.write_text(json.dumps([f"{i}" for i in range(40)]), encoding="utf-8")
    names = {"texts": str(texts), "checked": str(checked), "warm_up": 1, "steps": 1}
    given = {"num_classes": None, "pretrained": "", "batches": "", **names}
    job = sides.Job("answer", "classifier", **given)

    def answer(batch):  # more than one batch is checked
        assert len(batch) <= 32
        return np.array([[3.0, int(each) % 2 * 4.0] for each in map(ord_of, batch)])

    def ord_of(text):
        return text if text.isdigit() else "0"

    assert sides.time_answers(answer, job)["answers"] == [0, 1] * 20
    cosines = sides.time_answers(answer, dataclasses.replace(job, head="text_encoder"))
    assert cosines["answers"] == pytest.approx([0.6] * 20)
    assert "answers" not in sides.time_answers(
        answer, dataclasses.replace(job, checked="")
    )


def test_texts_of_a_row_are_the_same_for_all_sides(tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("".join(f"{'a ' * i}\t1\n" for i in range(1, 41)), encoding="utf-8")

    def batches(name, path=None, **changes):
        directory = tmp_path / f"{name}{len(changes)}"
        row = rows.ROWS[name]._replace(warm_up=1, **changes)
        settings = {"row": row._asdict(), "directory": directory, "path": path}
        prepared = preparation.prepare(**settings, pretrained_dir="", steps=2)
        job = sides.Job(**prepared["job"])
        return sides.read_texts(job.texts), prepared["examples"], job.max_seq_length

    texts, examples, length = batches("batch", max_seq_length=24)
    assert examples == 64 and length == 24
    assert {len(text.split()) for batch in texts for text in batch} == {24}
    texts, examples, _ = batches("mixed", str(file), batch_size=8)
    assert examples == 16 and len(texts) == 3
    widths = [[len(text.split()) for text in batch] for batch in texts]
    assert all(max(each) - min(each) == 7 for each in widths)  # of similar length
    texts, examples, _ = batches("sentence")
    assert examples == 2 and texts[0] != texts[1]
    assert {len(text.split()) for (text,) in texts} == {16}
