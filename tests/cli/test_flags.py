"""What the flags of scripts mean, read as the scripts read them."""

import contextlib
import dataclasses
import json
import re
import sys
import types

import pytest
import tensorflow as tf
from absl import flags

import run_classifier
from cli import (
    command_line,
    creation_flags,
    embedding_flags,
    feature_flags,
    fine_tuning_flags,
    generation_flags,
    model_flags,
    networks,
    pretraining_flags,
    run_flags,
    seq2seq_flags,
    training_flags,
)
from data_pipeline.classification import labels
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import denoising_batches, masking, metadata
from data_pipeline.pretraining.creation import sentence_pairs
from data_pipeline.squad import choice
from data_pipeline.tagging import files, schemes
from data_pipeline.vocabularies import learn_wordpiece
from modeling import pretrainers
from modeling.checkpoints import conversion, pretrained
from modeling.configs import config
from modeling.features import head_config, layer_choices, vectors
from reports.pages import usage
from tests import flags_page, tiny
from tests.refusals import refused
from training import adagrad, layer_rates, model_directory, optimizers

STRATEGY = tf.distribute.get_strategy()


@pytest.fixture
def parse():
    with contextlib.ExitStack() as stack:

        def call(script, *arguments):
            stack.close()
            names = stack.enter_context(tiny.flags_of(script))
            flags.FLAGS([script, *arguments])
            return names

        yield call


# Flags of strings whose help has the word file or directory, and that hold no path.
NO_PATHS = {"delimiter", "encoding", "quote", "tfds_name", "grid", "report_title"}


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_every_flag_of_a_path_is_one(program):
    """So that ~ and s3:// mean the same to all of them."""
    with tiny.flags_of(program):
        kinds = flags.ArgumentParser, model_flags._ConfigParser
        own = command_line.own_flags()
        strings = [flag for flag in own if type(flag.parser) in kinds]
        strings = [flag for flag in strings if type(flag) is flags.Flag]
        for flag in strings:
            flag.value = "a"
        names = {flag.name for flag in command_line.path_flags()}
        for flag in strings:
            says = re.search(r"\b(file|directory|tsv)", flag.help, re.IGNORECASE)
            if says and flag.name not in NO_PATHS:
                assert flag.name in names
        assert names


PATHS = [
    ("run_classifier", "train_file", "{}"),
    ("run_classifier", "output_dir", "{}"),
    ("run_classifier", "data_dir", "{}"),
    ("run_classifier", "teacher", "{}"),
    ("run_classifier", "labels", "{}"),
    ("run_pretraining", "input_file", "gs://b/[0-9]*, {}"),
    ("run_embedding", "reranker", "{}"),
    ("run_generation", "prompt_file", "{}"),
    ("convert_checkpoint", "input", "{}"),
    ("convert_checkpoint", "add_tokens", "{}"),
    ("create_pretraining_data", "output_file", "{}"),
    ("extract_features", "init_checkpoint", "{}"),
    ("build_vocab", "base_config_file", "{}"),
    ("run_predictor", "export_dir", "{}"),
    ("run_search", "pretrained", "{}"),
]


@pytest.mark.parametrize(("program", "name", "value"), PATHS)
def test_path_of_an_unknown_file_system_or_user(monkeypatch, program, name, value):
    monkeypatch.setenv("HOME", "/ada")
    with tiny.flags_of(program) as names:
        needed = {"to", "input_file", "output_file", "output_dir", "vocab_file"}
        others = dict.fromkeys(needed & {*names}, "google")
    module = sys.modules[tiny.FLAGS_IN_CLI.get(program, program)]
    define = vars(module).get("define_flags") or module.define
    s3, home = value.format("s3://bucket/a"), value.format("~/a")
    with (
        refused(f"{name}=", "s3://bucket/a: TensorFlow has no s3:// here", "gs://"),
        command_line.program(program, define, others | {name: s3}),
    ):
        pass
    with command_line.program(program, define, others | {name: home}):
        assert flags.FLAGS[name].value == value.format("/ada/a")
    for same in ("~", "a~/b", "/a/~b", "gs://b/~/c", "a:b", "A b://c"):
        with command_line.program(program, define, others | {name: value.format(same)}):
            assert flags.FLAGS[name].value == value.format(same)


# --- Choices that are written twice, because importing the code takes seconds.

CHOICES = {
    "convert_checkpoint": {
        "to": conversion.FORMATS,
        "head": ("auto", *pretrainers.HEADS),
    },
    "create_pretraining_data": {
        "masking": (*masking.GROUP_LENGTHS, metadata.UNMASKED),
        "sentence_task": sentence_pairs.SENTENCE_TASKS,
        "objective": (metadata.MASKED_LM, metadata.LEFT_TO_RIGHT),
        "document_end": (metadata.BLANK_LINE, metadata.FILE),
    },
    "extract_features": {
        "combine": (vectors.SEPARATE, *layer_choices.COMBINATIONS),
        "pooling": vectors.POOLINGS,
        "output_format": vector_files.FORMATS,
    },
    "run_classifier": {
        # The columns or the task of a choice say that it is one.
        "problem_type": [kind for kind in labels.PROBLEM_TYPES if kind != "choice"],
        "optimizer": run_flags._OPTIMIZERS,
        "layer_mix": (*layer_choices.COMBINATIONS, head_config.LEARNED),
        "head": head_config.HEADS,
    },
    "run_pretraining": {
        "masking": masking.GROUP_LENGTHS,
        "corruption": denoising_batches.NOISE_DENSITY,
    },
    "run_squad": {"answer_aligner": choice.ALIGNERS},
    "run_embedding": {"pooling": vectors.TEXT_POOLINGS},
    "run_tagger": {
        "file_format": ("auto", *files.FORMATS),
        "tag_scheme": ("auto", *schemes.SCHEMES),
    },
}


@pytest.mark.parametrize("script", CHOICES)
def test_choices_are_those_of_the_code(script):
    with tiny.flags_of(script):
        for name, known in CHOICES[script].items():
            assert list(flags.FLAGS[name].parser.enum_values) == list(known), name


def test_defaults_are_those_of_the_code():
    with tiny.flags_of("run_tagger"):
        head = {name: flags.FLAGS[name].default for name in feature_flags.NAMES}
    assert {**head, "joins_pairs": False} == dataclasses.asdict(head_config.ORIGINAL)
    for script in ("create_pretraining_data", "run_pretraining"):
        with tiny.flags_of(script):
            shares = flags.FLAGS["mask_proportions"].default
        assert shares == masking.PROPORTIONS == (0.8, 0.1, 0.1)
    with tiny.flags_of("build_vocab"):
        default = flags.FLAGS["num_unused_tokens"].default
    assert default == learn_wordpiece.UNUSED_BEFORE_UNK


def test_records_of_a_length_that_no_network_has_are_refused():
    with tiny.flags_of("create_pretraining_data"):
        parser = flags.FLAGS["max_seq_length"].parser
    assert parser.parse("1048576") == 1 << 20
    with pytest.raises(ValueError, match="1048577 is not an integer in the range"):
        parser.parse("1048577")


# --- Contradictions, by the function that refuses them.

SCORES = ("accuracy", "f1", "loss")
BERT = types.SimpleNamespace(network="bert", kind="BERT")
ELECTRA = types.SimpleNamespace(network="bert", kind="ELECTRA")
BERT_CONFIG = config.BertConfig(vocab_size=9)
PAIR = types.SimpleNamespace(
    network="encoder_decoder",
    kind="an encoder-decoder",
    to_dict=dict,
    encoder=types.SimpleNamespace(max_position_embeddings=20),
    decoder=types.SimpleNamespace(max_position_embeddings=10),
)


def run_settings(adagrad_settings=None):
    return run_flags.make_settings(
        STRATEGY,
        "plan",
        config={"hidden_size": 8},
        init_checkpoint="",
        length_flag="--num_train_steps",
        adagrad_settings=adagrad_settings,
    )


WRONG = {
    ("run_pretraining", pretraining_flags.check_objective): {
        "--corruption=infilling": "is for --objective=denoising; leave",
        "--noise_density=0.3 --objective=left_to_right": "is for --objective=denoisin",
        "--mean_noise_span_length=2": "--mean_noise_span_length=2.0 is for --objective",
        "--objective=denoising --masking=span": "is for --objective=masked_lm; leave",
        "--objective=left_to_right --mask_proportions=1,0,0": (
            "--mask_proportions=1.0,0.0,0.0 is for --objective=masked_lm; leave it out"
        ),
        "--objective=denoising --unroll_steps=3": "is for --objective=bidirectional_lm",
        "--top_k=3": "--top_k=3 is for --do_export; add it",
        "--objective=replaced_tokens --generator_size=0.5 --masking=span": None,
        "--generator_size=0.5": "=0.5 is for --objective=replaced_tokens; leave it out",
        "--discriminator_loss_weight=3": "=3.0 is for --objective=replaced_tokens; lea",
    },
    ("run_seq2seq", seq2seq_flags.check): {
        "": None,
        "--source_column=a --target_column=a": "are both a; each needs a column",
        "--do_sample --temperature=0": "draws nothing; leave --do_sample out",
        "--temperature=0.5": "--temperature=0.5 is for drawing tokens; add --do_sample",
        "--do_sample --top_p=0": "--top_p=0.0 is not above 0",
        "--export_format=litert": "--export_format=litert runs a network once",
    },
    ("run_squad", fine_tuning_flags.check): {
        "": None,
        "--seeds=1,x": "--seeds=1,x are not whole numbers",
        "--seeds=--5": "--seeds=--5 are not whole numbers",
        "--seeds=²": "--seeds=² are not whole numbers; give such as 1,2,3",
        "--seeds=1,-2": "--seeds=1,-2: -2 is no seed; give 0 or more, up to 4",
        "--seeds=4294967296": "4294967296 is no seed; give 0 or more, up to 4294",
        "--seeds=1,2,01": "--seeds=1,2,1 has 1 twice; give it once",
        "--early_stopping_patience=2": "needs evaluations; set --evaluate_steps",
        "--quantization=float16": "is for LiteRT and ONNX exports; add",
        "--quantization=float16 --export_format=onnx": "ONNX exports have --quant",
        "--grid=learning_rate=1,2": "set --do_train and --do_predict",
        "--grid=seed=1": "--grid does not vary seed; give --seeds=1,2,3 beside it",
        "--grid=x=1": "--grid cannot vary 'x', which is no flag. It can vary learning_",
        "--grid=doc_stride=1": "--grid cannot vary doc_stride, for its runs share",
        "--grid=optimizer=a": "--grid: optimizer=a: value should be one of",
        "--grid=optimizer=adam,": "'optimizer=adam,' lacks a value; write such as",
        "--grid=optimizer=adam;optimizer=lamb": "has optimizer twice; give it once",
    },
    ("run_generation", networks.find_files): {"": "--bert_config_file is missing"},
    ("run_generation", lambda: networks.find_files(needs_weights=True)): {
        "--bert_config_file=c.json": "--init_checkpoint is missing"
    },
    ("run_classifier", lambda: run_settings()): {
        "--optimizer=gpt_adam --noadam_bias_correction": (
            "--noadam_bias_correction contradicts --optimizer=gpt_adam"
        ),
        "--optimizer=adagrad --adam_bias_correction": "but it is adagrad, which has",
    },
    ("run_classifier", lambda: run_classifier.check_flags()): {
        "--task_name=cola --delimiter=;": "--delimiter=; is for files of your own",
        "--task_name=cola --has_header=true": "--has_header=true is for files of your",
        "--train_file=a.csv --delimiter=; --quote=none": None,
        "--task_name=cola --encoding=cp1252": "--encoding=cp1252 is for files of your",
        "--encoding=latin9000": "--encoding=latin9000 is no encoding of text; give one",
    },
    ("run_embedding", lambda: embedding_flags.check()): {
        "--encoding=latin9000": "--encoding=latin9000 is no encoding of text; give one",
    },
    ("run_classifier", lambda: run_flags.plan(10, SCORES)): {
        "": "10 training examples make no step of --train_"
    },
    ("run_classifier", lambda: run_flags.plan(3668, SCORES)): {
        "--best_metric=f1": None,
        "--best_metric=mcc": "--best_metric=mcc is none of the scores",
    },
    ("run_pretraining", lambda: pretraining_flags.check_network(BERT, "b.json")): {
        "": None,
        "--objective=denoising": "=denoising is not for BERT, which b.json",
        "--objective=replaced_tokens": "for BERT, which b.json describes; set --objecti"
        "ve=masked_lm",
    },
    ("run_pretraining", lambda: pretraining_flags.check_network(ELECTRA, "c.json")): {
        "": None,
        "--objective=replaced_tokens": None,
        "--objective=left_to_right": "ELECTRA, which c.json describes; set --objective="
        "replaced_tokens",
    },
    ("run_pretraining", lambda: pretraining_flags.check_network(PAIR, "c.json")): {
        "": "set --objective=denoising",
        "--objective=denoising": None,
    },
    ("run_seq2seq", lambda: seq2seq_flags.check_network("c.json", PAIR, 4)): {
        "--max_source_length=20 --max_target_length=10 --num_beams=4": None,
        "--max_source_length=21 --max_target_length=10": (
            "--max_source_length=21 is more than the 20 positions of the e"
        ),
        "--max_source_length=20 --max_target_length=11": (
            "--max_target_length=11 is more than the 10 positions of the decoder"
        ),
        "--max_source_length=9 --max_target_length=9 --num_beams=5": (
            "--num_beams=5 is more than the 4 tokens of the vocabulary"
        ),
        "--max_source_length=9 --max_target_length=9 --length_penalty=2": (
            "--length_penalty=2.0 compares beams; set --num_beams"
        ),
        "--max_source_length=9 --max_target_length=9 --early_stopping=true": (
            "--early_stopping=true compares beams; set --num_beams"
        ),
        "--max_source_length=9 --max_target_length=9 --min_target_length=10": (
            "--min_target_length=10 is more than --max_target_length=9; lower it"
        ),
    },
    ("run_seq2seq", seq2seq_flags.paths): {
        "--do_train --train_file=a": None,
        "--do_predict": "test pairs are needed and --test_file is",
    },
    ("run_squad", model_flags.check): {
        "--pretrained=gs://bucket/model": None,  # for TensorFlow to look at
        "--pretrained=google-bert/bert-base-uncased": None,
        "--pretrained=bert-base-uncased": None,
        "--pretrained=bert-base-uncase": "(owner/name)",
        "--pretrained=./bert-base-uncased": "(owner/name)",
        # The first checkpoint may be gone where a run may be resumed.
        "--pretrained=. --init_checkpoint=gone": "--init_checkpoint=gone: no such file",
        "--pretrained=. --init_checkpoint=gone --output_dir=new": "=gone: no such file",
        "--pretrained=. --init_checkpoint=gone --output_dir=.": None,
        "--pretrained=. --init_checkpoint=gone --output_dir=gs://bucket/run": None,
    },
    ("run_squad", training_flags.check_actions): {
        "--do_train --output_dir=o": None,
        "--output_dir=o": (
            "^At least one of `do_train`, `do_predict` or `do_export` must be True.$"
        ),
        "--do_train": "--output_dir is missing",
    },
    ("run_generation", generation_flags.check): {
        "--score_file=a --prompt=b": "--score_file scores and --prompt writes texts",
        "--do_export --prompt=b": "--do_export writes neither texts nor scores",
        "--stride=3": "--stride=3 is for --score_file; add it, or leave it out",
        "--stop=": "--stop is empty, so no text could begin",
        "--do_export": "--do_export needs an --output_dir",
        "--output_file=a.csv": "ends in none of .jsonl, .txt, which say",
        "--score_file=a --output_file=a.txt": "ends in none of .jsonl, which say",
    },
    ("create_pretraining_data", creation_flags.check): {
        "--objective=left_to_right --masking=none": (
            "--masking=none is for --objective=masked_lm, but it is left_to_right; "
        ),
        "--document_end=file": "--document_end=file is for --objective=left_to_right",
        "--do_whole_word_mask --masking=span": "--masking=span contradict each other",
        "--masking=none --mask_proportions=1,0,0": "give the flag to run_pretraining",
    },
}


@pytest.mark.parametrize(
    ("script", "check", "arguments", "message"),
    [
        (script, check, arguments, message)
        for (script, check), rows in WRONG.items()
        for arguments, message in rows.items()
    ],
)
def test_contradictions_are_refused(
    parse, script, check, arguments, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    needed = {"create_pretraining_data": ("input_file", "output_file", "vocab_file")}
    places = [f"--{name}=gs://x" for name in needed.get(script, ())]
    parse(script, *places, *arguments.split())
    if message is None:
        check()
        return
    with pytest.raises(ValueError) as raised:
        check()
    assert re.search(
        message if "^" in message else re.escape(message), str(raised.value)
    )


OUT_OF_BOUNDS = {
    "run_seq2seq": (
        "num_beams=0 max_source_length=2 max_target_length=1 top_k=-1 top_p=1.5 "
        "temperature=-1 length_penalty=nan has_header=yes file_format=xml"
    ),
    "run_squad": (
        "distribution_strategy=parameter_server mixed_precision=float64 "
        "jit_compile=yes virtual_cpus=-1"
    ),
    "create_pretraining_data": (
        "max_seq_length=4 max_predictions_per_seq=0 masked_lm_prob=1.5 "
        "short_seq_prob=-0.1 mask_proportions=0.8,0.1 dupe_factor=0 num_shards=0 "
        "num_workers=-1 masking=sentence sentence_task=previous engine=spark"
    ),
}


@pytest.mark.parametrize("script", OUT_OF_BOUNDS)
def test_values_out_of_bounds_are_refused(script):
    with tiny.flags_of(script):
        for argument in OUT_OF_BOUNDS[script].split():
            name = argument.split("=")[0]
            with pytest.raises(flags.IllegalFlagValueError, match=name):
                flags.FLAGS([script, f"--{argument}"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.8,0.1", "needs 3 numbers of 0 to 1, by comma, such as 0.8,0.1,0.1"),
        ("0.8,0.1,few", "needs 3 numbers"),
        ("nan,0.5,0.5", "needs 3 numbers"),
        ("-0.2,0.7,0.5", "needs 3 numbers"),
        ("80,10,10", "needs 3 numbers"),
        ("0.8,0.1,0.2", "adds up to 1.1, not to 1; give shares of the whole, such as"),
    ],
)
def test_proportions_are_three_shares_of_one(parse, value, message):
    argument = f"--mask_proportions={value}"
    with pytest.raises(flags.IllegalFlagValueError) as raised:
        parse("run_pretraining", argument)
    assert f"flag {argument}: {message}" in str(raised.value)


# --- Values as other packages take them.


def test_masks_are_those_of_the_flags(parse):
    parse("run_pretraining")
    rule = masking.Rule(**pretraining_flags.masking_rule())
    assert rule == masking.Rule("word_piece", 0.15, 20)
    assert not pretraining_flags.masks_are_asked_for()
    parse("run_pretraining", "--mask_proportions=0,.8,0.2")
    rule = masking.Rule(**pretraining_flags.masking_rule())
    assert rule.proportions == (0.0, 0.8, 0.2)
    assert pretraining_flags.masks_are_asked_for()
    identity = pretraining_flags.masking_identity(masks=True)
    assert json.loads(json.dumps(identity)) == identity  # as run.json gives it back
    assert identity["mask_proportions"] == [0.0, 0.8, 0.2]
    masked = pretraining_flags.masking_identity(masks=None)
    assert (masked["masking"], masked["mask_proportions"]) == ("", [])


def test_pairs_lengths_and_draws_are_those_of_the_flags(parse):
    parse("run_seq2seq", "--train_file=a", "--dev_file=b", "--do_train", "--do_eval")
    assert seq2seq_flags.paths() == {"train": "a", "dev": "b"}
    greedy = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert seq2seq_flags.sampling() == greedy
    usual = {
        **{"num_beams": 1, "length_penalty": 1.0, "early_stopping": "never"},
        **{"no_repeat_ngram_size": 0, "min_length": 0, "max_new_tokens": 128},
    }
    assert seq2seq_flags.settings() == usual
    line = "--file_format=jsonl --has_header=false --source_column=1 --target_column=de"
    line += " --max_source_length=20 --max_target_length=10 --do_sample"
    parse("run_seq2seq", *line.split(), "--temperature=0.5", "--top_k=3", "--top_p=0.9")
    columns = seq2seq_flags.layout()
    assert (columns.file_format, columns.has_header) == ("jsonl", False)
    assert (columns.delimiter, columns.quote) == (None, None)
    assert (columns.source, columns.target) == ("1", "de")
    assert seq2seq_flags.limits() == (20, 10)
    draws = {"temperature": 0.5, "top_k": 3, "top_p": 0.9}
    assert seq2seq_flags.sampling() == draws


@dataclasses.dataclass
class Generation:
    generation: dict


FOUR_BEAMS = {
    **{"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
    **{"no_repeat_ngram_size": 3, "min_length": 5, "max_new_tokens": 20},
    "eos_token_id": 3,
}


@pytest.mark.parametrize(
    ("stated", "line", "wanted"),
    [
        ({}, "", None),
        ({"early_stopping": False}, "", None),  # means nothing without beams
        ({}, "--max_target_length=9", {"max_new_tokens": 9}),
        (FOUR_BEAMS, "", FOUR_BEAMS),
        (FOUR_BEAMS, "--do_train", {**FOUR_BEAMS, "max_new_tokens": 128}),
        (
            FOUR_BEAMS,
            "--do_sample",
            {"no_repeat_ngram_size": 3, "min_length": 5, "max_new_tokens": 20},
        ),
        (
            FOUR_BEAMS,
            "--num_beams=1 --min_target_length=0",
            {"no_repeat_ngram_size": 3, "max_new_tokens": 20},
        ),
        (
            FOUR_BEAMS,
            "--length_penalty=1 --early_stopping=false --no_repeat_ngram_size=0",
            {
                **{"num_beams": 4, "early_stopping": False},
                **{"min_length": 5, "max_new_tokens": 20},
            },
        ),
        ({"early_stopping": False}, "--num_beams=2", {"num_beams": 2}),
        ({}, "--num_beams=2", {"num_beams": 2}),
    ],
)
def test_settings_of_a_directory_are_defaults(parse, stated, line, wanted):
    parse("run_seq2seq", *line.split())
    usual = seq2seq_flags.settings() if not line else None
    config = seq2seq_flags.take_settings(Generation(stated))
    if wanted is None:
        assert config.generation == {} and seq2seq_flags.settings() == usual
        return
    default = {
        **{"num_beams": 1, "length_penalty": 1.0, "early_stopping": "never"},
        **{"no_repeat_ngram_size": 0, "min_length": 0, "max_new_tokens": 128},
    }
    wanted = {**default, **wanted}
    if "num_beams=2" in line:  # the library's default, where the directory is its own
        wanted["early_stopping"] = stated.get("early_stopping", "never")
    wanted.pop("eos_token_id", None)
    assert config.generation == seq2seq_flags.settings() == wanted


# --- Files of a network.


@pytest.fixture
def located(monkeypatch):

    def call(lowers=None):
        place = pretrained.ModelFiles("dir/c.json", "dir/vocab.txt", "dir/ckpt", lowers)
        monkeypatch.setattr(pretrained, "locate", {"dir": place}.__getitem__)

    call()
    return call


@pytest.mark.parametrize(
    ("arguments", "config_file", "vocab_file", "weights"),
    [
        ("--pretrained=dir", "dir/c.json", "dir/vocab.txt", "dir/ckpt"),
        (
            "--pretrained=dir --vocab_file=v.txt --init_checkpoint=w.ckpt",
            "dir/c.json",
            "v.txt",
            "w.ckpt",
        ),
        ("--bert_config_file=c.json", "c.json", "", ""),
    ],
)
def test_pretrained_stands_for_three_flags_that_override_it(
    parse, located, arguments, config_file, vocab_file, weights
):
    parse("run_generation", *arguments.split())
    expected = pretrained.ModelFiles(config_file, vocab_file, weights, True)
    assert networks.find_files() == expected


def test_how_words_are_found_is_handed_on(parse, located):
    parse("run_squad", "--pretrained=dir", "--split_words=punctuation")
    files = networks.find_files()
    assert files.split_words == "punctuation" and files.allows_missing is False


@pytest.mark.parametrize(
    ("lowers", "flag", "expected"),
    [
        (False, "", False),  # the directory knows
        (False, "--do_lower_case=true", True),
        (True, "--do_lower_case=false", False),
        (None, "", True),
    ],
)
def test_directory_decides_on_lower_case_unless_a_flag_does(
    parse, located, lowers, flag, expected
):
    located(lowers)
    parse("run_squad", "--pretrained=dir", *flag.split())
    assert networks.find_files().do_lower_case is expected
    assert pretrained.locate("dir").do_lower_case is lowers


# --- Plans and settings of runs.

RUN = ("--do_train", "--output_dir=out", "--learning_rate=1e-3")


def test_plan_is_the_originals(parse):
    parse("run_classifier", *RUN, "--iterations_per_loop=50")
    plan = run_flags.plan(3668, ("accuracy", "f1", "loss"))
    assert plan.num_train_steps == 343  # int(3668 / 32 * 3)
    rates = [plan.learning_rate(step) for step in (0, 33, 34, 343)]
    assert rates == pytest.approx([0, 1e-3 * 33 / 34, 1e-3 * (1 - 34 / 343), 0])
    assert (plan.save_steps, plan.log_steps, plan.max_steps_per_call) == (1000, 17, 50)
    assert plan.best_metric == "accuracy"


def test_short_runs_have_points_more_often(parse):
    parse("run_classifier")
    points = [run_flags.plan_of_steps(n, 0).log_steps for n in (28, 399, 10_000)]
    assert points == [1, 19, 20]


def test_plan_follows_the_schedule_of_gpt(parse):
    """The share of warm-up is no whole number of steps, as in opt.py."""
    schedule = ("--learning_rate_schedule=gpt_linear", "--warmup_proportion=0.01")
    parse("run_classifier", *RUN, *schedule)
    plan = run_flags.plan(3668, ("accuracy",))
    assert plan.learning_rate(0) == pytest.approx(1e-3 / 3.43 * (1 - 1 / 343))
    assert plan.learning_rate(3) == pytest.approx(1e-3 * (1 - 4 / 343))


@pytest.mark.parametrize(
    ("name", "flag", "kind", "corrects"),
    [
        ("adam", "", optimizers.BertAdam, False),
        ("lamb", "--adam_bias_correction", optimizers.BertLamb, True),
        ("gpt_adam", "", optimizers.GptAdam, True),
        ("adagrad", "", adagrad.Adagrad, None),
    ],
)
def test_optimizer_is_the_named_one(parse, name, flag, kind, corrects):
    parse("run_classifier", f"--optimizer={name}", *flag.split())
    made = run_settings(adagrad_settings={"clip_norm": 1.0}).optimizer()
    assert type(made) is kind
    assert getattr(made, "bias_correction", None) is corrects
    assert name != "adagrad" or (made.max_norm, made.gradient_factor) == (1.0, 1.0)
    assert getattr(made, "weight_decay_rate", 0.01) == 0.01
    parse("run_classifier", f"--optimizer={name}", "--weight_decay_rate=0")
    if name == "adagrad":
        with pytest.raises(ValueError, match=r"--weight_decay_rate=0.0: .*adagrad has"):
            run_settings(adagrad_settings={})
    else:
        assert run_settings().optimizer().weight_decay_rate == 0.0


def test_rates_by_layer_are_those_of_the_flags(parse):
    parse("run_classifier", *RUN)
    assert fine_tuning_settings().run.layers is None
    parse("run_classifier", *RUN, "--layerwise_lr_decay=0.8")
    assert fine_tuning_settings().run.layers == layer_rates.LayerRates(0.8, 0.0)
    unfreeze = "--unfreeze_epochs=0.25"
    parse("run_classifier", *RUN, unfreeze)
    # 320 examples in batches of 32
    assert fine_tuning_settings().run.layers == layer_rates.LayerRates(1.0, 2.5)
    grid = "--grid=layerwise_lr_decay=0.9,1;unfreeze_epochs=0,0.5"
    parse("run_classifier", *RUN, "--do_eval", grid)
    made = [each.run.layers for each in fine_tuning_settings().combinations]
    expected = (0.9, 0.0), (0.9, 5.0), None, (1.0, 5.0)
    assert made == [layer_rates.LayerRates(*v) if v else None for v in expected]


@pytest.mark.parametrize(("has_head", "needed"), [(True, 3), (False, 2)])
def test_epochs_until_all_layers_are_trained_are_counted(
    parse, has_head, needed, caplog
):
    two_blocks = dataclasses.replace(BERT_CONFIG, num_hidden_layers=2)

    def warnings(epochs):
        caplog.clear()
        parse("run_tagger", *RUN, "--unfreeze_epochs=1", f"--num_train_epochs={epochs}")
        fine_tuning_settings(two_blocks, has_head=has_head)
        return [line for line in caplog.messages if "never trained" in line]

    assert warnings(needed + 0.5) == []
    (line,) = warnings(needed)
    assert line.endswith(f"in {needed} epochs; all layers need more than {needed}")


@pytest.mark.parametrize("flag", ["--layerwise_lr_decay=0.8", "--unfreeze_epochs=0.5"])
def test_rates_by_layer_need_layers_below_a_head(parse, flag):
    parse("run_tagger", *RUN, flag, "--freeze_encoder")
    with pytest.raises(ValueError, match=f"{flag} .*--freeze_encoder .*leave it out"):
        fine_tuning_settings()
    parse("run_seq2seq", *RUN, flag)
    with pytest.raises(ValueError, match=f"{flag} .* encoder-decoder .*leave it out"):
        fine_tuning_settings(PAIR)
    parse("run_tagger", *RUN, flag)
    assert fine_tuning_settings().run.layers


def test_run_is_what_the_flags_say(parse):
    line = "--seed=4 --keep_checkpoint_max=7 --train_batch_size=24 --deterministic"
    line += " --gradient_accumulation_steps=3 --max_seq_length=16"
    parse("run_classifier", *RUN, *line.split())
    settings = run_settings()
    assert (settings.output_dir, settings.seed, settings.plan) == ("out", 4, "plan")
    assert (settings.max_to_keep, settings.batch_size) == (7, 24)
    assert settings.micro_batches == 3
    assert settings.length_flag == "--num_train_steps"
    identity = dict(settings.identity)
    assert identity.pop("config") == {"hidden_size": 8}
    assert identity["max_seq_length"] == 16 and identity["train_batch_size"] == 24
    assert set(identity) >= OF_WEIGHTS["run_classifier"]
    assert settings.flags["seed"] == 4 and settings.flags["log_steps"] == 20
    assert "--max_seq_length=16" in settings.command
    model = types.SimpleNamespace(compute_dtype="float32", variable_dtype="float32")
    assert settings.describe(model) == "float32; deterministic"
    assert (settings.jit_compile, settings.scales_loss) == (False, False)
    assert (settings.overwrite, settings.trains) == (False, True)
    other = "--jit_compile=true --mixed_precision=float16 --overwrite_output_dir"
    parse("run_classifier", *other.split())
    settings = run_settings()
    assert (settings.jit_compile, settings.scales_loss) == (True, True)
    assert (settings.overwrite, settings.trains) == (True, False)
    assert settings.dtype_policy == "mixed_float16"


_UPDATES = """
train_batch_size learning_rate optimizer learning_rate_schedule adam_bias_correction
weight_decay_rate mixed_precision
"""
_FINE_TUNING = f"""{_UPDATES} warmup_proportion best_metric group_by_length
pad_to_max_length layerwise_lr_decay unfreeze_epochs
"""
# All flags that decide the weights, of each script that trains; a new one is of them.
OF_WEIGHTS = {
    script: set(names.split())
    for script, names in {
        "run_classifier": f"""{_FINE_TUNING} max_seq_length class_weights problem_type
            pair_input lm_loss_weight distill_temperature distill_weight
            pack_sequences label_smoothing""",
        "run_squad": f"""{_FINE_TUNING} max_seq_length max_query_length doc_stride
            answer_aligner multiple_answers version_2_with_negative""",
        "run_tagger": f"""{_FINE_TUNING} max_seq_length tag_scheme document_context
            window_stride pack_sequences label_smoothing""",
        "run_embedding": f"""{_FINE_TUNING} max_seq_length pack_sequences loss scale
            symmetric triplet_margin largest_score matryoshka_dims query_prompt
            passage_prompt rows_per_label""",
        "run_seq2seq": f"{_FINE_TUNING} max_source_length max_target_length",
        "run_pretraining": f"""{_UPDATES} num_warmup_steps max_seq_length objective
            masking masked_lm_prob mask_proportions max_predictions_per_seq unroll_steps
            sample_softmax num_negative_samples corruption noise_density
            mean_noise_span_length pack_sequences generator_size
            discriminator_loss_weight""",
    }.items()
}


@pytest.mark.parametrize("script", OF_WEIGHTS)
def test_identity_has_every_flag_that_changes_weights(script):
    with tiny.flags_of(script) as names:
        flags.FLAGS([script])
        before = training_flags.weight_flags()
        changed = set()
        for name in names:
            with command_line.changed({name: "another value"}):
                if training_flags.weight_flags() != before:
                    changed.add(name)
    assert changed == OF_WEIGHTS[script]
    assert changed.isdisjoint(training_flags.CHANGE_NO_WEIGHT)


_READING = """
mixed_precision pad_to_max_length predict_batch_size do_lower_case split_words
check_case check_tokenizer
"""
_TABLES = "file_format has_header delimiter quote encoding"
# All flags that change answers of a trained directory, of each script whose report has
# a command that predicts rows of a file; a new one is of them, and stands in it.
OF_ANSWERS = {
    script: set(names.split())
    for script, names in {
        "run_classifier": f"""{_READING} {_TABLES} max_seq_length text_a_column
            text_b_column choice_columns pair_input allow_empty_text label_separator
            multi_label_threshold""",
        "run_tagger": f"""{_READING} max_seq_length file_format word_column tag_scheme
            window_stride document_context""",
        "run_squad": f"""{_READING} max_seq_length task_name doc_stride answer_aligner
            max_query_length n_best_size max_answer_length version_2_with_negative
            null_score_diff_threshold""",
        "run_seq2seq": f"""{_READING} {_TABLES} source_column target_column seed
            max_source_length max_target_length num_beams length_penalty early_stopping
            no_repeat_ngram_size min_target_length do_sample temperature top_k top_p""",
    }.items()
}


def test_every_flag_that_changes_answers_is_in_the_command_that_predicts(parse):
    programs = {kind.program for kind in usage.KINDS.values() if kind.rows_flag}
    assert OF_ANSWERS.keys() == programs
    known = set()
    for script in programs:
        parse(script)
        names = command_line.values().keys()
        known |= names
        actual = {name for name in names if usage.changes_answers(script, name)}
        assert actual == OF_ANSWERS[script], script
    assert known >= usage.CHANGE_NO_ANSWER


def fine_tuning_settings(network=BERT_CONFIG, **changes):
    return run_flags.fine_tuning_settings(
        STRATEGY,
        model_directory.ModelDirectory(pretrained.ModelFiles(), network),
        num_examples=320,
        score_names=("f1",),
        **changes,
    )


def test_fine_tuning_is_what_the_flags_say(parse):
    batches = ("--eval_batch_size=5", "--predict_batch_size=6")
    parse("run_squad", *RUN, "--seeds=1,2", "--do_export", *batches)
    settings = fine_tuning_settings()
    assert settings.run.plan.num_train_steps == 320 * 3 // 32
    assert list(settings.seeds) == [1, 2]
    # A script without the flag --do_eval evaluates nothing by itself.
    assert (settings.evaluates, settings.predicts, settings.exports) == (0, 0, 1)
    assert (settings.eval_batch_size, settings.predict_batch_size) == (5, 6)
    assert settings.reports and settings.default_flags["seed"] == 1
    parse("run_tagger", "--do_eval", "--nowrite_report", "--output_dir=out")
    settings = fine_tuning_settings()
    assert settings.evaluates is True and settings.reports is False
    assert settings.run.plan is None
    assert (settings.group_by_length, settings.pad_to) == (True, None)
    parse("run_tagger", *RUN, "--pad_to_max_length")
    settings = fine_tuning_settings()
    assert (settings.group_by_length, settings.pad_to) == (False, 128)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--do_train", ["train"]),
        ("--do_train --evaluate_steps=5", ["train", "dev"]),
        ("--evaluate_steps=5", []),
        ("--do_eval --do_predict", ["dev", "test"]),
    ],
)
def test_splits_are_those_that_the_actions_need(parse, arguments, wanted):
    parse("run_tagger", *arguments.split())
    assert fine_tuning_flags.wanted_splits() == wanted


@pytest.mark.parametrize(
    ("script", "layout"),
    [
        ("run_classifier", lambda: run_classifier.layout()),
        ("run_embedding", lambda: embedding_flags.layout()),
        ("run_seq2seq", lambda: seq2seq_flags.layout()),
    ],
)
def test_every_reader_of_tables_gets_delimiter_and_quote(parse, script, layout):
    parse(script, "--delimiter=;", "--quote=none", "--has_header=false")
    given = layout()
    assert (given.delimiter, given.quote, given.has_header) == (";", "none", False)
    parse(script)
    assert (layout().delimiter, layout().quote, layout().has_header) == (None,) * 3
    assert layout().encoding == "utf-8"
    parse(script, "--encoding=cp1252")
    assert layout().encoding == "cp1252"
