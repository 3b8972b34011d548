"""How a server is reached: keys of the environment, and its address."""

from typing import Any, NamedTuple

import pytest

from serving.server import app, process, service
from tasks import prediction, serving
from tests import tiny


class Made(NamedTuple):
    """What an application is made of."""

    server: service.Service
    answers: dict[str, Any]
    access: app.Access
    log: str


@pytest.fixture
def serve(monkeypatch):
    """What is made of settings, and of variables of the environment."""
    made = []
    monkeypatch.setattr(app, "App", lambda *parts: made.append(Made(*parts)))
    monkeypatch.setattr(process, "run", lambda *_: process.Outcome(0, True))

    def serve(*arguments, **environment):
        for name in (serving.KEY_VARIABLE, serving.METRICS_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings = tiny.settings_of("run_predictor", "--port=0", *arguments)
        serving.serve(settings, lambda *_: None, lambda _: {})
        return made.pop()

    return serve


def test_keys_come_from_the_environment(serve, capsys):
    access = serve(BERT_API_KEY="k-1!~", BERT_METRICS_KEY="m").access
    assert (access.key, access.metrics_key) == ("k-1!~", "m")
    assert serve().access[-2:] == ("", "")
    assert capsys.readouterr().out == "stopped\nstopped\n"


def test_limits_hosts_and_log_are_those_of_the_settings(serve):
    arguments = "--max_top_k=7 --allowed_hosts=A.example,b --cors_origins=c"
    made = serve(*arguments.split(), "--access_log=json")
    assert made.server.limits.max_top_k == 7 and made.log == "json"
    assert made.access.hosts == {"127.0.0.1", "a.example", "b"}
    assert made.access.origins == {"c"}


def test_address_is_opened_for_a_server_alone(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(prediction, "run", lambda *_, door: opened.append(door))
    place = f"--export_dir={tmp_path}"
    assert tiny.run_program("run_predictor", place, "a text", "--port=0").code == 0
    assert opened.pop() is None
    assert tiny.run_program("run_predictor", place, "--serve", "--port=0").code == 0
    with opened.pop().hand_over() as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        done = tiny.run_program("run_predictor", place, "--serve", f"--port={port}")
    assert done.code == 2 and f"--port={port}: cannot listen there" in done.err
    assert opened == []
