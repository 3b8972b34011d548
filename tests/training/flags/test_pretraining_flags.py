"""Flags of run_pretraining.py that belong to one objective."""

import contextlib
import types

import pytest
from absl import flags

from data_pipeline.denoising import corruptions
from tests import tiny
from training.flags.tasks import pretraining_flags


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
        (["--objective=denoising", "--unroll_steps=3"], "is for --objective=bidirecti"),
        (["--objective=denoising", "--do_export"], "has not; use run_seq2seq.py"),
    ],
)
def test_flag_of_another_objective_is_refused(arguments, message):
    with given(*arguments), pytest.raises(ValueError) as raised:
        pretraining_flags.check()
    assert message in str(raised.value)


def test_network_decides_on_the_objective():
    bert = types.SimpleNamespace(network="bert", kind="BERT")
    both = types.SimpleNamespace(network="encoder_decoder", kind="an encoder-decoder")
    with given("--objective=denoising"):
        pretraining_flags.check()
        pretraining_flags.check_network(both, "config.json")
        with pytest.raises(
            ValueError, match="=denoising is not for BERT, which bert_c"
        ):
            pretraining_flags.check_network(bert, "bert_config.json")
    with given(), pytest.raises(ValueError, match="set --objective=denoising"):
        pretraining_flags.check_network(both, "config.json")


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
