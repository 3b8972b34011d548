"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

import contextlib
import dataclasses
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from contract import atomic_files, file_names
from training import checkpoints as checkpoints_lib
from training import errors, interruption, loop, run_directory, steps
from training.distribution import devices
from training.results import reporting

# Exit codes: of a run whose loss is not a number any more, and of one that has lost
# another of its processes. One that is asked to stop has 128 and the signal's number.
NOT_FINITE = 3
LOST_WORKER = 4
STOPPED = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a run is, beside its model and data.

    Attributes:
        output_dir: the run's directory.
        strategy: the tf.distribute.Strategy under whose scope the model was made.
        jit_compile: whether XLA compiles forward and backward pass.
        store: has `variables`, {checkpoint name: variable} of the model; `write`, as in
            checkpoints.RunCheckpoints; and `load`, which gives the model the weights
            of a checkpoint, by its prefix.
        origin: where the weights that the model holds now come from, for the log.
        keep: newest checkpoints to keep.
        batch_size: of all replicas together.
        seed: of dropout.
        micro_batches: parts of a batch that are computed one after another.
        settings: what else is on, for the log.
        scales_loss: whether gradients need loss scaling, as those of float16 do.
        length_flag: the flag that makes a run longer, for messages.
        evaluate: scores on held-out data, or None; with Markdown texts to show.
        name_batch: which examples are in the batch of a step, for messages.
    """

    output_dir: str
    strategy: Any
    jit_compile: bool
    store: Any
    origin: str
    keep: int
    batch_size: int
    seed: int
    micro_batches: int = 1
    settings: str = ""
    scales_loss: bool = False
    length_flag: str = "--num_train_epochs"
    evaluate: Callable[[], dict[str, Any]] | None = None
    name_batch: Callable[[int], str] | None = None


def start(
    output_dir: str,
    build: Callable[[bool], tuple[Any, str, int]],
    *,
    strategy: Any,
    dtype_policy: str,
    seed: int,
    trains: bool,
    overwrite: bool,
    identity: Mapping[str, Any],
    flags_of_run: Mapping[str, Any],
    command: str,
    files: Mapping[str, str],
) -> tuple[Any, str, int]:
    """Makes a model and the directory of its run; what is wrong is one line.

    Args:
        output_dir: the run's directory.
        build: whether the run that is there goes on -> model, where its weights are
            from, and the step they were trained for.
        strategy: the tf.distribute.Strategy.
        dtype_policy: Keras' name for what layers compute in.
        seed: of initial values.
        trains: whether a run begins or goes on; otherwise nothing is written.
        overwrite: as in run_directory.resumes, if the run trains.
        identity: as in run_directory.resumes.
        flags_of_run: `flags` of run_directory.begin.
        command: as there, like `files`.
        files: which go with the weights.

    Returns:
        What `build` returns.
    """
    keras.utils.clear_session(free_memory=True)
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(dtype_policy)
    overwrite &= trains
    with errors.one_line_errors():
        resumes = run_directory.resumes(output_dir, identity, overwrite=overwrite)
        checksum = zlib.crc32(json.dumps([identity, resumes], sort_keys=True).encode())
        devices.check_agreement(strategy, checksum, "model, data and output directory")
        built = build(resumes)
        writes = devices.is_chief(strategy)
        if trains and writes:
            run_directory.begin(
                output_dir,
                overwrite=overwrite,
                identity=identity,
                flags=flags_of_run,
                command=command,
                files=files,
            )
        elif writes:
            path = os.path.join(output_dir, file_names.EVAL_RESULTS)
            atomic_files.check_writable(path)
        if not trains:
            print(f"weights: {built[1]}")
    devices.wait_for_all(strategy, "ready the output directory")
    return built


def train(
    run: Run,
    model: Any,
    optimizer: Any,
    objective: Any,
    batches_from: Callable[[int], Any],
    plan: loop.Plan,
) -> int:
    """Resumes the newest checkpoint of the run, or starts with the model's weights.

    In the end the model has the last weights, or those of the best evaluation if the
    plan says what is best.

    Args:
        run: what the run is.
        model: a built model.
        optimizer: a training.optimization.optimizer.BertAdam, not yet built.
        objective: as in steps.train_function.
        batches_from: step -> dataset of the batches from that step on.
        plan: when to do what.

    Returns:
        The step of the weights that the model has.
    """
    with run.strategy.scope():
        optimizer.build(model.trainable_variables)
    writes = devices.is_chief(run.strategy)
    checkpoints = checkpoints_lib.RunCheckpoints(
        run.output_dir,
        run.store.variables,
        optimizer,
        write=run.store.write,
        keep=run.keep,
        writes=writes,
    )
    with errors.one_line_errors():
        step, state = checkpoints.restore() or (0, {})
        devices.check_agreement(run.strategy, step, "the checkpoint to go on from")
    _announce(run, step, plan)
    watch = interruption.Interruption()
    reporter = reporting.Reporter(
        run.output_dir, plan.num_train_steps, step, writes=writes
    )
    train_steps = steps.train_function(
        *(model, optimizer, objective, run.strategy),
        seed=run.seed,
        jit_compile=run.jit_compile,
        micro_batches=run.micro_batches,
        scales_loss=run.scales_loss,
        stop=watch.wish,
    )
    all_steps = _loop(
        run,
        _first_timed(train_steps, reporter),
        plan=plan,
        checkpoints=checkpoints,
        reporter=reporter,
        interruption=watch,
    )
    return _use_best(run, _go_on(run, all_steps, batches_from, step, state))


def _loop(run: Run, train_steps: Callable[..., Any], **parts: Any) -> loop.Loop:
    """The loop of a run, of parts by the names of its attributes."""
    return loop.Loop(
        train_steps=train_steps,
        evaluate=run.evaluate,
        name_batch=run.name_batch,
        scales_loss=run.scales_loss,
        # What others take part in cannot be broken off by one.
        raises=not devices.has_workers(run.strategy),
        **parts,
    )


def _go_on(
    run: Run,
    all_steps: loop.Loop,
    batches_from: Callable[[int], Any],
    step: int,
    state: dict[str, Any],
) -> dict[str, Any]:
    """Does what is left to do; returns the final state."""
    plan = all_steps.plan
    if plan.is_over(step, state) and not all_steps.is_due(step, state):
        print(
            f"nothing to train: step {step} of {plan.num_train_steps} is reached; "
            f"raise {run.length_flag}, or add --overwrite_output_dir to start again"
        )
        return {**state, "step": step}
    reporter, watch = all_steps.reporter, all_steps.interruption
    with _stops_explained(run), contextlib.closing(reporter), watch:
        batches = devices.distributed(run.strategy, batches_from(step))
        state = all_steps.train(batches, step, state)
        # All processes decide alike, whichever has been signalled since the last step.
        if number := devices.gathered(run.strategy, watch.number or 0).max():
            raise interruption.Stopped(int(number))
        devices.wait_for_all(run.strategy, "save the last checkpoint")
    return state


def _first_timed(
    train_steps: Callable[..., Any], reporter: reporting.Reporter
) -> Callable[..., Any]:
    """The same function, which says once how long its first call took."""
    started = time.monotonic()
    is_said = False

    def timed(iterator: Any, rates: Any, count: Any, *others: Any) -> Any:
        nonlocal is_said
        if is_said:
            return train_steps(iterator, rates, count, *others)
        is_said = True
        results = train_steps(iterator, rates, count, *others)
        steps_done = int(results[0]["steps"])
        seconds = time.monotonic() - started
        reporter.say(f"first {steps_done} step(s) done after {seconds:.1f} s")
        return results

    return timed


def _use_best(run: Run, state: Mapping[str, Any]) -> int:
    """Loads the weights of the best evaluation, if any; returns their step."""
    best = state.get("best_step")
    if not best:
        return state["step"]
    print(f"best: step {best} with {state['best_score']:.4f}; used from here on")
    run.store.load(os.path.join(run.output_dir, f"model.ckpt-{best}"))
    return best


@contextlib.contextmanager
def _stops_explained(run: Run) -> Iterator[None]:
    """One line, and an exit code, where training itself cannot go on."""
    try:
        yield
    except FloatingPointError as error:
        logging.error("%s", error)
        raise SystemExit(NOT_FINITE) from None
    except interruption.Stopped as stopped:
        # The chief may still be writing, and it cannot go on where others are gone.
        devices.wait_for_all(run.strategy, "save")
        raise SystemExit(STOPPED + stopped.number) from None
    except OSError as error:  # of saving; the message is for users
        with errors.one_line_errors():
            raise error


@contextlib.contextmanager
def lost_workers_explained(strategy: Any) -> Iterator[None]:
    """One line, and an exit code, where another process of the run is gone."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if not devices.has_workers(strategy):
            raise
        logging.error(
            "another process of this run has ended, or cannot be reached (%s); see its "
            "log, and start all of them again with the same command: it goes on from "
            "the newest checkpoint",
            error.message.split("\n")[0],
        )
        raise SystemExit(LOST_WORKER) from None


def record(
    output_dir: str, step: int, scores: Mapping[str, Any], results: Mapping[str, Any]
) -> str:
    """Puts an evaluation into TensorBoard and into eval_results.txt.

    Args:
        output_dir: the run's directory.
        step: of the weights that were evaluated.
        scores: as Run.evaluate gives them, for TensorBoard.
        results: the lines of the file.

    Returns:
        The path of eval_results.txt.
    """
    with contextlib.closing(reporting.Reporter(output_dir, step)) as reporter:
        reporter.write("eval", step, scores)
    path = os.path.join(output_dir, file_names.EVAL_RESULTS)
    with errors.one_line_errors():
        run_directory.write_results(path, results)
    return path


def _announce(run: Run, step: int, plan: loop.Plan) -> None:
    """The first lines of a run: devices, precision, batch, weights, steps."""
    share = run.batch_size // run.strategy.num_replicas_in_sync
    parts = f" in {run.micro_batches} micro-batches" if run.micro_batches > 1 else ""
    origin = run.origin
    if step:
        origin = f"{run.output_dir}/model.ckpt-{step} with its moments (resumed)"
    print(devices.describe(run.strategy))
    print(
        f"precision: {run.settings}; XLA: {'on' if run.jit_compile else 'off'}; "
        f"batch: {run.batch_size}, {share} per replica{parts}"
    )
    print(f"weights: {origin}")
    print(f"training: step {step} to {plan.num_train_steps}", flush=True)
