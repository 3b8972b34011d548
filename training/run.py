"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from training import checkpoints as checkpoints_lib
from training import devices, flags, loop, reporting, steps

# Exit code of a run whose loss is not a number any more.
NOT_FINITE = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a run is, beside its model and data.

    Attributes:
        output_dir: the run's directory.
        strategy: the tf.distribute.Strategy under whose scope the model was made.
        jit_compile: whether XLA compiles forward and backward pass.
        variables: {checkpoint name: variable} of the model.
        write: as in checkpoints.RunCheckpoints.
        origin: where the weights that the model holds now come from, for the log.
        keep: newest checkpoints to keep.
        batch_size: of all replicas together.
        seed: of dropout.
        micro_batches: parts of a batch that are computed one after another.
        length_flag: the flag that makes a run longer, for messages.
        evaluate: scores on held-out data, or None; with Markdown texts to show.
    """

    output_dir: str
    strategy: Any
    jit_compile: bool
    variables: Mapping[str, Any]
    write: Callable[[str, Mapping[str, Any]], None]
    origin: str
    keep: int
    batch_size: int
    seed: int
    micro_batches: int = 1
    length_flag: str = "--num_train_epochs"
    evaluate: Callable[[], dict[str, Any]] | None = None


def train(
    run: Run,
    model: Any,
    optimizer: Any,
    objective: Any,
    batches_from: Callable[[int], Any],
    plan: loop.Plan,
) -> dict[str, Any]:
    """Resumes the newest checkpoint of the run, or starts with the model's weights.

    Args:
        run: what the run is.
        model: a built model.
        optimizer: a training.optimizer.BertAdam, not yet built.
        objective: as in steps.train_function.
        batches_from: step -> dataset of the batches from that step on.
        plan: when to do what.

    Returns:
        The final state, as loop.train returns it.
    """
    with run.strategy.scope():
        optimizer.build(model.trainable_variables)
    checkpoints = checkpoints_lib.RunCheckpoints(
        run.output_dir, run.variables, optimizer, write=run.write, keep=run.keep
    )
    with flags.one_line_errors():
        step, state = checkpoints.restore() or (0, {})
    _announce(run, step, plan)
    if step >= plan.num_train_steps:
        print(
            f"nothing to train: step {step} of {plan.num_train_steps} is reached; "
            f"raise {run.length_flag}, or add --overwrite_output_dir to start again"
        )
        return {**state, "step": step}
    train_steps = steps.train_function(
        *(model, optimizer, objective, run.strategy),
        seed=run.seed,
        jit_compile=run.jit_compile,
        micro_batches=run.micro_batches,
    )
    reporter = reporting.Reporter(run.output_dir, plan.num_train_steps, step)
    try:
        return loop.train(
            train_steps,
            run.strategy.experimental_distribute_dataset(batches_from(step)),
            plan,
            step=step,
            state=state,
            checkpoints=checkpoints,
            reporter=reporter,
            evaluate=run.evaluate,
        )
    except FloatingPointError as error:
        logging.error("%s", error)
        raise SystemExit(NOT_FINITE) from None
    finally:
        reporter.close()


def _announce(run: Run, step: int, plan: loop.Plan) -> None:
    """The first lines of a run: devices, precision, batch, weights, steps."""
    share = run.batch_size // run.strategy.num_replicas_in_sync
    parts = f" in {run.micro_batches} micro-batches" if run.micro_batches > 1 else ""
    origin = run.origin
    if step:
        origin = f"{run.output_dir}/model.ckpt-{step} with its moments (resumed)"
    print(devices.describe(run.strategy))
    print(
        f"precision: float32; XLA: {'on' if run.jit_compile else 'off'}; "
        f"batch: {run.batch_size}, {share} per replica{parts}"
    )
    print(f"weights: {origin}")
    print(f"training: step {step} to {plan.num_train_steps}", flush=True)
