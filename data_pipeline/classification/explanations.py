"""Weights of tokens as weights of words, and rows of them as JSON lines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data_pipeline.classification import predictions, split
from data_pipeline.text import wordpiece


def explain_rows(
    data: split.LabelledData,
    vocab: Sequence[str],
    decide: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    name: str,
    indices: Sequence[int],
    outputs: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """The predictions for K rows of the split `name`, and the weights of their words.

    `outputs` are "weights" float [K, S] of tokens, and "logits" [K, C], of which
    `decide` makes probabilities and `Scored.predictions`.
    """
    packed, table = data.splits[name].packed, data.splits[name].table
    _, decisions = decide(outputs["logits"])
    rows = []
    for place, i in enumerate(indices):
        ids = packed.tokens[packed.splits[i] : packed.splits[i + 1]]
        label = table.labels[i] if table.labels is not None else ""
        words = word_weights(
            [vocab[token] for token in ids],
            outputs["weights"][place],
            second=int(packed.first_lengths[i]),
        )
        rows.append(
            {
                "split": name,
                "id": table.example_ids[i],
                "expected": predictions.joined(label),
                "predicted": predictions.named(data.label_set, decisions[place]),
                "words": words,
            }
        )
    return rows


def word_weights(
    tokens: Sequence[str], weights: np.ndarray, second: int
) -> list[list[Any]]:
    """[[word, weight], ...] of packed tokens: pieces are joined and their weights sum.

    [CLS] and [SEP] are left out, which stand at the ends and before the place `second`,
    where the second of two texts begins.
    """
    special = {tokens[0], tokens[second - 1], tokens[-1]}  # which no text becomes
    words: list[list[Any]] = []
    for place, token in enumerate(tokens):
        if token in special:
            continue
        weight = float(weights[place])
        is_piece = token.startswith(wordpiece.CONTINUATION) and words
        if is_piece and tokens[place - 1] not in special:
            words[-1][0] += token.removeprefix(wordpiece.CONTINUATION)
            words[-1][1] += weight
        else:
            words.append([token, weight])
    return [[word, round(weight, 6)] for word, weight in words]
