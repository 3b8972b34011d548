"""`python -m serving.search` in the process of a test."""

import contextlib
import io

from absl import flags

from cli import search_command, search_flags
from tests import tiny


@contextlib.contextmanager
def defined_flags():
    before = set(flags.FLAGS)
    search_flags.define()
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


def run(*arguments):
    """Runs the command; an exception that is no expected end passes through."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        defined_flags(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        left = flags.FLAGS(["serving.search", *map(str, arguments)])
        try:
            search_command.run(left)
        except SystemExit as error:
            code = error.code
    return tiny.Done(code or 0, out.getvalue(), err.getvalue())
