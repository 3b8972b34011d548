"""Ids to windows that fit the network, and the losses of their tokens.

Each token is scored once: windows of a long text overlap, and tokens of the window
before are only read.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from contract import features
from terminal import progress

# Features int32 [B, S] -> losses and hits float32 [B, S - 1] of each next token.
Score = Callable[[dict[str, tf.Tensor]], tuple[np.ndarray, np.ndarray]]


class Window(NamedTuple):
    """Ids that are read together; those from place `first`, 1 at least, count."""

    ids: Sequence[int]
    first: int


class Scores(NamedTuple):
    """Losses and hits of the scored tokens of some windows, one after another."""

    losses: np.ndarray  # float32 [T], in nats
    hits: np.ndarray  # bool [T], whether each was the likeliest


def sliding(ids: Sequence[int], context: int, stride: int) -> list[Window]:
    """Windows of all ids but the first, `stride` ids apart and as long as fits."""
    windows = [Window(ids[:context], 1)]
    while (end := (len(windows) - 1) * stride + context) < len(ids):
        start = len(windows) * stride
        window = ids[start : start + context]
        windows.append(Window(window, end - start))
    return windows


def run(
    windows: Sequence[Window],
    score: Score,
    batch_size: int,
    *,
    filler: int = 0,
    name: str = "scoring: windows",
) -> list[Scores]:
    """The scores of each window, computed in batches of similar length."""
    order = np.argsort([-len(window.ids) for window in windows], kind="stable")
    results: list[Scores] = [Scores(np.zeros(0), np.zeros(0, bool))] * len(windows)
    for part in progress.slices(len(windows), batch_size, name):
        chosen = order[part]
        batch = [windows[place] for place in chosen]
        losses, hits = score(pad([window.ids for window in batch], filler))
        for row, (place, window) in enumerate(zip(chosen, batch, strict=True)):
            scored = slice(window.first - 1, len(window.ids) - 1)
            results[place] = Scores(losses[row, scored], hits[row, scored] > 0.5)
    return results


def pad(rows: Sequence[Sequence[int]], filler: int = 0) -> dict[str, tf.Tensor]:
    """Features of rows of ids, padded to the right."""
    lengths = np.array([len(ids) for ids in rows])
    ids = np.full((len(rows), lengths.max()), filler, features.INTEGER)
    mask = np.arange(ids.shape[1]) < lengths[:, np.newaxis]
    ids[mask] = np.concatenate(rows)
    return {
        features.INPUT_IDS: tf.constant(ids),
        features.INPUT_MASK: tf.constant(mask.astype(features.INTEGER)),
        features.SEGMENT_IDS: tf.zeros_like(ids),
    }


def joined(parts: Iterable[Scores]) -> Scores:
    """The scores of windows of one text as one."""
    losses, hits = zip(*parts, strict=True)
    return Scores(np.concatenate(losses), np.concatenate(hits))
