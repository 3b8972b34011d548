"""Examples of several sequences [B, G, S]: as rows for the network, and joined again.

The vectors of an example are "summed" or "compared", or the logits of its windows are
joined by "mean" or "max"; one sequence is "single", and never comes here.
"""

import math

from keras import ops

from contract import features as feature_names

# Of an example's windows, which may be fewer than G. A window alone, [B, S], is an
# example of its own, so such a network is that of "single".
OF_WINDOWS = ("mean", "max")


def choose_kind(problem_type, pair_input="joined", window_logits=""):
    """Which of "single", "summed", "compared", "mean", "max" settings of labels mean.

    `window_logits` is one of OF_WINDOWS, or "" for texts in one sequence.
    """
    if problem_type == "choice":
        return "compared"
    return "summed" if pair_input == "both_orders" else window_logits or "single"


def as_rows(features):
    """The features with a row for each sequence, [R, S]."""
    if len(features[feature_names.INPUT_MASK].shape) == 2:
        return features
    held = [
        n
        for n in (*feature_names.ENCODER_INPUTS, feature_names.LAYER_STATES)
        if n in features
    ]
    shapes = {name: (-1, *ops.shape(features[name])[2:]) for name in held}
    rows = {name: ops.reshape(features[name], shapes[name]) for name in held}
    packed = feature_names.PACKED_SOURCES, feature_names.PACKED_STARTS
    return rows | {name: features[name] for name in packed if name in features}


def window_rows(features):
    """As `as_rows`; a row without tokens has one, so that all numbers are finite."""
    if len(features[feature_names.INPUT_MASK].shape) == 2:
        return features
    rows = as_rows(features)
    mask = rows[feature_names.INPUT_MASK]
    is_first = ops.arange(ops.shape(mask)[1]) == 0
    mask = ops.where(is_first, ops.ones_like(mask), mask)
    return {**rows, feature_names.INPUT_MASK: mask}


def join_rows(pooled, features, kind):
    """Vectors [R, D] as the head reads them: [B, D], or [B, G, D] to be compared.

    Those of windows stay [R, D], and `join_windows` has the logits.
    """
    if kind in OF_WINDOWS:
        return pooled
    shape = -1, ops.shape(features[feature_names.INPUT_MASK])[1], pooled.shape[-1]
    pooled = ops.reshape(pooled, shape)
    return ops.sum(pooled, axis=1) if kind == "summed" else pooled


def by_example(rows, features):
    """Values [R, ...] as [B, G, ...], where the features are."""
    shape = *ops.shape(features[feature_names.INPUT_MASK])[:-1], *ops.shape(rows)[1:]
    return ops.reshape(rows, shape)


def join_windows(logits, features, kind):
    """Logits [R, C] of windows as those of examples, [B, C]; padding does not count."""
    mask = features[feature_names.INPUT_MASK]
    if len(mask.shape) == 2:
        return logits
    return join_logits(by_example(logits, features), mask[:, :, :1] > 0, kind)


def join_logits(logits, is_real, kind):
    """The mean or the largest of logits [B, G, C] where bool [B, G, 1] is true: [B, C].

    Those of one window are returned as they are.
    """
    if kind == "max":
        largest = ops.where(is_real, logits, -math.inf)
        return ops.max(largest, axis=1, initial=-math.inf)  # also of no example
    count = ops.sum(ops.cast(is_real, logits.dtype), axis=1)
    return ops.sum(ops.where(is_real, logits, 0.0), axis=1) / ops.maximum(count, 1.0)


def join_counted(logits, counts, kind):
    """As `join_logits` of windows [N, C] end to end, of examples int [B] have each."""
    counts = ops.cast(counts, "int32")
    number = ops.arange(ops.max(counts, initial=1))  # [G]
    places = ops.expand_dims(ops.cumsum(counts) - counts, 1) + number
    places = ops.minimum(places, ops.shape(logits)[0] - 1)
    is_real = ops.expand_dims(number < counts[:, None], -1)
    return join_logits(ops.take(logits, places, axis=0), is_real, kind)


def joining(network, kind):
    """A function of windows [R, S] to logits [R, C] as one of examples [B, G, S]."""

    def forward(features, training=False):
        outputs = network(window_rows(features), training=training)
        return {"logits": join_windows(outputs["logits"], features, kind)}

    return forward
