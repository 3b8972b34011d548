"""Settings of which vectors are computed of tokens or texts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tasks.settings import fields

# Those of modeling.features.layer_choices, whose import takes seconds.
COMBINATIONS = (
    "embedding",
    "second_to_last",
    "last",
    "sum_last_4",
    "concat_last_4",
    "sum_all",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorChoice(fields.Settings):
    """Layers, and vectors of texts."""

    combine: str = fields.vectors(
        "none",
        "Combination of layers into one vector, as in Table 7 of the BERT paper, "
        "instead of --layers.",
        choices=["none", *COMBINATIONS],
        changes=fields.ANSWERS,
    )
    layer_weights: Sequence[str] = fields.vectors(
        (),
        "Weights of the summed layers, the last layer first.",
        changes=fields.ANSWERS,
    )
    normalize: bool = fields.vectors(
        False, "Scale every vector to length 1.", changes=fields.ANSWERS
    )
    layers: Sequence[str] = fields.vectors(
        ("-1",), "Layers to read: 0 is the first, -1 the last.", changes=fields.ANSWERS
    )
    pooling: str = fields.vectors(
        "mean",
        "Vectors of texts: the vector of [CLS], or the mean over the tokens.",
        choices=("cls", "mean"),
        changes=fields.ANSWERS,
    )

    @property
    def names_layers(self) -> bool:
        """Whether the user says which layers."""
        return "layers" in self.given or self.combine != "none"

    def vector_choice(self) -> dict[str, Any]:
        """The arguments of modeling's vectors.choose."""
        # A combination names its layers, so only those given contradict it.
        has_layers = "layers" in self.given or self.combine == "none"
        return {
            "layers": self.numbers("layers", int) if has_layers else None,
            "combine": self.combine,
            "weights": self.numbers("layer_weights", float),
            "pooling": self.pooling,
            "normalize": self.normalize,
        }
