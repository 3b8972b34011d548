"""Settings of servers: keys of the environment, limits and their bounds."""

import re

import pytest

from contract import errors
from serving.server import limits
from tasks.settings import server as server_settings
from tests import tiny
from tests.refusals import refused


@pytest.fixture
def read(monkeypatch):
    """The checked settings of arguments, and of variables of the environment."""

    def read(*arguments, **environment):
        for name in (server_settings.KEY_VARIABLE, server_settings.METRICS_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings = tiny.settings_of("run_predictor", *arguments)
        settings.check()
        return settings

    return read


@pytest.mark.parametrize("name", ["BERT_API_KEY", "BERT_METRICS_KEY"])
@pytest.mark.parametrize("key", ["", " ", "k1\n", "k 1", "sécret", "k1\t", "k1\x7f"])
def test_key_that_no_client_could_send_is_refused(name, key, read):
    with pytest.raises(errors.InputError) as caught:
        read(**{name: key})
    text = str(caught.value)
    assert re.match(f"{name} is empty, or has spaces, line ends", text)
    assert "\n" not in text and (not key.strip() or key.strip() not in text)
    read(**{name: "k-1!~"})


def test_limits_are_settings(read):
    assert read().limits() == limits.Limits()
    given = read("--max_top_k=7", "--request_seconds=0.5").limits()
    assert given == limits.Limits()._replace(max_top_k=7, request_seconds=0.5)
    kind = tiny.settings_class("run_predictor")
    assert kind(max_top_k=7).limits().max_top_k == 7
    for name, value in limits.Limits()._asdict().items():
        least = 0 if isinstance(value, float) else 1
        assert getattr(kind(**{name: least}), name) == least
        with refused(f"--{name}={type(value)(least - 1)} is below {least}; give anoth"):
            kind(**{name: type(value)(least - 1)})
