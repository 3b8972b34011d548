"""Tests of shared_flags.py with a stand-in for the parsed command line."""

import types

import pytest

from training.flags import shared_flags

ACTIONS = {"do_train": True, "do_eval": False, "do_predict": False, "output_dir": "o"}


@pytest.mark.parametrize(
    ("change", "names", "message"),
    [
        ({}, ("do_train", "do_eval"), None),
        # run_pretraining.py's words, and nearly run_classifier.py's.
        (
            {"do_train": False},
            ("do_train", "do_eval"),
            "^At least one of `do_train` or `do_eval` must be True.$",
        ),
        (
            {"do_train": False},
            ("do_train", "do_eval", "do_predict"),
            "^At least one of `do_train`, `do_eval` or `do_predict` must be True.$",
        ),
        ({"output_dir": None}, ("do_train", "do_eval"), "--output_dir is missing"),
    ],
    ids=str,
)
def test_actions_are_checked(command_line, change, names, message):
    command_line(**{**ACTIONS, **change})
    if message is None:
        shared_flags.check_actions(*names)
    else:
        with pytest.raises(ValueError, match=message):
            shared_flags.check_actions(*names)


FINE_TUNING = {"seeds": [], "early_stopping_patience": 0, "evaluate_steps": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"seeds": ["1", "x"]}, "--seeds=1,x are not whole numbers"),
        ({"seeds": ["1", "-2"]}, None),
        ({"early_stopping_patience": 2}, "needs evaluations; set --evaluate_steps"),
        ({"early_stopping_patience": 2, "evaluate_steps": 5}, None),
    ],
    ids=str,
)
def test_fine_tuning_is_checked(command_line, change, message):
    command_line(**{**FINE_TUNING, **change})
    if message is None:
        shared_flags.check_fine_tuning()
    else:
        with pytest.raises(ValueError, match=message):
            shared_flags.check_fine_tuning()


MODEL = {
    "pretrained": "dir",
    "bert_config_file": None,
    "vocab_file": None,
    "init_checkpoint": None,
    "do_lower_case": True,
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
    assert shared_flags.model_files(located()) == shared_flags.ModelFiles(
        "dir/bert_config.json", "dir/vocab.txt", "dir/bert_model.ckpt", True
    )


def test_single_flags_override_pretrained(command_line):
    command_line(**{**MODEL, "vocab_file": "v.txt", "init_checkpoint": "w.ckpt"})
    assert shared_flags.model_files(located()) == shared_flags.ModelFiles(
        "dir/bert_config.json", "v.txt", "w.ckpt", True
    )


def test_original_flags_suffice(command_line):
    single = {"pretrained": None, "bert_config_file": "c.json", "vocab_file": "v.txt"}
    command_line(**{**MODEL, **single})
    assert shared_flags.model_files(located()) == shared_flags.ModelFiles(
        "c.json", "v.txt", "", True
    )
    command_line(**{**MODEL, **single, "vocab_file": None})
    with pytest.raises(ValueError, match="--vocab_file is missing; set it, or set"):
        shared_flags.model_files(located())
    found = shared_flags.model_files(located(), needs_vocab=False)
    assert found == shared_flags.ModelFiles("c.json", "", "", True)
    command_line(**{**MODEL, "pretrained": None})
    with pytest.raises(ValueError, match="--bert_config_file is missing"):
        shared_flags.model_files(located(), needs_vocab=False)


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
    assert shared_flags.model_files(located(lowers)).do_lower_case is expected
