"""Damaged files and odd flags: a program ends as on good input, or with one line.

Each case changes one file, or one flag, of a command that works, and runs it in a
process of its own: no traceback, no crash, no endless run, no exit code but those that
are documented. What a message must contain is tested in test_bad_input.py and beside
the readers.
"""

import functools
import json
import pathlib
import random
import shutil
import signal
import time
import zipfile
from typing import NamedTuple

import pytest

from tasks.settings import fields
from tests import tiny, tiny_corpus, tiny_gpt, whole_runs

pytestmark = pytest.mark.slow

SECONDS = 90  # of a case on a busy machine
AT_A_TIME = 2
CASES = 48  # of a command; all of them take an hour
# Done; input refused.
CODES = (0, 2)
# A value that is none of the flag's type; values not finite, after 1e30 for a rate.
CODES_OF_FLAGS = (*CODES, 1, 3)


class Command(NamedTuple):
    """A command that works, and the files that it reads.

    Attributes:
        program: a script, or a module.
        flags: with {0} for the directory of the case.
        json_files: relative to that directory.
        texts: files of lines.
        binaries: others.
    """

    program: str
    flags: str
    json_files: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()


def _run(name, **files):
    """A run of tests/whole_runs.py of one step."""
    scores = name in ("classification", "questions")
    flags = " ".join(whole_runs.arguments(name, "{0}", steps=1, evaluates=scores))
    flags += " --nowrite_report --output_dir={0}/out"
    return Command(whole_runs.SCRIPTS[name], flags, **files)


_RESUME = "--max_seq_length=16 --train_batch_size=48 --do_train --do_eval --do_predict "
_RESUME += "--pretrained={0}/model --train_file={0}/train.tsv --dev_file={0}/dev.tsv "
_RESUME += "--test_file={0}/test.tsv --nowrite_report --output_dir={0}/trained"
_DATA = "data-00000-of-00001"
COMMANDS = {
    "classify": _run(
        "classification",
        json_files=("model/bert_config.json",),
        texts=("model/vocab.txt", "train.tsv"),
        binaries=("model/bert_model.ckpt.index",),
    ),
    "classify_jsonl": Command(
        "run_classifier",
        "--pretrained={0}/model --train_file={0}/rows.jsonl --max_seq_length=16 "
        "--train_batch_size=48 --num_train_epochs=1 --do_train --nowrite_report "
        "--output_dir={0}/out",
        texts=("rows.jsonl",),
    ),
    "resume": Command(
        "run_classifier",
        f"{_RESUME} --num_train_epochs=2",
        json_files=(
            "trained/run.json",
            "trained/label_map.json",
            "trained/model.ckpt-1.json",
            "trained/bert_config.json",
        ),
        texts=("trained/checkpoint", "trained/vocab.txt"),
        binaries=("trained/model.ckpt-1.index", f"trained/model.ckpt-1.{_DATA}"),
    ),
    "predict": Command(
        "run_predictor",
        "--export_dir={0}/trained/export the_film",
        json_files=("trained/export/1/assets.extra/label_map.json",),
        binaries=(
            "trained/export/1/saved_model.pb",
            "trained/export/1/fingerprint.pb",
            "trained/export/1/variables/variables.index",
            f"trained/export/1/variables/variables.{_DATA}",
        ),
    ),
    "answer_lines": Command(
        "run_predictor",
        "--export_dir={0}/trained/export --input_file={0}/rows.jsonl "
        "--output_file={0}/answers.jsonl",
        texts=("rows.jsonl",),
    ),
    "convert": Command(
        "convert_checkpoint",
        "--input={0}/hugging_face --to=google --output_dir={0}/converted",
        json_files=("hugging_face/config.json", "hugging_face/tokenizer_config.json"),
        texts=("hugging_face/vocab.txt",),
        binaries=("hugging_face/model.safetensors",),
    ),
    "generate": Command(
        "run_generation",
        "--pretrained={0}/gpt --prompt=the --max_new_tokens=2",
        json_files=("gpt/config.json", "gpt/vocab.json"),
        texts=("gpt/merges.txt",),
        binaries=("gpt/model.ckpt.index", f"gpt/model.ckpt.{_DATA}"),
    ),
    "score": Command(
        "run_generation",
        # A long line has many windows of this small context.
        "--pretrained={0}/gpt --score_file={0}/train.tsv --batch_size=512 --stride=40",
        texts=("train.tsv",),
    ),
    "questions": _run("questions", json_files=("train.json", "dev.json")),
    "tag": _run("tagging", texts=("train.conll",)),
    "write": _run("pairs", texts=("train.tsv",)),
    "pretrain": _run("pretraining", binaries=("masked.tfrecord",)),
    "stream": _run(
        "streams",
        json_files=("model_streams/options.json",),
        texts=("model_streams/vocab.txt", "part-0.txt"),
        binaries=("model_streams/model.ckpt.index",),
    ),
    "extract": Command(
        "extract_features",
        "--pretrained={0}/model --input_file={0}/part-0.txt --layers=-1 "
        "--max_seq_length=16 --nocheck_tokenizer --output_file={0}/vectors.jsonl",
        texts=("part-0.txt",),
    ),
    "create": Command(
        "create_pretraining_data",
        "--vocab_file={0}/model/vocab.txt --input_file={0}/text.txt --dupe_factor=1 "
        "--max_seq_length=16 --max_predictions_per_seq=3 --num_workers=1 "
        "--nocheck_tokenizer --output_file={0}/made.tfrecord",
        texts=("model/vocab.txt", "text.txt"),
    ),
    "learn_vocabulary": Command(
        "build_vocab",
        "--input_file={0}/text.txt --vocab_size=200 --num_workers=1 "
        "--output_file={0}/made.txt",
        texts=("text.txt",),
    ),
}
# Whatever the file is.
DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "flipped": lambda data: _flip(data, 3, seed=1),
    "flipped much": lambda data: _flip(data, 200, seed=2),
    "random": lambda data: random.Random(3).randbytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
    "twice": lambda data: data + data,
}
ODD_JSON = {
    "deep list": "[" * 50_000,
    "deep object": '{"a":' * 50_000,
    "null": "null",
    "list": "[]",
    "string": '"text"',
    "number": "5",
    "object": "{}",
    "not a number": '{"a": NaN}',
    "cut": '{"a": [1, 2',
    "half a character": '{"a": "\\ud800", "\\udc00": 1}',
    "long integer": '{"a": ' + "9" * 5000 + "}",
    "byte order mark": "\ufeff{}",
}
ODD_VALUES = (None, {"a": 1}, -1, "\ud800", 1e400, 10**30)
ODD_TEXTS = {
    "UTF-16": lambda text: text.encode("utf-16"),
    "latin": lambda text: text.encode() + "caf\xe9\tgood\n".encode("latin-1"),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "NUL": lambda text: text.replace("a", "\0").encode(),
    "long line": lambda text: b"word " * 200_000 + b"\tgood\n" + text.encode(),
    "many columns": lambda text: text.encode() + b"a\t" * 20_000 + b"\n",
    "blank lines": lambda text: text.replace("\n", "\n\n\n").encode(),
    "no line": lambda text: b"\n" * 30,
    "surrogate": lambda text: text.encode() + b'{"text": "a \\ud83d", "label": "b"}\n',
    "not a number": lambda text: text.encode() + b'{"text": NaN, "label": NaN}\n',
    "nested": lambda text: text.encode() + b"[" * 50_000 + b"\n",
    "first line": lambda text: text.split("\n")[0].encode(),
}
ODD_NUMBERS = ("-1", "0", "nan", "1e30", "99999999999999999999", "")
ODD_WORDS = ("", "\n", "/dev/null/x", "{", "-1", "a" * 5000)


def _flip(data, count, seed):
    changed, draw = bytearray(data), random.Random(seed)
    for _ in range(count if data else 0):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def damaged_files(command):
    """(name, function of the case's directory) for every damage of every file."""
    for file in (*command.json_files, *command.texts, *command.binaries):
        for name, damage in DAMAGES.items():
            yield f"{file}: {name}", functools.partial(_rewrite, file, damage)
        yield f"{file}: missing", functools.partial(_remove, file)
        yield f"{file}: a directory", functools.partial(_make_directory, file)
        yield f"{file}: a zip", functools.partial(_zip, file)
    for file in command.json_files:
        for name, text in ODD_JSON.items():
            data = text.encode("utf-8", "surrogatepass")
            yield (
                f"{file}: {name}",
                functools.partial(_rewrite, file, lambda old, data=data: data),
            )
        for number in range(8):
            for value in ODD_VALUES:
                yield (
                    f"{file}: value {number} is {value!r}",
                    functools.partial(_change_value, file, number, value),
                )
    for file in command.texts:
        for name, change in ODD_TEXTS.items():
            yield (
                f"{file}: {name}",
                functools.partial(
                    _rewrite, file, lambda old, c=change: c(old.decode("utf-8"))
                ),
            )


def _rewrite(file, damage, directory):
    path = directory / file
    path.write_bytes(damage(path.read_bytes()))


def _remove(file, directory):
    (directory / file).unlink()


def _make_directory(file, directory):
    _remove(file, directory)
    (directory / file).mkdir()


def _zip(file, directory):
    data = (directory / file).read_bytes()
    with zipfile.ZipFile(directory / file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", data + bytes(10_000_000))


def _change_value(file, number, value, directory):
    path = directory / file
    raw = json.loads(path.read_text("utf-8"))
    if isinstance(raw, dict) and raw:
        raw[sorted(raw)[number % len(raw)]] = value
    path.write_text(json.dumps(raw), "utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with all that the commands read."""
    place = whole_runs.write(tmp_path_factory.mktemp("odd") / "place")
    tiny_gpt.write_model(place / "gpt")
    tiny_corpus.write(place, 20)
    rows = [{"text": text, "label": label} for text, label in tiny.rows(48)]
    lines = [json.dumps(row) + "\n" for row in rows]
    (place / "rows.jsonl").write_text("".join(lines))
    resume = _RESUME.format(place)
    tiny.succeed("run_classifier", resume, "--num_train_epochs=1 --do_export")
    convert = f"--input={place}/model --output_dir={place}/hugging_face"
    tiny.succeed("convert_checkpoint", convert, "--to=hugging_face")
    return place


def run_cases(server, place, command, cases, codes, directory):
    """Runs cases (name, change, flags), some at a time; what is wrong with them."""
    waiting, running, wrong = list(cases), [], []
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            name, change, flags = waiting.pop(0)
            own = directory / str(len(waiting))
            shutil.copytree(place, own)
            change(own)
            arguments = [*command.flags.format(own).split(), *flags]
            job = server.start_program(command.program, *arguments)
            running.append((name, own, job, time.monotonic() + SECONDS))
        for case in list(running):
            name, own, job, end = case
            code = job.poll()
            if code is None and time.monotonic() < end:
                continue
            if code is None:
                job.send(signal.SIGKILL)
                job.code()
            running.remove(case)
            shutil.rmtree(own)
            if complaint := complain(code, job.text(), codes):
                wrong.append(f"{name}: {complaint}")
        time.sleep(0.02)
    return wrong


def complain(code, text, codes):
    """What is wrong with an end, or None."""
    last = text[-1500:]
    if code is None:
        return f"no end after {SECONDS} s: {last}"
    if "Traceback" in text:
        return f"a traceback: {last}"
    if code not in codes:
        return f"exit code {code}: {last}"
    if code in (1, 2) and "error:" not in text:
        return f"no line says why: {last}"
    return None


@pytest.mark.parametrize("name", COMMANDS)
def test_damaged_files_end_in_one_line(forked_server, place, tmp_path, name):
    command = COMMANDS[name]
    plain = [("as it is", lambda directory: None, ())]
    assert run_cases(forked_server, place, command, plain, (0,), tmp_path) == []
    cases = [(title, change, ()) for title, change in damaged_files(command)]
    cases = random.Random(name).sample(cases, min(CASES, len(cases)))
    wrong = run_cases(forked_server, place, command, cases, CODES, tmp_path)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", COMMANDS)
def test_odd_flags_end_in_one_line(forked_server, place, tmp_path, name):
    command = COMMANDS[name]
    known = fields.rows(tiny.settings_class(command.program)).values()
    odd = sorted((row.name, value) for row in known for value in _odd(row))
    chosen = random.Random(name).sample(odd, 40)
    cases = [
        (f"--{flag}={value!r:.40}", lambda directory: None, (f"--{flag}={value}",))
        for flag, value in chosen
    ]
    wrong = run_cases(forked_server, place, command, cases, CODES_OF_FLAGS, tmp_path)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


def _odd(row):
    if row.kind is bool or row.name == "num_workers":
        return ()
    return ODD_NUMBERS if row.kind in (int, float) else ODD_WORDS


def test_a_broken_end_is_noticed():
    assert complain(1, "Traceback (most recent call last):", (0, 2))
    assert complain(-11, "", (0, 2)) and complain(None, "", (0, 2))
    assert complain(2, "usage", (0, 2)) and not complain(2, "error: no x", (0, 2))


def test_files_of_commands_exist(place):
    for command in COMMANDS.values():
        for file in (*command.json_files, *command.texts, *command.binaries):
            assert pathlib.Path(place, file).is_file(), file
