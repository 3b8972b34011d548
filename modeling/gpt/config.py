"""The shape of a GPT or GPT-2 network, as released and in config.json."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from contract import errors, file_names
from modeling.configs import config as config_lib

MODEL_TYPES = ("openai-gpt", "gpt2")  # Hugging Face's, of both networks
HEAD_SIZE = 64  # K of every release
# Keys of Hugging Face's config.json that change nothing in the network built here.
_TOLERATED = config_lib.NetworkConfig.tolerated | {
    "line_by_line",
    "n_ctx",
    "n_special",
    "predict_special_tokens",
    "reorder_and_upcast_attn",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
}
# The keys of Hugging Face that both networks have, and ours.
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
# `afn` of GPT and `activation_function` of GPT-2: both mean the tanh form by gelu_new,
# and GPT by gelu as well.
_ACTIVATIONS = {
    False: {"gelu": "gelu_tanh", "gelu_new": "gelu_tanh", "relu": "relu"},
    True: {
        "gelu": "gelu_erf",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "relu": "relu",
        "tanh": "tanh",
    },
}
# Values of keys that would be another network.
_REQUIRED = {
    "add_cross_attention": (False, None),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "tie_word_embeddings": (True,),
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
    # Of GPT. True, as released: one table of tokens and positions, whose entries are
    # dropped before use, and all of whose rows take part in the softmax. False, as
    # Hugging Face has it: the sum is dropped, and tokens alone can be predicted.
    joined_table: bool = False
    # Further keys of the file, kept so that writing it loses nothing.
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "gpt"
    tolerated: ClassVar[frozenset[str]] = _TOLERATED
    file_name: ClassVar[str] = file_names.HUGGING_FACE_CONFIG
    type_vocab_size: ClassVar[int] = 0
    is_left_to_right: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined_table and self.norm_first:
            raise errors.InputError(
                "joined_table is of GPT, and GPT-2 has two tables; leave it out"
            )
        if self.hidden_act not in (known := _ACTIVATIONS[self.norm_first].values()):
            raise errors.InputError(
                f"hidden_act={self.hidden_act!r} is not one of {sorted(set(known))}"
            )

    @property
    def kind(self) -> str:
        """What people call the network."""
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
    def from_dict(cls, raw: dict[str, Any]) -> "GptConfig":
        """Builds a config from Hugging Face's config.json, or GPT-2's hparams.json.

        Raises:
            ValueError: a key is missing, a number is wrong, or the activation or
                another key describes a network that is not built here.
        """
        if "n_vocab" in raw:
            return cls._from_hparams(raw)
        raw = dict(raw)
        model_type = raw.pop("model_type", None)
        if model_type not in MODEL_TYPES:
            raise errors.InputError(
                f"model_type is {model_type!r}, not one of {MODEL_TYPES}"
            )
        if "vocab_size" not in raw:
            raise errors.InputError("the key vocab_size is missing")
        for key, values in _REQUIRED.items():
            if raw.get(key, values[0]) not in values:
                raise errors.InputError(
                    f"{key} is {raw[key]!r}, and only {values[0]!r} is supported"
                )
        norm_first = model_type == "gpt2"
        given = {ours: raw.pop(key) for key, ours in _KEYS.items() if key in raw}
        given.setdefault("max_position_embeddings", 1024 if norm_first else 512)
        if given.get("intermediate_size") is None:
            width = given.get("hidden_size", cls.hidden_size)
            config_lib.check_number("hidden_size", int, width, "n_embd")
            given["intermediate_size"] = 4 * width
        act_key = "activation_function" if norm_first else "afn"
        act, known = raw.pop(act_key, "gelu_new"), _ACTIVATIONS[norm_first]
        if not isinstance(act, str) or act not in known:
            raise errors.InputError(
                f"Unsupported activation: {act}; {act_key} must be one of "
                f"{sorted(known)}"
            )
        return cls(**given, hidden_act=known[act], norm_first=norm_first, extra=raw)

    @classmethod
    def _from_hparams(cls, raw: dict[str, Any]) -> "GptConfig":
        """GPT-2's hparams.json."""
        keys = ("n_vocab", "n_ctx", "n_embd", "n_head", "n_layer")
        if missing := [key for key in keys if key not in raw]:
            raise errors.InputError(
                f"the key {missing[0]} is missing; is this of GPT-2?"
            )
        for key in keys:
            config_lib.check_number(key, int, raw[key])
        vocab, length, width, heads, depth = (raw[key] for key in keys)
        return cls(
            vocab_size=vocab,
            max_position_embeddings=length,
            hidden_size=width,
            num_attention_heads=heads,
            num_hidden_layers=depth,
            intermediate_size=4 * width,
            norm_first=True,
            extra={key: value for key, value in raw.items() if key not in keys},
        )

    @classmethod
    def from_shapes(cls, shapes: Sequence[Any]) -> "GptConfig":
        """GPT as released, from params_shapes.json: [P, D], [V, D], 12 shapes a layer.

        The file does not tell the number of heads; it is D / 64, as in the release.

        Raises:
            ValueError: these are no such shapes, or D is no multiple of 64.
        """
        try:
            (length, width), (vocab, _) = shapes[:2]
            inner = shapes[2 + 7][0]  # the bias of the first c_fc
            depth, rest = divmod(len(shapes) - 2, 12)
            is_whole = all(type(n) is int for n in (length, width, vocab, inner))
        except (IndexError, TypeError, ValueError):
            is_whole, rest = False, 1
        if rest or not is_whole:
            raise errors.InputError(
                "these are not the shapes of GPT (positions, tokens, then 12 arrays a "
                "layer); give the params_shapes.json of the release"
            )
        if width % HEAD_SIZE:
            raise errors.InputError(
                f"the width {width} is no multiple of {HEAD_SIZE}, so the number of "
                "heads is not known; put a config.json with n_head beside it"
            )
        return cls(
            vocab_size=vocab,
            max_position_embeddings=length,
            hidden_size=width,
            num_attention_heads=width // HEAD_SIZE,
            num_hidden_layers=depth,
            intermediate_size=inner,
            joined_table=True,
        )

    def key_in_file(self, field: str) -> str:
        """Returns the key of Hugging Face's config.json for a field."""
        return {ours: key for key, ours in _KEYS.items()}.get(field, field)

    def num_weights(self) -> int:
        """Numbers in all variables of the network."""
        width, inner = self.hidden_size, self.intermediate_size
        attention = 4 * (width + 1) * width
        feed_forward = (width + 1) * inner + (inner + 1) * width
        layer = attention + feed_forward + 4 * width  # and two norms
        norm = 2 * width * self.norm_first
        return self.num_table_rows * width + self.num_hidden_layers * layer + norm

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw = {key: getattr(self, ours) for key, ours in _KEYS.items()}
        if not self.joined_table:
            del raw["joined_table"]
        if self.intermediate_size == 4 * self.hidden_size:
            del raw["n_inner"]  # which Hugging Face has for GPT-2 alone
        known = _ACTIVATIONS[self.norm_first].items()
        names = {ours: name for name, ours in reversed(known)}
        if self.norm_first:
            names["gelu_tanh"] = "gelu_new"
        act_key = "activation_function" if self.norm_first else "afn"
        return {
            **self.extra,
            **raw,
            act_key: names[self.hidden_act],
            "model_type": MODEL_TYPES[self.norm_first],
        }

    to_hugging_face = to_dict

    def to_hparams(self) -> dict[str, int]:
        """The keys of GPT-2's hparams.json."""
        return {
            "n_vocab": self.vocab_size,
            "n_ctx": self.max_position_embeddings,
            "n_embd": self.hidden_size,
            "n_head": self.num_attention_heads,
            "n_layer": self.num_hidden_layers,
        }
