"""Parameters of tests, of which some run every day and the others with `-m slow`."""

import pytest


def params(values, is_daily):
    """The parameters of a test: each a value, or a tuple of values of several names."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else [value]),
            marks=[] if is_daily(value) else [pytest.mark.slow],
        )
        for value in values
    ]
