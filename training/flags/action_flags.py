"""Flags of what a run does: train, evaluate, predict, export."""

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS
_ACTIONS = {
    "do_train": "Whether to run training.",
    "do_eval": "Whether to run eval on the dev set.",
    "do_predict": "Whether to run the model on the test set.",
    "do_export": "Whether to write a SavedModel to output_dir/export/<n>.",
}


@command_line.heading("What to do")
def define(*names: str) -> None:
    """The named actions, each False by default."""
    for name in names:
        flags.DEFINE_bool(name, False, _ACTIONS[name])


def check(*names: str) -> None:
    """Refuses a command line that asks for nothing, or has no place for results.

    Raises:
        ValueError: none of the named flags is True, or --output_dir is missing.
    """
    if not any(FLAGS[name].value for name in names):
        *others, last = (f"`{name}`" for name in names)
        raise ValueError(f"At least one of {', '.join(others)} or {last} must be True.")
    if not FLAGS.output_dir:
        raise ValueError("--output_dir is missing; name a directory for the results")
