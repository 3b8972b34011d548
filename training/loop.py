"""The training loop: one for every script, device and objective."""

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from contract import errors
from training import checkpoints, interruption, metrics, tensorboard, train_step

ROWS_LOSS = "rows_loss"  # the mean loss of the rows, beside scores, which it is not
_AGAIN = " and start again with --overwrite_output_dir, or look at these examples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """When a run does its work, in optimizer steps.

    Attributes:
        learning_rate: rate of each step, counted from 0.
        save_steps: steps between checkpoints; the last step always saves.
        max_steps_per_call: most steps in one call on the devices.
        evaluate_steps: steps between evaluations, 0 for none.
        best_metric: decides what is best, by `metrics.sign`. Of equal scores, and of
            those that are not defined, the lower loss is best.
        patience: evaluations without a better score before the run stops; 0: never.
        profile_steps: the steps at which a trace begins and ends, or ().
    """

    num_train_steps: int
    learning_rate: Callable[[int], float]
    save_steps: int
    log_steps: int = 20
    max_steps_per_call: int = 1000
    evaluate_steps: int = 0
    best_metric: str = ""
    patience: int = 0
    profile_steps: Sequence[int] = ()

    def rates(self, step: int) -> list[float]:
        """Rates of the steps from `step` on, as many as one call does at most."""
        count = min(self.log_steps, self.max_steps_per_call)
        return [self.learning_rate(step + i) for i in range(count)]

    def next_stop(self, step: int) -> int:
        """The next step at which the host has something to do."""
        stops = [self.num_train_steps, step + self.max_steps_per_call]
        for period in (self.save_steps, self.log_steps, self.evaluate_steps):
            if period:
                stops.append(step - step % period + period)
        return min([*stops, *(s for s in self.profile_steps if s > step)])

    def evaluates_at(self, step: int) -> bool:
        """Whether a run with evaluations has one at this step."""
        is_last = step == self.num_train_steps
        return step > 0 and (is_last or step % self.evaluate_steps == 0)

    def is_over(self, step: int, state: dict[str, Any]) -> bool:
        """Whether the last step is reached, or early stopping ends the run."""
        if 0 < self.patience <= state.get("evaluations_since_best", 0):
            return True
        return step >= self.num_train_steps

    def is_better(self, score: float, loss: float | None, best: Any) -> bool:
        """Whether an evaluation is better than that of the state `best`, if any is.

        A score that is not defined counts as none. Without losses the first of equal
        scores is best, and the last of those that are not defined.
        """
        if "best_step" not in best:
            return True
        sign = metrics.sign(self.best_metric)
        values = score, best["best_score"]
        new, old = (-math.inf if math.isnan(v) else sign * v for v in values)
        if new != old:
            return new > old
        if loss is None or "best_loss" not in best:
            return math.isnan(score)
        return loss < best["best_loss"]

    def best(self, state: Mapping[str, Any]) -> tuple[str, float]:
        """The name and value of what the best evaluation is best by."""
        if math.isnan(state["best_score"]) and "best_loss" in state:
            return "loss", state["best_loss"]
        return self.best_metric, state["best_score"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """The loop over the steps of a run.

    Attributes:
        on_evaluated: called with the step after an evaluation of weights that the run
            may end with.
        name_batch: names the examples in the batch of a step, counted from 0.
        raises: whether a signal may abort an evaluation; not with other workers.
    """

    train_steps: train_step.TrainStep | tensorboard.TimedSteps
    plan: Plan
    checkpoints: checkpoints.RunCheckpoints
    reporter: tensorboard.Reporter
    evaluate: Callable[[], dict[str, Any]] | None = None
    on_evaluated: Callable[[int], None] = lambda step: None
    name_batch: Callable[[int], str] | None = None
    scales_loss: bool = False
    watch: interruption.Interruption | None = None
    raises: bool = True

    def is_due(self, step: int, state: dict[str, Any]) -> bool:
        """Whether this step's evaluation was aborted, or is still to come."""
        if not self.evaluate or not self.plan.evaluates_at(step):
            return False
        return state.get("evaluated_step") != step

    def breaking_off(self) -> Any:
        """Within it a signal raises errors.Stopped at once, where one may."""
        if self.watch and self.raises:
            return self.watch.raised()
        return contextlib.nullcontext()

    def train(self, batches: Any, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """Trains from `step` to the end of the plan, saving and evaluating on the way.

        `batches` begin at `step`; `state` is {} for a new run, or that of the
        checkpoint. Returns the final state: `step`, with evaluation `evaluated_step`,
        and with a best metric `best_step`, `best_score` and `evaluations_since_best`.

        Raises errors.NotFinite, saving nothing more, or errors.Stopped, after saving.
        """
        plan, state = self.plan, dict(state)
        iterator = iter(batches)
        if self.is_due(step, state):
            state = self._evaluated(step, state)
            self.checkpoints.save(step, state)
        saved_step = step
        while not plan.is_over(step, state):
            step, state, is_stopped = self._advance(iterator, step, state, saved_step)
            if is_stopped:
                self._stop(step, state)
            if self.is_due(step, state):
                state = self._evaluated(step, state)
            is_best = state.get("best_step") == step
            if is_best or step % plan.save_steps == 0 or plan.is_over(step, state):
                self.checkpoints.save(step, state)
                saved_step = step
        if step < plan.num_train_steps:
            name, value = plan.best(state)
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
            tf.constant(self.plan.rates(step), tf.float32),
            tf.constant(self.plan.next_stop(step) - step, tf.int32),
            tf.constant(step, tf.int64),
            train_step.Scaling.from_state(state),
        )
        results = {name: float(value) for name, value in results.items()}
        done = int(results.pop("steps"))
        step += done
        rate = self.plan.learning_rate(step - 1)
        state = {**state, "learning_rate": rate}
        state["num_train_steps"] = self.plan.num_train_steps
        is_stopped = results.pop("stop") != 0.0
        skipped = results.pop("skipped")
        self._check_finite(results, step, saved_step)
        if self.scales_loss:
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
        names = self.name_batch(step - 1) if self.name_batch else "not known"
        return f"of the batch {names}; the last checkpoint is of step "

    def _evaluated(self, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """The state after an evaluation: which step is best, and for how long."""
        assert self.evaluate is not None
        try:
            with self.breaking_off():
                scores = dict(self.evaluate())
        except errors.Stopped:
            self._stop(step, state)
        loss = scores.pop(ROWS_LOSS, None)
        self.reporter.evaluated(step, scores)
        state = {**state, "evaluated_step": step}
        if not self.plan.best_metric:
            self.on_evaluated(step)
            return state
        score = float(scores[self.plan.best_metric])
        if math.isnan(score) and not math.isnan(state.get("best_score", 0.0)):
            logging.warning(
                "step %d: %s is not defined, since labels or predictions of the dev "
                "rows are all equal; %s is best",
                step,
                self.plan.best_metric,
                "the last step" if loss is None else "the lowest loss",
            )
        if self.plan.is_better(score, loss, state):
            self.on_evaluated(step)
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
            f"{self.plan.num_train_steps}; the same command goes on from there"
        )
        raise errors.Stopped(number)
