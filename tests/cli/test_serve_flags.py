"""Tests of cli/serve_flags.py: keys of the environment, limits by flag."""

import re

import pytest
from absl import flags

from cli import serve_command, serve_flags
from contract import errors


@pytest.fixture
def serve(monkeypatch):
    """The Options of arguments, and of variables of the environment."""
    before = set(flags.FLAGS)
    serve_flags.define()

    def read(*arguments, **environment):
        for name in (serve_flags.KEY_VARIABLE, serve_flags.METRICS_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        flags.FLAGS(["serve", *arguments])
        serve_flags.check()
        return serve_command.read_flags()

    yield read
    for name in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, name)


def test_keys_come_from_the_environment(serve):
    access = serve(BERT_API_KEY="k-1!~", BERT_METRICS_KEY="m").access
    assert (access.key, access.metrics_key) == ("k-1!~", "m")
    assert serve().access[-2:] == ("", "")


@pytest.mark.parametrize("name", ["BERT_API_KEY", "BERT_METRICS_KEY"])
@pytest.mark.parametrize("key", ["", " ", "k1\n", "k 1", "sécret", "k1\t", "k1\x7f"])
def test_key_that_no_client_could_send_is_refused(name, key, serve):
    with pytest.raises(errors.InputError) as caught:
        serve(**{name: key})
    text = str(caught.value)
    assert re.match(f"{name} is empty, or has spaces, line ends", text)
    assert "\n" not in text and (not key.strip() or key.strip() not in text)


def test_limits_are_flags(serve):
    assert serve().bounds.max_top_k == 100
    assert serve("--max_top_k=7").bounds.max_top_k == 7
    with pytest.raises(flags.IllegalFlagValueError, match="max_top_k=0"):
        serve("--max_top_k=0")


def test_address_is_opened_for_a_server_alone(serve):
    assert serve("--port=0").door is None
    serve_flags.open_door()
    assert serve().door is None
    try:
        serve("--serve", "--port=0")
        serve_flags.open_door()
        door = serve("--serve", "--port=0").door
        assert door is serve_flags.door
        with door.hand_over() as listener:
            assert listener.getsockname()[0] == "127.0.0.1"
    finally:
        serve_flags.door = None
