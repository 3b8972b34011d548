"""Tests of serving/predictor.py as a program: a stream of lines, and over HTTP."""

import concurrent.futures
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import weakref

import pytest
import tensorflow as tf

from cli import predict_command
from contract import errors, file_names
from serving import answers, export, predictor, streaming
from serving.protocol import http_server, servables, version_polling

ROOT = pathlib.Path(export.__file__).parents[1]
WAIT_SECONDS = 60


def save(folder, short="short", long="long"):
    """Exports a classifier that says how long a text is, in these words."""

    def classify(text):
        size = tf.strings.length(text)
        longer = tf.cast(size > 3, tf.float32)
        best = tf.gather(tf.constant([short, long]), tf.cast(longer, tf.int32))
        return {"probabilities": tf.stack([1 - longer, longer], -1), "label": best}

    function = export.text_function(classify, "text")
    module = export.ServedModel([], serving_default=function)
    files = {file_names.LABEL_MAP: json.dumps({"0": short, "1": long})}
    return export.save(module, str(folder), files)


@pytest.fixture(scope="module")
def export_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes") / "export"
    save(folder)
    return str(folder)


def test_export_begins_with_a_line(tmp_path, capsys):
    path = save(tmp_path / "export")
    assert capsys.readouterr().err == f"exporting {path} ...\n"


LONG = {"label": "long", "probabilities": {"short": 0.0, "long": 1.0}}
SHORT = {"label": "short", "probabilities": {"short": 1.0, "long": 0.0}}


def written(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_file_is_answered_line_by_line(export_dir, tmp_path, capsys):
    given, answers = tmp_path / "in.jsonl", tmp_path / "new" / "out.jsonl"
    given.write_bytes(b'{"id": 1, "text": "a"}\n"\xc3\xa9 long"\nnone\n"b\\u0000"\n')
    predict_command.answer_file(export_dir, str(given), "jsonl", str(answers))
    found = written(answers)
    assert found[:2] == [{"id": 1, "text": "a", **SHORT}, {"text": "é long", **LONG}]
    assert found[2]["line"] == 3 and "not JSON" in found[2]["error"]
    assert found[3] == {"text": "b\0", **SHORT}
    assert [*answers.parent.iterdir()] == [answers]
    out, err = capsys.readouterr()
    assert out == f"answered: {answers}, 4 lines\n"
    assert err.startswith("lines with an error: 1; line 3: not JSON")


def test_plain_lines_go_to_standard_output(export_dir, tmp_path, capsys):
    given = tmp_path / "in.txt"
    given.write_text("a\n\nlonger")
    predict_command.answer_file(export_dir, str(given), "lines")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["label"] for row in rows] == ["short", "short", "long"]


def fails_on(monkeypatch, text, error):
    """Makes the model raise an error for batches with this text."""
    before = servables.Version.predict

    def predict(self, name, arrays):
        if text in arrays["text"]:
            raise error
        return before(self, name, arrays)

    monkeypatch.setattr(servables.Version, "predict", predict)


def test_file_of_answers_is_whole_or_absent(export_dir, tmp_path, monkeypatch):
    given, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text('"a"\n"stop here"\n')
    fails_on(monkeypatch, "stop here", KeyboardInterrupt())
    monkeypatch.setattr(streaming, "BATCH_LINES", 1)
    with pytest.raises(KeyboardInterrupt):
        predict_command.answer_file(export_dir, str(given), "jsonl", str(answers))
    assert [*tmp_path.iterdir()] == [given]


def test_model_that_has_no_room_says_so_in_the_line(export_dir, tmp_path, monkeypatch):
    given, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text('"a"\n"huge"\n"b"\n')
    no_room = tf.errors.ResourceExhaustedError(None, None, "no room [Op:X]\n at")
    fails_on(monkeypatch, "huge", no_room)
    predict_command.answer_file(export_dir, str(given), "jsonl", str(answers))
    found = written(answers)
    assert found[1] == {"error": "no room", "line": 2}
    assert [found[0]["text"], found[2]["text"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"export_dir": "/nowhere"}, "--export_dir=/nowhere: no SavedModel there"),
        ({"input_file": "/nowhere"}, "--input_file=/nowhere: cannot be read"),
        ({"input_file": str(ROOT)}, "cannot be read"),
        ({"output_file": str(ROOT)}, "is a directory; name the file"),
        ({"output_file": "/dev/null/x"}, "/dev/null/x: cannot be written"),
    ],
)
def test_wrong_place_is_one_line_before_the_work(change, text, export_dir, capsys):
    given = {"export_dir": export_dir, "input_file": __file__, **change}
    with pytest.raises((ValueError, OSError), match=text) as caught:
        predict_command.answer_file(**given)
    assert "\n" not in str(caught.value) and capsys.readouterr().out == ""


def test_model_that_fails_is_one_line(export_dir, monkeypatch):
    fails_on(monkeypatch, "huge", tf.errors.InternalError(None, None, "bad graph"))
    with pytest.raises(errors.InputError, match=r"^bad graph$"):
        predict_command.answer_texts(export_dir, ["huge"])


DATA = "variables/variables.data-00000-of-00001"


def first(share):
    return lambda raw: raw[: int(len(raw) * share)]


def misspelt(raw):
    """The name of an operation that the graph uses."""
    assert b"GatherV2" in raw
    return raw.replace(b"GatherV2", b"GetherV2")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("saved_model.pb", lambda raw: b"broken"),
        ("saved_model.pb", first(0.5)),
        ("saved_model.pb", misspelt),
        (DATA, first(0)),
        (DATA, first(0.5)),
        ("variables/variables.index", first(0.5)),
        ("model.tflite", lambda raw: b"broken"),
    ],
)
def test_damaged_export_is_one_line(name, change, export_dir, tmp_path, capsys):
    version = shutil.copytree(f"{export_dir}/1", tmp_path / "1")
    damaged = version / name
    damaged.write_bytes(change(damaged.read_bytes() if damaged.exists() else b""))
    given = tmp_path / "in.jsonl"
    given.write_text('"a"\n')
    for answer in (
        lambda: predict_command.answer_texts(str(tmp_path), ["text"]),
        lambda: predict_command.answer_file(str(tmp_path), str(given)),
        lambda: predict_command.serve(str(tmp_path), "127.0.0.1", 0, "sizes"),
    ):
        with pytest.raises(errors.InputError) as caught:
            answer()
        text = str(caught.value)
        assert text.startswith(f"{damaged}: cannot be loaded (") and "\n" not in text
        assert text.endswith(f"); copy {version} again, or export the model again")
    assert capsys.readouterr().out == ""


def test_damaged_fingerprint_is_quiet(export_dir, tmp_path, capsys, caplog):
    """TensorFlow does without, after the traceback that it logs."""
    version = shutil.copytree(f"{export_dir}/1", tmp_path / "1")
    (version / "fingerprint.pb").write_bytes(b"broken")
    predict_command.answer_texts(str(tmp_path), ["text"])
    out, err = capsys.readouterr()
    assert out == "text\n    long 1.000, short 0.000\n"
    assert err == "" and not caplog.records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"cannot be read \(Expecting value: line 1 column 1"),
        ("[]", "the file holds no JSON object"),
        ('{"0": "short", "1"', "cannot be read"),
        ("[" * 100_000, "recursion depth|cannot be read"),
        ('{"a": -1}', "it is no object of texts"),
        ('{"labels": ["x"]}', "it is no object of texts"),
        ('{"0": "a", "2": "b"}', r'its keys are not "0", "1", \.\.\. in this order'),
        ('{"a": "b"}', "names 0 labels, the model has 2"),
        ('{"0": "a", "1": "b", "2": "c"}', "names 3 labels, the model has 2"),
    ],
)
def test_label_map_of_another_model_is_refused(text, message, tmp_path):
    save(tmp_path)
    path = tmp_path / "1" / "assets.extra" / "label_map.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        predictor.Predictor(str(tmp_path))
    assert str(path) in str(caught.value)
    remedy = "; copy it from the run's output directory, or remove it"
    assert str(caught.value).endswith(remedy)


def test_label_comes_from_the_model_where_no_file_names_it(tmp_path, capsys):
    save(tmp_path)
    (tmp_path / "1" / "assets.extra" / "label_map.json").unlink()
    found = predictor.Predictor(str(tmp_path)).predict(["a", "longer"])
    assert [answer["label"] for answer in found] == ["short", "long"]
    assert found[1]["probabilities"] == {"0": 0.0, "1": 1.0}
    predict_command.answer_texts(str(tmp_path), ["longer"])
    assert capsys.readouterr().out == "longer\n    long 1.000\n"


def test_string_is_one_text(export_dir):
    model = predictor.Predictor(export_dir)
    assert model.predict("longer") == model.predict(["longer"]) == [LONG]
    assert model.predict([]) == []


def test_every_number_of_a_model_is_printed(tmp_path, capsys):
    """As of the ratings on several scales in docs/design.md."""

    def rate(text):
        size = tf.cast(tf.strings.length(text), tf.float32)
        return {"probabilities": tf.stack([size, -size / 2], axis=-1)}

    function = export.text_function(rate, "text")
    export.save(export.ServedModel([], serving_default=function), str(tmp_path), {})
    found = predictor.Predictor(str(tmp_path)).predict(["abc", "d"])
    assert found == [{"scores": [3.0, -1.5]}, {"scores": [1.0, -0.5]}]
    predict_command.answer_texts(str(tmp_path), ["abc"], as_json=True)
    predict_command.answer_texts(str(tmp_path), ["abc"])
    assert capsys.readouterr().out == (
        '{"text": "abc", "scores": [3.0, -1.5]}\n3.000 -1.500  abc\n'
    )


def test_masks_are_shown_with_their_place():
    mask = {"start": 25, "tokens": [",", "the"], "probabilities": [0.0712, 0.058]}
    (line,) = answers.lines(["a [MASK]"], [{"masks": [mask]}], as_json=False)
    assert line == 'a [MASK]\n    [MASK] at 25: "," 0.071  "the" 0.058'


def while_serving(monkeypatch, export_dir, ask):
    """What `ask` returns for the server of the command, which it then stops."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    before = http_server.run

    def run(server):
        def work():
            try:
                return ask(server)
            finally:
                signal.raise_signal(signal.SIGTERM)

        futures.append(pool.submit(work))
        before(server)

    futures = []
    with monkeypatch.context() as patch, pool:
        patch.setattr(http_server, "run", run)
        predict_command.serve(export_dir, "127.0.0.1", 0, "sizes")
        return futures[0].result(WAIT_SECONDS)


def asked(server, path, body=None):
    """The JSON that answers; a GET without a body."""
    raw = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(server.address + path, raw, timeout=20) as answer:
        return json.load(answer)


def labels(server, path=":predict"):
    rows = asked(server, path, {"instances": ["a", "longer"]})["predictions"]
    return [row["label"] for row in rows]


def test_http_serves_until_it_is_told_to_stop(export_dir, monkeypatch, capsys):
    handler = signal.getsignal(signal.SIGTERM)

    def ask(server):
        return labels(server, "/versions/1:predict")

    assert while_serving(monkeypatch, export_dir, ask) == ["short", "long"]
    assert signal.getsignal(signal.SIGTERM) == handler
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"serving {export_dir}/1 at http://127.0.0.1:")
    assert said[0].endswith("/v1/models/sizes:predict; Ctrl-C ends")
    url = said[0].split(" at ")[1].split(";")[0]
    body = '{"instances": [{"text": "a text"}]}'
    assert said[1:] == [f"for example: curl -d '{body}' {url}", "stopped"]


def until(look, is_so):
    """What is found until it is so, which has to come."""
    found, end = [look()], time.monotonic() + WAIT_SECONDS
    while not is_so(found[-1]):
        assert time.monotonic() < end, found[-1]
        time.sleep(0.005)
        found.append(look())
    return found


def test_http_names_what_takes_long_to_load(export_dir, monkeypatch, capsys):
    monkeypatch.setattr(predict_command, "_SLOW_SECONDS", 0.01)
    monkeypatch.setattr(servables, "warm", lambda *_: time.sleep(0.5))
    assert while_serving(monkeypatch, export_dir, labels) == ["short", "long"]
    text = f"loading and warming up {export_dir}/1 ...\n"
    assert capsys.readouterr().err == text


def test_http_goes_over_to_a_new_version(tmp_path, monkeypatch, capsys):
    """When it is warm; a version that is damaged changes nothing."""
    folder = tmp_path / "export"
    save(folder)
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.02)
    lines, warmed = [], []
    monkeypatch.setattr(version_polling.progress, "print_line", lines.append)

    def ask(server):
        def warm(version, directory):
            warmed.append((directory, [*server.model.versions]))

        old = weakref.ref(server.model.versions[1])
        monkeypatch.setattr(servables, "warm", warm)
        assert save(folder, "kurz", "lang") == f"{folder}/2"
        lines.clear()
        found = until(lambda: labels(server), lambda labels: labels[0] == "kurz")
        until(old, lambda version: version is None)
        (tmp_path / "3").mkdir()
        (tmp_path / "3" / "saved_model.pb").write_bytes(b"broken")
        (tmp_path / "3").rename(folder / "3")
        until(lambda: [*lines], lambda lines: lines)
        return found, labels(server), asked(server, "")

    found, last, status = while_serving(monkeypatch, str(folder), ask)
    assert found[:-1] == [["short", "long"]] * (len(found) - 1)
    assert found[-1] == last == ["kurz", "lang"]
    assert warmed == [(f"{folder}/2", [1])]
    (state,) = status["model_version_status"]
    assert (state["version"], state["state"]) == ("2", "AVAILABLE")
    said = f"{folder}/2 stays in service; {folder}/3/saved_model.pb: cannot be loaded ("
    assert len(lines) == 1 and lines[0].startswith(said)
    assert f"serving {folder}/2 from now on" in capsys.readouterr().out.splitlines()


def start(*arguments, **options):
    command = [sys.executable, "-m", "serving.predictor", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


@pytest.mark.slow
def test_command_answers_before_its_input_ends_and_ends_with_its_output(export_dir):
    """As a person at a terminal has it, and `| head`."""
    process = start(
        f"--export_dir={export_dir}", "--input_file=-", stdin=subprocess.PIPE
    )
    try:
        for text, answer in (("a", SHORT), ("longer", LONG)):
            process.stdin.write(json.dumps(text).encode() + b"\n")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], WAIT_SECONDS)[0]
            row = json.loads(os.read(process.stdout.fileno(), 2**16))
            assert row == {"text": text, **answer}
        process.stdout.close()
        process.stdin.write(b'"nobody reads"\n')
        process.stdin.flush()
        assert process.wait(WAIT_SECONDS) == 128 + signal.SIGPIPE
        said = process.stderr.read().decode()
        assert "Traceback" not in said and "BrokenPipe" not in said
        assert said.strip() == "loading TensorFlow ..."
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


@pytest.mark.slow
def test_command_serves_and_is_interrupted(export_dir):
    process = start(f"--export_dir={export_dir}", "--serve", "--port=0")
    with process:
        said = process.stdout.readline().decode()
        url = said.split(" at ")[1].split(";")[0]
        with urllib.request.urlopen(url, b'{"inputs": ["a"]}', timeout=20) as answer:
            assert json.load(answer)["outputs"]["label"] == ["short"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out.splitlines()[-1]) == (0, b"stopped")
    assert err.decode().strip() == "loading TensorFlow ..."


@pytest.mark.slow
def test_command_that_waits_is_interrupted_in_one_line(export_dir):
    arguments = (f"--export_dir={export_dir}", "--input_file=-")
    with start(*arguments, stdin=subprocess.PIPE) as process:
        process.stdin.write(b'"a"\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["label"] == "short"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 128 + signal.SIGINT
        said = process.stderr.read().decode().split("\n")
    assert [line for line in said if line] == ["loading TensorFlow ...", "interrupted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("--serve", "--input_file=-"), "give --serve or --input_file, not both", 1),
        (("--output_file=x",), "--output_file is for the answers to an --input", 1),
        (("--serve", "text"), "'text' stands beside --serve or --input_file", 2),
    ],
)
def test_flags_that_exclude_one_another(arguments, text, code):
    with start(*arguments) as process:
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == code and out == b""
    assert text in err.decode() and "Traceback" not in err.decode()
