"""The shape of an ELMo network, as released in options.json."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from contract import errors, file_names
from modeling.configs import config as config_lib

# Settings of the original's training.
_TRAINING_KEYS = "all_clip_norm_val batch_size learning_rate n_epochs n_train_tokens"
NUM_CHARACTERS = 261  # bytes and five marks; ids are one more, for 0 is padding
# Keys of the file, from outside in.
_KEYS = {
    "lstm.dim": "lstm_dim",
    "lstm.projection_dim": "projection_dim",
    "lstm.n_layers": "num_hidden_layers",
    "lstm.cell_clip": "cell_clip",
    "lstm.proj_clip": "proj_clip",
    "lstm.use_skip_connections": "use_skip_connections",
    "char_cnn.embedding.dim": "char_dim",
    "char_cnn.filters": "filters",
    "char_cnn.activation": "activation",
    "char_cnn.n_highway": "num_highway",
    "char_cnn.max_characters_per_token": "max_characters",
    "n_tokens_vocab": "vocab_size",
    "dropout": "dropout",
    "unroll_steps": "unroll_steps",
    "n_negative_samples_batch": "num_negative_samples",
    "sample_softmax": "sample_softmax",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElmoConfig(config_lib.NetworkConfig):
    """Sizes, clipping and dropout of an ELMo network; bilm's options.

    It reads the characters of words.
    """

    projection_dim: int  # P, of a token's vector and of a direction's output
    lstm_dim: int  # of the cells' states; P or more, and P without a projection
    num_hidden_layers: int = 1  # L, of each direction
    cell_clip: float = 0.0  # largest value of a cell's state; 0: it has no limit
    proj_clip: float = 0.0  # of a projected output; 0: it has no limit
    use_skip_connections: bool = False  # around all layers but the first
    filters: tuple[tuple[int, int], ...] = ()  # (width in characters, number) each
    char_dim: int = 16  # of a character's vector
    activation: str = "relu"  # of the convolutions: relu or tanh
    num_highway: int = 0
    max_characters: int = 50  # of a word, its two marks included
    vocab_size: int = 0  # V, words of the softmax; 0 where that is not known
    dropout: float = 0.0  # of each layer's input and of the softmax's; below 1
    unroll_steps: int = 20  # tokens of a stream in a batch
    num_negative_samples: int = 8192  # of a sampled softmax
    sample_softmax: bool = True
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "elmo"
    kind: ClassVar[str] = "ELMo"
    file_name: ClassVar[str] = file_names.ELMO_OPTIONS
    is_left_to_right: ClassVar[bool] = False
    type_vocab_size: ClassVar[int] = 0
    max_position_embeddings: ClassVar[int] = sys.maxsize  # there are none, so no limit
    may_be_0 = ("cell_clip", "num_highway", "proj_clip", "vocab_size")
    needed = ("lstm.dim", "lstm.projection_dim")
    # The original trains with 261 characters and predicts with 262, the row of padding
    # among them, which no file stores.
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "bidirectional": (True,),
        "char_cnn.n_characters": (NUM_CHARACTERS, NUM_CHARACTERS + 1),
        "share_embedding_softmax": (False,),
    }
    tolerated = frozenset(_TRAINING_KEYS.split())

    def __post_init__(self) -> None:
        try:  # JSON has lists for tuples
            filters = tuple((width, count) for width, count in self.filters)
        except (TypeError, ValueError):
            raise errors.InputError(
                f"char_cnn.filters={self.filters!r} are not pairs of a width and a "
                "number, as [[1, 32], [2, 64]]; correct the config"
            ) from None
        object.__setattr__(self, "filters", filters)
        super().__post_init__()
        if self.projection_dim > self.lstm_dim:
            raise errors.InputError(
                f"projection_dim={self.projection_dim} exceeds dim={self.lstm_dim}: a "
                "projection makes outputs shorter; correct the config"
            )
        config_lib.check_choice("activation", self.activation, ("relu", "tanh"))
        for width, count in self.filters:
            config_lib.check_value("width of filters", int, width)
            config_lib.check_value("number of filters", int, count)
            if width > self.max_characters:
                raise errors.InputError(
                    f"filters: a width of {width} exceeds max_characters_per_token="
                    f"{self.max_characters}; correct the config"
                )
        if not self.filters:
            raise errors.InputError(
                "an ELMo without char_cnn reads ids of words, which is not done here; "
                "give one that reads characters"
            )

    @property
    def hidden_size(self) -> int:
        """D of the outputs: both directions side by side."""
        return 2 * self.projection_dim

    @property
    def has_projection(self) -> bool:
        """Whether an output is a product of the cell's; otherwise it is the cell's."""
        return self.projection_dim != self.lstm_dim

    @property
    def num_filters(self) -> int:
        """Values of a word before they are projected to P."""
        return sum(count for _, count in self.filters)

    def num_weights(self) -> int:
        """Numbers in all variables of the network."""
        width, inner, between = self.projection_dim, self.lstm_dim, self.num_filters
        vectors = NUM_CHARACTERS * self.char_dim
        vectors += sum((w * self.char_dim + 1) * n for w, n in self.filters)
        vectors += self.num_highway * 2 * (between + 1) * between
        vectors += (between != width) * (between + 1) * width
        layer = (2 * width + 1) * 4 * inner + self.has_projection * inner * width
        return vectors + 2 * self.num_hidden_layers * layer

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of options.json, with dots between nested ones."""
        return _KEYS

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "ElmoConfig":
        """Builds a config from the keys of options.json; null is as no key."""
        flat = {key: value for key, value in _flatten(raw) if value is not None}
        config = cls._from_keys(flat)
        extra = {k: v for k, v in config.extra.items() if k not in cls.required}
        return dataclasses.replace(config, extra=extra)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "ElmoConfig":
        """The config whose dataclasses.asdict it is."""
        known = {k: v for k, v in values.items() if k != "share_embedding_softmax"}
        return cls(**known)  # of earlier versions

    def to_dict(self) -> dict[str, Any]:
        """The keys of options.json; where there is no limit or number it has none."""
        flat = self._to_keys()
        for field in self.may_be_0:
            if not getattr(self, field):
                del flat[self.key_in_file(field)]
        flat["char_cnn.filters"] = [list(pair) for pair in self.filters]  # as JSON has
        flat |= {key: allowed[-1] for key, allowed in self.required.items()}
        raw: dict[str, Any] = {}
        for key, value in flat.items():
            *outer, last = key.split(".")
            inner = raw
            for name in outer:
                inner = inner.setdefault(name, {})
            inner[last] = value
        return raw


def _flatten(raw: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of an object in objects, by their keys with dots between."""
    for key, value in raw.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
