"""How the vector of a text is made of those of its tokens."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Projection:
    """An affine map after pooling; a module Dense of sentence-transformers."""

    units: int
    activation: str = "tanh"  # of Keras; "linear" for none
    use_bias: bool = True


@dataclasses.dataclass(frozen=True)
class TextVectors:
    """How the vectors of tokens become that of a text.

    Attributes:
        pooling: one of vectors.TEXT_POOLINGS.
        is_normalized: whether vectors are scaled to the length 1.
        projections: between pooling and scaling, in their order.
    """

    pooling: str = "mean"
    is_normalized: bool = True
    projections: tuple[Projection, ...] = ()

    def width(self, hidden_size):
        """The values of a vector, made of those of a network's tokens."""
        return self.projections[-1].units if self.projections else hidden_size

    @classmethod
    def from_values(cls, values):
        """The object whose `dataclasses.asdict` the values are."""
        maps = tuple(Projection(**each) for each in values["projections"])
        return cls(**{**values, "projections": maps})
