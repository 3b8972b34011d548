"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

import contextlib
import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from contract import atomic_files, errors, file_names, wording
from modeling import losses
from modeling.checkpoints import checkpoint, google
from terminal import progress
from training import carried_states as carried_states_lib
from training import checkpoints as checkpoints_lib
from training import (
    interruption,
    loop,
    run_directory,
    run_settings,
    tensorboard,
    train_step,
)
from training.distribution import devices
from training.optimizers import clipped

_NAMED = 8  # examples of a batch, in a message


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """A model to train, and its batches.

    Attributes:
        origin: where the model's current weights come from, for the log.
        batches_from: step -> the batches from that step on, for devices.distributed.
        evaluate, on_evaluated: as in loop.Loop.
        names: step -> how messages name the examples in its batch.
        watched: returns the few numbers of the model to show while it is trained.
        states: of a model that carries some from batch to batch.
    """

    model: keras.Model
    origin: str
    objective: losses.Objective
    batches_from: Callable[[int], Any]
    evaluate: Callable[[], dict[str, Any]] | None = None
    on_evaluated: Callable[[int], None] = lambda step: None
    names: Callable[[int], list[str]] = lambda step: []
    watched: Callable[[], Mapping[str, float]] = dict
    states: carried_states_lib.CarriedStates | None = None
    make_step: Callable[..., train_step.TrainStep] = train_step.TrainStep


def start(
    settings: run_settings.Settings,
    make_model: Callable[[], keras.Model],
    load_weights: Callable[..., tuple[str, int]],
    *,
    identity: Mapping[str, Any],
    files: Mapping[str, str],
) -> tuple[keras.Model, str, int]:
    """Makes the model of a run, and its directory.

    Clears Keras' session and sets its seed and dtype policy, in the whole process.
    Returns the model, and the results of `load_weights`. Raises errors.InputError if
    the directory holds another run, or weights of another model.

    Args:
        make_model: makes the model, unbuilt.
        load_weights: model, path, `trains`, `resumes` -> origin of the weights, in
            words, and the step they were trained for.
        identity: what of the task must match to resume a run.
        files: {name: text} to store beside the weights.
    """
    keras.utils.clear_session(free_memory=True)
    keras.config.set_dtype_policy(settings.dtype_policy)
    output_dir, trains = settings.output_dir, settings.trains
    overwrite = settings.overwrite and trains
    identity = (
        {**settings.identity, **identity, "seed": settings.seed} if trains else {}
    )
    resumes = run_directory.resumes(output_dir, identity, overwrite=overwrite)
    if trains:
        run_directory.check(
            output_dir, overwrite=overwrite, files=files, flags=settings.flags
        )
    checksum = zlib.crc32(json.dumps([identity, resumes], sort_keys=True).encode())
    devices.check_agreement(
        settings.strategy, checksum, "model, data and output directory"
    )
    path = output_dir if resumes else settings.init_checkpoint
    with settings.strategy.scope(), checkpoint.drawing_after():
        # Here, where no other thread draws before `build` has.
        keras.utils.set_random_seed(settings.seed)
        model = make_model()
        model.build()
        origin, step = load_weights(model, path, trains=trains, resumes=resumes)
    if trains and settings.writes:
        run_directory.begin(
            output_dir,
            overwrite=overwrite,
            resumes=resumes,
            identity=identity,
            flags=settings.flags,
            command=settings.command,
            files=files,
        )
    elif settings.writes:
        path = os.path.join(output_dir, file_names.EVAL_RESULTS)
        atomic_files.check_writable(path, f"--output_dir={output_dir}")
    if not trains:
        print(f"weights: {origin}")
    devices.wait_for_all(settings.strategy, "ready the output directory")
    return model, origin, step


def train(settings: run_settings.Settings, training: Training) -> int:
    """Resumes the run's newest checkpoint, or starts with the model's weights.

    Returns the step of the weights that the model ends with: the last, or the best if
    the plan has a best metric. Raises what Loop.train does, and errors.InputError if no
    checkpoint can be read or written.
    """
    plan = settings.plan
    assert plan is not None
    with settings.strategy.scope():
        optimizer = settings.optimizer()
        optimizer.layers = settings.layers
        optimizer.build(training.model.trainable_variables)
    model, states = training.model, training.states

    def evaluate() -> dict[str, Any]:
        assert training.evaluate is not None
        with optimizer.evaluating():
            return training.evaluate()

    checkpoints = checkpoints_lib.RunCheckpoints(
        settings.output_dir,
        google.variables(model) | (states.in_checkpoints() if states else {}),
        optimizer,
        max_to_keep=settings.max_to_keep,
        writes=settings.writes,
    )
    with progress.waiting("restoring the checkpoint"):
        step, state = checkpoints.restore() or (0, {})
        devices.check_agreement(settings.strategy, step, "the checkpoint to go on from")
    _announce(settings, training, step)
    watch = interruption.Interruption()
    reporter = tensorboard.Reporter(
        settings.output_dir,
        plan.num_train_steps,
        step,
        writes=settings.writes,
        watched=training.watched,
    )
    make_step = training.make_step
    if states:
        make_step = functools.partial(carried_states_lib.CarryingTrainStep, states)
    timed = tensorboard.TimedSteps(
        make_step(
            training.model,
            optimizer,
            training.objective,
            settings.strategy,
            seed=settings.seed,
            jit_compile=settings.jit_compile,
            micro_batches=settings.micro_batches,
            scales_loss=settings.scales_loss,
            stop=watch.stop_requested,
        ),
        plan.profile_steps if settings.writes else (),
        step,
        settings.output_dir,
        reporter.say,
    )
    all_steps = loop.Loop(
        train_steps=timed,
        plan=plan,
        checkpoints=checkpoints,
        reporter=reporter,
        watch=watch,
        evaluate=evaluate if training.evaluate and plan.evaluate_steps else None,
        on_evaluated=training.on_evaluated,
        name_batch=lambda step: wording.first_of(training.names(step), _NAMED),
        scales_loss=settings.scales_loss,
        # One worker cannot abort a collective operation.
        raises=not devices.has_workers(settings.strategy),
    )
    if plan.is_over(step, state) and not all_steps.is_due(step, state):
        print(
            f"nothing to train: step {step} of {plan.num_train_steps} is reached; raise"
            f" {settings.length_flag}, or start again with --overwrite_output_dir"
        )
        return _use_best(settings, model, optimizer, {**state, "step": step})
    state = _with_parts(settings, step, state)
    run_directory.go_on(settings)
    with (
        _saving_ends_for_all(settings.strategy),
        contextlib.closing(reporter),
        contextlib.closing(timed),
        watch,
    ):
        with all_steps.breaking_off():  # reading what they are made of may take long
            batches = devices.distributed(
                settings.strategy, training.batches_from(step)
            )
        reporter.begin()
        state = all_steps.train(batches, step, state)
        # All processes decide alike, whichever has been signalled since the last step.
        if number := devices.gathered(settings.strategy, watch.number or 0).max():
            raise errors.Stopped(int(number))
        devices.wait_for_all(settings.strategy, "save the last checkpoint")
    return _use_best(settings, model, optimizer, state)


def _with_parts(
    settings: run_settings.Settings, step: int, state: dict[str, Any]
) -> dict[str, Any]:
    """The state with the parts of a batch, which dropout masks follow from.

    Prints if the run goes on with others than before, or with another schedule.
    """
    assert settings.plan is not None
    parts = {
        "replicas": settings.strategy.num_replicas_in_sync,
        "micro_batches": settings.micro_batches,
    }
    changes = [
        f"{state[name]} {name.replace('_', '-')} before and {count} now"
        for name, count in parts.items()
        if state.get(name, count) != count
    ]
    if changes:
        print(f"dropout: other masks from step {step} on, with {', '.join(changes)}")
    total = settings.plan.num_train_steps
    if (planned := state.get("num_train_steps", total)) != total:
        rates = [state["learning_rate"], settings.plan.learning_rate(step)]
        before, now = (f"{rate:.3g}" for rate in rates)
        print(
            f"learning rate: the schedule is that of {total} steps now, and was that "
            f"of {planned}; at step {step} the rate goes from {before} to {now}"
        )
    return {**state, **parts}


def _use_best(
    settings: run_settings.Settings,
    model: keras.Model,
    optimizer: clipped.ClippedOptimizer,
    state: Mapping[str, Any],
) -> int:
    """Loads the weights of the best evaluation, if any; returns their step."""
    best, plan = state.get("best_step"), settings.plan
    if not best:
        for variable, value in optimizer.evaluation_weights():
            variable.assign(value)
        return state["step"]
    assert plan is not None
    name, value = plan.best(state)
    print(f"best: step {best} with {name} {value:.4f}; used from here on")
    name = f"{file_names.CHECKPOINT_PREFIX}-{best}"
    checkpoint.load(model, os.path.join(settings.output_dir, name))
    return best


@contextlib.contextmanager
def _saving_ends_for_all(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """A process that stops waits for the chief, who may still be writing."""
    try:
        yield
    except errors.Stopped:
        devices.wait_for_all(strategy, "save")
        raise


@contextlib.contextmanager
def lost_workers_named(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raises LostWorker, with the remedy, where another process is gone."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if not devices.has_workers(strategy):
            raise
        reason = error.message.split("\n")[0]
        raise errors.LostWorker(
            f"another process of this run has ended, or cannot be reached ({reason}); "
            "see its log, and start all again: they go on from the newest checkpoint"
        ) from error


def _announce(settings: run_settings.Settings, training: Training, step: int) -> None:
    assert settings.plan is not None
    share = settings.batch_size // settings.strategy.num_replicas_in_sync
    parts = ""
    if settings.micro_batches > 1:
        parts = f" in {settings.micro_batches} micro-batches"
    origin = training.origin
    if step:
        path = f"{settings.output_dir}/{file_names.CHECKPOINT_PREFIX}-{step}"
        origin = f"{path} with its moments (resumed)"
    print(devices.describe(settings.strategy))
    print(
        f"precision: {settings.describe(training.model)}; "
        f"XLA: {'on' if settings.jit_compile else 'off'}; "
        f"batch: {settings.batch_size}, {share} per replica{parts}"
    )
    print(f"weights: {origin}")
    print(f"training: step {step} to {settings.plan.num_train_steps}", flush=True)
