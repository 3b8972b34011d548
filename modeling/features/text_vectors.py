"""How the vector of a text is made of those of its tokens, and what compares two."""

import dataclasses

import numpy as np

COSINE, DOT = "cosine", "dot"
SIMILARITIES = (COSINE, DOT, "euclidean", "manhattan")


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
        truncate_dim: leading values that are kept, after scaling; None for all.
    """

    pooling: str = "mean"
    is_normalized: bool = True
    projections: tuple[Projection, ...] = ()
    truncate_dim: int | None = None

    def width(self, hidden_size):
        """The values of a vector, made of those of a network's tokens."""
        width = self.projections[-1].units if self.projections else hidden_size
        return min(width, self.truncate_dim or width)

    @classmethod
    def from_values(cls, values):
        """The object whose `dataclasses.asdict` the values are."""
        maps = tuple(Projection(**each) for each in values["projections"])
        return cls(**{**values, "projections": maps})


def compare(first, second, similarity):
    """Similarities float32 [A, B] of vectors [A, W] and [B, W]; higher ones are nearer.

    Cosines are products of vectors of length 1; distances are negative.
    """
    if similarity in (COSINE, DOT):
        return first @ second.T
    order = 2 if similarity == "euclidean" else 1
    rows = [np.linalg.norm(second - vector, order, axis=-1) for vector in first]
    return -np.reshape(rows, (len(first), len(second)))
