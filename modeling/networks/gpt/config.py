"""The shape of a GPT or GPT-2 network, as released and in config.json."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from contract import errors, file_names
from modeling.configs import config as config_lib

MODEL_TYPES = ("openai-gpt", "gpt2")  # Hugging Face's, of both networks
# Hugging Face's keys.
_KEYS = {
    "vocab_size": "vocab_size",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "embd_pdrop": "embedding_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "resid_pdrop": "hidden_dropout_prob",
    "layer_norm_epsilon": "layer_norm_epsilon",
    "initializer_range": "initializer_range",
    "joined_table": "joined_table",
}
# The keys of GPT-2's hparams.json.
_HPARAMS = {
    "n_vocab": "vocab_size",
    "n_ctx": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
}
# `afn` of GPT and `activation_function` of GPT-2: both mean the tanh form by gelu_new,
# and GPT by gelu as well. The last of several names is written.
_ACTIVATIONS = {
    False: {"gelu_new": "gelu_tanh", "gelu": "gelu_tanh", "relu": "relu"},
    True: {
        "gelu": "gelu_erf",
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "relu": "relu",
        "tanh": "tanh",
    },
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GptConfig(config_lib.TransformerConfig):
    """Sizes, activation and dropout of GPT and GPT-2, with the names of BertConfig."""

    vocab_size: int  # V, rows of tokens, special ones included
    hidden_size: int = 768  # D, a multiple of N
    num_hidden_layers: int = 12  # L
    num_attention_heads: int = 12  # N
    intermediate_size: int = 3072  # F
    hidden_act: str = "gelu_tanh"
    embedding_dropout_prob: float = 0.1
    hidden_dropout_prob: float = 0.1  # of layer outputs
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02  # standard deviation of the normal, not truncated
    layer_norm_epsilon: float = 1e-5
    # False: GPT, whose norms follow the sums. True: GPT-2, whose blocks begin with
    # them, and which has another after its last block.
    norm_first: bool = False
    # For GPT. True, as released: one table of tokens and positions, whose entries are
    # dropped before use, and all of whose rows take part in the softmax. False, as
    # Hugging Face has it: the sum is dropped, and tokens alone can be predicted.
    joined_table: bool = False
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "gpt"
    file_name: ClassVar[str] = file_names.HUGGING_FACE_CONFIG
    type_vocab_size: ClassVar[int] = 0
    is_left_to_right: ClassVar[bool] = True
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "model_type": MODEL_TYPES,
        "add_cross_attention": (False, None),
        "scale_attn_by_inverse_layer_idx": (False,),
        "scale_attn_weights": (True,),
        "tie_word_embeddings": (True,),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined_table and self.norm_first:
            raise errors.InputError(
                "joined_table is of GPT, and GPT-2 has two tables; leave it out"
            )

    @property
    def activations(self) -> Collection[str]:  # type: ignore[override]
        """The functions that hidden_act may name."""
        return frozenset(_ACTIVATIONS[self.norm_first].values())

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The network's name in messages."""
        return "GPT-2" if self.norm_first else "GPT"

    @property
    def num_outputs(self) -> int:
        """Rows that take part in the softmax over the next token."""
        extra = self.max_position_embeddings if self.joined_table else 0
        return self.vocab_size + extra

    @property
    def num_table_rows(self) -> int:
        """Rows of the one table that GPT has, tokens first."""
        return self.vocab_size + self.max_position_embeddings

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns Hugging Face's keys."""
        return _KEYS

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "GptConfig":
        """Builds a config from Hugging Face's config.json, or GPT-2's hparams.json.

        Raises:
            ValueError: as in NetworkConfig, or the activation is unknown.
        """
        if "n_vocab" in raw:
            return cls._from_hparams(raw)
        norm_first = raw.get("model_type") == "gpt2"
        act_key = "activation_function" if norm_first else "afn"
        raw = {"n_positions": 1024 if norm_first else 512, act_key: "gelu_new", **raw}
        known = _ACTIVATIONS[norm_first]
        activation = config_lib.read_activation(act_key, raw.pop(act_key), known)
        if raw.get("n_inner") is None:
            raw["n_inner"] = _inner_size(raw.get("n_embd", cls.hidden_size))
        return cls._from_keys(raw, hidden_act=activation, norm_first=norm_first)

    @classmethod
    def _from_hparams(cls, raw: dict[str, Any]) -> "GptConfig":
        if missing := [key for key in _HPARAMS if key not in raw]:
            raise errors.InputError(
                f"the key {missing[0]} is missing; is this of GPT-2?"
            )
        return cls(
            **{field: raw[key] for key, field in _HPARAMS.items()},
            intermediate_size=_inner_size(raw["n_embd"]),
            norm_first=True,
            extra={key: raw[key] for key in raw if key not in _HPARAMS},
        )

    def num_weights(self) -> int:
        """Numbers in all variables of the network."""
        norm = 2 * self.hidden_size * self.norm_first
        layers = self.num_hidden_layers * self._num_layer_weights()
        return self.num_table_rows * self.hidden_size + layers + norm

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw = {**self._to_keys(), "model_type": MODEL_TYPES[self.norm_first]}
        known = _ACTIVATIONS[self.norm_first]
        act_key = "activation_function" if self.norm_first else "afn"
        raw[act_key] = config_lib.name_activation(self.hidden_act, known)
        if not self.joined_table:
            del raw["joined_table"]
        if self.intermediate_size == 4 * self.hidden_size:
            del raw["n_inner"]  # which Hugging Face has for GPT-2 alone
        return raw

    to_hugging_face = to_dict

    def to_hparams(self) -> dict[str, int]:
        """The keys of GPT-2's hparams.json."""
        return {key: getattr(self, field) for key, field in _HPARAMS.items()}


def _inner_size(width: Any) -> int:
    """Units of the feed-forward layer where the file has no number of them."""
    config_lib.check_value("hidden_size", int, width, "n_embd")
    return 4 * width
