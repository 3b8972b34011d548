"""Plans and settings of runs are what the settings of a command say."""

import dataclasses
import shlex
import types

import pytest
import tensorflow as tf

from loading import model_directory
from modeling.configs import config
from modeling.networks.encoder_decoder import spec as encoder_decoder
from tasks import run_plans
from tasks.settings import fields, training
from tests import flags_page, other_values, tiny
from training import layer_rates
from training.optimizers import adagrad, bert_adam, muon

STRATEGY = tf.distribute.get_strategy()
BERT = config.BertConfig(vocab_size=9)
DEPTH = BERT.spec.depth
PAIR = types.SimpleNamespace(
    kind="encoder-decoder", spec=encoder_decoder.NETWORK, to_dict=dict
)
RUN = ("--do_train", "--output_dir=out", "--learning_rate=1e-3")


def read(script, *arguments):
    return tiny.settings_of(script, *arguments)


def make_plan(settings, optimizer_settings=None):
    return run_plans.make_plan(
        settings,
        STRATEGY,
        timetable="timetable",
        config={"hidden_size": 8},
        init_checkpoint="",
        length_flag="--num_train_steps",
        optimizer_settings=optimizer_settings,
    )


def fine_tuning_plan(settings, network=BERT, **changes):
    return run_plans.fine_tuning_plan(
        settings,
        STRATEGY,
        model_directory.ModelDirectory(model_directory.ModelFiles(), network),
        num_examples=320,
        score_names=("f1",),
        **changes,
    )


def test_plan_is_the_originals():
    settings = read("run_classifier", *RUN, "--iterations_per_loop=50")
    plan = run_plans.timetable(settings, 3668, ("accuracy", "f1", "loss"))
    assert plan.num_train_steps == 343  # int(3668 / 32 * 3)
    rates = [plan.learning_rate(step) for step in (0, 33, 34, 343)]
    assert rates == pytest.approx([0, 1e-3 * 33 / 34, 1e-3 * (1 - 34 / 343), 0])
    assert (plan.save_steps, plan.log_steps, plan.max_steps_per_call) == (1000, 17, 50)
    assert plan.best_metric == "accuracy"


def test_plan_follows_the_schedule_of_gpt():
    """The share of warm-up is no whole number of steps, as in opt.py."""
    schedule = ("--learning_rate_schedule=gpt_linear", "--warmup_proportion=0.01")
    plan = run_plans.timetable(
        read("run_classifier", *RUN, *schedule), 3668, ("accuracy",)
    )
    assert plan.learning_rate(0) == pytest.approx(1e-3 / 3.43 * (1 - 1 / 343))
    assert plan.learning_rate(3) == pytest.approx(1e-3 * (1 - 4 / 343))


@pytest.mark.parametrize(
    ("arguments", "num_examples", "message"),
    [
        ("", 10, "^10 training examples make no step of --train_batch_size=32; lower"),
        ("--best_metric=f1", 3668, None),
        ("--best_metric=mcc", 3668, "^--best_metric=mcc is none of the scores of"),
        ("--num_train_epochs=1e9", 3668, "of 3668 training rows are more than 2,147"),
    ],
)
def test_plan_without_a_step_or_of_no_score_is_refused(
    arguments, num_examples, message
):
    settings = read("run_classifier", *arguments.split())
    scores = ("accuracy", "f1", "loss")
    if message is None:
        assert run_plans.timetable(settings, num_examples, scores).best_metric == "f1"
        return
    with pytest.raises(ValueError, match=message):
        run_plans.timetable(settings, num_examples, scores)


def optimizer_of(plan):
    return plan.optimizer(**plan.optimizer_arguments)


@pytest.mark.parametrize(
    ("name", "flag", "kind", "corrects"),
    [
        ("adam", "", bert_adam.BertAdam, False),
        ("lamb", "--adam_bias_correction", bert_adam.BertLamb, True),
        ("gpt_adam", "", bert_adam.GptAdam, True),
        ("adagrad", "", adagrad.Adagrad, None),
        ("muon", "--adam_bias_correction", muon.Muon, True),
    ],
)
def test_optimizer_is_the_named_one(name, flag, kind, corrects):
    settings = read("run_classifier", f"--optimizer={name}", *flag.split())
    made = optimizer_of(make_plan(settings, {"clip_norm": 1.0}))
    assert type(made) is kind
    assert getattr(made, "bias_correction", None) is corrects
    assert name != "adagrad" or (made.max_norm, made.gradient_factor) == (1.0, 1.0)
    assert getattr(made, "weight_decay_rate", 0.01) == 0.01
    settings = read("run_classifier", f"--optimizer={name}", "--weight_decay_rate=0")
    if name == "adagrad":
        with pytest.raises(ValueError, match=r"--weight_decay_rate=0.0: .*adagrad has"):
            make_plan(settings, {})
    else:
        assert optimizer_of(make_plan(settings)).weight_decay_rate == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--optimizer=gpt_adam --noadam_bias_correction",
            "^--noadam_bias_correction contradicts --optimizer=gpt_adam",
        ),
        ("--optimizer=adagrad --adam_bias_correction", "but it is adagrad, which has"),
    ],
)
def test_correction_that_an_optimizer_has_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_plan(read("run_classifier", *arguments.split()))


def test_rates_by_layer_are_those_of_the_settings():
    made = fine_tuning_plan(read("run_classifier", *RUN))
    assert made.layers is None
    decay = read("run_classifier", *RUN, "--layerwise_lr_decay=0.8")
    rates = fine_tuning_plan(decay).layers
    assert rates == layer_rates.LayerRates(DEPTH, 0.8, 0.0)
    unfreeze = read("run_classifier", *RUN, "--unfreeze_epochs=0.25")
    # 320 examples in batches of 32
    rates = fine_tuning_plan(unfreeze).layers
    assert rates == layer_rates.LayerRates(DEPTH, 1.0, 2.5)
    grid = "--grid=layerwise_lr_decay=0.9,1;unfreeze_epochs=0,0.5"
    both = fine_tuning_plan(read("run_classifier", *RUN, "--do_eval", grid))
    made = [each.plan.layers for each in both.combinations]
    expected = (0.9, 0.0), (0.9, 5.0), None, (1.0, 5.0)
    assert made == [layer_rates.LayerRates(DEPTH, *v) if v else None for v in expected]


@pytest.mark.parametrize(("has_head", "needed"), [(True, 3), (False, 2)])
def test_epochs_until_all_layers_are_trained_are_counted(has_head, needed, caplog):
    two_blocks = dataclasses.replace(BERT, num_hidden_layers=2)

    def warnings(epochs):
        caplog.clear()
        epochs = "--unfreeze_epochs=1", f"--num_train_epochs={epochs}"
        settings = read("run_tagger", *RUN, *epochs)
        fine_tuning_plan(settings, two_blocks, has_head=has_head)
        return [line for line in caplog.messages if "never trained" in line]

    assert warnings(needed + 0.5) == []
    (line,) = warnings(needed)
    assert line.endswith(f"in {needed} epochs; all layers need more than {needed}")


@pytest.mark.parametrize("flag", ["--layerwise_lr_decay=0.8", "--unfreeze_epochs=0.5"])
def test_rates_by_layer_need_layers_below_a_head(flag):
    with pytest.raises(ValueError, match=f"{flag} .*--freeze_encoder .*leave it out"):
        fine_tuning_plan(read("run_tagger", *RUN, flag, "--freeze_encoder"))
    with pytest.raises(ValueError, match=f"{flag} .* encoder-decoder .*leave it out"):
        fine_tuning_plan(read("run_seq2seq", *RUN, flag), PAIR)
    assert fine_tuning_plan(read("run_tagger", *RUN, flag)).layers


def test_run_is_what_the_settings_say():
    line = "--seed=4 --keep_checkpoint_max=7 --train_batch_size=24 --deterministic"
    line += " --gradient_accumulation_steps=3 --max_seq_length=16"
    made = make_plan(read("run_classifier", *RUN, *line.split()))
    assert (made.output_dir, made.seed, made.timetable) == ("out", 4, "timetable")
    assert (made.max_to_keep, made.batch_size, made.micro_batches) == (7, 24, 3)
    assert made.length_flag == "--num_train_steps"
    assert made.flags["seed"] == 4 and made.flags["log_steps"] == 20
    words = ["python", "run_classifier.py", "--do_train", "--output_dir=out"]
    words += ["--learning_rate=0.001", *line.split()]
    assert sorted(shlex.split(made.command)) == sorted(words)
    model = types.SimpleNamespace(compute_dtype="float32", variable_dtype="float32")
    assert made.describe(model) == "float32; deterministic"
    assert (made.jit_compile, made.scales_loss) == (False, False)
    assert (made.overwrite, made.trains) == (False, True)
    other = "--jit_compile=true --mixed_precision=float16 --overwrite_output_dir"
    made = make_plan(read("run_classifier", *other.split()))
    assert (made.jit_compile, made.scales_loss) == (True, True)
    assert (made.overwrite, made.trains) == (True, False)
    assert made.dtype_policy == "mixed_float16"


def test_fine_tuning_is_what_the_settings_say():
    batches = ("--eval_batch_size=5", "--predict_batch_size=6")
    made = fine_tuning_plan(
        read("run_squad", *RUN, "--seeds=1,2", "--do_export", *batches)
    )
    assert made.timetable.num_train_steps == 320 * 3 // 32
    assert list(made.seeds) == [1, 2]
    # A script without the flag --do_eval evaluates nothing by itself.
    assert (made.evaluates, made.predicts, made.exports) == (False, False, True)
    assert (made.eval_batch_size, made.predict_batch_size) == (5, 6)
    assert made.reports and made.default_flags["seed"] == 1
    evaluated = "--do_eval", "--nowrite_report", "--output_dir=out"
    made = fine_tuning_plan(read("run_tagger", *evaluated))
    assert made.evaluates is True and made.reports is False
    assert made.timetable is None
    assert (made.group_by_length, made.pad_to) == (True, None)
    made = fine_tuning_plan(read("run_tagger", *RUN, "--pad_to_max_length"))
    assert (made.group_by_length, made.pad_to) == (False, 128)


def test_runs_of_a_grid_have_their_own_plans():
    grid = "--grid=train_batch_size=16,32;num_train_epochs=1"
    made = fine_tuning_plan(read("run_tagger", *RUN, "--do_eval", grid))
    runs = [each.plan for each in made.combinations]
    assert [(each.batch_size, each.timetable.num_train_steps) for each in runs] == [
        *((16, 20), (32, 10))
    ]
    assert made.batch_size == 16  # the first
    assert [each.identity["train_batch_size"] for each in runs] == [16, 32]


# --- The identity of a run.

# The programs that train.
TRAINING = [
    p
    for p in flags_page.PROGRAMS
    if issubclass(tiny.settings_class(p), training.Training)
]


@pytest.mark.parametrize("program", TRAINING)
def test_identity_of_a_run_is_what_changes_weights(program):
    """A run goes on with other values of all other fields."""
    settings = read(program)
    known = fields.rows(type(settings))
    before = dict(make_plan(settings).identity)
    assert before.pop("config") == {"hidden_size": 8}
    assert before.keys() == {
        name for name, row in known.items() if "weights" in row.rules.changes
    }
    for name, row in known.items():
        if name == "objective":  # another one may have other defaults
            continue
        other = settings.with_values(**{name: other_values.other_value(row)})
        identity = make_plan(other).identity
        changed = {key for key, value in before.items() if identity[key] != value}
        assert changed == ({name} & before.keys())


def test_new_field_is_of_weights_and_of_answers():
    """Whoever adds one has to say that it is not."""
    own = dataclasses.make_dataclass(
        "Own",
        [("new_rate", float, fields.training(0.5, "New."))],
        bases=(tiny.settings_class("run_tagger"),),
        frozen=True,
        kw_only=True,
    )
    settings = own(new_rate=0.25)
    assert make_plan(settings).identity["new_rate"] == 0.25
    assert settings.that_change(fields.ANSWERS)["new_rate"] == 0.25
