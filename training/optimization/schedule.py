"""Learning rate by step, and how many steps a run has; optimization.py's schedule."""

from collections.abc import Callable


def linear_with_warmup(
    learning_rate: float, num_train_steps: int, num_warmup_steps: int
) -> Callable[[int], float]:
    """Rises linearly to the peak, then falls linearly to 0 at the last step.

    The fall is counted from step 0, not from the end of the warm-up, so the rate drops
    from the peak when the warm-up ends (optimization.py, create_optimizer). Steps count
    from 0; the first warm-up step has rate 0.
    """

    def rate(step: int) -> float:
        if step < num_warmup_steps:
            return learning_rate * step / num_warmup_steps
        return learning_rate * (1.0 - min(step, num_train_steps) / num_train_steps)

    return rate


def count_steps(num_examples: int, batch_size: int, epochs: float) -> int:
    """Steps of a run: int(examples / batch * epochs), as run_classifier.py counts."""
    return int(num_examples / batch_size * epochs)
