"""Flags of training: batches, rate, length, and when to save and to evaluate.

Every flag of google-research/bert keeps its name, default and meaning. What is new has
a default that leaves the original's result as it is.
"""

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS


def define(train_batch_size: int = 32) -> None:
    """How to train, whatever for, and when to save and to evaluate."""
    _define_intervals()
    _define_updates(train_batch_size)
    with command_line.heading("Output"):
        flags.DEFINE_bool(
            "overwrite_output_dir",
            False,
            "Replace another run in --output_dir, instead of resuming or refusing it.",
        )


@command_line.heading("Evaluation and checkpoints")
def _define_intervals() -> None:
    flags.DEFINE_integer(
        "save_checkpoints_steps", 1000, "Steps between checkpoints.", lower_bound=1
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max", 5, "Newest checkpoints kept.", lower_bound=1
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Most steps done on the devices in one call.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "log_steps", 20, "Steps between points in TensorBoard.", lower_bound=1
    )
    flags.DEFINE_integer(
        "evaluate_steps",
        0,
        "Steps between evaluations while training; 0 for none.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "eval_batch_size", 8, "Total batch size of an evaluation.", lower_bound=1
    )


@command_line.heading("Training")
def _define_updates(train_batch_size: int) -> None:
    flags.DEFINE_integer(
        "train_batch_size",
        train_batch_size,
        "Total batch size of one update, over all devices and micro-batches.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Micro-batches that a batch is computed in, one after another, where it is too "
        "large for the memory. The result is that of the whole batch.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "learning_rate", 5e-5, "The peak rate of the optimizer.", lower_bound=0
    )
    flags.DEFINE_enum(
        "optimizer",
        "adam",
        ["adam", "lamb"],
        "adam, the original's; or lamb, for batches of thousands.",
    )
    flags.DEFINE_bool(
        "adam_bias_correction",
        False,
        "Correct the moments' bias in the first steps, as Adam's paper does and the "
        "original does not.",
    )
    flags.DEFINE_integer("seed", 1, "Decides initial values, order and dropout.")


def define_fine_tuning() -> None:
    """How to train on labelled rows, and for how long."""
    _define_epochs()
    _define_best()


@command_line.heading("Training")
def _define_epochs() -> None:
    flags.DEFINE_float(
        "num_train_epochs", 3.0, "Passes over the training rows.", lower_bound=0
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the steps in which the rate rises linearly.",
        lower_bound=0,
        upper_bound=1,
    )
    flags.DEFINE_list(
        "seeds", [], "Train once with each of these, and print means and deviations."
    )
    flags.DEFINE_bool(
        "pad_to_max_length",
        False,
        "Pad every batch to --max_seq_length instead of its longest text, and do not "
        "group texts by length. Always so on TPU.",
    )
    flags.DEFINE_bool(
        "group_by_length", True, "Put texts of similar length into one batch."
    )


@command_line.heading("Evaluation and checkpoints")
def _define_best() -> None:
    flags.DEFINE_integer(
        "predict_batch_size", 8, "Total batch size of a prediction.", lower_bound=1
    )
    flags.DEFINE_string(
        "best_metric",
        None,
        "The score that decides which checkpoint is best. With --evaluate_steps the "
        "best is evaluated, used for predictions and exported, not the last.",
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Evaluations without a better score before training stops; 0 for never.",
        lower_bound=0,
    )


def check_fine_tuning() -> None:
    """Refuses flags of `define_fine_tuning` that mean nothing.

    Raises:
        ValueError: a seed is no number, or patience has nothing to wait for.
    """
    if not all(seed.strip().lstrip("-").isdigit() for seed in FLAGS.seeds):
        raise ValueError(
            f"--seeds={','.join(FLAGS.seeds)} are not whole numbers; give such as 1,2,3"
        )
    if FLAGS.early_stopping_patience and not FLAGS.evaluate_steps:
        raise ValueError(
            "--early_stopping_patience needs evaluations; set --evaluate_steps"
        )


def seeds() -> list[int]:
    """The values of --seeds, which `check_fine_tuning` has checked."""
    return [int(seed) for seed in FLAGS.seeds]
