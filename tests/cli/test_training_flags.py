"""Tests of training_flags.py with a stand-in for the parsed command line."""

import pytest

from cli import training_flags

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
    given = {**ACTIONS, **change}
    command_line(**{name: given[name] for name in (*names, "output_dir")})
    if message is None:
        training_flags.check_actions()
    else:
        with pytest.raises(ValueError, match=message):
            training_flags.check_actions()
