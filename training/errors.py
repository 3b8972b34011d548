"""What a person is told where a script ends early: one line, and an exit code."""

import contextlib
import sys

from absl import logging

# Exit code after Ctrl-C, as shells have it: 128 and the number of the signal.
INTERRUPTED = 130


@contextlib.contextmanager
def one_line_errors():
    """Turns what is wrong with the input into one line on standard error, exit code 2.

    For the checks before the work: a ValueError or OSError there is the user's input,
    later it is our mistake and keeps its traceback. Ctrl-C is one line, too.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"\ninterrupted {interrupt}".rstrip() + "\n")
        raise SystemExit(INTERRUPTED) from None
    except (ValueError, OSError) as error:
        logging.debug("traceback", exc_info=True)
        text = " ".join(str(error).split("\n"))
        sys.stderr.write(f"error: {text}\n")
        raise SystemExit(2) from None
