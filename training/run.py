"""Trains a model in its output directory: new, resumed, or with nothing left to do."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
from absl import logging

from training import checkpoints as checkpoints_lib
from training import devices, flags, loop, reporting, run_directory, steps

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
        load: gives the model the weights of a checkpoint, by its prefix.
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
    load: Callable[[str], Any]
    origin: str
    keep: int
    batch_size: int
    seed: int
    micro_batches: int = 1
    length_flag: str = "--num_train_epochs"
    evaluate: Callable[[], dict[str, Any]] | None = None


def start(
    output_dir: str,
    build: Callable[[bool], tuple[Any, str, int]],
    *,
    seed: int,
    trains: bool,
    overwrite: bool,
    identity: Mapping[str, Any],
    flags_of_run: Mapping[str, Any],
    files: Mapping[str, str],
) -> tuple[Any, str, int]:
    """Makes a model and the directory of its run; what is wrong is one line.

    Args:
        output_dir: the run's directory.
        build: whether the run that is there goes on -> model, where its weights are
            from, and the step they were trained for.
        seed: of initial values.
        trains: whether a run begins or goes on; otherwise nothing is written.
        overwrite: as in run_directory.resumes, if the run trains.
        identity: as in run_directory.begin, like `files`.
        flags_of_run: `flags` of run_directory.begin.
        files: as there.

    Returns:
        What `build` returns.
    """
    keras.utils.clear_session(free_memory=True)
    keras.utils.set_random_seed(seed)
    overwrite = overwrite and trains
    with flags.one_line_errors():
        resumes = run_directory.resumes(
            output_dir, identity if trains else {}, overwrite=overwrite
        )
        built = build(resumes)
        if trains:
            run_directory.begin(
                output_dir,
                overwrite=overwrite,
                identity=identity,
                flags=flags_of_run,
                files=files,
            )
        else:
            path = os.path.join(output_dir, run_directory.RESULTS_FILE)
            run_directory.check_writable(path)
            print(f"weights: {built[1]}")
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
        optimizer: a training.optimizer.BertAdam, not yet built.
        objective: as in steps.train_function.
        batches_from: step -> dataset of the batches from that step on.
        plan: when to do what.

    Returns:
        The step of the weights that the model has.
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
        return _use_best(run, {**state, "step": step})
    train_steps = steps.train_function(
        *(model, optimizer, objective, run.strategy),
        seed=run.seed,
        jit_compile=run.jit_compile,
        micro_batches=run.micro_batches,
    )
    reporter = reporting.Reporter(run.output_dir, plan.num_train_steps, step)
    with contextlib.closing(reporter), _stops_explained():
        state = loop.train(
            train_steps,
            run.strategy.experimental_distribute_dataset(batches_from(step)),
            plan,
            step=step,
            state=state,
            checkpoints=checkpoints,
            reporter=reporter,
            evaluate=run.evaluate,
        )
    return _use_best(run, state)


def _use_best(run: Run, state: Mapping[str, Any]) -> int:
    """Loads the weights of the best evaluation, if any; returns their step."""
    best = state.get("best_step")
    if not best:
        return state["step"]
    print(f"best: step {best} with {state['best_score']:.4f}; used from here on")
    run.load(os.path.join(run.output_dir, f"model.ckpt-{best}"))
    return best


@contextlib.contextmanager
def _stops_explained() -> Iterator[None]:
    """One line, and an exit code, where training itself cannot go on."""
    try:
        yield
    except FloatingPointError as error:
        logging.error("%s", error)
        raise SystemExit(NOT_FINITE) from None
    except OSError as error:  # of saving; the message is for users
        with flags.one_line_errors():
            raise error


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
    path = os.path.join(output_dir, run_directory.RESULTS_FILE)
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
        f"precision: float32; XLA: {'on' if run.jit_compile else 'off'}; "
        f"batch: {run.batch_size}, {share} per replica{parts}"
    )
    print(f"weights: {origin}")
    print(f"training: step {step} to {plan.num_train_steps}", flush=True)
