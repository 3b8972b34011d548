"""Settings of devices: shapes of batches, and how a run computes."""

import types

import pytest

from tasks.settings import fields
from tests import tiny


@pytest.mark.parametrize(
    ("arguments", "script", "is_static"),
    [
        ("--pad_to_max_length", "run_tagger", True),
        ("--use_tpu", "run_tagger", True),
        ("--distribution_strategy=mirrored", "run_tagger", False),
        ("", "run_pretraining", True),  # records of one length
        ("--pack_sequences", "run_pretraining", False),
        ("--distribution_strategy=tpu --pack_sequences", "run_pretraining", True),
    ],
)
def test_shapes_are_static_where_a_setting_says_so_and_on_tpu(
    arguments, script, is_static
):
    settings = tiny.settings_of(script, *arguments.split())
    assert settings.has_static_shapes is is_static
    assert settings.is_tpu is ("tpu" in arguments)


@pytest.mark.parametrize(
    ("arguments", "policy", "described"),
    [
        ("", "float32", "float32"),
        (
            "--mixed_precision=bfloat16 --recompute",
            "mixed_bfloat16",
            "bfloat16, weights float32; recompute",
        ),
        (
            "--mixed_precision=float16 --recompute --deterministic",
            "mixed_float16",
            "float16, weights float32; recompute; deterministic",
        ),
        ("--deterministic", "float32", "float32; deterministic"),
    ],
)
def test_precision_is_that_of_the_setting(arguments, policy, described):
    settings = tiny.settings_of("run_pretraining", *arguments.split())
    assert settings.dtype_policy == policy
    model = types.SimpleNamespace(
        compute_dtype=policy.removeprefix("mixed_"), variable_dtype="float32"
    )
    assert settings.describe(model) == described


def test_commands_that_train_nothing_recompute_nothing():
    known = fields.rows(tiny.settings_class("extract_features"))
    assert not {"recompute", "deterministic"} & {*known} and "virtual_cpus" in known
