"""Tests of shared_flags.py with a stand-in for the parsed command line."""

import types

import pytest
import tensorflow as tf

from training import errors, run
from training.flags import device_flags, run_flags, shared_flags
from training.optimization import lamb, optimizer


class CommandLine(dict):
    """Flag values as attributes, and as flags by name, like absl's FLAGS."""

    def __getattr__(self, name):
        return self[name].value


@pytest.fixture
def command_line(monkeypatch):
    def give(present=(), **values):
        line = CommandLine(
            {
                name: types.SimpleNamespace(value=value, present=name in present)
                for name, value in values.items()
            }
        )
        for module in (shared_flags, run_flags, device_flags):
            monkeypatch.setattr(module, "FLAGS", line)

    return give


@pytest.mark.parametrize("error", [ValueError("bad\nrow"), FileNotFoundError("no x")])
def test_wrong_input_is_one_line_and_exit_code_2(capsys, error):
    with pytest.raises(SystemExit) as caught, errors.one_line_errors():
        raise error
    assert caught.value.code == 2
    text = " ".join(str(error).split("\n"))
    assert capsys.readouterr().err == f"error: {text}\n"


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("x"), TypeError("x")])
def test_our_own_mistakes_keep_their_traceback(capsys, error):
    with pytest.raises(type(error)), errors.one_line_errors():
        raise error
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("text", "line"), [("", ""), ("(go on)", " (go on)")])
def test_ctrl_c_is_one_line(capsys, text, line):
    with pytest.raises(SystemExit) as caught, errors.one_line_errors():
        raise KeyboardInterrupt(text)
    assert caught.value.code == 130
    assert capsys.readouterr().err == f"\ninterrupted{line}\n"


def test_no_error_passes_through():
    with errors.one_line_errors():
        value = 3
    assert value == 3


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
}


def test_plan_is_the_originals(command_line):
    command_line(**TRAINING)
    plan = run_flags.plan(3668, ("accuracy", "f1", "loss"))
    assert plan.num_train_steps == 343  # int(3668 / 32 * 3)
    assert plan.learning_rate(0) == 0.0
    assert plan.learning_rate(33) == pytest.approx(1e-3 * 33 / 34)
    assert plan.learning_rate(34) == pytest.approx(1e-3 * (1 - 34 / 343))
    assert plan.learning_rate(343) == 0.0
    assert (plan.save_steps, plan.log_steps, plan.max_steps_per_call) == (1000, 20, 50)
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
    "optimizer": "adam",
    "adam_bias_correction": False,
    "jit_compile": "false",
    "keep_checkpoint_max": 7,
    "train_batch_size": 24,
    "gradient_accumulation_steps": 3,
    "mixed_precision": None,
    "recompute": False,
    "deterministic": True,
    "evaluate_steps": 5,
}
WHAT = {"output_dir": "out", "store": "store", "origin": "random", "seed": 4}
MODEL_OF_RUN = types.SimpleNamespace(compute_dtype="float32", variable_dtype="float32")


def evaluate():
    return {}


@pytest.fixture
def trained(command_line, monkeypatch):
    """A function from changes of RUN to what run.train gets for it."""
    calls = []
    monkeypatch.setattr(run, "train", lambda *found: calls.append(found) or 8)

    def call(**changes):
        command_line(**{**RUN, **changes})
        strategy = tf.distribute.get_strategy()
        done = run_flags.train(
            *(MODEL_OF_RUN, "objective", "plan", "batches_from"),
            strategy=strategy,
            evaluate=evaluate,
            **WHAT,
        )
        assert done == 8
        settings, model, made, *others = calls.pop()
        assert model is MODEL_OF_RUN and settings.strategy is strategy
        assert others == ["objective", "batches_from", "plan"]
        return settings, made

    return call


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", optimizer.BertAdam), ("lamb", lamb.BertLamb)]
)
def test_optimizer_is_the_named_one(trained, name, kind):
    for correct in (False, True):
        _, made = trained(optimizer=name, adam_bias_correction=correct)
        assert type(made) is kind and made.bias_correction is correct


def test_run_is_what_the_flags_say(trained):
    settings, _ = trained()
    assert {name: getattr(settings, name) for name in WHAT} == WHAT
    assert (settings.keep, settings.batch_size, settings.micro_batches) == (7, 24, 3)
    assert settings.evaluate is evaluate and settings.jit_compile is False
    assert settings.settings == "float32; deterministic"


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({"evaluate_steps": 0}, "evaluate", None),
        ({"jit_compile": "true"}, "jit_compile", True),
        ({"mixed_precision": "float16"}, "scales_loss", True),
        ({"mixed_precision": "bfloat16"}, "scales_loss", False),
        ({}, "scales_loss", False),
        ({"recompute": True}, "settings", "float32; recompute; deterministic"),
    ],
    ids=str,
)
def test_run_follows_a_flag(trained, change, name, value):
    assert getattr(trained(**change)[0], name) == value


def test_start_and_order_are_what_the_flags_say(command_line, monkeypatch):
    monkeypatch.setattr(shared_flags, "values", lambda: {"do_train": True})
    monkeypatch.setattr(shared_flags, "command", lambda: "python run.py --do_train")
    given = {"mixed_precision": "float16", "do_train": True}
    command_line(**given, overwrite_output_dir=False)
    assert run_flags.start_settings(3) == {
        "dtype_policy": "mixed_float16",
        "seed": 3,
        "trains": True,
        "overwrite": False,
        "flags_of_run": {"do_train": True},
        "command": "python run.py --do_train",
    }
    plan = types.SimpleNamespace(num_train_steps=9)
    where = {"use_tpu": False, "distribution_strategy": "auto", "train_batch_size": 4}
    for group, pad, grouped in ((True, False, True), (True, True, False), (False,) * 3):
        command_line(**where, group_by_length=group, pad_to_max_length=pad)
        assert run_flags.order_settings(plan, 3) == {
            "batch_size": 4,
            "num_steps": 9,
            "seed": 3,
            "group_by_length": grouped,
        }
