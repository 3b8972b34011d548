"""Refusals: one line with these parts, in this order."""

import re

import pytest


def refused(*parts):
    line = "[^\n]*".join(map(re.escape, parts))
    return pytest.raises(ValueError, match=f"^[^\n]*{line}[^\n]*$")
