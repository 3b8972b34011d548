"""Exceptions that end a run; only `main` exits the process, so notebooks survive."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

from absl import logging

from terminal import closed_pipes

WRONG_INPUT = 2
NOT_FINITE = 3
LOST_WORKER = 4
# After a signal, as shells have it: 128 and its number.
SIGNALLED = 128


class InputError(ValueError):
    """The user's input is wrong; the message says what, and the remedy."""


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
def of_input() -> Iterator[None]:
    """Raises InputError for every ValueError and OSError.

    For checks before the work; elsewhere such an error is a bug.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error


@contextlib.contextmanager
def of_writing() -> Iterator[None]:
    """Raises InputError for every OSError: what cannot be written after the checks.

    But for a BrokenPipeError, whose reader has what it wants.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(str(error)) from error


@contextlib.contextmanager
def named(explain: Callable[[Exception], str | None]) -> Iterator[None]:
    """Raises InputError for every exception of which `explain` has something to say.

    For files that turn out to be damaged, or missing, in the middle of the work.
    """
    try:
        yield
    except Exception as error:
        if not (said := explain(error)):
            raise
        raise InputError(said) from error


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """For `main`: turns an expected end into one line on stderr and an exit code."""
    try:
        yield
    except InputError as error:
        logging.debug("traceback", exc_info=True)
        text = " ".join(str(error).split("\n"))
        sys.stderr.write(f"error: {text}\n")
        raise SystemExit(WRONG_INPUT) from None
    except NotFinite as error:
        logging.error("%s", error)
        raise SystemExit(NOT_FINITE) from None
    except LostWorker as error:
        logging.error("%s", error)
        raise SystemExit(LOST_WORKER) from None
    except BrokenPipeError:  # nobody wants the rest
        raise SystemExit(closed_pipes.drop_output()) from None
    except Stopped as stopped:
        raise SystemExit(SIGNALLED + stopped.number) from None
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"\ninterrupted {interrupt}".rstrip() + "\n")
        raise SystemExit(SIGNALLED + signal.SIGINT) from None
