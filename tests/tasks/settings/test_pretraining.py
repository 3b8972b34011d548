"""Settings of pretraining: objectives of networks, masks, and defaults by objective."""

import dataclasses
import json
import types

import pytest

from data_pipeline.pretraining import masking
from modeling.networks import catalogue, electra
from modeling.networks.elmo import config as elmo_config
from modeling.networks.elmo import spec as elmo
from modeling.networks.encoder_decoder import spec as encoder_decoder
from modeling.networks.gpt import spec as gpt
from tests import tiny
from tests.refusals import refused

BERT, ELECTRA, GPT, ELMO, PAIR = (
    types.SimpleNamespace(spec=spec, kind=spec.kind)
    for spec in (
        catalogue.USUAL,
        electra.NETWORK,
        gpt.GPT,
        elmo.NETWORK,
        encoder_decoder.NETWORK,
    )
)


def read(*arguments):
    return tiny.settings_of("run_pretraining", *arguments)


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (BERT, "", None),
        (BERT, "--objective=left_to_right --pack_sequences", None),
        (BERT, "--objective=denoising", "=denoising is not for BERT, which c.json des"),
        (
            BERT,
            "--objective=replaced_tokens",
            "is not for BERT, which c.json describes; set --objective=masked_lm",
        ),
        (ELECTRA, "", None),
        (ELECTRA, "--objective=replaced_tokens", None),
        (
            ELECTRA,
            "--objective=left_to_right",
            "not for ELECTRA, which c.json describes; set --objective=replaced_tokens",
        ),
        (GPT, "--objective=left_to_right --pack_sequences", None),
        (GPT, "", "--objective=masked_lm is not for GPT"),
        (PAIR, "", "set --objective=denoising"),
        (PAIR, "--objective=denoising", None),
        (ELMO, "--objective=bidirectional_lm", None),
        (
            ELMO,
            "--objective=bidirectional_lm --pack_sequences",
            "--pack_sequences is for BERT and GPT, and this network is ELMo; leave it",
        ),
        (
            BERT,
            "--pack_sequences --use_tpu",
            "--pack_sequences makes batches of records whose shapes vary, for which",
        ),
        (BERT, "--pack_sequences --jit_compile=true", "leave one of them out"),
    ],
)
def test_objective_is_one_of_the_network(config, arguments, message):
    settings = read(*arguments.split())
    if message is None:
        settings.check_network(config, "c.json")
        return
    with refused(message):
        settings.check_network(config, "c.json")


def test_masks_are_those_of_the_settings():
    plain = read()
    assert masking.Rule(**plain.masking_rule()) == masking.Rule("word_piece", 0.15, 20)
    assert not plain.wants_masks and not read("--max_predictions_per_seq=3").wants_masks
    settings = read("--mask_proportions=0,.8,0.2")
    rule = masking.Rule(**settings.masking_rule())
    assert rule.proportions == (0.0, 0.8, 0.2)
    assert settings.wants_masks
    identity = settings.masking_identity(masks=True)
    assert json.loads(json.dumps(identity)) == identity  # as run.json gives it back
    assert identity["mask_proportions"] == [0.0, 0.8, 0.2]
    masked = settings.masking_identity(masks=None)
    assert (masked["masking"], masked["mask_proportions"]) == ("", [])


def test_elmo_is_trained_with_the_values_of_its_original():
    streams = "--objective=bidirectional_lm"
    usual = read(streams)
    assert (usual.optimizer, usual.learning_rate) == ("adagrad", 0.2)
    assert (usual.num_warmup_steps, usual.train_batch_size) == (0, 128)
    assert usual.learning_rate_schedule == "gpt_constant"
    assert usual.given == {"objective"} and usual.defaults()["learning_rate"] == 0.2
    own = read(streams, "--learning_rate=1e-3", "--num_warmup_steps=5")
    assert (own.optimizer, own.learning_rate) == ("adagrad", 1e-3)
    assert own.num_warmup_steps == 5
    other = read()
    assert (other.optimizer, other.learning_rate) == ("adam", 5e-5)
    assert other.defaults()["learning_rate"] == 5e-5


def test_streams_are_those_of_the_settings_or_of_the_network():
    config = elmo_config.ElmoConfig(
        vocab_size=30, projection_dim=4, lstm_dim=8, filters=((1, 4),), unroll_steps=7
    )
    kept = read("--objective=bidirectional_lm").streams_config(
        dataclasses.replace(config, sample_softmax=False), 30
    )
    assert (kept.unroll_steps, kept.sample_softmax) == (7, False)
    settings = read("--objective=bidirectional_lm", "--unroll_steps=3")
    own = settings.streams_config(
        dataclasses.replace(config, num_negative_samples=29), 30
    )
    assert own.unroll_steps == 3
    assert settings.optimizer_settings(own) == {
        "clip_norm": 10.0,
        "gradient_factor": 3.0,
    }
    assert read().optimizer_settings(own) == {}
    for arguments, size, message in (
        ("", 31, "--vocab_file has 31 words, but --bert_config_file has n_tokens_vo"),
        ("--num_negative_samples=30", 30, "a sample of 30 words (--num_negative_samp"),
        (
            "--nosample_softmax --num_negative_samples=3",
            30,
            "--num_negative_samples=3 is for a sampled softmax, which this network",
        ),
    ):
        settings = read("--objective=bidirectional_lm", *arguments.split())
        with refused(message):
            settings.streams_config(config, size)


def test_records_held_out_are_enough_without_training():
    assert read("--do_train", "--input_file=a").record_files() == {"input_file": "a"}
    both = {"input_file": "b", "eval_input_file": "b"}
    assert read("--eval_input_file=b").record_files() == both
    for arguments in ((), ("--do_train", "--eval_input_file=b")):
        with refused("--input_file is missing; name one or more files of records"):
            read(*arguments).record_files()


def test_batch_of_evaluation_is_not_far_beyond_the_records():
    settings = read("--do_eval", f"--eval_batch_size={2**16 + 1}")
    settings.check_eval_batch_size(2**16 + 1)
    read(f"--eval_batch_size={2**16 + 1}").check_eval_batch_size(3)
    with refused("--eval_batch_size=65537 exceeds the 3 records to evaluate on; lower"):
        settings.check_eval_batch_size(3)


def test_every_flag_of_the_original_is_there_with_its_default():
    none = "bert_config_file input_file output_dir init_checkpoint tpu_name tpu_zone"
    originals = {
        **dict.fromkeys([*none.split(), "gcp_project", "master"]),
        **{"do_train": False, "do_eval": False, "use_tpu": False},
        **{"max_seq_length": 128, "max_predictions_per_seq": 20},
        **{"train_batch_size": 32, "eval_batch_size": 8, "learning_rate": 5e-5},
        **{"num_train_steps": 100000, "num_warmup_steps": 10000, "num_tpu_cores": 8},
        **{"save_checkpoints_steps": 1000, "iterations_per_loop": 1000},
        "max_eval_steps": 100,
    }
    defaults = tiny.flag_defaults("run_pretraining")
    assert {name: defaults[name] for name in originals} == originals
