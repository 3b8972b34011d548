"""Serves an export, or an index of texts, over HTTP until stopped."""

import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable, Mapping

from contract import errors, tf_serving
from serving import export, formats, predictor
from serving.protocol import servables, version_polling
from serving.server import app, doors, process, service, tasks, tei
from tasks.settings.server import KEY_VARIABLE, METRICS_VARIABLE, Server
from terminal import progress

_SLOW_SECONDS = 2  # of loading, after which a line names what is loaded


def serve_export(
    settings: Server, export_dir: str, model_name: str, door: doors.Door | None = None
) -> None:
    """Serves the newest version of an export, and those that come."""
    predictor.find_version(export_dir)

    def load(server: service.Service, address: str) -> None:
        version_dir, newest_dir, server.model = _load_newest(export_dir, model_name)
        place = f"{address}/v1/models/{model_name}"
        _announce(
            version_dir, f"{place}:predict", _example_request(server.model, place)
        )

        def replace(version_dir: str) -> None:
            server.model = _load(version_dir, model_name)

        newest = functools.partial(predictor.newest_version, export_dir)
        poller = version_polling.Poller(version_dir, newest, replace, seen=newest_dir)
        poller.start()

    serve(settings, load, _answers, door)


def _answers(server):
    return {**tasks.of_models(server), **tei.of_models(server)}


def serve_index(
    settings: Server,
    index_dir: str,
    open_index: Callable[[], tasks.Search],
    count_rows: Callable[[int], int],
    door: doors.Door | None = None,
) -> None:
    """Serves searches; `open_index` loads the index and the model of queries.

    `count_rows` is as in tasks.of_index.
    """
    index: list[tasks.Search] = []

    def load(_: service.Service, address: str) -> None:
        index.append(open_index())
        place = f"{address}{tasks.SEARCH}"
        body = json.dumps({"query": "a text", "top_k": 3})
        _announce(index_dir, place, f"curl -d '{body}' {place}")

    def answers(server: service.Service) -> Mapping[str, app.Route]:
        return tasks.of_index(server, lambda *query: index[0](*query), count_rows)

    serve(settings, load, answers, door)


def serve(
    settings: Server,
    load: Callable[[service.Service, str], None],
    answers: Callable[[service.Service], Mapping[str, app.Route]],
    door: doors.Door | None = None,
) -> None:
    """Answers until stopped; `load` prints the address when it is done.

    `door` is the address where it is open already.
    """
    server = service.Service(settings.limits())
    access = app.Access(
        {name.lower() for name in (settings.host, *settings.allowed_hosts)},
        {*settings.cors_origins},
        os.environ.get(KEY_VARIABLE, ""),
        os.environ.get(METRICS_VARIABLE, ""),
    )
    application = app.App(server, answers(server), access, settings.access_log)
    place = settings.host, settings.port
    with door.hand_over() if door else doors.listen(*place) as listener:
        address = doors.address(listener)
        outcome = process.run(application, listener, lambda: load(server, address))
    lost = outcome.num_unanswered
    print(f"stopped; not answered: {lost}" if lost else "stopped", flush=True)
    if lost or not outcome.is_idle:  # no thread may compute while Python ends
        os._exit(1 if lost else 0)


def _announce(directory, place, example):
    with contextlib.suppress(OSError):  # the server answers whoever reads this
        print(f"serving {directory} at {place}; Ctrl-C ends")
        print(f"for example: {example}", flush=True)


def _load_newest(export_dir, model_name):
    """The newest version that can be loaded, the newest there is, and a Model."""
    versions = export.versions(export_dir)
    paths = [versions[number] for number in sorted(versions, reverse=True)]
    for path in paths[:-1]:
        try:
            return path, paths[0], _load(path, model_name)
        except errors.InputError as error:
            progress.print_line(f"{error}; trying the version before")
    path = predictor.find_version(paths[-1] if paths else export_dir)
    return path, paths[0] if paths else path, _load(path, model_name)


def _load(version_dir, model_name):
    text = f"loading and warming up {version_dir} ..."
    notice = threading.Timer(_SLOW_SECONDS, progress.print_line, (text,))
    notice.start()
    try:
        version = formats.open_version(version_dir)
        has_texts = tf_serving.DEFAULT_SIGNATURE in version.text_signatures()
        labels = predictor.read_labels(version_dir, version) if has_texts else ()
        servables.warm(version, version_dir)
    finally:
        notice.cancel()
    number = servables.number(version_dir)
    return servables.Model(model_name, {number: version}, labels)


def _example_request(model, place):
    """A command that sends the model a text, to be copied."""
    names = model.version(model.name).text_signatures()
    inputs = names.get(tf_serving.DEFAULT_SIGNATURE)
    if not inputs:
        return f"curl {place}/metadata"
    texts = {name: "a text" if n == 1 else ["a text"] * n for name, n in inputs.items()}
    return f"curl -d '{json.dumps({'instances': [texts]})}' {place}:predict"
