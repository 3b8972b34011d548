"""The training loop: one for every script, device and objective."""

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from contract import errors, wording
from modeling import losses
from training import (
    carried_states,
    checkpoints,
    interruption,
    run_plan,
    tensorboard,
    train_step,
)
from training.distribution import devices

ROWS_LOSS = "rows_loss"  # the mean loss of the rows, beside scores, which it is not
_NAMED = 8  # examples of a batch, in a message
_AGAIN = " and start again with --overwrite_output_dir, or look at these examples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """A model to train, and its batches.

    Attributes:
        origin: where the model's current weights come from, for the log.
        batches_from: step -> the batches from that step on, for devices.distributed.
        evaluate: returns the scores of held-out rows.
        on_evaluated: called with the step after an evaluation of weights that the run
            may end with.
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
    states: carried_states.CarriedStates | None = None
    make_step: Callable[..., train_step.TrainStep] = train_step.TrainStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """The loop over the steps of a run.

    Attributes:
        evaluating: within it the model has the weights to evaluate with.
    """

    plan: run_plan.Plan
    training: Training
    train_steps: Callable[..., tuple[dict[str, tf.Tensor], train_step.Scaling]]
    checkpoints: checkpoints.RunCheckpoints
    reporter: tensorboard.Reporter
    watch: interruption.Interruption | None = None
    evaluating: Callable[[], contextlib.AbstractContextManager[Any]] = (
        contextlib.nullcontext
    )

    @property
    def timetable(self) -> run_plan.Timetable:
        """When the run does what."""
        assert self.plan.timetable is not None
        return self.plan.timetable

    def is_due(self, step: int, state: dict[str, Any]) -> bool:
        """Whether this step's evaluation was aborted, or is still to come."""
        if not self.training.evaluate or not self.timetable.evaluates_at(step):
            return False
        return state.get("evaluated_step") != step

    def breaking_off(self) -> Any:
        """Within it a signal raises errors.Stopped at once, where one may."""
        # One worker cannot abort a collective operation.
        if self.watch and not devices.has_workers(self.plan.strategy):
            return self.watch.raised()
        return contextlib.nullcontext()

    def train(self, batches: Any, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """Trains from `step` to the end of the plan, saving and evaluating on the way.

        `batches` begin at `step`; `state` is {} for a new run, or that of the
        checkpoint. Returns the final state: `step`, with evaluation `evaluated_step`,
        and with a best metric `best_step`, `best_score` and `evaluations_since_best`.

        Raises errors.NotFinite, saving nothing more, or errors.Stopped, after saving.
        """
        timetable, state = self.timetable, dict(state)
        iterator = iter(batches)
        if self.is_due(step, state):
            state = self._evaluated(step, state)
            self.checkpoints.save(step, state)
        saved_step = step
        while not timetable.is_over(step, state):
            step, state, is_stopped = self._advance(iterator, step, state, saved_step)
            if is_stopped:
                self._stop(step, state)
            if self.is_due(step, state):
                state = self._evaluated(step, state)
            is_best = state.get("best_step") == step
            if (
                is_best
                or step % timetable.save_steps == 0
                or timetable.is_over(step, state)
            ):
                self.checkpoints.save(step, state)
                saved_step = step
        if step < timetable.num_train_steps:
            name, value = timetable.best(state)
            self.reporter.say(
                f"stopped at step {step}: no better {name} than {value:.4f} (step "
                f"{state['best_step']}) in {state['evaluations_since_best']} "
                "evaluations"
            )
        return {**state, "step": step}

    def _advance(
        self, iterator: Any, step: int, state: dict[str, Any], saved_step: int
    ) -> tuple[int, dict[str, Any], bool]:
        """Trains to the next stop; returns step, state and whether to stop there."""
        results, scaling = self.train_steps(
            iterator,
            tf.constant(self.timetable.rates(step), tf.float32),
            tf.constant(self.timetable.next_stop(step) - step, tf.int32),
            tf.constant(step, tf.int64),
            train_step.Scaling.from_state(state),
        )
        results = {name: float(value) for name, value in results.items()}
        done = int(results.pop("steps"))
        step += done
        rate = self.timetable.learning_rate(step - 1)
        state = {**state, "learning_rate": rate}
        state["num_train_steps"] = self.timetable.num_train_steps
        is_stopped = results.pop("stop") != 0.0
        skipped = results.pop("skipped")
        self._check_finite(results, step, saved_step)
        if self.plan.scales_loss:
            state = {**state, **scaling.to_state()}
            results |= {"loss_scale": state["loss_scale"], "skipped_steps": skipped}
            self._check_scale(state, step, saved_step)
        if skipped < done:  # otherwise there are no results
            self.reporter.train(step, results, rate)
        return step, state, is_stopped

    def _check_finite(
        self, results: dict[str, float], step: int, saved_step: int
    ) -> None:
        for name in ("loss", "gradient_norm"):
            if not math.isfinite(results[name]):
                raise errors.NotFinite(
                    f"the {name} is {results[name]} at step {step}, {self._place(step)}"
                    f"{saved_step}: lower --learning_rate{_AGAIN}"
                )

    def _check_scale(self, state: dict[str, Any], step: int, saved_step: int) -> None:
        if state["loss_scale"] < train_step.SMALLEST_SCALE:
            raise errors.NotFinite(
                f"the loss scale is {state['loss_scale']} at step {step}, "
                f"{self._place(step)}{saved_step}: use --mixed_precision=bfloat16, or "
                f"lower --learning_rate{_AGAIN}"
            )

    def _place(self, step: int) -> str:
        names = wording.first_of(self.training.names(step - 1), _NAMED)
        return f"of the batch {names}; the last checkpoint is of step "

    def _evaluated(self, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """The state after an evaluation: which step is best, and for how long."""
        assert self.training.evaluate is not None
        try:
            with self.evaluating(), self.breaking_off():
                scores = dict(self.training.evaluate())
        except errors.Stopped:
            self._stop(step, state)
        loss = scores.pop(ROWS_LOSS, None)
        self.reporter.evaluated(step, scores)
        state = {**state, "evaluated_step": step}
        if not self.timetable.best_metric:
            self.training.on_evaluated(step)
            return state
        score = float(scores[self.timetable.best_metric])
        if math.isnan(score) and not math.isnan(state.get("best_score", 0.0)):
            logging.warning(
                "step %d: %s is not defined, since labels or predictions of the dev "
                "rows are all equal; %s is best",
                step,
                self.timetable.best_metric,
                "the last step" if loss is None else "the lowest loss",
            )
        if self.timetable.is_better(score, loss, state):
            self.training.on_evaluated(step)
            best = {"best_step": step, "best_score": score}
            best |= {} if loss is None else {"best_loss": loss}
            return {**state, **best, "evaluations_since_best": 0}
        since_best = state.get("evaluations_since_best", 0) + 1
        return {**state, "evaluations_since_best": since_best}

    def _stop(self, step: int, state: dict[str, Any]) -> None:
        """Saves a checkpoint and stops; running the command again resumes."""
        path = self.checkpoints.save(step, state)
        number = (self.watch and self.watch.number) or signal.SIGTERM
        name = signal.Signals(number).name
        self.reporter.say(
            f"asked to stop ({name}): saved {path} at step {step} of "
            f"{self.timetable.num_train_steps}; the same command goes on from there"
        )
        raise errors.Stopped(number)
