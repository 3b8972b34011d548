"""Computes requests in threads, those that wait at the same time together."""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent import futures
from typing import Any, NamedTuple

import numpy as np

from serving.protocol import servables

_PADDING = 128  # tokens that cost about as much as one more call
BYTES_PER_TOKEN = 4  # of a text, about; the tokenizer is in the export


class Overloaded(Exception):
    """As many requests wait as may."""


class Size(NamedTuple):
    """Rows of a request, and the tokens of its longest row."""

    rows: int
    longest: int

    @property
    def tokens(self) -> int:
        """Tokens that the network computes, padding included."""
        return self.rows * self.longest


def measure(arrays: servables.Arrays) -> Size:
    """The Size of inputs; texts have a token for each 4 bytes begun."""
    rows, longest, texts = 0, 0, 2  # [CLS] and [SEP]
    for array in arrays.values():
        count, *others = array.shape or (1,)
        rows, width = max(rows, count), math.prod(others)
        if array.dtype == object:
            sizes = [-(-len(text) // BYTES_PER_TOKEN) for text in array.flat]
            starts = range(0, len(sizes), width or 1)
            texts += max((sum(sizes[i : i + width]) for i in starts), default=0)
        else:
            longest = max(longest, width)
    return Size(rows, max(longest, texts))


@dataclasses.dataclass(eq=False)
class Work:
    """A request that waits or is computed.

    Attributes:
        call: arrays -> outputs, {name: array} each with a row for each row of inputs
            where `key` is set.
        key: of requests whose rows may be computed together; None for none.
        seconds: until the computation began, and that it took.
        joined: rows that were computed at once.
        is_wanted: whether somebody still waits for the result.
    """

    call: Callable[[Any], Any]
    arrays: Mapping[str, np.ndarray]
    size: Size
    key: Hashable = None
    future: futures.Future = dataclasses.field(default_factory=futures.Future)
    accepted: float = dataclasses.field(default_factory=time.perf_counter)
    seconds: tuple[float, float] = (0.0, 0.0)
    joined: int = 0
    is_wanted: bool = True


class Batcher:
    """A bounded queue of requests, and the threads that compute them.

    The oldest request is computed next, with those that are the most alike in length,
    so that little is padding. An error of several is looked for in each alone.

    Args:
        num_threads: requests, or groups of them, that are computed at a time.
        max_waiting: requests that may wait.
        max_tokens: of requests that are computed together, padding included.
        wait_seconds: that a request waits for others while fewer tokens are there.
        observe: called with the requests that were computed together.
    """

    def __init__(
        self,
        num_threads: int,
        max_waiting: int,
        max_tokens: int,
        wait_seconds: float = 0.0,
        observe: Callable[[Sequence[Work]], object] = lambda works: None,
    ):
        self._max_waiting, self._max_tokens = max_waiting, max_tokens
        self._wait_seconds, self._observe = wait_seconds, observe
        self._waiting: list[Work] = []  # the oldest first
        self._change = threading.Condition()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._compute_all, daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, work: Work) -> None:
        """Adds a request, whose `future` has the outputs or the error of `call`.

        Raises:
            Overloaded: too many wait.
        """
        with self._change:
            if len(self._waiting) >= self._max_waiting:
                raise Overloaded
            self._waiting.append(work)
            self._change.notify()

    def drop(self, work: Work) -> None:
        """Takes a request out of the queue, if it still waits; nobody wants it."""
        work.is_wanted = False
        with self._change:
            if work in self._waiting:
                self._waiting.remove(work)
        work.future.cancel()

    def close(self, seconds: float) -> bool:
        """Ends the threads after the requests that wait; whether they have ended."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _compute_all(self):
        while works := self._take():
            wanted = [w for w in works if w.future.set_running_or_notify_cancel()]
            if wanted:
                _compute(wanted)
                self._observe(wanted)

    def _take(self):
        with self._change:
            while True:
                self._change.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return []
                works = self._choose()
                tokens = sum(work.size.tokens for work in works)
                until = self._waiting[0].accepted + self._wait_seconds
                left = until - time.perf_counter()
                is_last = works[0].key is None or tokens >= self._max_tokens
                if left <= 0 or is_last or self._is_closed:
                    break
                self._change.wait(left)
            for work in works:
                self._waiting.remove(work)
            return works

    def _choose(self):
        """The oldest request, and those that fit to it."""
        oldest = self._waiting[0]
        if oldest.key is None:
            return [oldest]
        others = [work for work in self._waiting[1:] if work.key == oldest.key]
        others.sort(key=lambda work: abs(work.size.longest - oldest.size.longest))
        works, (rows, longest), tokens = [oldest], oldest.size, oldest.size.tokens
        for work in others:
            size = Size(rows + work.size.rows, max(longest, work.size.longest))
            own = tokens + work.size.tokens
            padding = size.tokens - own
            if size.tokens > self._max_tokens or padding > _PADDING + own / 4:
                break
            works.append(work)
            (rows, longest), tokens = size, own
        return works


def _compute(works):
    """Sets the results of requests of one key."""
    began = time.perf_counter()
    sizes = [work.size.rows for work in works]
    try:
        if len(works) == 1:
            parts = [works[0].call(works[0].arrays)]
        else:
            names = works[0].arrays
            arrays = {n: np.concatenate([w.arrays[n] for w in works]) for n in names}
            outputs = works[0].call(arrays)
            ends = np.cumsum(sizes)
            parts = [
                {name: array[end - size : end] for name, array in outputs.items()}
                for size, end in zip(sizes, ends, strict=True)
            ]
    except Exception as error:
        if len(works) > 1:
            for work in works:
                _compute([work])
        else:
            works[0].future.set_exception(error)
        return
    took = time.perf_counter() - began
    for work, part in zip(works, parts, strict=True):
        work.seconds, work.joined = (began - work.accepted, took), sum(sizes)
        work.future.set_result(part)
