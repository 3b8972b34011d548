"""Flags of fine-tuning: passes over labelled rows, which checkpoint is best, grids."""

import itertools
import re
from typing import Any

from absl import flags

from cli import command_line, device_flags, model_flags, training_flags
from contract import errors, export_formats

FLAGS = flags.FLAGS
# The runs of a grid differ in these, and share data and network.
GRID_FLAGS = (
    "learning_rate",
    "train_batch_size",
    "num_train_epochs",
    "warmup_proportion",
    "optimizer",
    "adam_bias_correction",
    "learning_rate_schedule",
    "weight_decay_rate",
    "layerwise_lr_decay",
    "unfreeze_epochs",
)


def define(*actions: str, max_seq_length: int | None) -> None:
    """All that scripts of fine-tuning have in common; `max_seq_length` is a default.

    A script with flags of its own for lengths has None.
    """
    model_flags.define(max_seq_length=max_seq_length)
    training_flags.define()
    training_flags.define_actions(*actions)
    device_flags.define()
    training_flags.define_report()
    _define_epochs()
    _define_best()
    _define_export()


@command_line.heading("Training")
def _define_epochs() -> None:
    command_line.define_float(
        "num_train_epochs",
        3.0,
        "Total number of training epochs to perform.",
        lower_bound=0,
    )
    command_line.define_float(
        "warmup_proportion",
        0.1,
        "Share of the training steps with linear warmup of the learning rate.",
        lower_bound=0,
        upper_bound=1,
    )
    command_line.define_float(
        "layerwise_lr_decay",
        1.0,
        "Factor of the learning rate from layer to layer, from the head down to the "
        "embeddings, as in ELECTRA, which uses 0.8 or 0.9; 1 for one rate.",
        lower_bound=0,
        upper_bound=1,
    )
    command_line.define_float(
        "unfreeze_epochs",
        0.0,
        "Number of epochs until one more layer is trained: first the head alone, "
        "then the top layer, and at last the embeddings, as in ULMFiT, which uses 1; "
        "0 to train all layers at once.",
        lower_bound=0,
        upper_bound=1000,
    )
    flags.DEFINE_list(
        "seeds",
        [],
        "Train once with each of these comma-separated seeds, and print means and "
        "deviations.",
    )
    flags.DEFINE_string(
        "grid",
        None,
        "Train once with each combination of values, such as "
        "'learning_rate=2e-5,3e-5;train_batch_size=16,32', each in a separate "
        "directory, and print the best combination. "
        f"Flags that can vary: {', '.join(GRID_FLAGS)}. With --seeds, each "
        "combination is trained once with each seed.",
    )
    flags.DEFINE_bool(
        "pad_to_max_length",
        False,
        "Pad every batch to --max_seq_length instead of its longest text, and do not "
        "group texts by length. Always on for TPU.",
    )
    flags.DEFINE_bool(
        "group_by_length", True, "Put texts of similar length into the same batch."
    )


@command_line.heading("Evaluation and checkpoints")
def _define_best() -> None:
    flags.DEFINE_integer(
        "predict_batch_size", 8, "Total batch size for predictions.", lower_bound=1
    )
    flags.DEFINE_string(
        "best_metric",
        None,
        "Score that selects the best checkpoint. With --evaluate_steps, this "
        "checkpoint is evaluated, used for predictions and exported, instead of the "
        "last one.",
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Number of evaluations without a better score, or an equal one with a lower "
        "loss, before training stops; 0 for no early stopping.",
        lower_bound=0,
    )


@command_line.heading("Output")
def _define_export() -> None:
    flags.DEFINE_enum(
        "export_format",
        export_formats.SAVED_MODEL,
        export_formats.FORMATS,
        "Format of --do_export. saved_model: a SavedModel in output_dir/export/<n>. "
        "litert: model.tflite in output_dir/export_litert/<n>, for phones and small "
        "machines. onnx: model.onnx in output_dir/export_onnx/<n>, for ONNX Runtime "
        "and OpenVINO, the fastest on a CPU.",
    )
    flags.DEFINE_enum(
        "quantization",
        "none",
        export_formats.QUANTIZATIONS,
        "Weights of a LiteRT or ONNX export. none: float32. dynamic_int8: int8, with "
        "int8 matrix products, a quarter of the size. float16, for LiteRT: half the "
        "size, computed in float32.",
    )


def wanted_splits() -> list[str]:
    """The splits among "train", "dev" and "test" that the actions of this run need."""
    has_eval = "do_eval" in FLAGS and FLAGS.do_eval
    evaluates = has_eval or (FLAGS.do_train and (FLAGS.evaluate_steps or FLAGS.grid))
    wanted = {"train": FLAGS.do_train, "dev": evaluates, "test": FLAGS.do_predict}
    return [split for split, is_wanted in wanted.items() if is_wanted]


def local_tables() -> dict[str, str]:
    """{split: path} of the user's files on this machine that the run needs."""
    if _has_named_task():
        return {}
    paths = {split: FLAGS[f"{split}_file"].value for split in wanted_splits()}
    return {s: path for s, path in paths.items() if path and "://" not in path}


def _has_named_task() -> bool:
    has_tasks = {"task_name", "tfds_name"} <= {*FLAGS}  # not of questions alone
    return has_tasks and bool(FLAGS.task_name or FLAGS.tfds_name)


def check_run() -> None:
    """Raises ValueError for what can be seen before TensorFlow is imported."""
    training_flags.check_actions()
    device_flags.strategy_kind()
    check()
    model_flags.check()
    if not _has_named_task():
        names = [f"{split}_file" for split in wanted_splits()]
        if "predict_file" in FLAGS:  # serves as both
            names = ["predict_file" if n != "train_file" else n for n in names]
        command_line.check_files(*names)


def check() -> None:
    """Raises ValueError if seeds, patience, a grid or an export make no sense."""
    export_format = FLAGS.export_format
    export_formats.check(export_format, FLAGS.quantization)
    texts = ",".join(FLAGS.seeds)
    command_line.refuse(
        (
            FLAGS.export_server_config and export_format != export_formats.SAVED_MODEL,
            "--export_server_config is for SavedModels, which TensorFlow Serving "
            f"answers texts from; leave it out, or --export_format={export_format}",
        ),
        (
            not all(re.fullmatch(r"\s*-?[0-9]+\s*", seed) for seed in FLAGS.seeds),
            f"--seeds={texts} are not whole numbers; give such as 1,2,3",
        ),
    )
    training_flags.check_seeds("seeds", seeds())
    scoring = "do_eval" if "do_eval" in FLAGS else "do_predict"
    command_line.refuse(
        (
            FLAGS.early_stopping_patience and not FLAGS.evaluate_steps,
            "--early_stopping_patience needs evaluations; set --evaluate_steps",
        ),
        (
            grid() and not (FLAGS.do_train and FLAGS[scoring].value),
            "--grid compares the scores of runs that it trains; set --do_train and "
            f"--{scoring}",
        ),
    )


def seeds() -> list[int]:
    """The values of --seeds, once `check` has accepted them."""
    return [int(seed) for seed in FLAGS.seeds]


def grid() -> list[dict[str, Any]]:
    """{flag: value} of each run of --grid; [] without it.

    The order is that of sorted names and then of the values as they are given. Raises
    ValueError, naming the flag and what it may be.
    """
    domains: dict[str, list[Any]] = {}
    for part in filter(None, map(str.strip, (FLAGS.grid or "").split(";"))):
        name, _, texts = part.partition("=")
        name = name.strip().removeprefix("--")
        _check_varies(name)
        values = [text.strip() for text in texts.split(",")]
        if not all(values):
            raise errors.InputError(
                f"--grid: {part!r} lacks a value; write such as {name}=VALUE,VALUE"
            )
        if name in domains:
            raise errors.InputError(
                f"--grid={FLAGS.grid} has {name} twice; give it once"
            )
        domains[name] = []
        for text in values:
            value = _parsed(name, text)
            if value in domains[name]:
                raise errors.InputError(
                    f"--grid: {part} has {value} twice; give it once"
                )
            domains[name].append(value)
    names = sorted(domains)
    if not names:
        return []
    each = itertools.product(*(domains[name] for name in names))
    return [dict(zip(names, values, strict=True)) for values in each]


def _check_varies(name: str) -> None:
    if name in GRID_FLAGS:
        return
    reason = f"--grid cannot vary {name!r}, which is no flag"
    if name == "seed":
        reason = "--grid does not vary seed; give --seeds=1,2,3 beside it"
    elif name in FLAGS:
        reason = (
            f"--grid cannot vary {name}, for its runs share all else; run the script "
            "once for each value, with an --output_dir for each"
        )
    raise errors.InputError(f"{reason}. It can vary {', '.join(GRID_FLAGS)}")


def _parsed(name: str, text: str) -> Any:
    try:
        return FLAGS[name].parser.parse(text)
    except ValueError as error:
        raise errors.InputError(f"--grid: {name}={text}: {error}") from error
