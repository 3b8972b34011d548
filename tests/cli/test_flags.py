"""What the flags of scripts mean, read as the scripts read them."""

import contextlib
import dataclasses
import json
import pathlib
import re
import types

import pytest
import tensorflow as tf
from absl import flags

from cli import (
    command_line,
    creation_flags,
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
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import sentence_pairs
from data_pipeline.pretraining.denoising import corruptions
from data_pipeline.squad import choice
from data_pipeline.tagging import files, schemes
from data_pipeline.vocabularies import learn_wordpiece
from modeling import pretrainers
from modeling.checkpoints import conversion, pretrained
from modeling.features import head_config, layer_choices, vectors
from tests import tiny
from training import optimizers

STRATEGY = tf.distribute.get_strategy()


@pytest.fixture
def parse():
    """A function of a script and its arguments that replaces the flags before."""
    with contextlib.ExitStack() as stack:

        def call(script, *arguments):
            stack.close()
            names = stack.enter_context(tiny.flags_of(script))
            flags.FLAGS([script, *arguments])
            return names

        yield call


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
        "corruption": corruptions.CORRUPTIONS,
    },
    "run_squad": {"answer_aligner": choice.ALIGNERS},
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


# --- Contradictions, by the function that refuses them.

WRONG = {
    ("run_pretraining", pretraining_flags.check_objective): {
        "--corruption=drop": "--corruption=drop is for --objective=denoising; leave",
        "--noise_density=0.3 --objective=left_to_right": "is for --objective=denoisin",
        "--mean_noise_span_length=2": "--mean_noise_span_length=2.0 is for --objective",
        "--objective=denoising --masking=span": "is for --objective=masked_lm; leave",
        "--objective=left_to_right --mask_proportions=1,0,0": (
            "--mask_proportions=1.0,0.0,0.0 is for --objective=masked_lm; leave it out"
        ),
        "--objective=denoising --unroll_steps=3": "is for --objective=bidirectional_lm",
        "--objective=denoising --do_export": "has not; use run_seq2seq.py",
        "--objective=left_to_right --do_export": "has not; use run_generation.py",
        "--top_k=3": "--top_k=3 is for --do_export; add it",
    },
    ("run_seq2seq", seq2seq_flags.check): {
        "": None,
        "--source_column=a --target_column=a": "are both a; each needs a column",
        "--do_sample --num_beams=2": "--num_beams=2 compares several; leave one",
        "--do_sample --temperature=0": "draws nothing; leave --do_sample out",
        "--temperature=0.5": "--temperature=0.5 is for drawing tokens; add --do_sample",
        "--top_k=5": "--top_k=5 is for drawing",
        "--do_sample --top_p=0": "--top_p=0.0 is not above 0",
        "--length_penalty=2": "--length_penalty=2.0 compares beams; set --num_beams",
        "--export_format=litert": "--export_format=litert holds networks that run on",
    },
    ("run_squad", fine_tuning_flags.check): {
        "": None,
        "--seeds=1,x": "--seeds=1,x are not whole numbers",
        "--seeds=1,-2": "--seeds=1,-2: -2 is no seed; give 0 or more, up to 4",
        "--seeds=4294967296": "4294967296 is no seed; give 0 or more, up to 4294",
        "--seeds=0,4294967295": None,
        "--seeds=1,2,01": "--seeds=1,2,1 has 1 twice; give it once",
        "--early_stopping_patience=2": "needs evaluations; set --evaluate_steps",
        "--early_stopping_patience=2 --evaluate_steps=5": None,
        "--quantization=float16": "is for LiteRT exports; add",
        "--quantization=float16 --export_format=litert": None,
        "--grid=learning_rate=1,2": "set --do_train and --do_predict",
        "--grid=seed=1": "--grid does not vary seed; give --seeds=1,2,3 beside it",
        "--grid=x=1": "--grid cannot vary 'x', which is no flag. It can vary learning_",
        "--grid=num_beams": "--grid cannot vary 'num_beams', which is no flag",
        "--grid=doc_stride=1": "--grid cannot vary doc_stride, for its runs share",
        "--grid=optimizer=a": "--grid: optimizer=a: value should be one of",
        "--grid=optimizer=adam,": "'optimizer=adam,' lacks a value; write such as",
        "--grid=optimizer=adam,adam": "optimizer=adam,adam has adam twice; give it",
        "--grid=optimizer=adam;optimizer=lamb": "has optimizer twice; give it once",
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
        "--template={text}": "--template is for --score_file with --score_as=labels",
        "--stride=3 --score_file=a --score_as=labels": "--score_as=texts or document",
        "--score_file=a --score_as=labels": "--score_as=labels needs a --template",
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
def test_contradictions_are_refused(parse, script, check, arguments, message):
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
        *(
            (value, "needs 3 numbers of 0 to 1, by comma, such as 0.8,0.1,0.1")
            for value in ("0.8,0.1", "0.8,0.1,0.1,0", "0.8,0.1,few", "nan,0.5,0.5")
        ),
        ("-0.2,0.7,0.5", "needs 3 numbers"),
        ("80,10,10", "needs 3 numbers"),
        ("", "needs 3 numbers"),
        ("0.8,0.1,0.2", "adds up to 1.1, not to 1; give shares of the whole, such as"),
        ("0,0,0", "adds up to 0, not to 1"),
    ],
)
def test_proportions_are_three_shares_of_one(parse, value, message):
    argument = f"--mask_proportions={value}"
    with pytest.raises(flags.IllegalFlagValueError) as raised:
        parse("run_pretraining", argument)
    assert f"flag {argument}: {message}" in str(raised.value)


def test_network_decides_on_the_objective(parse):
    bert = types.SimpleNamespace(network="bert", kind="BERT")
    both = types.SimpleNamespace(network="encoder_decoder", kind="an encoder-decoder")
    parse("run_pretraining", "--objective=denoising")
    pretraining_flags.check_network(both, "config.json")
    with pytest.raises(ValueError, match="=denoising is not for BERT, which bert_c"):
        pretraining_flags.check_network(bert, "bert_config.json")
    parse("run_pretraining")
    with pytest.raises(ValueError, match="set --objective=denoising"):
        pretraining_flags.check_network(both, "config.json")


def test_texts_and_beams_have_to_fit_an_encoder_decoder(parse):
    lengths = ("--max_source_length=20", "--max_target_length=10", "--num_beams=4")
    parse("run_seq2seq", *lengths)

    def check(sources, targets, size):
        side, text = types.SimpleNamespace, "config.json"
        config = types.SimpleNamespace(
            encoder=side(max_position_embeddings=sources),
            decoder=side(max_position_embeddings=targets),
        )
        seq2seq_flags.check_network(text, config, size)

    check(20, 10, 4)
    for sizes, message in (
        ((19, 10, 4), r"--max_source_length=20 is more than the 19 positions of the e"),
        ((20, 9, 4), r"--max_target_length=10 is more than the 9 .* decoder \(config"),
        ((20, 10, 3), "--num_beams=4 is more than the 3 tokens of the vocabulary"),
    ):
        with pytest.raises(ValueError, match=message):
            check(*sizes)


# --- Values as other packages take them.


def test_masks_are_those_of_the_flags(parse):
    parse("run_pretraining")
    rule = masking.Rule(**pretraining_flags.masking_rule())
    assert rule == masking.Rule("word_piece", 0.15, 20)
    assert not pretraining_flags.masks_are_asked_for()
    usual = pretraining_flags.masking_identity(masks=True)
    none = {"masking": "", "masked_lm_prob": 0.0, "mask_proportions": []}
    masked = pretraining_flags.masking_identity(masks=None)
    assert masked == {"max_predictions_per_seq": 20, **none}
    parse("run_pretraining", "--mask_proportions=0,.8,0.2")
    rule = masking.Rule(**pretraining_flags.masking_rule())
    assert rule.proportions == (0.0, 0.8, 0.2)
    assert pretraining_flags.masks_are_asked_for()
    other = pretraining_flags.masking_identity(masks=True)
    typed = flags.FLAGS["mask_proportions"].serialize()
    assert typed == "--mask_proportions=0.0,0.8,0.2"
    # As run.json gives it back.
    assert json.loads(json.dumps(usual)) == usual
    assert usual | {"mask_proportions": [0.0, 0.8, 0.2]} == other != usual


def test_noise_is_that_of_the_flags_and_else_of_the_paper(parse):
    parse("run_pretraining", "--objective=denoising")
    rule = corruptions.rule(**pretraining_flags.noise_rule())
    assert rule == corruptions.Rule("random_spans", 0.15, 3.0)
    noise = ("--corruption=infilling", "--mean_noise_span_length=2")
    parse("run_pretraining", *noise)
    rule = corruptions.rule(**pretraining_flags.noise_rule())
    assert rule == corruptions.Rule("infilling", 0.3, 2.0)


def test_pairs_lengths_and_draws_are_those_of_the_flags(parse):
    parse("run_seq2seq", "--train_file=a", "--dev_file=b", "--do_train", "--do_eval")
    assert seq2seq_flags.paths() == {"train": "a", "dev": "b"}
    columns = seq2seq_flags.layout()
    assert (columns.file_format, columns.has_header) == ("auto", None)
    assert (columns.source, columns.target) == (None, None)
    lengths = {"max_source_length": 128, "max_target_length": 128}
    assert model_flags.lengths() == lengths
    greedy = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert seq2seq_flags.sampling() == greedy
    assert seq2seq_flags.beams() == {"num_beams": 1, "length_penalty": 1.0}
    parse(
        "run_seq2seq",
        "--file_format=jsonl",
        "--has_header=false",
        "--source_column=1",
        "--target_column=de",
        "--max_source_length=20",
        "--max_target_length=10",
        "--do_sample",
        "--temperature=0.5",
        "--top_k=3",
        "--top_p=0.9",
        "--do_predict",
    )
    columns = seq2seq_flags.layout()
    assert (columns.file_format, columns.has_header) == ("jsonl", False)
    assert (columns.source, columns.target) == ("1", "de")
    assert seq2seq_flags.limits() == (20, 10)
    draws = {"temperature": 0.5, "top_k": 3, "top_p": 0.9}
    assert seq2seq_flags.sampling() == draws
    with pytest.raises(ValueError, match="test pairs are needed and --test_file is"):
        seq2seq_flags.paths()


# --- Files of a network.


@pytest.fixture
def located(monkeypatch):
    """A function that sets whether the directory `dir` lower-cases."""

    def call(lowers=None):
        place = pretrained.Pretrained("dir/c.json", "dir/vocab.txt", "dir/ckpt", lowers)
        monkeypatch.setattr(pretrained, "locate", {"dir": place}.__getitem__)

    call()
    return call


@pytest.mark.parametrize(
    ("arguments", "config_file", "vocab_file", "weights"),
    [
        ("--pretrained=dir", "dir/c.json", "dir/vocab.txt", "dir/ckpt"),
        (
            "--pretrained=dir --vocab_file=v.txt --init_checkpoint=w.ckpt",
            *("dir/c.json", "v.txt", "w.ckpt"),
        ),
        ("--bert_config_file=c.json --vocab_file=v.txt", "c.json", "v.txt", ""),
        ("--bert_config_file=c.json", "c.json", "", ""),
    ],
)
def test_pretrained_stands_for_three_flags_that_override_it(
    parse, located, arguments, config_file, vocab_file, weights
):
    parse("run_generation", *arguments.split())
    expected = networks.ModelFiles(config_file, vocab_file, weights, True)
    assert networks.find_files() == expected


def test_network_has_to_be_named(parse):
    parse("run_generation")
    with pytest.raises(ValueError, match="--bert_config_file is missing"):
        networks.find_files()
    parse("run_generation", "--bert_config_file=c.json")
    with pytest.raises(ValueError, match="--init_checkpoint is missing"):
        networks.find_files(needs_weights=True)


@pytest.mark.parametrize(
    ("name", "value"), [("gpt_tokenizer", "original"), ("split_words", "punctuation")]
)
def test_how_words_are_found_is_handed_on(parse, located, name, value):
    parse("run_squad", "--pretrained=dir", f"--{name}={value}")
    files = networks.find_files()
    assert getattr(files, name) == value and files.allows_missing is False


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
    files = networks.files_in(pretrained.locate("dir"))
    assert files.do_lower_case is (lowers is not False)


@pytest.mark.parametrize("output_dir", [None, "new", ".", "gs://bucket/run"])
def test_first_checkpoint_may_be_gone_where_a_run_may_be_resumed(
    parse, monkeypatch, tmp_path, output_dir
):
    places = [f"--output_dir={output_dir}"] if output_dir else []
    parse("run_squad", "--pretrained=dir", "--init_checkpoint=gone", *places)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("dir").mkdir()
    if output_dir in (None, "new"):
        with pytest.raises(ValueError, match="--init_checkpoint=gone: no such file"):
            model_flags.check()
    else:
        model_flags.check()


@pytest.mark.parametrize(
    ("place", "wanted"),
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
    parse, monkeypatch, tmp_path, place, wanted
):
    parse("run_squad", f"--pretrained={place}")
    monkeypatch.chdir(tmp_path)
    if wanted is None:
        model_flags.check()
        return
    with pytest.raises(ValueError, match=re.escape(wanted)):
        model_flags.check()


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


def test_plan_of_steps_counts_the_warm_up_in_steps(parse):
    parse("run_classifier", *RUN, "--evaluate_steps=7")
    plan = run_flags.plan_of_steps(100, 4)
    rates = [plan.learning_rate(step) for step in (0, 2, 4, 100)]
    assert rates == pytest.approx([0.0, 5e-4, 1e-3 * 0.96, 0.0])
    assert (plan.num_train_steps, plan.evaluate_steps) == (100, 7)
    assert (plan.best_metric, plan.patience) == ("", 0)


@pytest.mark.parametrize(
    ("steps", "flag", "expected"),
    [
        (28, "", 1),  # and not two points
        (10, "", 1),
        (399, "", 19),
        (400, "", 20),
        (10_000, "", 20),
        (28, "--log_steps=20", 20),
    ],
)
def test_short_runs_have_points_more_often(parse, steps, flag, expected):
    parse("run_classifier", *flag.split())
    assert run_flags.plan_of_steps(steps, 0).log_steps == expected


def test_plan_follows_the_schedule_of_gpt(parse):
    """The share of warm-up is no whole number of steps, as in opt.py."""
    schedule = ("--learning_rate_schedule=gpt_linear", "--warmup_proportion=0.01")
    parse("run_classifier", *RUN, *schedule)
    plan = run_flags.plan(3668, ("accuracy",))
    assert plan.learning_rate(0) == pytest.approx(1e-3 / 3.43 * (1 - 1 / 343))
    assert plan.learning_rate(3) == pytest.approx(1e-3 * (1 - 4 / 343))


def test_plan_without_a_step_or_a_score_is_refused(parse):
    parse("run_classifier")
    with pytest.raises(ValueError, match="10 training examples in batches of --train_"):
        run_flags.plan(10, ("accuracy",))
    scores = ("accuracy", "f1", "loss")
    for name in ("f1", "loss"):
        parse("run_classifier", f"--best_metric={name}")
        assert run_flags.plan(3668, scores).best_metric == name
    parse("run_classifier", "--best_metric=mcc")
    with pytest.raises(ValueError, match="--best_metric=mcc is none of the scores"):
        run_flags.plan(3668, scores)


def run_settings(adagrad_settings=None):
    return run_flags.run_settings(
        STRATEGY,
        "plan",
        config={"hidden_size": 8},
        init_checkpoint="",
        length_flag="--num_train_steps",
        adagrad_settings=adagrad_settings,
    )


@pytest.mark.parametrize(
    ("name", "flag", "kind", "corrects"),
    [
        ("adam", "", optimizers.BertAdam, False),
        ("adam", "--adam_bias_correction", optimizers.BertAdam, True),
        ("lamb", "", optimizers.BertLamb, False),
        ("lamb", "--adam_bias_correction", optimizers.BertLamb, True),
        ("gpt_adam", "", optimizers.GptAdam, True),
    ],
)
def test_optimizer_is_the_named_one(parse, name, flag, kind, corrects):
    parse("run_classifier", f"--optimizer={name}", *flag.split())
    made = run_settings(adagrad_settings={"clip_norm": 1.0}).optimizer()
    assert type(made) is kind and made.bias_correction is corrects


def test_adagrad_is_what_the_task_says(parse):
    parse("run_classifier", "--optimizer=adagrad")
    made = run_settings().optimizer()
    assert type(made) is optimizers.Adagrad
    assert (made.max_norm, made.gradient_factor) == (10.0, 1.0)
    made = run_settings({"clip_norm": 1.0, "gradient_factor": 6.0}).optimizer()
    assert (made.max_norm, made.gradient_factor) == (1.0, 6.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--optimizer=gpt_adam --noadam_bias_correction",
            "--noadam_bias_correction contradicts --optimizer=gpt_adam",
        ),
        ("--optimizer=adagrad --adam_bias_correction", "but it is adagrad, which has"),
    ],
)
def test_optimizers_refuse_another_correction(parse, arguments, message):
    parse("run_classifier", *arguments.split())
    with pytest.raises(ValueError, match=message):
        run_settings()


def test_run_is_what_the_flags_say(parse):
    parse(
        "run_classifier",
        *RUN,
        *["--seed=4", "--keep_checkpoint_max=7", "--train_batch_size=24"],
        *["--gradient_accumulation_steps=3", "--deterministic", "--max_seq_length=16"],
    )
    settings = run_settings()
    assert (settings.output_dir, settings.seed, settings.plan) == ("out", 4, "plan")
    assert (settings.max_to_keep, settings.batch_size, settings.micro_batches) == (
        7,
        24,
        3,
    )
    assert settings.length_flag == "--num_train_steps"
    identity = dict(settings.identity)
    assert identity.pop("config") == {"hidden_size": 8}
    assert identity["max_seq_length"] == 16 and identity["train_batch_size"] == 24
    assert set(identity) >= OF_WEIGHTS["run_classifier"]
    assert settings.flags["seed"] == 4 and settings.flags["log_steps"] == 20
    assert "--max_seq_length=16" in settings.command
    model = types.SimpleNamespace(compute_dtype="float32", variable_dtype="float32")
    assert settings.describe(model) == "float32; deterministic"


@pytest.mark.parametrize(
    ("flag", "name", "value"),
    [
        ("--jit_compile=true", "jit_compile", True),
        ("", "jit_compile", False),
        ("--mixed_precision=float16", "scales_loss", True),
        ("--mixed_precision=bfloat16", "scales_loss", False),
        ("--mixed_precision=float16", "dtype_policy", "mixed_float16"),
        ("", "dtype_policy", "float32"),
        ("--overwrite_output_dir", "overwrite", True),
        ("--do_train", "trains", True),
        ("", "trains", False),
    ],
)
def test_run_follows_a_flag(parse, flag, name, value):
    parse("run_classifier", *flag.split())
    assert getattr(run_settings(), name) == value


_UPDATES = """
train_batch_size learning_rate optimizer learning_rate_schedule adam_bias_correction
mixed_precision
"""
_FINE_TUNING = f"""{_UPDATES} warmup_proportion best_metric group_by_length
pad_to_max_length
"""
# All flags that decide the weights, of each script that trains; a new one is of them.
OF_WEIGHTS = {
    script: set(names.split())
    for script, names in {
        "run_classifier": f"""{_FINE_TUNING} max_seq_length class_weights problem_type
            pair_input lm_loss_weight distill_temperature distill_weight""",
        "run_squad": f"""{_FINE_TUNING} max_seq_length max_query_length doc_stride
            answer_aligner multiple_answers version_2_with_negative""",
        "run_tagger": f"""{_FINE_TUNING} max_seq_length tag_scheme document_context
            window_stride""",
        "run_seq2seq": f"{_FINE_TUNING} max_source_length max_target_length",
        "run_pretraining": f"""{_UPDATES} num_warmup_steps max_seq_length objective
            masking masked_lm_prob mask_proportions max_predictions_per_seq unroll_steps
            sample_softmax num_negative_samples corruption noise_density
            mean_noise_span_length""",
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


def test_flags_that_change_no_weight_are_flags():
    known = set()
    for script in OF_WEIGHTS:
        with tiny.flags_of(script) as names:
            known.update(names)
    assert known >= training_flags.CHANGE_NO_WEIGHT


def fine_tuning_settings():
    return run_flags.fine_tuning_settings(
        STRATEGY,
        files=networks.ModelFiles("c.json", "v.txt", "", True),
        config={},
        num_examples=320,
        score_names=("f1",),
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


@pytest.mark.parametrize(
    ("arguments", "grouped", "pad_to"),
    [
        ("", True, None),
        ("--pad_to_max_length", False, 128),
        ("--nogroup_by_length", False, None),
    ],
)
def test_batches_are_made_as_the_flags_say(parse, arguments, grouped, pad_to):
    parse("run_tagger", *RUN, *arguments.split())
    settings = fine_tuning_settings()
    assert (settings.group_by_length, settings.pad_to) == (grouped, pad_to)


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
