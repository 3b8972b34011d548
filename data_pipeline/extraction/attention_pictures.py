"""Heat maps of attention probabilities, drawn by matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_LABELLED = 4  # panels up to which each has its tokens beside it
_INCHES, _INCHES_PER_TOKEN = 1.2, 0.22


def figure(
    tokens: Sequence[str],
    maps: np.ndarray,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Any:
    """A matplotlib Figure with a row of panels for each layer, a column for each head.

    Args:
        tokens: S.
        maps: [K, N, S, S] probabilities: a row is the token that looks, a column the
            token that is looked at.
        layers: names of the K, and `heads` of the N; by default counted from 0.
    """
    from matplotlib import figure as figures  # which takes a second

    num_layers, num_heads = maps.shape[:2]
    is_labelled = num_layers * num_heads <= _LABELLED
    size = _INCHES
    if is_labelled:
        size = max(3.0, _INCHES_PER_TOKEN * len(tokens) + 1.0)
    drawn = figures.Figure((size * num_heads, size * num_layers), layout="constrained")
    panels = drawn.subplots(num_layers, num_heads, squeeze=False)
    for i, layer in enumerate(range(num_layers) if layers is None else layers):
        for j, head in enumerate(range(num_heads) if heads is None else heads):
            panel = panels[i, j]
            panel.imshow(maps[i, j], cmap="Blues", vmin=0.0, vmax=1.0)
            panel.set_xticks([])
            panel.set_yticks([])
            if is_labelled:
                panel.set_xticks(range(len(tokens)), tokens, rotation=90)
                panel.set_yticks(range(len(tokens)), tokens)
                panel.set_title(f"layer {layer}, head {head}")
            elif i == 0:
                panel.set_title(f"head {head}", fontsize=8)
            if not is_labelled and j == 0:
                panel.set_ylabel(f"layer {layer}", fontsize=8)
    return drawn
