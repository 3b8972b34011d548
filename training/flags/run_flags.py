"""What the flags of training/flags/shared_flags.py say of a run that trains."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags as absl_flags

from training import loop, run
from training.flags import device_flags, shared_flags
from training.optimization import lamb, schedule
from training.optimization import optimizer as optimizer_lib

FLAGS = absl_flags.FLAGS
_OPTIMIZERS = dict(
    zip(shared_flags.OPTIMIZERS, (optimizer_lib.BertAdam, lamb.BertLamb), strict=True)
)


def plan(num_examples: int, metrics: Sequence[str]) -> loop.Plan:
    """The plan of a run over labelled rows.

    Args:
        num_examples: training examples.
        metrics: names of the scores an evaluation gives, the most important first;
            none where there is no evaluation.

    Raises:
        ValueError: the examples make no step, or --best_metric is none of the scores.
    """
    num_train_steps = schedule.count_steps(
        num_examples, FLAGS.train_batch_size, FLAGS.num_train_epochs
    )
    if num_train_steps == 0:
        raise ValueError(
            f"{num_examples} training examples in batches of --train_batch_size="
            f"{FLAGS.train_batch_size} make no step in --num_train_epochs="
            f"{FLAGS.num_train_epochs}; lower the batch size or train longer"
        )
    best_metric = FLAGS.best_metric or next(iter(metrics), "")
    if metrics and best_metric not in metrics:
        raise ValueError(
            f"--best_metric={best_metric} is none of the scores of this task: "
            f"{', '.join(metrics)}"
        )
    return plan_of_steps(
        num_train_steps,
        int(num_train_steps * FLAGS.warmup_proportion),
        best_metric=best_metric,
        patience=FLAGS.early_stopping_patience,
    )


def plan_of_steps(
    num_train_steps: int,
    num_warmup_steps: int,
    *,
    best_metric: str = "",
    patience: int = 0,
) -> loop.Plan:
    """The plan of a run whose steps are counted already.

    Args:
        num_train_steps: the last step.
        num_warmup_steps: steps in which the rate rises.
        best_metric: as in loop.Plan, like `patience`.
        patience: evaluations.
    """
    rate = schedule.linear_with_warmup(
        FLAGS.learning_rate, num_train_steps, num_warmup_steps
    )
    return loop.Plan(
        num_train_steps=num_train_steps,
        learning_rate=rate,
        save_steps=FLAGS.save_checkpoints_steps,
        log_steps=FLAGS.log_steps,
        max_steps_per_call=FLAGS.iterations_per_loop,
        evaluate_steps=FLAGS.evaluate_steps,
        best_metric=best_metric,
        patience=patience,
    )


def identity(config: Mapping[str, Any], run_seed: int) -> dict[str, Any]:
    """What, beside its data, another run must share to be continued by this one."""
    return {
        "config": dict(config),
        "train_batch_size": FLAGS.train_batch_size,
        "optimizer": FLAGS.optimizer,
        "max_seq_length": FLAGS.max_seq_length,
        "seed": run_seed,
    }


def start_settings(run_seed: int) -> dict[str, Any]:
    """What the flags say to run.start, by the names of its arguments."""
    return {
        "dtype_policy": device_flags.dtype_policy(),
        "seed": run_seed,
        "trains": FLAGS.do_train,
        "overwrite": FLAGS.overwrite_output_dir,
        "flags_of_run": shared_flags.values(),
        "command": shared_flags.command(),
    }


def order_settings(plan: loop.Plan, run_seed: int) -> dict[str, Any]:
    """What decides the order of labelled rows, beside their lengths."""
    return {
        "batch_size": FLAGS.train_batch_size,
        "num_steps": plan.num_train_steps,
        "seed": run_seed,
        "group_by_length": FLAGS.group_by_length
        and not device_flags.has_static_shapes(),
    }


def train(
    model: Any,
    objective: Any,
    plan: loop.Plan,
    batches_from: Callable[[int], Any],
    *,
    strategy: Any,
    evaluate: Callable[[], dict[str, Any]],
    **what: Any,
) -> int:
    """Trains as the flags say.

    Args:
        model: a built model, like `objective`, `plan` and `batches_from` as run.train
            takes it.
        objective: what is minimised.
        plan: when to do what.
        batches_from: step -> dataset of the batches from that step on.
        strategy: the tf.distribute.Strategy under whose scope the model was made.
        evaluate: scores on held-out data, for --evaluate_steps.
        **what: the attributes of run.Run that no flag decides.

    Returns:
        The step of the weights that the model has then.
    """
    with strategy.scope():
        optimizer = _OPTIMIZERS[FLAGS.optimizer](
            bias_correction=FLAGS.adam_bias_correction
        )
    settings = run.Run(
        strategy=strategy,
        jit_compile=device_flags.compiles(strategy),
        keep=FLAGS.keep_checkpoint_max,
        batch_size=FLAGS.train_batch_size,
        micro_batches=FLAGS.gradient_accumulation_steps,
        settings=device_flags.describe(model),
        scales_loss=FLAGS.mixed_precision == "float16",
        evaluate=evaluate if FLAGS.evaluate_steps else None,
        **what,
    )
    return run.train(settings, model, optimizer, objective, batches_from, plan)
