"""Tests of fine_tuning_flags.py with a stand-in for the parsed command line."""

import pytest

from cli import fine_tuning_flags

FINE_TUNING = {
    **{"seeds": [], "early_stopping_patience": 0, "evaluate_steps": 0},
    **{"grid": None, "do_predict": False},
    **{"export_format": "saved_model", "quantization": "none"},
    "export_server_config": False,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"seeds": ["1", "x"]}, "--seeds=1,x are not whole numbers"),
        (
            {"seeds": ["1", "-2"]},
            "--seeds=1,-2: -2 is no seed; give 0 or more, up to 4",
        ),
        (
            {"seeds": ["4294967296"]},
            "4294967296 is no seed; give 0 or more, up to 4294",
        ),
        ({"seeds": ["0", "4294967295"]}, None),
        ({"seeds": ["1", "2", "01"]}, "--seeds=1,2,1 has 1 twice; give it once"),
        ({"early_stopping_patience": 2}, "needs evaluations; set --evaluate_steps"),
        ({"early_stopping_patience": 2, "evaluate_steps": 5}, None),
        ({"quantization": "float16"}, "is for LiteRT exports; add"),
        ({"quantization": "float16", "export_format": "litert"}, None),
    ],
    ids=str,
)
def test_fine_tuning_is_checked(command_line, change, message):
    command_line(**{**FINE_TUNING, **change})
    if message is None:
        fine_tuning_flags.check()
    else:
        with pytest.raises(ValueError, match=message):
            fine_tuning_flags.check()
