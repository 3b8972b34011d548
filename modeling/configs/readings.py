"""How a task reads a network: which layers, whether they are trained, by which head."""

import dataclasses
from typing import Any

LAST = "last"  # layer: as google-research/bert has it
# What is learned of layers: a weight of each and a factor, or the factor alone.
WEIGHTED, SCALED = ("learned", "learned_last_4"), ("top",)
HEADS = ("linear", "bilstm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """What the flags of the same names say; see docs/features.md.

    Attributes:
        freeze_encoder: whether the network stays as it is, and runs without dropout.
        layer_mix: one of WEIGHTED or SCALED, or of layer_choices.COMBINATIONS.
        layer_mix_norm: whether layers are normalized before they are weighted.
        layer_mix_l2: times the sum of squared weights, before their softmax.
        feature_dropout: rate, of what the head reads, and between its LSTM layers.
        head: one of HEADS.
        bilstm_units: of each direction.
        joins_pairs: whether a text is two segments, for a head of bilstm.
    """

    freeze_encoder: bool = False
    layer_mix: str = LAST
    layer_mix_norm: bool = False
    layer_mix_l2: float = 0.0
    feature_dropout: float = 0.0
    head: str = HEADS[0]
    bilstm_layers: int = 2
    bilstm_units: int = 768
    joins_pairs: bool = False

    def __post_init__(self) -> None:
        for name in ("layer_mix_norm", "layer_mix_l2"):
            if (value := getattr(self, name)) and self.layer_mix not in WEIGHTED:
                raise ValueError(
                    f"--{name}={value} is for layers whose weights are learned, and "
                    f"--layer_mix={self.layer_mix}; choose {' or '.join(WEIGHTED)}, "
                    f"or leave --{name} out"
                )

    @property
    def learns_mix(self) -> bool:
        """Whether the mix of layers has variables."""
        return self.layer_mix in (*WEIGHTED, *SCALED)

    def chosen(self) -> dict[str, Any]:
        """What differs from the original, which is Reading(); {} for that."""
        default = dataclasses.asdict(Reading())
        given = dataclasses.asdict(self)
        return {name: given[name] for name in given if given[name] != default[name]}


ORIGINAL = Reading()
