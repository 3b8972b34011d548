"""How far a long piece of work is: tqdm's bar on a terminal, lines elsewhere.

Lines of text go above the bars. Work that ends within a second has none.
"""

import contextlib
import itertools
import os
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
_GAP = "  "  # between numbers
_BAR = "{desc} {percentage:3.0f} %|{bar}| {n}/{total}  {rate_noinv_fmt}  {remaining} "
_BAR += "left{postfix}"
_BAR_WITHOUT_TOTAL = "{desc} {n}  {rate_noinv_fmt}{postfix}"
_is_hidden = False
tqdm.tqdm.monitor_interval = 0  # no thread, since processes are forked


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


def print_line(text: str, stream: Any = None) -> None:
    """Writes a line to standard error, above the bars if there are any."""
    stream = stream or sys.stderr
    tqdm.tqdm.write(text, file=stream)
    stream.flush()


@contextlib.contextmanager
def waiting(name: str, stream: Any = None) -> Iterator[None]:
    """Writes `name ...` if its block is not done after ten seconds.

    It starts a thread, so no process may be forked in the block.
    """

    def explain() -> None:
        if not _is_hidden:
            print_line(f"{name} ...", stream)

    timer = threading.Timer(_FILE_SECONDS, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Bar(tqdm.tqdm):
    """Leaves out the last numbers where it would be below ten columns."""

    def __str__(self) -> str:
        line = self.format_dict
        width = line.pop("ncols")  # without it a bar has ten columns
        while width and line["postfix"] and len(self.format_meter(**line)) > width:
            line["postfix"] = line["postfix"].rpartition(_GAP)[0]
        return self.format_meter(**line, ncols=width)


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
        self._bar: _Bar | None = None
        self._begin: int | None = None  # units of the first report
        # Time, units and counts of the first report that has advanced. Traces, and what
        # else is made ready once, took the time before: it is not in the speed.
        self._since: tuple[float, int, dict[str, int]] | None = None
        self._due = 0.0  # time of the next line

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self, done: int, total: int | None, *texts: str, **counts: int
    ) -> None:
        """Reports `done` of `total` units, if due; None for a total that is not known.

        Texts are shown beside it, and counts with how many there are a second.
        """
        if _is_hidden:
            return
        now = time.monotonic()
        if self._begin is None:
            self._begin, self._due = done, now + _FILE_SECONDS
            if is_terminal(self._stream):
                self._bar = self._open_bar(done, total)
        elif self._since is None and done > self._begin:
            self._since = now, done, counts
            if self._bar is not None:
                self._bar.initial, self._bar.start_t = done, time.time()
        beside = [*texts, *self._rates(now, counts)]
        if self._bar is not None:
            self._bar.total = total
            self._bar.set_postfix_str(_GAP.join(beside), refresh=False)
            self._bar.update(done - self._bar.n)
            return
        is_last = total is not None and done >= total
        if now < self._due and not (self._stays and is_last):
            return
        self._due = now + _FILE_SECONDS
        share = "" if total is None else f"/{total} ({100 * done // (total or 1)} %)"
        parts = [f"{self._name} {done}{share}", *self._pace(now, done, total), *beside]
        self._stream.write("  ".join(parts) + "\n")
        self._stream.flush()

    def _open_bar(self, done: int, total: int | None) -> _Bar:
        return _Bar(
            desc=self._name,
            initial=done,
            total=total,
            unit="",
            file=self._stream,
            leave=self._stays,
            delay=0 if self._stays else _SHORT_SECONDS,
            mininterval=_BAR_SECONDS,
            miniters=1,
            smoothing=0,  # the mean speed
            dynamic_ncols=True,
            bar_format=_BAR_WITHOUT_TOTAL if total is None else _BAR,
        )

    def _pace(self, now: float, done: int, total: int | None) -> list[str]:
        """The speed and the time left, as far as they are known."""
        rate = 0.0
        if self._since and now > self._since[0]:
            rate = (done - self._since[1]) / (now - self._since[0])
        speed = [f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"] if rate else []
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

    def close(self) -> None:
        """Takes the bar away, or ends its line if it stays."""
        if self._bar is not None:
            if (
                not self._stays
            ):  # tqdm leaves a bar that a line has drawn before its delay
                self._bar.clear()
            self._bar.close()
