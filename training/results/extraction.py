"""Runs a model over any number of examples, whose results leave in their order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from training.distribution import devices


class Result(NamedTuple):
    """What came of one example.

    Attributes:
        unique_id: its number, from 0.
        input_ids: int32 [S], its tokens without padding.
        values: its vectors, [S, ...] or, where they are not of tokens, [...].
    """

    unique_id: int
    input_ids: np.ndarray
    values: np.ndarray


def in_input_order(
    predict_function: Callable[[Any], dict[str, Any]],
    batches: Iterable[Any],
    strategy: Any,
    *,
    report: Callable[..., None],
    of_tokens: bool,
) -> Iterator[list[Result]]:
    """Yields results as soon as all before them are there.

    Args:
        predict_function: what training.steps.predict_function builds; its outputs are
            unique_ids int [B], where -1 marks filling that is dropped, input_ids and
            input_mask [B, S], and values [B, S, ...] or [B, ...].
        batches: tf.data.Dataset of features.
        strategy: the tf.distribute.Strategy.
        report: called with (tokens done, lines=lines done) after each batch.
        of_tokens: whether values have an axis S, from which padding is to be cut.

    Yields:
        Results without a gap, from number 0 on.
    """
    waiting: dict[int, Result] = {}
    num_tokens = num_lines = next_id = 0
    for batch in devices.distributed(strategy, batches):
        outputs = {k: v.numpy() for k, v in predict_function(batch).items()}
        lengths = outputs["input_mask"].sum(axis=1)
        for row, unique_id in enumerate(outputs["unique_ids"].tolist()):
            if unique_id < 0:
                continue
            length = int(lengths[row])
            values = outputs["values"][row]
            waiting[unique_id] = Result(
                unique_id,
                outputs["input_ids"][row, :length],
                values[:length] if of_tokens else values,
            )
            num_tokens += length
            num_lines += 1
        ready = []
        while next_id in waiting:
            ready.append(waiting.pop(next_id))
            next_id += 1
        if ready:
            yield ready
        report(num_tokens, lines=num_lines)
