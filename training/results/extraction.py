"""Runs a model over any number of examples; returns results in input order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from terminal import native_log, progress
from training.distribution import devices


class Result(NamedTuple):
    """Of an example: number from 0, int32 [S] tokens, values [...]."""

    unique_id: int
    input_ids: np.ndarray
    values: np.ndarray


def in_input_order(
    predict_function: Callable[[Any], dict[str, Any]],
    batches: Iterable[Any],
    strategy: Any,
    *,
    report: Callable[..., None],
    cut: Callable[[np.ndarray, int], np.ndarray],
) -> Iterator[list[Result]]:
    """Yields results without a gap, from number 0 on, as soon as they are complete.

    Args:
        predict_function: built by training.steps.predict_function; its outputs are
            unique_ids int [B], where -1 marks padding that is dropped, input_ids and
            input_mask [B, S], and values [B, ...].
        report: called with (tokens done, lines=lines done) after each batch.
        cut: values of an example, and its length without padding -> those to keep.
    """
    waiting: dict[int, Result] = {}
    num_tokens = num_lines = next_id = 0
    distributed = devices.distributed(strategy, batches)
    for batch in progress.with_first_named(distributed, "extracting: first batch"):
        outputs = {k: v.numpy() for k, v in predict_function(batch).items()}
        native_log.end()  # TensorFlow is up
        lengths = outputs["input_mask"].sum(axis=1)
        for row, unique_id in enumerate(outputs["unique_ids"].tolist()):
            if unique_id < 0:
                continue
            length = int(lengths[row])
            waiting[unique_id] = Result(
                unique_id,
                outputs["input_ids"][row, :length],
                cut(outputs["values"][row], length),
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
