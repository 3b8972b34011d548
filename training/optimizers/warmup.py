"""BERT's rate by step, for optimizers in `fit` of Keras."""

import math

import keras
import numpy as np

from contract import errors
from training import schedule


@keras.saving.register_keras_serializable("bert")
class LinearWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """schedule.linear_with_warmup for `fit` of Keras; 0 after the last step.

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
        rate = schedule.linear_with_warmup(**self.arguments)
        rates = [rate(step) for step in range(num_train_steps + 1)]
        self.rates = np.array(rates, np.float32)

    def __call__(self, step):
        """The rate of a step counted from 0, float32 scalar."""
        step = keras.ops.minimum(keras.ops.cast(step, "int32"), len(self.rates) - 1)
        return keras.ops.take(self.rates, step)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return self.arguments
