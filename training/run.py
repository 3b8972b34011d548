"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from training import checkpoints as checkpoints_lib
from training import devices, flags, loop, reporting, steps


def train(
    model: Any,
    optimizer: Any,
    objective: Any,
    batches_from: Callable[[int], Any],
    plan: loop.Plan,
    *,
    strategy: Any,
    jit_compile: bool,
    variables: Mapping[str, Any],
    write: Callable[[str, Mapping[str, Any]], None],
    origin: str,
    output_dir: str,
    keep: int,
    batch_size: int,
    seed: int,
    evaluate: Callable[[], dict[str, float]] | None = None,
) -> dict[str, Any]:
    """Resumes the newest checkpoint of `output_dir`, or starts with initial weights.

    Args:
        model: a built model.
        optimizer: a training.optimizer.BertAdam, not yet built.
        objective: as in steps.train_function.
        batches_from: step -> dataset of the batches from that step on.
        plan: when to do what.
        strategy: under whose scope the model was made.
        jit_compile: whether XLA compiles forward and backward pass.
        variables: {checkpoint name: variable} of the model.
        write: as in checkpoints.RunCheckpoints.
        origin: where the weights that `model` holds now come from, for the log.
        output_dir: the run's directory.
        keep: newest checkpoints to keep.
        batch_size: of all replicas together.
        seed: of dropout.
        evaluate: scores on held-out data.

    Returns:
        The final state, as loop.train returns it.
    """
    with strategy.scope():
        optimizer.build(model.trainable_variables)
    run_checkpoints = checkpoints_lib.RunCheckpoints(
        output_dir, variables, optimizer, write=write, keep=keep
    )
    with flags.one_line_errors():
        step, state = run_checkpoints.restore() or (0, {})
    if step:
        origin = f"{output_dir}/model.ckpt-{step}, moments included (resumed)"
    replicas = strategy.num_replicas_in_sync
    print(devices.describe(strategy))
    print(
        f"precision: float32; XLA: {'on' if jit_compile else 'off'}; "
        f"batch: {batch_size}, {batch_size // replicas} per replica"
    )
    print(f"weights: {origin}")
    print(f"training: step {step} to {plan.num_train_steps}", flush=True)
    if step >= plan.num_train_steps:
        print(
            f"nothing to train: step {step} of {plan.num_train_steps} is reached; "
            "raise --num_train_epochs, or add --overwrite_output_dir to start again"
        )
        return {**state, "step": step}
    train_steps = steps.train_function(
        model, optimizer, objective, strategy, seed=seed, jit_compile=jit_compile
    )
    reporter = reporting.Reporter(output_dir, plan.num_train_steps, step)
    try:
        return loop.train(
            train_steps,
            strategy.experimental_distribute_dataset(batches_from(step)),
            plan,
            step=step,
            state=state,
            checkpoints=run_checkpoints,
            reporter=reporter,
            evaluate=evaluate,
        )
    except FloatingPointError as error:
        logging.error("%s", error)
        raise SystemExit(3) from None
    finally:
        reporter.close()
