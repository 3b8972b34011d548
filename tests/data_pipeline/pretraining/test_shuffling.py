"""The order in which records are trained on."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import batches, metadata, source
from tests import daily

COUNTS = (5, 3, 8, 0, 6, 1, 2)
TOTAL = sum(COUNTS)
RECORDS = [
    f"{name}{number}"
    for name, count in zip("abcdefg", COUNTS, strict=True)
    for number in range(count)
]
# The first 30 records with seed 1, and windows of 7.
EARLIER = (
    "b2 c0 c1 c2 b0 f0 b1 e0 c7 c3 c4 c5 a0 c6 g0 e1 a2 e2 g1 a3 a1 e4 a4 e5 e3 "
    "b1 b0 c1 g0 e1"
)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(batches, "WINDOW_RECORDS", 7)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files whose records are their place: a0, a1, ..., b0, ..."""
    return write_files(tmp_path_factory.mktemp("records"))


def write_files(directory):
    paths = []
    for name, count in zip("abcdefg", COUNTS, strict=True):
        paths.append(str(directory / name))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for number in range(count):
                writer.write(f"{name}{number}".encode())
    return paths


def whole_files(counts):
    """Each file a block; reading never asks for their size."""
    zeros = np.zeros(len(counts), np.int64)
    return source.Blocks(
        np.arange(len(counts)), zeros, zeros + 1000, np.array(counts, np.int64)
    )


def windows(files, seed=1, start=0, blocks=None):
    blocks = blocks or whole_files(COUNTS)
    read = batches.records_of(files, blocks)
    for window in batches.windows(read, blocks.counts, seed, start):
        yield [record.decode() for record in window.numpy()]


def stream(files, length, seed=1, start=0):
    records = itertools.chain.from_iterable(windows(files, seed, start))
    return list(itertools.islice(records, length))


@pytest.fixture(scope="module")
def four_epochs(files):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "WINDOW_RECORDS", 7)
        return stream(files, 4 * TOTAL)


def test_every_epoch_has_every_record_once(four_epochs):
    epochs = [four_epochs[i * TOTAL : (i + 1) * TOTAL] for i in range(4)]
    for epoch in epochs:
        assert sorted(epoch) == RECORDS
    assert len(set(map(tuple, epochs))) == 4


def test_order_follows_from_the_seed_as_in_earlier_releases(files, four_epochs):
    assert " ".join(four_epochs[:30]) == EARLIER
    assert stream(files, TOTAL, seed=2) != four_epochs[:TOTAL]


# Within and at the ends of windows (7, 14, 21 and 25, the end of the epoch), and so
# within and at the end of the first group (12); in a later epoch.
@pytest.mark.parametrize(
    "start", daily.params([0, 7, 17, 25, 61], lambda start: start == 25)
)
def test_resuming_continues_the_stream(files, four_epochs, start):
    wanted = four_epochs[start:]
    later = stream(files, len(wanted), start=start)
    assert later == wanted
    assert later[:-1] != four_epochs[start + 1 :]
    # Records are numbered through all files, also where one of them is empty.
    read = batches.numbers_of(COUNTS)
    numbers = itertools.chain.from_iterable(
        window.numpy() for window in batches.windows(read, COUNTS, 1, start)
    )
    assert [RECORDS[n] for n in itertools.islice(numbers, len(wanted))] == wanted


def test_resuming_reaches_an_epoch_far_away(files):
    start = 40_000_000 * TOTAL
    before = stream(files, 20, start=start - 3)
    assert stream(files, 17, start=start) == before[3:]


def test_windows_are_shuffled(files, four_epochs, monkeypatch):
    monkeypatch.setattr(batches, "_shuffled", lambda values, seed: values)
    plain = stream(files, TOTAL)
    assert plain[:6] == ["a0", "b0", "c0", "a1", "b1", "c1"]
    assert plain != four_epochs[:TOTAL]


def test_passed_groups_are_not_opened(tmp_path):
    files = write_files(tmp_path)
    first = _first_group(files, seed=1)
    size = sum(COUNTS[files.index(path)] for path in first)
    start = -(-size // 7) * 7  # the first window that begins in the second group
    assert size <= start < TOTAL
    wanted = stream(files, TOTAL - start, start=start)
    for path in first:
        pathlib.Path(path).unlink()
    assert stream(files, TOTAL - start, start=start) == wanted
    with pytest.raises(tf.errors.NotFoundError):
        stream(files, TOTAL - start, start=start - 7)


def _first_group(files, seed):
    order = batches._shuffled(files, tf.constant([seed, 0], tf.int64)).numpy()
    return [path.decode() for path in order[:4]]


@pytest.mark.parametrize("size", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_records_in_order_are_shuffled_by_blocks(tmp_path, monkeypatch, size):
    """Two files of 60 numbers each in their order, in blocks of 3 or as a whole."""
    monkeypatch.setattr(metadata, "BLOCK_RECORDS", size)
    files, contents = [str(tmp_path / name) for name in "ab"], []
    for path, begin in zip(files, (0, 60), strict=True):
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(begin, begin + 60):
                writer.write(f"{number:0{1 + number % 5}}".encode())
        contents.append(metadata.count_records(path, pathlib.Path(path).stat().st_size))
    counts, splits = zip(*contents, strict=True)
    records = source.RecordSource(
        tuple(files),
        counts,
        splits,
        "next",
        True,
        max_seq_length=8,
        max_predictions_per_seq=2,
        vocab_size=20,
    )
    blocks = records.blocks
    assert blocks.counts.tolist() == ([3] * 40 if size == 3 else [60, 60])
    actual = [
        [int(text) for text in each]
        for each in itertools.islice(windows(files, blocks=blocks), 18)
    ]
    assert sorted(itertools.chain(*actual)) == list(range(120))
    spread = np.mean([np.std(np.array(each) % 60) for each in actual])
    assert spread > 10 if size == 3 else spread < 3
    later = windows(files, start=50, blocks=blocks)
    assert [int(x) for x in next(later)] == [*itertools.chain(*actual)][50:56]
