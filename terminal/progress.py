"""How far a long piece of work is: a bar on a terminal, lines now and then elsewhere.

The innermost piece of work has the one bar; lines of text go above it. Work that ends
within a second has none.
"""

import contextlib
import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import tqdm

Item = TypeVar("Item")
# Seconds between two states of a bar, and between two lines in a file.
_BAR_SECONDS = 0.2
_FILE_SECONDS = 10.0
_SHORT_SECONDS = 1.0  # work that takes less is not worth a bar
_BAR_CELLS = 8  # of the bar at least, before texts beside it are left out
_FORMAT = "{desc} {percentage:3.0f} %|{bar}| {n}/{total}{beside}"
_PERCENT_CELLS = len(" 100 %|| /")
_ERASE_LINE = "\r\x1b[K"
# Bars on the terminal, the innermost last.
_open: list["Progress"] = []
_is_hidden = False


def is_terminal(stream: Any) -> bool:
    """Whether a person reads the stream, and its last line can be written again."""
    return (
        stream.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
        and not os.environ.get("CI")
    )


def track(
    items: Iterable[Item], total: int, name: str, **options: Any
) -> Iterator[Item]:
    """Yields items and reports each when the next is taken; see Progress."""
    with Progress(name, **options) as report:
        report(0, total)
        items = with_first_named(items, f"{name} 1/{total}", **options)
        for done, item in enumerate(items, start=1):
            yield item
            report(done, total)


def with_first_named(
    items: Iterable[Item], name: str, stream: Any = None
) -> Iterator[Item]:
    """Yields items; `waiting` for the first, which may have to compile."""
    iterator = iter(items)
    with waiting(name, stream):
        yield from itertools.islice(iterator, 1)
    yield from iterator


def slices(total: int, size: int, name: str, **options: Any) -> Iterator[slice]:
    """Yields slices of `size` rows, up to `total`, and reports the rows done."""
    with Progress(name, **options) as report:
        for start in range(0, total, size):
            report(start, total)
            yield slice(start, min(start + size, total))
        report(total, total)


def hide() -> None:
    """Shows no progress in this process, one of several that do the same work."""
    global _is_hidden
    _is_hidden = True


def say(text: str, stream: Any = None) -> None:
    """Writes a line to standard error, above the bar if there is one."""
    stream = stream or sys.stderr
    if _open:
        _open[-1].erase()
    stream.write(text + "\n")
    stream.flush()
    if _open:
        _open[-1].put_back()


@contextlib.contextmanager
def waiting(name: str, stream: Any = None) -> Iterator[None]:
    """Writes `name ...` if its block is not done after ten seconds.

    It starts a thread, so no process may be forked in the block.
    """

    def explain() -> None:
        if not _is_hidden:
            say(f"{name} ...", stream)

    timer = threading.Timer(_FILE_SECONDS, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """Shows how far a piece of work is, from the first report until it is closed.

    Args:
        name: the work and its unit, such as "writing: task".
        stays: whether the last state is shown whatever the time, and left there.
        stream: None for standard error.
    """

    def __init__(self, name: str, *, stays: bool = False, stream: Any = None):
        self._name, self._stays = name, stays
        self._stream = stream or sys.stderr
        self._is_bar = is_terminal(self._stream)
        self._begin: int | None = None  # units of the first report
        # Time, units and counts of the first report that has advanced. Traces, and what
        # else is made ready once, took the time before: it is not in the speed.
        self._since: tuple[float, int, dict[str, int]] | None = None
        self._due = 0.0  # time of the next state
        self._bar = ""  # on the terminal

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self, done: int, total: int | None, *texts: str, **counts: int
    ) -> None:
        """Reports `done` of `total` units, if due; the first report's took no time.

        A total of None is not known yet.

        Texts are shown beside it, and counts with how many there are a second.
        """
        if _is_hidden:
            return
        now = time.monotonic()
        if self._begin is None:
            self._begin = done
            self._due = now + (_SHORT_SECONDS if self._is_bar else _FILE_SECONDS)
            if self._is_bar:
                if _open:
                    _open[-1].erase()
                _open.append(self)
        elif self._since is None and done > self._begin:
            self._since = (now, done, counts)
        is_first_bar = self._is_bar and not self._bar
        is_last = total is not None and done >= total
        if now < self._due and not (self._stays and (is_first_bar or is_last)):
            return
        self._due = now + (_BAR_SECONDS if self._is_bar else _FILE_SECONDS)
        beside = [*self._pace(now, done, total), *texts, *self._rates(now, counts)]
        if self._is_bar:
            self._bar = self._drawn(done, total, beside)
            self.put_back()
            return
        share = "" if total is None else f"/{total} ({100 * done // (total or 1)} %)"
        self._stream.write("  ".join([f"{self._name} {done}{share}", *beside]) + "\n")
        self._stream.flush()

    def _pace(self, now: float, done: int, total: int | None) -> list[str]:
        """The speed and the time left, as far as they are known."""
        rate = 0.0
        if self._since and now > self._since[0]:
            rate = (done - self._since[1]) / (now - self._since[0])
        speed = [_speed(rate)] if rate else []
        if total is None:
            return speed
        left = "--:--"
        if rate or done >= total:
            left = tqdm.tqdm.format_interval(round((total - done) / (rate or 1)))
        return [*speed, f"{left} left"]

    def _rates(self, now: float, counts: dict[str, int]) -> list[str]:
        if not self._since or now == self._since[0]:
            return [f"{count} {name}" for name, count in counts.items()]
        began, _, first = self._since
        return [
            f"{count} {name}, {(count - first.get(name, 0)) / (now - began):.0f}/s"
            for name, count in counts.items()
        ]

    def _drawn(self, done: int, total: int | None, texts: list[str]) -> str:
        """The bar, as wide as the terminal is now, with the texts there is room for."""
        columns = _width(self._stream) - 1  # a full line would be wrapped by some
        room = columns - len(f"{self._name}{done}{total or ''}")
        room -= 1 if total is None else _PERCENT_CELLS + _BAR_CELLS
        beside = ""
        for text in texts:
            if len(beside) + 2 + len(text) > room:
                break
            beside += f"  {text}"
        if total is None:
            return f"{self._name} {done}{beside}"
        meter = tqdm.tqdm.format_meter(
            *(done, total, 0),
            ncols=columns,
            prefix=self._name,
            ascii="utf" not in (self._stream.encoding or "").lower(),
            bar_format=_FORMAT,
            beside=beside,
        )
        return str(meter)

    def erase(self) -> None:
        """Takes the bar from its line, for a line of text."""
        if self._bar:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()

    def put_back(self) -> None:
        """Shows the last state of the bar."""
        if self._bar:
            self._stream.write(_ERASE_LINE + self._bar)
            self._stream.flush()

    def close(self) -> None:
        """Takes the bar away, or ends its line if it stays."""
        if self not in _open:
            return
        is_innermost = _open[-1] is self
        if not (is_innermost and self._stays):
            _open[-1].erase()
        del _open[_open.index(self) :]  # an exception left those inside open
        if self._stays:
            if not is_innermost:
                self.put_back()
            self._stream.write("\n")
            self._stream.flush()
        elif _open:
            _open[-1].put_back()


def _width(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:  # of a test
        return shutil.get_terminal_size().columns


def _speed(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"
