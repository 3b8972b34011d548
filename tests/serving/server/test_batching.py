"""Tests of serving/server/batching.py: what is computed together, and when."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.server import batching

WAIT_SECONDS = 20


class Calls:
    """A function whose first call waits, so that the next requests wait, too."""

    def __init__(self):
        self.batches, self._may_go = [], threading.Event()
        self._has_begun = threading.Event()

    def __call__(self, arrays):
        texts = arrays["text"]
        self.batches.append([*texts])
        if len(self.batches) == 1:
            self._has_begun.set()
            assert self._may_go.wait(WAIT_SECONDS)
        if b"broken" in texts:
            raise ValueError("broken")
        return {"upper": np.array([text.upper() for text in texts], object)}

    def hold(self, batcher):
        """The first request, which is computed until `go`."""
        first = work(self, b"first")
        batcher.submit(first)
        assert self._has_begun.wait(WAIT_SECONDS)
        return first

    def go(self):
        self._may_go.set()


def work(call, *texts, key="a"):
    arrays = {"text": np.array(texts, object)}
    return batching.Work(call, arrays, batching.measure(arrays), key)


def result(one):
    return [*one.future.result(WAIT_SECONDS)["upper"]]


@pytest.fixture
def calls():
    calls = Calls()
    yield calls
    calls.go()


def test_requests_that_wait_are_computed_together(calls):
    seen = []
    batcher = batching.Batcher(1, 9, 100, observe=lambda works: seen.append(len(works)))
    works = [calls.hold(batcher)]
    works += [work(calls, b"a", b"b"), work(calls, b"c"), work(calls, b"d", key="b")]
    works += [work(calls, b"e", key=None), work(calls, b"f", key=None)]
    for one in works[1:]:
        batcher.submit(one)
    assert len(batcher) == 5
    calls.go()
    assert [*map(result, works)] == [
        [b"FIRST"],
        [b"A", b"B"],
        [b"C"],
        [b"D"],
        [b"E"],
        [b"F"],
    ]
    together = [[b"first"], [b"a", b"b", b"c"], [b"d"], [b"e"], [b"f"]]
    assert calls.batches == together
    assert [one.joined for one in works] == [1, 3, 3, 1, 1, 1]
    assert batcher.close(WAIT_SECONDS) and seen == [1, 2, 1, 1, 1]
    queue, compute = works[1].seconds
    assert queue > 0 and compute > 0


def test_texts_of_like_length_are_joined_within_the_tokens(calls):
    batcher = batching.Batcher(1, 99, 1000)
    calls.hold(batcher)
    long, short = b"x" * 1000, b"y" * 4
    works = [work(calls, text) for text in (long, short, long, short, long, long, long)]
    for one in works:
        batcher.submit(one)
    calls.go()
    for one in works:
        result(one)
    # 252 tokens each: three fit into 1,000, and a short one would be padded.
    assert calls.batches[1:] == [[long] * 3, [short] * 2, [long] * 2]


def test_error_of_one_is_not_that_of_its_neighbours(calls):
    batcher = batching.Batcher(1, 9, 100)
    calls.hold(batcher)
    works = [work(calls, text) for text in (b"a", b"broken", b"c")]
    for one in works:
        batcher.submit(one)
    calls.go()
    assert (result(works[0]), result(works[2])) == ([b"A"], [b"C"])
    with pytest.raises(ValueError, match="broken"):
        result(works[1])


def test_too_many_are_refused_and_dropped_ones_are_not_computed(calls):
    batcher = batching.Batcher(1, 2, 100)
    calls.hold(batcher)
    waits, dropped = work(calls, b"waits"), work(calls, b"dropped")
    batcher.submit(waits)
    batcher.submit(dropped)
    with pytest.raises(batching.Overloaded):
        batcher.submit(work(calls, b"more"))
    batcher.drop(dropped)
    batcher.submit(last := work(calls, b"last"))
    calls.go()
    assert (result(waits), result(last)) == ([b"WAITS"], [b"LAST"])
    assert dropped.future.cancelled()
    assert calls.batches == [[b"first"], [b"waits", b"last"]]


def test_request_waits_for_others_if_it_should():
    sizes = []

    def call(arrays):
        sizes.append(len(arrays["text"]))
        return {"upper": arrays["text"]}

    batcher = batching.Batcher(1, 9, 100, wait_seconds=0.2)
    began = time.perf_counter()
    works = [work(call, b"a"), work(call, b"b")]
    batcher.submit(works[0])
    time.sleep(0.02)
    batcher.submit(works[1])
    assert [*map(result, works)] == [[b"a"], [b"b"]] and sizes == [2]
    assert time.perf_counter() - began >= 0.2
    began = time.perf_counter()
    batcher.submit(full := work(call, b"a" * 400))  # as many tokens as are computed
    assert result(full) and time.perf_counter() - began < 0.2


def test_size_counts_rows_and_the_longest():
    texts = np.array([b"", b"12345678", b"123456789"], object)
    assert batching.measure({"text": texts}) == (3, 2 + 3)
    assert batching.measure({"a": texts, "b": texts[::-1]}).longest == 2 + 3 + 3
    words = np.array([[b"1234", b"12345"], [b"", b""]], object)
    assert batching.measure({"words": words}) == (2, 2 + 1 + 2)
    ids = {name: np.zeros([4, 7], np.int32) for name in ("ids", "mask")}
    assert batching.measure(ids) == (4, 7)
    assert batching.measure({"text": texts[:0]}).rows == 0
    assert batching.measure({"x": np.array(3.0)}).rows == 1


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=4), max_size=12))
def test_every_request_has_its_rows(requests):
    batcher = batching.Batcher(2, 99, 30)

    def call(arrays):
        return {"upper": np.array([t.upper() for t in arrays["text"]], object)}

    works = [work(call, *texts) for texts in requests]
    for one in works:
        batcher.submit(one)
    for one, texts in zip(works, requests, strict=True):
        assert result(one) == [text.upper() for text in texts]
    assert batcher.close(WAIT_SECONDS)
