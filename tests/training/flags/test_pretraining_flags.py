"""Flags of run_pretraining.py that belong to one objective."""

import contextlib
import json
import types

import pytest
from absl import flags

from cli import pretraining_flags
from data_pipeline.pretraining import masking
from data_pipeline.pretraining.denoising import corruptions
from tests import tiny


@contextlib.contextmanager
def given(*arguments):
    with tiny.flags_of("run_pretraining"):
        flags.FLAGS(["run_pretraining", *arguments])
        yield


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--corruption=drop"],
            "--corruption=drop is for --objective=denoising; leave",
        ),
        (
            ["--noise_density=0.3", "--objective=left_to_right"],
            "is for --objective=den",
        ),
        (["--mean_noise_span_length=2"], "--mean_noise_span_length=2.0 is for --objec"),
        (["--objective=denoising", "--masking=span"], "is for --objective=masked_lm;"),
        (
            ["--objective=left_to_right", "--mask_proportions=1,0,0"],
            "--mask_proportions=1.0,0.0,0.0 is for --objective=masked_lm; leave it out",
        ),
        (["--objective=denoising", "--unroll_steps=3"], "is for --objective=bidirecti"),
        (["--objective=denoising", "--do_export"], "has not; use run_seq2seq.py"),
    ],
)
def test_flag_of_another_objective_is_refused(arguments, message):
    with given(*arguments), pytest.raises(ValueError) as raised:
        pretraining_flags.check_objective()
    assert message in str(raised.value)


def test_network_decides_on_the_objective():
    bert = types.SimpleNamespace(network="bert", kind="BERT")
    both = types.SimpleNamespace(network="encoder_decoder", kind="an encoder-decoder")
    with given("--objective=denoising"):
        pretraining_flags.check_objective()
        pretraining_flags.check_network(both, "config.json")
        with pytest.raises(
            ValueError, match="=denoising is not for BERT, which bert_c"
        ):
            pretraining_flags.check_network(bert, "bert_config.json")
    with given(), pytest.raises(ValueError, match="set --objective=denoising"):
        pretraining_flags.check_network(both, "config.json")


def test_masks_are_those_of_the_flags():
    with given():
        rule = masking.Rule(**pretraining_flags.masking_rule())
        assert rule == masking.Rule("word_piece", 0.15, 20)
        assert not pretraining_flags.masks_are_asked_for()
        usual = pretraining_flags.masking_identity(masks=True)
        assert pretraining_flags.masking_identity(masks=None) == {
            "max_predictions_per_seq": 20,
            **{"masking": "", "masked_lm_prob": 0.0, "mask_proportions": []},
        }
    with given("--mask_proportions=0,.8,0.2"):
        rule = masking.Rule(**pretraining_flags.masking_rule())
        assert rule.proportions == (0.0, 0.8, 0.2)
        assert pretraining_flags.masks_are_asked_for()
        other = pretraining_flags.masking_identity(masks=True)
        said = flags.FLAGS["mask_proportions"].serialize()
    assert said == "--mask_proportions=0.0,0.8,0.2"
    # As run.json gives it back.
    assert json.loads(json.dumps(usual)) == usual
    assert usual | {"mask_proportions": [0.0, 0.8, 0.2]} == other != usual


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.8,0.1", "needs 3 numbers of 0 to 1, by comma, such as 0.8,0.1,0.1"),
        ("0.8,0.1,0.1,0", "needs 3 numbers"),
        ("0.8,0.1,few", "needs 3 numbers"),
        ("nan,0.5,0.5", "needs 3 numbers"),
        ("-0.2,0.7,0.5", "needs 3 numbers"),
        ("80,10,10", "needs 3 numbers"),
        ("", "needs 3 numbers"),
        ("0.8,0.1,0.2", "adds up to 1.1, not to 1; give shares of the whole, such as"),
        ("0,0,0", "adds up to 0, not to 1"),
    ],
)
def test_proportions_are_three_shares_of_one(value, message):
    argument = f"--mask_proportions={value}"
    with pytest.raises(flags.IllegalFlagValueError) as raised, given(argument):
        pass
    assert f"flag --mask_proportions={value}: {message}" in str(raised.value)


def test_noise_is_that_of_the_flags_and_else_of_the_paper():
    with given("--objective=denoising"):
        found = corruptions.rule(**pretraining_flags.noise_rule())
    assert found == corruptions.Rule("random_spans", 0.15, 3.0)
    with given("--corruption=infilling", "--mean_noise_span_length=2"):
        found = corruptions.rule(**pretraining_flags.noise_rule())
    assert found == corruptions.Rule("infilling", 0.3, 2.0)


@pytest.mark.parametrize(
    "argument",
    ["--noise_density=1.5", "--mean_noise_span_length=0.5", "--corruption=x"],
)
def test_value_out_of_bounds_is_refused(argument):
    with pytest.raises(flags.IllegalFlagValueError), given(argument):
        pass
