"""Standard output that nobody reads any more, as after `| head`."""

import os
import signal
import sys


def drop_output() -> int:
    """After a BrokenPipeError: the interpreter must not flush again.

    Returns the exit code of a program that such a signal ends.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
