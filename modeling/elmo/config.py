"""The shape of an ELMo network, as released in options.json."""

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from contract import errors, file_names
from modeling.configs import config as config_lib

NUM_CHARACTERS = 261  # bytes and five marks; ids are one more, for 0 is padding
_ACTIVATIONS = ("relu", "tanh")
_NEEDED = ("lstm.dim", "lstm.projection_dim")
_MAY_BE_0 = ("cell_clip", "num_highway", "proj_clip", "vocab_size")
# Keys of the file, from outside in, and ours.
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
    "share_embedding_softmax": "share_embedding_softmax",
}
# Values of keys that would be another network. The original trains with 261 characters
# and predicts with 262, the row of padding among them, which no file stores.
_REQUIRED = {
    "bidirectional": (True,),
    "char_cnn.n_characters": (NUM_CHARACTERS, NUM_CHARACTERS + 1),
}
# Of the original's training; they change nothing in the network.
_TOLERATED = frozenset(
    {
        "all_clip_norm_val",
        "batch_size",
        "learning_rate",
        "n_epochs",
        "n_train_tokens",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElmoConfig(config_lib.NetworkConfig):
    """Sizes, clipping and dropout of an ELMo network; bilm's options.

    It reads the characters of words, or, where it has no `filters`, their ids.
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
    # V, words of the softmax or of the table of words; 0 where that is not known.
    vocab_size: int = 0
    dropout: float = 0.0  # of each layer's input and of the softmax's; below 1
    unroll_steps: int = 20  # tokens of a stream in a batch
    num_negative_samples: int = 8192  # of a sampled softmax
    sample_softmax: bool = True
    share_embedding_softmax: bool = False
    # Further keys of the file, kept so that writing it loses nothing.
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "elmo"
    kind: ClassVar[str] = "ELMo"
    file_name: ClassVar[str] = file_names.ELMO_OPTIONS
    tolerated: ClassVar[frozenset[str]] = _TOLERATED
    is_left_to_right: ClassVar[bool] = False
    type_vocab_size: ClassVar[int] = 0
    max_position_embeddings: ClassVar[int] = sys.maxsize  # there are none, so no limit

    def __post_init__(self) -> None:
        # JSON has lists for tuples, and null for a limit that there is not.
        try:
            filters = tuple((width, count) for width, count in self.filters)
        except (TypeError, ValueError):
            raise errors.InputError(
                f"char_cnn.filters={self.filters!r} are not pairs of a width and a "
                "number, as [[1, 32], [2, 64]]; correct the config"
            ) from None
        object.__setattr__(self, "filters", filters)
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), self.key_in_file(field.name)
            if field.type is bool and not isinstance(value, bool):
                raise errors.InputError(
                    f"{name}={value!r} is not true or false; correct it"
                )
            if field.name not in _MAY_BE_0 or value != 0 or isinstance(value, bool):
                config_lib.check_number(field.name, field.type, value, name)
        if self.projection_dim > self.lstm_dim:
            raise errors.InputError(
                f"projection_dim={self.projection_dim} exceeds dim={self.lstm_dim}: a "
                "projection makes outputs shorter; correct the config"
            )
        self._check_characters()

    def _check_characters(self) -> None:
        if self.activation not in _ACTIVATIONS:
            raise errors.InputError(
                f"activation={self.activation!r} is not one of {list(_ACTIVATIONS)}"
            )
        for width, count in self.filters:
            config_lib.check_number("width of filters", int, width)
            config_lib.check_number("number of filters", int, count)
            if width > self.max_characters:
                raise errors.InputError(
                    f"filters: a width of {width} exceeds max_characters_per_token="
                    f"{self.max_characters}; correct the config"
                )
        if not self.reads_characters and not self.vocab_size:
            raise errors.InputError(
                "without char_cnn the network reads ids of words, and n_tokens_vocab "
                "says how many there are; add one of them"
            )

    @property
    def reads_characters(self) -> bool:
        """Whether input_ids are characters [B, S, 50]; otherwise words [B, S]."""
        return bool(self.filters)

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
        if self.reads_characters:
            vectors = NUM_CHARACTERS * self.char_dim
            vectors += sum((w * self.char_dim + 1) * n for w, n in self.filters)
            vectors += self.num_highway * 2 * (between + 1) * between
            vectors += (between != width) * (between + 1) * width
        else:
            vectors = self.vocab_size * width
        layer = (2 * width + 1) * 4 * inner + self.has_projection * inner * width
        return vectors + 2 * self.num_hidden_layers * layer

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "ElmoConfig":
        """Builds a config from the keys of options.json.

        Raises:
            ValueError: a key is missing, a number is wrong, or it is another network.
        """
        flat = {key: value for key, value in _flat(raw) if value is not None}
        for key, allowed in _REQUIRED.items():
            if (value := flat.pop(key, allowed[-1])) not in allowed:
                raise errors.InputError(
                    f"{key}={value!r} is another network than ELMo's, which has "
                    f"{' or '.join(map(str, allowed))}; correct the options"
                )
        for key in _NEEDED:
            if key not in flat:
                raise errors.InputError(
                    f"the key {key} is missing; are these the options of an ELMo?"
                )
        known = {ours: flat.pop(key) for key, ours in _KEYS.items() if key in flat}
        return cls(**known, extra=flat)

    def key_in_file(self, field: str) -> str:
        """What options.json calls a field or property, with dots between keys."""
        told = {ours: key for key, ours in _KEYS.items()}
        return {**told, "reads_characters": "char_cnn"}.get(field, field)

    def to_dict(self) -> dict[str, Any]:
        """The keys of options.json; where there is no limit or number it has none."""
        flat = {key: getattr(self, ours) for key, ours in _KEYS.items()}
        flat["char_cnn.filters"] = [list(pair) for pair in self.filters]  # as JSON has
        flat = {
            key: value
            for key, value in flat.items()
            if value or _KEYS[key] not in _MAY_BE_0
        }
        flat |= {key: allowed[-1] for key, allowed in _REQUIRED.items()}
        raw: dict[str, Any] = {}
        for key, value in {**self.extra, **flat}.items():
            if key.startswith("char_cnn.") and not self.reads_characters:
                continue
            *outer, last = key.split(".")
            inner = raw
            for name in outer:
                inner = inner.setdefault(name, {})
            inner[last] = value
        return raw


def _flat(raw: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of an object in objects, by their keys with dots between."""
    for key, value in raw.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
