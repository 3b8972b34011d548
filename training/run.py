"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

import contextlib
import functools
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from contract import atomic_files, errors, file_names
from modeling.checkpoints import checkpoint, google
from terminal import progress
from training import carried_states as carried_states_lib
from training import checkpoints as checkpoints_lib
from training import (
    interruption,
    loop,
    lora,
    run_directory,
    run_plan,
    tensorboard,
)
from training.distribution import devices
from training.optimizers import clipped


def start(plan: run_plan.Plan, task: Any) -> tuple[keras.Model, str, int]:
    """Makes the model of a run, and its directory.

    Clears Keras' session and sets its seed and dtype policy, in the whole process.
    Returns the model, where its weights come from, in words, and the step they were
    trained for. Raises errors.InputError if the directory holds another run, or weights
    of another model. `task` is a driver.Task.
    """
    keras.utils.clear_session(free_memory=True)
    keras.config.set_dtype_policy(plan.dtype_policy)
    output_dir, trains = plan.output_dir, plan.trains
    identity: dict[str, Any] = {}
    if trains:
        identity = {**plan.identity, **task.trained_on(), "seed": plan.seed}
    resumes = run_directory.resumes(
        output_dir, identity, overwrite=plan.overwrite and trains
    )
    run_directory.check(plan, task.files if trains else {})
    checksum = zlib.crc32(json.dumps([identity, resumes], sort_keys=True).encode())
    devices.check_agreement(plan.strategy, checksum, "model, data and output directory")
    path = output_dir if resumes else plan.init_checkpoint
    with plan.strategy.scope(), checkpoint.drawing_after():
        # Here, where no other thread draws before `build` has.
        keras.utils.set_random_seed(plan.seed)
        model = task.make_model()
        model.build()
        origin, step = task.load_weights(model, path, trains=trains, resumes=resumes)
    if trains:
        plan.optimizer.check(model.trainable_variables)
    if trains and plan.writes:
        run_directory.begin(plan, resumes=resumes, identity=identity, files=task.files)
    elif plan.writes:
        path = os.path.join(output_dir, file_names.EVAL_RESULTS)
        atomic_files.check_writable(path, f"--output_dir={output_dir}")
        run_directory.mark(plan)
    if not trains:
        print(f"weights: {origin}")
    devices.wait_for_all(plan.strategy, "ready the output directory")
    return model, origin, step


def train(plan: run_plan.Plan, training: loop.Training) -> int:
    """Resumes the run's newest checkpoint, or starts with the model's weights.

    Returns the step of the weights that the model ends with: the last, or the best if
    the plan has a best metric. Raises what Loop.train does, and errors.InputError if no
    checkpoint can be read or written. With LoRA it writes the adapter, too.
    """
    if not plan.lora:
        return _train(plan, training)
    with plan.lora.freezing(training.model):
        step = _train(plan, training)
    if plan.writes:
        plan.lora.write(plan.output_dir, training.model, step)
    return step


def _train(plan: run_plan.Plan, training: loop.Training) -> int:
    timetable, model, states = plan.timetable, training.model, training.states
    assert timetable is not None
    with plan.strategy.scope():
        optimizer = plan.optimizer(**plan.optimizer_arguments)
        optimizer.layers = plan.layers
        if plan.lora:
            optimizer = lora.LowRank(optimizer, plan.lora, model.config, plan.seed)
        optimizer.build(model.trainable_variables)
    checkpoints = checkpoints_lib.RunCheckpoints(
        plan.output_dir,
        google.variables(model) | (states.in_checkpoints() if states else {}),
        optimizer,
        max_to_keep=plan.max_to_keep,
        writes=plan.writes,
    )
    with progress.waiting("restoring the checkpoint"):
        step, state = checkpoints.restore() or (0, {})
        devices.check_agreement(plan.strategy, step, "the checkpoint to go on from")
    _announce(plan, training, step)
    watch = interruption.Interruption()
    reporter = tensorboard.Reporter(
        plan.output_dir,
        timetable.num_train_steps,
        step,
        writes=plan.writes,
        watched=training.watched,
    )
    make_step = training.make_step
    if states:
        make_step = functools.partial(carried_states_lib.CarryingTrainStep, states)
    timed = tensorboard.TimedSteps(
        make_step(
            plan, model, optimizer, training.objective, stop=watch.stop_requested
        ),
        timetable.profile_steps if plan.writes else (),
        step,
        plan.output_dir,
        reporter.say,
    )
    all_steps = loop.Loop(
        plan=plan,
        training=training,
        train_steps=timed,
        checkpoints=checkpoints,
        reporter=reporter,
        watch=watch,
        evaluating=optimizer.evaluating,
    )
    if timetable.is_over(step, state) and not all_steps.is_due(step, state):
        print(
            f"nothing to train: step {step} of {timetable.num_train_steps} is reached; "
            f"raise {plan.length_flag}, or start again with --overwrite_output_dir"
        )
        return _use_best(plan, model, optimizer, {**state, "step": step})
    state = _with_parts(plan, step, state)
    run_directory.go_on(plan)
    with (
        _saving_ends_for_all(plan.strategy),
        contextlib.closing(reporter),
        contextlib.closing(timed),
        watch,
    ):
        with all_steps.breaking_off():  # reading what they are made of may take long
            batches = devices.distributed(plan.strategy, training.batches_from(step))
        reporter.begin()
        state = all_steps.train(batches, step, state)
        # All processes decide alike, whichever has been signalled since the last step.
        if number := devices.gathered(plan.strategy, watch.number or 0).max():
            raise errors.Stopped(int(number))
        devices.wait_for_all(plan.strategy, "save the last checkpoint")
    return _use_best(plan, model, optimizer, state)


def _with_parts(
    plan: run_plan.Plan, step: int, state: dict[str, Any]
) -> dict[str, Any]:
    """The state with the parts of a batch, which dropout masks follow from.

    Prints if the run goes on with others than before, or with another schedule.
    """
    assert plan.timetable is not None
    parts = {
        "replicas": plan.strategy.num_replicas_in_sync,
        "micro_batches": plan.micro_batches,
    }
    changes = [
        f"{state[name]} {name.replace('_', '-')} before and {count} now"
        for name, count in parts.items()
        if state.get(name, count) != count
    ]
    if changes:
        print(f"dropout: other masks from step {step} on, with {', '.join(changes)}")
    total = plan.timetable.num_train_steps
    if (planned := state.get("num_train_steps", total)) != total:
        rates = [state["learning_rate"], plan.timetable.learning_rate(step)]
        before, now = (f"{rate:.3g}" for rate in rates)
        print(
            f"learning rate: the schedule is that of {total} steps now, and was that "
            f"of {planned}; at step {step} the rate goes from {before} to {now}"
        )
    return {**state, **parts}


def _use_best(
    plan: run_plan.Plan,
    model: keras.Model,
    optimizer: clipped.ClippedOptimizer,
    state: Mapping[str, Any],
) -> int:
    """Loads the weights of the best evaluation, if any; returns their step."""
    best, timetable = state.get("best_step"), plan.timetable
    if not best:
        for variable, value in optimizer.evaluation_weights():
            variable.assign(value)
        return state["step"]
    assert timetable is not None
    name, value = timetable.best(state)
    print(f"best: step {best} with {name} {value:.4f}; used from here on")
    name = f"{file_names.CHECKPOINT_PREFIX}-{best}"
    checkpoint.load(model, os.path.join(plan.output_dir, name))
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


def _announce(plan: run_plan.Plan, training: loop.Training, step: int) -> None:
    assert plan.timetable is not None
    share = plan.batch_size // plan.strategy.num_replicas_in_sync
    parts = ""
    if plan.micro_batches > 1:
        parts = f" in {plan.micro_batches} micro-batches"
    origin = training.origin
    if step:
        path = f"{plan.output_dir}/{file_names.CHECKPOINT_PREFIX}-{step}"
        origin = f"{path} with its moments (resumed)"
    print(devices.describe(plan.strategy))
    print(
        f"precision: {plan.describe(training.model)}; "
        f"XLA: {'on' if plan.jit_compile else 'off'}; "
        f"batch: {plan.batch_size}, {share} per replica{parts}"
    )
    print(f"weights: {origin}")
    if plan.lora:
        print(plan.lora.describe(training.model))
    print(f"training: step {step} to {plan.timetable.num_train_steps}", flush=True)
