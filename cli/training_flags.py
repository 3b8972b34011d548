"""Flags of what to do, and of training: batches, rate, when to save and to evaluate.

The original's flags keep name, default and meaning; new defaults change nothing.
"""

import re
from collections.abc import Sequence

from absl import flags

from cli import command_line, feature_flags
from contract import errors
from training import schedule

FLAGS = flags.FLAGS
_LARGEST_SEED = 2**32 - 1  # of keras.utils.set_random_seed
# Flags that do not decide which weights a run has after a step; all others do, and a
# run does not go on with other values of them. By paragraph: how long a run goes on,
# and its many seeds, of which run.start counts each; what is done and written; how
# weights are scored and answers found; devices, where a run prints that the parts
# of a batch differ; files, whose contents count and not their names; and those that
# count as `reading`.
_NO_WEIGHT = """
num_train_epochs num_train_steps seed seeds grid

do_train do_eval do_predict do_export output_dir overwrite_output_dir
save_checkpoints_steps keep_checkpoint_max iterations_per_loop log_steps
profile_steps write_report report_title write_tf_records write_projector explain
verbose_logging export_format quantization export_server_config feature_cache

evaluate_steps early_stopping_patience max_eval_steps eval_batch_size
predict_batch_size multi_label_threshold n_best_size max_answer_length
null_score_diff_threshold num_beams length_penalty do_sample temperature top_k
top_p layers combine layer_weights pooling normalize
early_stopping no_repeat_ngram_size min_target_length

distribution_strategy use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores
require_gpu virtual_cpus jit_compile recompute deterministic
gradient_accumulation_steps

pretrained init_checkpoint bert_config_file vocab_file allow_missing_weights
check_case check_tokenizer do_lower_case split_words teacher data_dir
unlabelled_file
task_name xnli_language tfds_name input_file eval_input_file predict_file
file_format has_header delimiter quote encoding train_file dev_file test_file
tfds_train_split tfds_dev_split tfds_test_split text_a_column text_b_column
label_column id_column num_labelled reranker reranker_label corpus_file
queries_file judgements_file choice_columns negative_columns source_column
target_column word_column dev_share tag_column labels label_separator
allow_empty_text accept_unknown_tags check_data
"""
CHANGE_NO_WEIGHT = frozenset(_NO_WEIGHT.split()).union(feature_flags.NAMES)
_ACTIONS = {
    "do_train": "Whether to run training.",
    "do_eval": "Whether to run eval on the dev set.",
    "do_predict": "Whether to run the model on the test set.",
    "do_export": "Whether to write a SavedModel to output_dir/export/<n>.",
}


def define(train_batch_size: int = 32) -> None:
    """How to train, whatever for, and when to save and to evaluate."""
    _define_intervals()
    _define_updates(train_batch_size)
    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_bool(
            "allow_missing_weights",
            False,
            "Accept an initial checkpoint that lacks layers or embeddings, and train "
            "these from random values.",
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool(
            "overwrite_output_dir",
            False,
            "Replace another run in --output_dir, instead of resuming or refusing it.",
        )


@command_line.heading("Evaluation and checkpoints")
def _define_intervals() -> None:
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Number of steps between checkpoints.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Maximum number of recent checkpoints to keep. Fine-tuning also keeps the best "
        "one.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Maximum number of steps that the devices run in one call.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "log_steps",
        20,
        "Number of steps between points in TensorBoard. If it is not set, a run of "
        "fewer than 400 steps uses a twentieth of its steps.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "evaluate_steps",
        0,
        "Number of steps between evaluations during training; 0 for none.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "eval_batch_size", 8, "Total batch size for eval.", lower_bound=1
    )
    flags.DEFINE_list(
        "profile_steps",
        [],
        "First and last step of a trace for the profiler of TensorBoard, such as "
        "20,30.",
    )


@command_line.heading("Training")
def _define_updates(train_batch_size: int) -> None:
    flags.DEFINE_integer(
        "train_batch_size",
        train_batch_size,
        "Total batch size for training, over all devices and micro-batches.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Number of micro-batches that a batch is split into, if it does not fit into "
        "memory. The result is the same as for the whole batch.",
        lower_bound=1,
    )
    command_line.define_float(
        "learning_rate", 5e-5, "Peak learning rate of the optimizer.", lower_bound=0
    )
    flags.DEFINE_enum(
        "optimizer",
        "adam",
        ["adam", "lamb", "gpt_adam", "adagrad"],
        "adam: as in google-research/bert. lamb: for batches of thousands. gpt_adam: "
        "as in GPT. adagrad: for the pretraining of ELMo.",
    )
    flags.DEFINE_enum(
        "learning_rate_schedule",
        "linear",
        list(schedule.SCHEDULES),
        "Learning rate after the warmup. linear: as in google-research/bert. "
        "gpt_linear, gpt_cosine, gpt_constant: as in GPT, linearly to 0, along a "
        "cosine to 0, or constant.",
    )
    flags.DEFINE_bool(
        "adam_bias_correction",
        False,
        "Correct the bias of Adam's moments in the first steps, as in the Adam paper; "
        "google-research/bert does not correct it.",
    )
    command_line.define_float(
        "weight_decay_rate",
        0.01,
        "Weight decay: in each step, kernels and tables lose this share of "
        "themselves times the learning rate.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "seed", 1, "Random seed for initial values, data order and dropout."
    )


@command_line.heading("Training")
def define_packing(*, default: bool = False) -> None:
    """Defines --pack_sequences."""
    flags.DEFINE_bool(
        "pack_sequences",
        default,
        "Put several sequences of a training batch into one row of the network, so "
        "that little is computed for padding. Losses and gradients stay the same. "
        "For records of short texts, and for --pad_to_max_length and TPU; texts "
        "grouped by length have little padding anyway.",
    )


@command_line.heading("Training")
def define_label_smoothing() -> None:
    """Defines --label_smoothing."""
    command_line.define_float(
        "label_smoothing",
        0.0,
        "Share of the target of the training loss that all classes have alike; the "
        "label has the rest. Evaluation reports the loss without it.",
        lower_bound=0,
        upper_bound=0.99,
    )


def packs_sequences() -> bool:
    """The value of --pack_sequences, where a script has it."""
    return "pack_sequences" in FLAGS and FLAGS.pack_sequences


def check_packing(network: str, *, reads_plainly: bool = True) -> None:
    """Raises ValueError if --pack_sequences is set and the model cannot pack."""
    command_line.refuse(
        (
            packs_sequences() and network not in ("bert", "gpt"),
            f"--pack_sequences is for BERT and GPT, and this network is {network}; "
            "leave it out",
        ),
        (
            packs_sequences() and not reads_plainly,
            "--pack_sequences is for the linear head on the last layer; leave it out, "
            "or leave out the choices of layers and heads",
        ),
    )


@command_line.heading("What to do")
def define_actions(*names: str) -> None:
    """The named actions, each False by default."""
    for name in names:
        flags.DEFINE_bool(name, False, _ACTIONS[name])
    if "do_export" in names:
        _define_export()


@command_line.heading("Output")
def _define_export() -> None:
    flags.DEFINE_bool(
        "export_server_config",
        False,
        "With --do_export: also write models.config and batching_parameters.txt to "
        "output_dir/config, to start TensorFlow Serving with them.",
    )


@command_line.heading("Output")
def define_report() -> None:
    """Defines --write_report and --report_title."""
    flags.DEFINE_bool(
        "write_report",
        True,
        "Write report.html and report.json with the settings and scores of the run, "
        "and a model card (README.md) beside the weights.",
    )
    flags.DEFINE_string(
        "report_title",
        None,
        "Title of report.html, instead of the task and the file that was scored.",
    )


def check_actions() -> None:
    """Raises ValueError if no action is set, or --output_dir is missing."""
    names = [name for name in _ACTIONS if name in FLAGS]
    if not any(FLAGS[name].value for name in names):
        *others, last = (f"`{name}`" for name in names)
        raise errors.InputError(
            f"At least one of {', '.join(others)} or {last} must be True."
        )
    if not FLAGS.output_dir:
        raise errors.InputError(
            "--output_dir is missing; name a directory for the results"
        )


def weight_flags() -> dict[str, object]:
    """{flag: value} of those that decide the weights."""
    values = command_line.values().items()
    return {name: value for name, value in values if name not in CHANGE_NO_WEIGHT}


def check_seeds(flag: str, seeds: Sequence[int]) -> None:
    """Raises ValueError unless they are different, and random generators take them."""
    typed = f"--{flag}={','.join(map(str, seeds))}"
    for seed in seeds:
        if not 0 <= seed <= _LARGEST_SEED:
            raise errors.InputError(
                f"{typed}: {seed} is no seed; give 0 or more, up to {_LARGEST_SEED}"
            )
        if seeds.count(seed) > 1:
            raise errors.InputError(f"{typed} has {seed} twice; give it once")


def log_steps(num_train_steps: int) -> int:
    """Steps between points: fewer where a short run would have fewer than 20 points."""
    if FLAGS["log_steps"].present:
        return FLAGS.log_steps
    return min(FLAGS.log_steps, max(1, num_train_steps // 20))


def profile_steps(num_train_steps: int) -> tuple[int, ...]:
    """The steps of --profile_steps, or (); ValueError unless they are in the run."""
    numbers = (re.fullmatch(r"\s*[0-9]+\s*", text) for text in FLAGS.profile_steps)
    steps = tuple(int(number[0]) for number in numbers if number)
    if not FLAGS.profile_steps:
        return ()
    typed = f"--profile_steps={','.join(FLAGS.profile_steps)}"
    if len(steps) != 2 or len(FLAGS.profile_steps) != 2 or steps[0] >= steps[1]:
        raise errors.InputError(
            f"{typed} are not two ascending steps; give such as 20,30"
        )
    if FLAGS.do_train and steps[1] > num_train_steps:
        raise errors.InputError(
            f"{typed} ends after the last step of this run, {num_train_steps}; give "
            "earlier ones, or train longer"
        )
    return steps
