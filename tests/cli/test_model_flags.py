"""Tests of model_flags.py with a stand-in for the parsed command line."""

import re
import types

import pytest

from cli import command_line as command_line_lib
from cli import model_flags

MODEL = {
    "pretrained": "dir",
    "bert_config_file": None,
    "vocab_file": None,
    "init_checkpoint": None,
    "do_lower_case": True,
    "gpt_tokenizer": None,
    "split_words": None,
}


def located(lowers=None):
    found = types.SimpleNamespace(
        config_file="dir/bert_config.json",
        vocab_file="dir/vocab.txt",
        checkpoint="dir/bert_model.ckpt",
        do_lower_case=lowers,
    )
    return lambda spec: found if spec == "dir" else None


def test_pretrained_stands_for_three_flags(command_line):
    command_line(**MODEL)
    assert model_flags.files(located()) == model_flags.ModelFiles(
        "dir/bert_config.json", "dir/vocab.txt", "dir/bert_model.ckpt", True
    )


def test_single_flags_override_pretrained(command_line):
    command_line(**{**MODEL, "vocab_file": "v.txt", "init_checkpoint": "w.ckpt"})
    assert model_flags.files(located()) == model_flags.ModelFiles(
        "dir/bert_config.json", "v.txt", "w.ckpt", True
    )


@pytest.mark.parametrize(
    ("name", "value"), [("gpt_tokenizer", "original"), ("split_words", "punctuation")]
)
def test_how_words_are_found_is_handed_on(command_line, name, value):
    command_line(**{**MODEL, name: value})
    assert getattr(model_flags.files(located()), name) == value


def test_original_flags_suffice(command_line):
    single = {"pretrained": None, "bert_config_file": "c.json", "vocab_file": "v.txt"}
    command_line(**{**MODEL, **single})
    assert model_flags.files(located()) == model_flags.ModelFiles(
        "c.json", "v.txt", "", True
    )
    command_line(**{**MODEL, **single, "vocab_file": None})
    found = model_flags.files(located())
    assert found == model_flags.ModelFiles("c.json", "", "", True)
    command_line(**{**MODEL, "pretrained": None})
    with pytest.raises(ValueError, match="--bert_config_file is missing"):
        model_flags.files(located())


@pytest.mark.parametrize(
    ("lowers", "present", "flag", "expected"),
    [
        (False, False, True, False),  # the directory knows
        (False, True, True, True),  # who says it, means it
        (True, True, False, False),
        (None, False, True, True),
    ],
)
def test_directory_decides_on_lower_case_unless_told(
    command_line, lowers, present, flag, expected
):
    given = ("do_lower_case",) if present else ()
    command_line(given, **{**MODEL, "do_lower_case": flag})
    assert model_flags.files(located(lowers)).do_lower_case is expected


@pytest.mark.parametrize("output_dir", [None, "new", ".", "gs://bucket/run"])
def test_first_checkpoint_may_be_gone_where_a_run_may_be_resumed(
    command_line, monkeypatch, tmp_path, output_dir
):
    command_line(**{**MODEL, "init_checkpoint": "gone", "output_dir": output_dir})
    monkeypatch.setattr(command_line_lib, "FLAGS", model_flags.FLAGS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    if output_dir in (None, "new"):
        with pytest.raises(ValueError, match="--init_checkpoint=gone: no such file"):
            model_flags.check()
    else:
        model_flags.check()


@pytest.mark.parametrize(
    ("pretrained", "wanted"),
    [
        ("gs://bucket/model", None),  # for TensorFlow to look at
        ("google-bert/bert-base-uncased", None),
        ("bert-base-uncased", "(google-bert/bert-base-uncased)"),
        ("gpt2", "(openai-community/gpt2)"),
        ("openai-gpt", "(openai-community/openai-gpt)"),
        ("./bert-base-uncased", "(owner/name)"),
    ],
)
def test_directory_is_there_or_may_be_elsewhere(
    command_line, monkeypatch, tmp_path, pretrained, wanted
):
    command_line(**{**MODEL, "pretrained": pretrained})
    monkeypatch.setattr(command_line_lib, "FLAGS", model_flags.FLAGS)
    monkeypatch.chdir(tmp_path)
    if wanted:
        with pytest.raises(ValueError, match=re.escape(wanted)):
            model_flags.check()
    else:
        model_flags.check()
