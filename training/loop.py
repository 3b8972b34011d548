"""The training loop: one for every script, device and objective."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """When a run does what, in optimizer steps.

    Attributes:
        num_train_steps: the last step.
        learning_rate: rate of each step, counted from 0.
        save_steps: steps between checkpoints; the last step always saves.
        log_steps: steps between two points in TensorBoard.
        max_steps_per_call: most steps done on the devices without a look from here.
        evaluate_steps: steps between evaluations, 0 for none.
        best_metric: the score that decides which checkpoint is best; higher is better,
            but for a name that ends in `loss`. Without one, none is best.
        patience: evaluations without a better score before the run stops; 0: never.
    """

    num_train_steps: int
    learning_rate: Callable[[int], float]
    save_steps: int
    log_steps: int = 20
    max_steps_per_call: int = 1000
    evaluate_steps: int = 0
    best_metric: str = ""
    patience: int = 0

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
        return min(stops)


def train(
    train_steps: Callable[..., dict[str, Any]],
    batches: Any,
    plan: Plan,
    *,
    step: int,
    state: dict[str, Any],
    checkpoints: Any,
    reporter: Any,
    evaluate: Callable[[], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Trains from `step` to the end of the plan, saving and evaluating on the way.

    Args:
        train_steps: what training.steps.train_function builds.
        batches: dataset of the batches from `step` on.
        plan: when to do what.
        step: steps done before.
        state: {} for a new run, or what the resumed checkpoint had beside it.
        checkpoints: a training.checkpoints.RunCheckpoints.
        reporter: a training.reporting.Reporter.
        evaluate: scores of the current weights on held-out data, and texts to show.

    Returns:
        The final state: `step`, and with evaluation `best_step`, `best_score`.

    Raises:
        FloatingPointError: the loss is not finite; nothing is saved after it.
    """
    iterator = iter(batches)
    state = dict(state)
    saved_step = step
    while step < plan.num_train_steps and not _is_over(state, plan):
        end = plan.next_stop(step)
        results = train_steps(
            iterator,
            tf.constant(plan.rates(step), tf.float32),
            tf.constant(end - step, tf.int32),
            tf.constant(step, tf.int64),
        )
        results = {name: float(value) for name, value in results.items()}
        _check_finite(results, f"{step + 1} to {end}", saved_step)
        step = end
        reporter.train(step, results, plan.learning_rate(step - 1))
        is_last = step == plan.num_train_steps
        if evaluate and (is_last or step % plan.evaluate_steps == 0):
            scores = evaluate()
            reporter.evaluated(step, scores)
            state = _judged(state, step, scores, plan)
        is_best = state.get("best_step") == step
        if is_last or is_best or step % plan.save_steps == 0 or _is_over(state, plan):
            checkpoints.save(step, state)
            saved_step = step
    if _is_over(state, plan):
        reporter.say(
            f"stopped at step {step}: no better {plan.best_metric} than "
            f"{state['best_score']:.4f} (step {state['best_step']}) in "
            f"{state['evaluations_since_best']} evaluations"
        )
    return {**state, "step": step}


def _check_finite(results: dict[str, float], steps: str, saved_step: int) -> None:
    for name in ("loss", "gradient_norm"):
        if not math.isfinite(results[name]):
            raise FloatingPointError(
                f"the {name} is {results[name]} in steps {steps}; the last checkpoint "
                f"is of step {saved_step}: lower --learning_rate and go on from there"
            )


def _judged(
    state: dict[str, Any], step: int, scores: dict[str, Any], plan: Plan
) -> dict[str, Any]:
    """The state after an evaluation: which step is best, and for how long."""
    if not plan.best_metric:
        return state
    score = float(scores[plan.best_metric])
    sign = -1.0 if plan.best_metric.endswith("loss") else 1.0
    if "best_score" not in state or sign * score > sign * state["best_score"]:
        return {"best_step": step, "best_score": score, "evaluations_since_best": 0}
    return {**state, "evaluations_since_best": state["evaluations_since_best"] + 1}


def _is_over(state: dict[str, Any], plan: Plan) -> bool:
    """Whether early stopping ends the run."""
    return 0 < plan.patience <= state.get("evaluations_since_best", 0)
