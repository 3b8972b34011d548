"""Flags of fine-tuning: passes over labelled rows, which checkpoint is best, seeds."""

from absl import flags

from training.flags import (
    command_line,
    device_flags,
    model_flags,
    training_flags,
)

FLAGS = flags.FLAGS


def define(*actions: str, max_seq_length: int) -> None:
    """All that scripts of fine-tuning have in common; `max_seq_length` is a default."""
    model_flags.define(max_seq_length=max_seq_length)
    training_flags.define()
    training_flags.define_actions(*actions)
    device_flags.define()
    _define_epochs()
    _define_best()


@command_line.heading("Training")
def _define_epochs() -> None:
    command_line.define_float(
        "num_train_epochs", 3.0, "Passes over the training rows.", lower_bound=0
    )
    command_line.define_float(
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


def check() -> None:
    """Raises ValueError if a seed is not a number, or patience has no evaluations."""
    if not all(seed.strip().lstrip("-").isdigit() for seed in FLAGS.seeds):
        raise ValueError(
            f"--seeds={','.join(FLAGS.seeds)} are not whole numbers; give such as 1,2,3"
        )
    if FLAGS.early_stopping_patience and not FLAGS.evaluate_steps:
        raise ValueError(
            "--early_stopping_patience needs evaluations; set --evaluate_steps"
        )


def seeds() -> list[int]:
    """The values of --seeds, once `check` has accepted them."""
    return [int(seed) for seed in FLAGS.seeds]
