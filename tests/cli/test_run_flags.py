"""Tests of run_flags.py with a stand-in for the parsed command line."""

import types

import pytest
import tensorflow as tf
from absl import flags

from cli import command_line as command_line_lib
from cli import fine_tuning_flags, model_flags, run_flags, training_flags
from tests import tiny
from training import optimizers

TRAINING = {
    "train_batch_size": 32,
    "num_train_epochs": 3.0,
    "learning_rate": 1e-3,
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 1000,
    "log_steps": 20,
    "iterations_per_loop": 50,
    "evaluate_steps": 0,
    "best_metric": None,
    "early_stopping_patience": 0,
    "profile_steps": [],
    "do_train": True,
    "learning_rate_schedule": "linear",
}


def test_plan_is_the_originals(command_line):
    command_line(**TRAINING)
    plan = run_flags.plan(3668, ("accuracy", "f1", "loss"))
    assert plan.num_train_steps == 343  # int(3668 / 32 * 3)
    assert plan.learning_rate(0) == 0.0
    assert plan.learning_rate(33) == pytest.approx(1e-3 * 33 / 34)
    assert plan.learning_rate(34) == pytest.approx(1e-3 * (1 - 34 / 343))
    assert plan.learning_rate(343) == 0.0
    assert (plan.save_steps, plan.log_steps, plan.max_steps_per_call) == (1000, 17, 50)
    assert plan.best_metric == "accuracy"


def test_plan_of_steps_counts_the_warm_up_in_steps(command_line):
    command_line(**{**TRAINING, "evaluate_steps": 7})
    plan = run_flags.plan_of_steps(100, 4)
    assert [plan.learning_rate(step) for step in (0, 2, 4, 100)] == [
        0.0,
        pytest.approx(5e-4),
        pytest.approx(1e-3 * 0.96),
        0.0,
    ]
    assert plan.num_train_steps == 100 and plan.evaluate_steps == 7
    assert plan.best_metric == "" and plan.patience == 0


@pytest.mark.parametrize(
    ("steps", "present", "expected"),
    [
        (28, (), 1),  # and not two points
        (10, (), 1),
        (399, (), 19),
        (400, (), 20),
        (10_000, (), 20),
        (28, ("log_steps",), 20),  # as given
    ],
)
def test_short_runs_have_points_more_often(command_line, steps, present, expected):
    command_line(**TRAINING, present=present)
    assert run_flags.plan_of_steps(steps, 0).log_steps == expected


def test_plan_follows_the_schedule_of_gpt(command_line):
    """Of a share of warm-up that is no whole number of steps, as opt.py has it."""
    values = {"learning_rate_schedule": "gpt_linear", "warmup_proportion": 0.01}
    command_line(**{**TRAINING, **values})
    plan = run_flags.plan(3668, ("accuracy",))
    assert plan.learning_rate(0) == pytest.approx(1e-3 / 3.43 * (1 - 1 / 343))
    assert plan.learning_rate(3) == pytest.approx(1e-3 * (1 - 4 / 343))


def test_plan_without_a_step_is_refused(command_line):
    command_line(**TRAINING)
    with pytest.raises(ValueError, match="10 training examples in batches of --train_"):
        run_flags.plan(10, ("accuracy",))


def test_best_metric_must_be_a_score(command_line):
    for name in ("f1", "loss"):
        command_line(**{**TRAINING, "best_metric": name})
        assert run_flags.plan(3668, ("accuracy", "f1", "loss")).best_metric == name
    command_line(**{**TRAINING, "best_metric": "mcc"})
    with pytest.raises(ValueError, match="--best_metric=mcc is none of the scores"):
        run_flags.plan(3668, ("accuracy", "f1", "loss"))


RUN = {
    "output_dir": "out",
    "seed": 4,
    "do_train": True,
    "overwrite_output_dir": False,
    "optimizer": "adam",
    "adam_bias_correction": False,
    "jit_compile": "false",
    "keep_checkpoint_max": 7,
    "train_batch_size": 24,
    "max_seq_length": 16,
    "gradient_accumulation_steps": 3,
    "mixed_precision": None,
    "recompute": False,
    "deterministic": True,
}


@pytest.fixture
def run_settings(command_line, monkeypatch):
    """A function from changes of RUN to run_flags.run_settings."""
    values = {"seed": 4, "optimizer": "adam", "log_steps": 20, "max_seq_length": 16}
    monkeypatch.setattr(command_line_lib, "values", lambda: values)
    monkeypatch.setattr(command_line_lib, "command", lambda: "python run.py --seed=4")

    def call(of_adagrad=None, **changes):
        command_line(**{**RUN, **changes})
        return run_flags.run_settings(
            *(tf.distribute.get_strategy(), "plan"),
            config={"hidden_size": 8},
            init_checkpoint="model.ckpt",
            length_flag="--num_train_steps",
            of_adagrad=of_adagrad,
        )

    return call


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", optimizers.BertAdam), ("lamb", optimizers.BertLamb)]
)
def test_optimizer_is_the_named_one(run_settings, name, kind):
    for correct in (False, True):
        settings = run_settings(optimizer=name, adam_bias_correction=correct)
        made = settings.optimizer()
        assert type(made) is kind and made.bias_correction is correct


def test_gpts_adam_always_corrects_the_bias(run_settings):
    made = run_settings(optimizer="gpt_adam").optimizer()
    assert type(made) is optimizers.GptAdam and made.bias_correction


def test_adagrad_is_what_the_task_says(run_settings):
    made = run_settings(optimizer="adagrad").optimizer()
    assert type(made) is optimizers.Adagrad
    assert (made.max_norm, made.gradient_factor) == (10.0, 1.0)
    told = {"clip_norm": 1.0, "gradient_factor": 6.0}
    made = run_settings(optimizer="adagrad", of_adagrad=told).optimizer()
    assert (made.max_norm, made.gradient_factor) == (1.0, 6.0)
    assert run_settings(of_adagrad=told).optimizer().gradient_factor == 1.0  # Adam


def test_gpts_adam_without_correction_is_refused(command_line):
    values = {**RUN, "optimizer": "gpt_adam"}
    command_line(present=["adam_bias_correction"], **values)
    run_flags.FLAGS["adam_bias_correction"].serialize = lambda: "--noadam_bias"
    with pytest.raises(ValueError, match="--noadam_bias contradicts --optimizer=gpt_a"):
        run_flags.run_settings(
            tf.distribute.get_strategy(), "plan", config={}, init_checkpoint=""
        )


def test_run_is_what_the_flags_say(run_settings):
    settings = run_settings()
    assert (settings.output_dir, settings.seed, settings.plan) == ("out", 4, "plan")
    assert settings.init_checkpoint == "model.ckpt"
    assert (settings.keep, settings.batch_size, settings.micro_batches) == (7, 24, 3)
    assert (settings.trains, settings.overwrite) == (True, False)
    assert settings.identity == {
        "config": {"hidden_size": 8},
        "optimizer": "adam",
        "max_seq_length": 16,
    }
    assert settings.flags["seed"] == 4 and settings.flags["log_steps"] == 20
    assert settings.command == "python run.py --seed=4"
    assert settings.length_flag == "--num_train_steps"
    model = types.SimpleNamespace(compute_dtype="float32", variable_dtype="float32")
    assert settings.describe(model) == "float32; deterministic"


_UPDATES = {
    *("train_batch_size", "learning_rate", "optimizer", "learning_rate_schedule"),
    *("adam_bias_correction", "mixed_precision"),
}
_FINE_TUNING = {
    *(*_UPDATES, "warmup_proportion", "best_metric"),
    *("group_by_length", "pad_to_max_length"),
}
# All flags that decide the weights, of each script that trains; a new one is of them.
OF_WEIGHTS = {
    "run_classifier": {
        *(*_FINE_TUNING, "max_seq_length", "class_weights", "problem_type"),
        *("pair_input", "lm_loss_weight", "distill_temperature", "distill_weight"),
    },
    "run_squad": {
        *(*_FINE_TUNING, "max_seq_length", "max_query_length", "doc_stride"),
        *("answer_aligner", "multiple_answers", "version_2_with_negative"),
    },
    "run_tagger": {
        *(*_FINE_TUNING, "max_seq_length", "tag_scheme"),
        *("document_context", "window_stride"),
    },
    "run_seq2seq": {*_FINE_TUNING, "max_source_length", "max_target_length"},
    "run_pretraining": {
        *(*_UPDATES, "num_warmup_steps", "max_seq_length", "objective"),
        *("masking", "masked_lm_prob", "mask_proportions", "max_predictions_per_seq"),
        *("unroll_steps", "sample_softmax", "num_negative_samples"),
        *("corruption", "noise_density", "mean_noise_span_length"),
    },
}


@pytest.mark.parametrize("script", OF_WEIGHTS)
def test_identity_has_every_flag_that_changes_weights(script):
    with tiny.flags_of(script) as names:
        flags.FLAGS([script])
        before = training_flags.of_weights()
        changed = set()
        for name in names:
            with command_line_lib.changed({name: "another value"}):
                if training_flags.of_weights() != before:
                    changed.add(name)
        assert changed == OF_WEIGHTS[script]
        assert changed.isdisjoint(training_flags.CHANGE_NO_WEIGHT)


def test_flags_that_change_no_weight_are_flags():
    known = set()
    for script in OF_WEIGHTS:
        with tiny.flags_of(script) as names:
            known.update(names)
    assert known >= training_flags.CHANGE_NO_WEIGHT


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({"jit_compile": "true"}, "jit_compile", True),
        ({}, "jit_compile", False),
        ({"mixed_precision": "float16"}, "scales_loss", True),
        ({"mixed_precision": "bfloat16"}, "scales_loss", False),
        ({"mixed_precision": "float16"}, "dtype_policy", "mixed_float16"),
        ({}, "dtype_policy", "float32"),
        ({"overwrite_output_dir": True}, "overwrite", True),
        ({"do_train": False}, "trains", False),
    ],
    ids=str,
)
def test_run_follows_a_flag(run_settings, change, name, value):
    assert getattr(run_settings(**change), name) == value


FINE_TUNING = {
    **RUN,
    **TRAINING,
    "do_predict": False,
    "do_export": True,
    "seeds": ["1", "-2"],
    "grid": None,
    "use_tpu": False,
    "distribution_strategy": "auto",
    "group_by_length": True,
    "pad_to_max_length": False,
    "eval_batch_size": 5,
    "predict_batch_size": 6,
    "write_report": True,
}


@pytest.fixture
def fine_tuning_settings(command_line, monkeypatch):
    monkeypatch.setattr(command_line_lib, "values", dict)
    monkeypatch.setattr(command_line_lib, "command", str)
    monkeypatch.setattr(command_line_lib, "defaults", lambda: {"seed": 1})

    def call(**changes):
        command_line(**{**FINE_TUNING, **changes})
        return run_flags.fine_tuning_settings(
            tf.distribute.get_strategy(),
            files=model_flags.ModelFiles("c.json", "v.txt", "w.ckpt", True),
            config={},
            num_examples=320,
            score_names=("f1",),
        )

    return call


def test_fine_tuning_is_what_the_flags_say(fine_tuning_settings):
    settings = fine_tuning_settings()
    assert settings.run.init_checkpoint == "w.ckpt"
    assert settings.run.plan.num_train_steps == 320 * 3 // 32
    assert list(settings.seeds) == [1, -2]
    # A script without the flag --do_eval evaluates nothing by itself.
    assert (settings.evaluates, settings.predicts, settings.exports) == (0, 0, 1)
    assert (settings.eval_batch_size, settings.predict_batch_size) == (5, 6)
    assert (settings.reports, settings.default_flags) == (True, {"seed": 1})
    assert fine_tuning_settings(write_report=False).reports is False
    assert fine_tuning_settings(do_eval=True).evaluates is True
    assert fine_tuning_settings(do_train=False).run.plan is None


@pytest.mark.parametrize(
    ("group", "pad", "grouped", "pad_to"),
    [(True, False, True, None), (True, True, False, 16), (False, False, False, None)],
)
def test_batches_are_made_as_the_flags_say(
    fine_tuning_settings, group, pad, grouped, pad_to
):
    settings = fine_tuning_settings(group_by_length=group, pad_to_max_length=pad)
    assert (settings.group_by_length, settings.pad_to) == (grouped, pad_to)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ["train"]),
        ({"evaluate_steps": 5}, ["train", "dev"]),
        ({"do_train": False, "evaluate_steps": 5}, []),
        ({"do_train": False, "do_eval": True, "do_predict": True}, ["dev", "test"]),
    ],
    ids=str,
)
def test_splits_are_those_that_the_actions_need(command_line, changes, wanted):
    command_line(**{**FINE_TUNING, **changes})
    assert fine_tuning_flags.wanted_splits() == wanted
