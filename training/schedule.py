"""Learning rate by step, and how many steps a run has: as in BERT, and as in GPT."""

import math
from collections.abc import Callable

import keras
import numpy as np

from contract import errors


def linear_with_warmup(
    learning_rate: float, num_train_steps: int, num_warmup_steps: float
) -> Callable[[int], float]:
    """Rises linearly to the peak, then falls linearly to 0 at the last step.

    The fall is counted from step 0, not from the end of the warm-up, so the rate drops
    from the peak when the warm-up ends (optimization.py, create_optimizer). Steps count
    from 0; the first warm-up step has rate 0. A part of a step is no warm-up.
    """
    whole_steps = int(num_warmup_steps)

    def rate(step: int) -> float:
        if step < whole_steps:
            return learning_rate * step / whole_steps
        return learning_rate * (1.0 - min(step, num_train_steps) / num_train_steps)

    return rate


def _gpt(after_warmup: Callable[[float], float], both_parts: Callable[[float], float]):
    """A schedule of opt.py: x/w up to w, then a function of x, times another of x.

    x is the share of the run that is done with this step, which counts from 1, so that
    no step has rate 0 but the last; w is that of the warm-up.
    """

    def schedule(
        learning_rate: float, num_train_steps: int, num_warmup_steps: float
    ) -> Callable[[int], float]:
        def rate(step: int) -> float:
            done = min(step + 1, num_train_steps)
            share = done / num_train_steps
            if done <= num_warmup_steps:
                return learning_rate * done / num_warmup_steps * both_parts(share)
            return learning_rate * after_warmup(share) * both_parts(share)

        return rate

    return schedule


def _one(share: float) -> float:
    return 1.0


def _left(share: float) -> float:
    return 1.0 - share


def _half_cosine(share: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * share))


# --learning_rate_schedule: (peak, steps, steps of warm-up) -> (step from 0 -> rate).
# BERT's, and warmup_linear, warmup_cosine and warmup_constant of opt.py.
SCHEDULES = {
    "linear": linear_with_warmup,
    "gpt_linear": _gpt(_one, both_parts=_left),
    "gpt_cosine": _gpt(_half_cosine, both_parts=_one),
    "gpt_constant": _gpt(_one, both_parts=_one),
}


def count_steps(num_examples: int, batch_size: int, epochs: float) -> int:
    """Steps of a run: int(examples / batch * epochs), as run_classifier.py counts."""
    return int(num_examples / batch_size * epochs)


@keras.saving.register_keras_serializable("bert")
class LinearWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """linear_with_warmup for `compile` and `fit` of Keras; 0 after the last step.

    Raises:
        ValueError: no step, more steps of warm-up than steps, or a rate that is below 0
            or not finite.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0):
        if not 0 <= num_warmup_steps <= num_train_steps or num_train_steps < 1:
            raise errors.InputError(
                f"num_train_steps={num_train_steps}, num_warmup_steps="
                f"{num_warmup_steps}; give at least one step, and no more of warm-up"
            )
        if not 0 <= learning_rate < math.inf:
            raise errors.InputError(
                f"learning_rate={learning_rate}; give a finite number of 0 or more"
            )
        self.arguments = {
            "learning_rate": learning_rate,
            "num_train_steps": num_train_steps,
            "num_warmup_steps": num_warmup_steps,
        }
        rate = linear_with_warmup(**self.arguments)
        rates = [rate(step) for step in range(num_train_steps + 1)]
        self.rates = np.array(rates, np.float32)

    def __call__(self, step):
        """The rate of a step counted from 0, float32 scalar."""
        step = keras.ops.minimum(keras.ops.cast(step, "int32"), len(self.rates) - 1)
        return keras.ops.take(self.rates, step)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return self.arguments
