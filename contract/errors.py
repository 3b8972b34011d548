"""Ends of a program: one line and an exit code, or a traceback.

Only `main` exits the process, through `explained`, so notebooks survive.
"""

import contextlib
import importlib.util
import numbers
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator

from absl import logging

WRONG_INPUT = 2
NOT_FINITE = 3
LOST_WORKER = 4
# After a signal, as shells have it: 128 and its number.
SIGNALLED = 128
# A scheduler, a terminal that closes, and Ctrl-C ask a program to stop.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_heard: list[int] = []  # of these, once `heed` was called for them


class InputError(ValueError):
    """A check refuses the user's input; the message has the value and the remedy.

    Only checks raise it, so that a ValueError of a library keeps its traceback.
    """


def refuse(*rows: tuple[object, str]) -> None:
    """Raises InputError with the text of the first row whose condition holds."""
    for is_wrong, text in rows:
        if is_wrong:
            raise InputError(text)


def check_installed(user: str, *modules: str) -> None:
    """Raises InputError where a module that `user` needs is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(missing).replace("_", "-")
        raise InputError(
            f"{user} needs packages that are not installed: pip install {names}"
        )


def check_count(name: str, value: object) -> None:
    """Raises InputError for what is no whole number of 1 or more."""
    if not isinstance(value, numbers.Integral) or value < 1:
        raise InputError(f"{name}={value!r:.40} is no whole number of 1 or more")


class NotFinite(FloatingPointError):
    """A loss, a gradient or a loss scale from which training cannot continue."""


class LostWorker(RuntimeError):
    """Another process of the run is gone."""


class Stopped(Exception):
    """Signal `number` (SIGTERM if another process's) asked to stop; all is saved."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def named(explain: Callable[[Exception], str | None]) -> Iterator[None]:
    """Raises InputError for every exception that `explain` has a message for.

    For files that turn out to be damaged, or missing, in the middle of the work.
    """
    try:
        yield
    except Exception as error:
        if not (message := explain(error)):
            raise
        raise InputError(message) from error


def is_ignored(number: int) -> bool:
    """Whether a signal is to have no effect, as SIGHUP under nohup."""
    return signal.getsignal(number) is signal.SIG_IGN


def heed(numbers: Iterable[int]) -> None:
    """Has signals raise KeyboardInterrupt; `explained` ends with their exit code."""
    for number in numbers:
        if not is_ignored(number):
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: object) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """For `main`: turns an expected end into one line on stderr and an exit code.

    Expected are a refused input, a file that cannot be read or written (OSError), and
    the exceptions above. With --verbosity=1 their tracebacks are printed as well.
    """
    try:
        try:
            yield
        except Exception:
            if not _heard:
                raise
        except SystemExit:
            sys.stdout.flush()
            raise
        # Where TensorFlow traces, it makes another error of the signal, or drops it.
        if _heard:
            raise KeyboardInterrupt
        sys.stdout.flush()  # as the interpreter would, whose error names no place
    except BrokenPipeError:  # the reader has all it wants
        raise SystemExit(drop_output()) from None
    except (InputError, OSError) as error:
        logging.debug("traceback", exc_info=True)
        text = " ".join(f"{_output(error)}{error}".split("\n"))
        sys.stderr.write(f"error: {text}\n")
        raise SystemExit(WRONG_INPUT) from None
    except NotFinite as error:
        logging.error("%s", error)
        raise SystemExit(NOT_FINITE) from None
    except LostWorker as error:
        logging.error("%s", error)
        raise SystemExit(LOST_WORKER) from None
    except Stopped as stopped:
        raise SystemExit(SIGNALLED + stopped.number) from None
    except KeyboardInterrupt as interrupt:
        number = _heard[0] if _heard else signal.SIGINT
        name = signal.Signals(number).name
        end = "interrupted" if name == "SIGINT" else f"stopped by {name}"
        sys.stderr.write(f"\n{end} {interrupt}".rstrip() + "\n")
        raise SystemExit(SIGNALLED + number) from None


def _output(error: Exception) -> str:
    """The place of an OSError without a file, if standard output is that."""
    if not isinstance(error, OSError) or not error.errno or error.filename:
        return ""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
        return "standard output: "
    return ""


def drop_output() -> int:
    """After a failed write: the interpreter must not flush standard output again.

    Returns the exit code of a program that such a signal ends.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return SIGNALLED + signal.SIGPIPE
