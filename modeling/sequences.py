"""Examples of several sequences [B, G, S]: as rows for the network, and joined again.

The vectors of an example are "summed" or "compared"; one sequence is "single", and
never comes here.
"""

from keras import ops

from contract import features as feature_names


def choose_kind(problem_type, pair_input="joined"):
    """Which of "single", "summed", "compared" the settings of labels mean."""
    if problem_type == "choice":
        return "compared"
    return "summed" if pair_input == "both_orders" else "single"


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


def join_rows(pooled, features, kind):
    """Vectors [R, D] as the head reads them: [B, D], or [B, G, D] to be compared."""
    shape = -1, ops.shape(features[feature_names.INPUT_MASK])[1], pooled.shape[-1]
    pooled = ops.reshape(pooled, shape)
    return ops.sum(pooled, axis=1) if kind == "summed" else pooled


def by_example(rows, features):
    """Values [R, ...] as [B, G, ...], where the features are."""
    shape = *ops.shape(features[feature_names.INPUT_MASK])[:-1], *ops.shape(rows)[1:]
    return ops.reshape(rows, shape)
