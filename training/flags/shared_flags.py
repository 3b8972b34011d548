"""Flags that more than one script has, defined once; and errors of one line.

Every flag of google-research/bert keeps its name, default and meaning. What is new has
a default that leaves the original's result as it is.
"""

import os
import shlex
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from absl import flags, logging

FLAGS = flags.FLAGS
# The first is the original's.
OPTIMIZERS = ("adam", "lamb")


class ModelFiles(NamedTuple):
    """The files of the network; init_checkpoint is "" for random weights."""

    config_file: str
    vocab_file: str  # "" where there is none and none is needed
    init_checkpoint: str
    do_lower_case: bool


def define_model_flags(max_seq_length: int, *, output_dir: bool = True) -> None:
    """Which network and vocabulary, and in most scripts the directory of results."""
    flags.DEFINE_string(
        "pretrained",
        None,
        "Directory of a pretrained model (Google's zip, Hugging Face's files or an "
        "output_dir), or its id on Hugging Face's hub. Stands for --bert_config_file, "
        "--vocab_file and --init_checkpoint, each of which overrides it.",
    )
    flags.DEFINE_string("bert_config_file", None, "bert_config.json or config.json.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary the model was trained on.")
    if output_dir:
        flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.")
    flags.DEFINE_string(
        "init_checkpoint", None, "Initial weights: a prefix or a directory."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text: True for uncased models and False for cased ones. "
        "--pretrained sets it where the directory says what it is.",
    )
    flags.DEFINE_bool(
        "check_case", True, "Refuse a vocabulary that contradicts --do_lower_case."
    )
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        "Most tokens a sequence, [CLS] and [SEP] included; longer texts are cut.",
        lower_bound=4,
    )


def define_training_flags(train_batch_size: int = 32) -> None:
    """How to train, whatever for."""
    _define_saving_flags()
    flags.DEFINE_integer(
        "train_batch_size",
        train_batch_size,
        "Total batch size of one update, over all devices and micro-batches.",
        lower_bound=1,
    )
    flags.DEFINE_integer("eval_batch_size", 8, "Total batch size.", lower_bound=1)
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
        OPTIMIZERS,
        "adam, the original's; or lamb, for batches of thousands.",
    )
    flags.DEFINE_bool(
        "adam_bias_correction",
        False,
        "Correct the moments' bias in the first steps, as Adam's paper does and the "
        "original does not.",
    )
    flags.DEFINE_bool(
        "overwrite_output_dir",
        False,
        "Replace another run in --output_dir, instead of resuming or refusing it.",
    )
    flags.DEFINE_integer("seed", 1, "Decides initial values, order and dropout.")


def define_fine_tuning_flags() -> None:
    """How to train on labelled rows, and for how long."""
    flags.DEFINE_integer("predict_batch_size", 8, "Total batch size.", lower_bound=1)
    flags.DEFINE_float(
        "num_train_epochs", 3.0, "Passes over the training rows.", lower_bound=0
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the steps in which the rate rises linearly, 0..1.",
        lower_bound=0,
        upper_bound=1,
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


def _define_saving_flags() -> None:
    """When to save, to log and to evaluate."""
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


_ACTIONS = {
    "do_train": "Whether to run training.",
    "do_eval": "Whether to run eval on the dev set.",
    "do_predict": "Whether to run the model on the test set.",
    "do_export": "Whether to write a SavedModel to output_dir/export/<n>.",
}


def define_action_flags(*names: str) -> None:
    """What to do, each False by default."""
    for name in names:
        flags.DEFINE_bool(name, False, _ACTIONS[name])


def check_actions(*names: str) -> None:
    """Refuses a command line that asks for nothing, or has no place for results.

    Raises:
        ValueError: none of the named flags is True, or --output_dir is missing.
    """
    if not any(FLAGS[name].value for name in names):
        *others, last = (f"`{name}`" for name in names)
        raise ValueError(f"At least one of {', '.join(others)} or {last} must be True.")
    if not FLAGS.output_dir:
        raise ValueError("--output_dir is missing; name a directory for the results")


def check_fine_tuning() -> None:
    """Refuses flags of `define_fine_tuning_flags` that mean nothing.

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


def model_files(
    locate: Callable[[str], Any], *, needs_vocab: bool = True
) -> ModelFiles:
    """The files that the flags name, those of --pretrained where they name none.

    Args:
        locate: finds the files below the value of --pretrained.
        needs_vocab: whether there is nothing to do without a vocabulary.

    Raises:
        ValueError: a file that is needed is named by neither.
    """
    found = locate(FLAGS.pretrained) if FLAGS.pretrained else None
    config_file = FLAGS.bert_config_file or (found.config_file if found else "")
    vocab_file = FLAGS.vocab_file or (found.vocab_file if found else "")
    for flag, value in (("bert_config_file", config_file), ("vocab_file", vocab_file)):
        if not value and (needs_vocab or flag != "vocab_file"):
            raise ValueError(
                f"--{flag} is missing; set it, or set --pretrained to the directory "
                "of a model"
            )
    lower = FLAGS.do_lower_case
    if found and found.do_lower_case is not None and not FLAGS["do_lower_case"].present:
        lower = found.do_lower_case
    checkpoint = FLAGS.init_checkpoint or (found.checkpoint if found else "")
    return ModelFiles(config_file, vocab_file, checkpoint, lower)


def seeds() -> list[int]:
    """The values of --seeds, which `check_fine_tuning` has checked."""
    return [int(seed) for seed in FLAGS.seeds]


def values() -> dict[str, object]:
    """Every flag of the script with its value, for run.json."""
    return {flag.name: flag.value for flag in _of_script()}


def command() -> str:
    """The command line that gives the flags these values, for run.json."""
    given = [flag.serialize() for flag in _of_script() if flag.present]
    return shlex.join(["python", os.path.basename(sys.argv[0]), *given])


def _of_script() -> list[flags.Flag]:
    return [
        flag
        for module, defined in FLAGS.flags_by_module_dict().items()
        if module == sys.argv[0] or module.startswith("training.")
        for flag in defined
    ]


def quiet_libraries() -> None:
    """Leaves warnings and errors of the libraries, unless --verbosity asks for more."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        tf.get_logger().setLevel("WARNING")
