"""Refusals: one line with these parts, in this order."""

import re

import pytest
from absl import flags

from contract import errors
from tests import tiny


def refused(*parts):
    line = "[^\n]*".join(map(re.escape, parts))
    return pytest.raises(ValueError, match=f"^[^\n]*{line}[^\n]*$")


def line_of(program, *arguments):
    """The line with which a command ends before it begins, or "" where it begins."""
    try:
        tiny.settings_of(program, *arguments).check()
    except (errors.InputError, flags.IllegalFlagValueError) as error:
        return str(error)
    return ""
