"""A stand-in for the parsed command line."""

import types

import pytest

from cli import (
    device_flags,
    device_setup,
    feature_flags,
    fine_tuning_flags,
    model_flags,
    run_flags,
    training_flags,
)

READERS = (
    *(training_flags, device_flags, device_setup),
    *(feature_flags, fine_tuning_flags, model_flags, run_flags),
)


class CommandLine(dict):
    """Flag values as attributes, and as flags by name, like absl's FLAGS."""

    def __getattr__(self, name):
        return self[name].value


@pytest.fixture
def command_line(monkeypatch):
    def give(present=(), **values):
        line = CommandLine(
            {
                name: types.SimpleNamespace(value=value, present=name in present)
                for name, value in values.items()
            }
        )
        for module in READERS:
            monkeypatch.setattr(module, "FLAGS", line)

    return give
