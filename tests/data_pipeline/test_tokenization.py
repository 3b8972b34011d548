"""Tests of data_pipeline/tokenization.py, the command."""

import functools
import io
import os
import pathlib
import subprocess
import sys

import pytest

from data_pipeline import tokenization as command
from data_pipeline.text import wordpiece

ROOT = pathlib.Path(command.__file__).resolve().parents[1]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@functools.cache
def letter_tokenizer(lower=True):
    letters = "abcdefghijklmnopqrstuvwxyzABC!."
    return wordpiece.BertTokenizer(
        [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), "##ing"], lower
    )


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_of_a_text_end_at_lf_alone(monkeypatch, block_bytes, end):
    monkeypatch.setattr(command, "BLOCK_BYTES", block_bytes)
    content = "ab c\r\n\n a\u2028b\u0085c\v\fd\re\n\u3000\nzing!\n\n..".encode() + end
    expected = b"a ##b c\n\na b ##c ##d e\n\nz ##ing !\n\n. .\n"
    sink = io.BytesIO()
    command.write_tokens(io.BytesIO(content), sink, letter_tokenizer())
    assert sink.getvalue() == expected


def test_ids_of_a_text():
    tokenizer, sink = letter_tokenizer(), io.BytesIO()
    command.write_tokens(io.BytesIO(b"ab\n\nc"), sink, tokenizer, as_ids=True)
    rows = [line.split() for line in sink.getvalue().decode().split("\n")]
    ids = tokenizer.tokenize(["ab", "", "c", ""]).to_list()
    assert [[int(word) for word in row] for row in rows] == ids


def test_nothing_comes_of_an_empty_text():
    sink = io.BytesIO()
    command.write_tokens(io.BytesIO(b""), sink, letter_tokenizer())
    assert sink.getvalue() == b""


@pytest.fixture(scope="module")
def turkish_run(tmp_path_factory):
    """A run for a Turkish user who wants the first line only."""
    folder = tmp_path_factory.mktemp("command")
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(letter_tokenizer().vocab), encoding="utf-8")
    lines = folder / "lines.txt"
    lines.write_text("KIŞI İI\n" * 500_000, encoding="utf-8")
    program = [sys.executable, "-m", "data_pipeline.tokenization"]
    with subprocess.Popen(
        [*program, f"--vocab_file={vocab}", str(lines)],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        first = process.stdout.readline().decode()
        process.stdout.close()
        errors = process.stderr.read().decode()
        return first, errors, process.wait(timeout=60)


@pytest.mark.slow
def test_letters_do_not_depend_on_the_language_of_the_user(turkish_run):
    assert turkish_run[0] == "k ##i ##s ##i i ##i\n"


@pytest.mark.slow
def test_reader_that_leaves_early_is_no_error(turkish_run):
    _, errors, code = turkish_run
    assert code == 0
    assert errors.startswith("loading TensorFlow ...\n")
    assert "Error" not in errors.replace("CUDA Error", "").replace("CUDA error", "")
    assert "Traceback" not in errors


def test_files_that_cannot_be_read_are_named(tmp_path, capsys):
    vocab = str(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n[CLS]\n[SEP]\na")
    missing = str(tmp_path / "none.txt")
    for vocab_file, arguments, named in (
        (vocab, [missing], missing),
        (vocab, [str(tmp_path)], str(tmp_path)),
        (missing, ["-"], missing),
        (vocab, [], "0 files given"),
    ):
        code = command._main(["program", *arguments], vocab_file, True, False)
        assert code == 2
        error = capsys.readouterr().err
        assert error.startswith(named)
        assert error.count("\n") == 1
