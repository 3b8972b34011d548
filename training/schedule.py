"""Learning rate by step, and how many steps a run has: as in BERT, and as in GPT."""

import math
from collections.abc import Callable


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
