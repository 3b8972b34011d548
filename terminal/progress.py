"""How far a long piece of work is: a bar on a terminal, lines now and then elsewhere.

The innermost piece of work has the one bar; lines of text go above it. Work that ends
within a second has none.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import tqdm

Item = TypeVar("Item")
# Seconds between two states of a bar, and between two lines in a file.
_BAR_SECONDS = 0.2
_FILE_SECONDS = 10.0
_SHORT_SECONDS = 1.0  # work that takes less is not worth a bar
_BAR_CELLS = 10  # of the bar at least, before texts beside it are left out
_FORMAT = "{desc} {percentage:3.0f} %|{bar}| {n}/{total}{beside}"
_FORMAT_OF_UNKNOWN = "{desc} {n}{beside}"  # where nobody knows the total
_PERCENT_CELLS = len(" 100 %|| /")
# Bars on the terminal, the innermost last.
_open: list["_Bar"] = []
_is_hidden = False


def is_terminal(stream: Any) -> bool:
    """Whether a stream is for a person, and its last line can be written again."""
    return (
        stream.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
        and not os.environ.get("CI")
    )


def track(
    items: Iterable[Item], total: int, name: str, **options: Any
) -> Iterator[Item]:
    """Yields items and reports each when the next is asked for; see Progress."""
    with Progress(name, **options) as report:
        report(0, total)
        for done, item in enumerate(items, start=1):
            yield item
            report(done, total)


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
        _open[-1].clear()
    stream.write(text + "\n")
    stream.flush()
    if _open:
        _open[-1].put_back()


class Progress:
    """Shows how far a piece of work is, from the first report until it is closed.

    Args:
        name: the work and its unit, such as "writing: task".
        stays: whether the last state is shown whatever the time, and left there.
        stream: None for standard error.
    """

    def __init__(
        self,
        name: str,
        *,
        stays: bool = False,
        stream: Any = None,
    ):
        self._name, self._stays = name, stays
        self._stream = stream or sys.stderr
        self._bar: _Bar | None = None
        self._first: tuple[int, dict[str, int]] | None = None
        self._started = self._last_line = 0.0

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
        if self._first is None:
            self._first = (done, counts)
            self._started = self._last_line = time.monotonic()
            if is_terminal(self._stream):
                self._bar = _Bar(self._name, done, total, self._stream, self._stays)
        if self._bar is not None:
            if self._bar.is_due(is_last=self._is_last(done, total)):
                texts = (*texts, *self._rates(counts))
                self._bar.show(done, total, texts)
            return
        now = time.monotonic()
        if now - self._last_line < _FILE_SECONDS and not self._is_last(done, total):
            return
        self._last_line = now
        seconds, new = now - self._started, done - self._first[0]
        if total is None:
            share = f"{self._name} {done}"
            pace = _speed(new / max(seconds, 1e-9))
        else:
            left = seconds / new * (total - done) if new else 0.0
            share = f"{self._name} {done}/{total} ({100 * done // (total or 1)} %)"
            pace = f"{_clock(left)} left"
        self._stream.write(
            "  ".join((share, *texts, *self._rates(counts), pace)) + "\n"
        )
        self._stream.flush()

    def _is_last(self, done, total):
        return self._stays and total is not None and done >= total

    def _rates(self, counts: dict[str, int]) -> list[str]:
        assert self._first is not None
        seconds = max(time.monotonic() - self._started, 1e-9)
        return [
            f"{count} {name}, {(count - self._first[1].get(name, 0)) / seconds:.0f}/s"
            for name, count in counts.items()
        ]

    def close(self) -> None:
        """Takes the bar away, or ends its line if it stays."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Bar(tqdm.tqdm):
    """A bar in the last line of a terminal, as wide as that is at the time."""

    n: int  # units done
    monitor_interval = 0  # no thread of tqdm: processes are forked beside a bar

    def __init__(self, name, done, total, stream, stays):
        if _open:
            _open[-1].clear()
        self._texts: tuple[str, ...] = ()
        self._is_due_at = 0.0
        self._counted_from: tuple[int, float] | None = None  # units and time
        super().__init__(
            desc=name,
            initial=done,
            total=total,
            file=stream,
            leave=stays,
            position=0,
            delay=0 if stays else _SHORT_SECONDS,
            mininterval=0,  # is_due decides
            miniters=0,
            bar_format=_FORMAT if total is not None else _FORMAT_OF_UNKNOWN,
        )
        self._began = time.time()
        _open.append(self)

    def is_due(self, *, is_last: bool) -> bool:
        """Whether it is time to show the next state."""
        now = time.monotonic()
        if now < self._is_due_at and not is_last:
            return False
        self._is_due_at = now + _BAR_SECONDS
        return True

    def show(self, done: int, total: int | None, texts: tuple[str, ...]) -> None:
        """Shows a state, unless the work is young.

        The first one that has advanced is not counted in the speed: a trace and what
        else is made ready for all of them took its time.
        """
        if self.disable:  # TQDM_DISABLE is set
            return
        self.total, self._texts = total, texts
        if self._counted_from or done == self.initial:
            self.update(done - self.n)
            return
        now = time.time()
        self._counted_from = (done, now)
        self.n = self.last_print_n = done
        self.last_print_t = now
        self._refresh_if_shown()

    def put_back(self, seconds: float = 0.0) -> None:
        """Shows the bar again, after so many seconds of other work."""
        if self.disable:
            return
        self.start_t += seconds
        self.last_print_t += seconds
        if self._counted_from:
            done, since = self._counted_from
            self._counted_from = (done, since + seconds)
        self._refresh_if_shown()

    def _refresh_if_shown(self):
        if self.last_print_t >= self.start_t + self.delay:
            self.refresh()

    def close(self):
        """Gives the line back to the bar outside."""
        super().close()
        is_open = [bar is self for bar in _open]  # tqdm's == compares places
        if any(is_open):
            del _open[is_open.index(True)]
            if _open:
                _open[-1].put_back(time.time() - self._began)

    @property
    def format_dict(self):
        """What tqdm shows, with speed, time left, and the texts there is room for."""
        self.ncols = _width(self.fp) - 1  # a full line would be wrapped by some
        found = super().format_dict
        rate = found["rate"]  # of late; None at the end, which has that of all
        if self._counted_from and not rate:
            done, since = self._counted_from
            # Up to the last state: what came after was other work.
            rate = (self.n - done) / max(self.last_print_t - since, 1e-9)
        texts = [*self._texts]
        if rate:
            texts = [_speed(rate)]
            if self.total is not None:
                texts.append(f"{_clock((self.total - self.n) / rate)} left")
            texts += self._texts
        room = self.ncols - len(self.desc) - len(f"{self.n}{self.total or ''}")
        room -= _PERCENT_CELLS + _BAR_CELLS if self.total is not None else 1
        beside = ""
        for text in texts:
            if len(beside) + 2 + len(text) > room:
                break
            beside += f"  {text}"
        return {**found, "beside": beside}


def _width(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:  # of a test
        return shutil.get_terminal_size().columns


def _speed(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


def _clock(seconds: float) -> str:
    minutes, whole_seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{whole_seconds:02}"
    return f"{minutes}:{whole_seconds:02}"
