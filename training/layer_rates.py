"""Rates by layer: lower ones near the input; layers that wait for those above them."""

import dataclasses
import math
from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True)
class LayerRates:
    """How the rate of a variable depends on its layer.

    Embeddings have depth 0, layer i of n has i + 1, and what lies above, such as a
    pooler and a head, n + 2. A layer that is used several times is one.

    The rate is multiplied by decay^(n + 2 - depth), so the top layer has decay^2:
    google-research/electra, model/optimization.py, `_get_layer_lrs`.

    Layers are unfrozen from the top (Howard and Ruder, 2018, arXiv:1801.06146, section
    3.3): the head is trained from the first step, each layer `steps_per_layer` steps
    after what lies above it, embeddings last. Without a head the top layer is first.

    Attributes:
        depth: the depth of a variable, or None above all layers, by its path; that of
            the network's record, which raises an error where it does not know.
        decay: 1 for the same rate everywhere.
        steps_per_layer: 0 to train all from the first step.
    """

    depth: Callable[[str], int | None]
    decay: float = 1.0
    steps_per_layer: float = 0.0

    def factors(self, paths: Sequence[str]) -> list[float]:
        """The factors of the rates of variables; paths as in names.Name."""
        each, top = self._depths(paths)
        return [self.decay ** (top - depth) for depth in each]

    def first_steps(self, paths: Sequence[str]) -> list[int]:
        """The step from which on each variable is trained; of those that are."""
        each, top = self._depths(paths)
        above = [max(0, top - 1 - depth) for depth in each]  # layers, and a head
        first = min(above)
        return [math.ceil((count - first) * self.steps_per_layer) for count in above]

    def _depths(self, paths: Sequence[str]) -> tuple[list[int], int]:
        """The depths of variables, and that of a head."""
        depths = [self.depth(path) for path in paths]
        top = max((depth for depth in depths if depth is not None), default=0) + 2
        return [top if depth is None else depth for depth in depths], top
