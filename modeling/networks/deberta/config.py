"""The sizes and settings of a DeBERTa-v2 or v3."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contract import errors
from modeling.configs import config as config_lib
from modeling.networks import bert_family

_TERMS = "c2p", "p2c"  # content to position, and position to content
_NORMS = "none", "layer_norm"
_UNLIMITED = "max_relative_positions", "position_buckets"  # -1 in a file, 0 here


@dataclasses.dataclass(frozen=True, kw_only=True)
class DebertaConfig(bert_family.RelativeConfig):
    """The sizes of a DeBERTa-v2 or v3, with the defaults of Hugging Face.

    Of `pos_att_type` the terms stand in one order, with | between. The numbers of
    `_UNLIMITED` are 0 for none; `embedding_size` 0 becomes `hidden_size`.
    """

    model_type: str = "deberta-v2"
    vocab_size: int = 128100
    embedding_size: int = 0  # E
    hidden_size: int = 1536
    num_hidden_layers: int = 24
    num_attention_heads: int = 24
    intermediate_size: int = 6144
    hidden_act: str = "gelu_erf"
    type_vocab_size: int = 0
    layer_norm_epsilon: float = 1e-7
    relative_attention: bool = False
    pos_att_type: str = ""
    max_relative_positions: int = 0
    position_buckets: int = 0
    share_att_key: bool = False
    norm_rel_ebd: str = "none"
    position_biased_input: bool = True
    conv_kernel_size: int = 0
    conv_act: str = "tanh"
    pooler_dropout: float = 0.0
    pooler_hidden_act: str = "gelu_erf"
    cls_dropout: float | None = None  # of a classifier; None for hidden_dropout_prob
    legacy: bool = True  # whether the head of masked words is as wide as the table
    may_be_0 = (*_UNLIMITED, "embedding_size", "type_vocab_size", "conv_kernel_size")
    kind: ClassVar[str] = "DeBERTa"
    tolerated: ClassVar[frozenset[str]] = config_lib.NetworkConfig.tolerated | {
        "attention_head_size",
        "pooler_hidden_size",
    }
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **bert_family.RelativeConfig.required,
        "conv_groups": (1,),
        "talking_head": (False, None),
        "z_steps": (0, None),
    }

    def __post_init__(self) -> None:
        if not self.embedding_size:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        super().__post_init__()
        config_lib.check_choice("norm_rel_ebd", self.norm_rel_ebd, _NORMS)
        for key in ("conv_act", "pooler_hidden_act"):
            config_lib.check_choice(key, getattr(self, key), self.activations)
        if self.cls_dropout is not None:
            config_lib.check_value("cls_dropout", float, self.cls_dropout)
        buckets, farthest = self.position_buckets, self.farthest
        if buckets and not 1 < buckets < 2 * (farthest - 1):
            raise errors.InputError(
                f"position_buckets={buckets} is 1, or not below twice the "
                f"{farthest - 1} distances of max_relative_positions; correct the "
                "config"
            )
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise errors.InputError(
                f"conv_kernel_size={self.conv_kernel_size} is even, so that a text "
                "would get shorter; correct the config"
            )
        if not self.legacy and (self.has_projection or not self.tie_word_embeddings):
            raise errors.InputError(
                f"legacy=False with embedding_size={self.embedding_size}, hidden_size="
                f"{self.hidden_size} and tie_word_embeddings="
                f"{self.tie_word_embeddings}: this head of masked words reads the "
                "table as it is; set legacy to true"
            )

    @property
    def has_projection(self) -> bool:  # type: ignore[override]
        """Whether embeddings [E] become inputs of blocks [D] by a linear map."""
        return self.embedding_size != self.hidden_size

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of each table of embeddings that it has."""
        rows = super().table_rows
        if not self.type_vocab_size:
            del rows["token_type_embeddings"]
        if not self.position_biased_input:
            del rows["position_embeddings"]
        return rows

    @property
    def terms(self) -> list[str]:
        """The terms of a score beside that of content to content."""
        return [term for term in _TERMS if term in self.pos_att_type]

    @property
    def scale(self) -> float:
        """What multiplies all terms of a score; pos_att_type counts them."""
        width = self.hidden_size // self.num_attention_heads
        return float((width * (1 + len(self.terms))) ** -0.5)

    @property
    def farthest(self) -> int:
        """Relative positions count up to this distance."""
        return self.max_relative_positions or self.max_position_embeddings

    @property
    def span(self) -> int:
        """Half of the rows of the table of relative positions."""
        return self.position_buckets or self.farthest

    def absent(self) -> list[str]:
        """Parts of the paths of variables that it does without."""
        own_keys = self.relative_attention and not self.share_att_key
        has = {
            "/token_type_embeddings": self.type_vocab_size,
            "/position_embeddings": self.position_biased_input,
            "/projection/": self.has_projection,
            "/relative/": self.relative_attention,
            "/relative/norm/": self.norm_rel_ebd != "none",
            "/position_key/": own_keys and "c2p" in self.terms,
            "/position_query/": own_keys and "p2c" in self.terms,
            "/convolution/": self.conv_kernel_size,
        }
        return [part for part, is_there in has.items() if not is_there]

    def num_weights(self) -> int:
        """Numbers in all variables of the encoder."""
        width, layers = self.hidden_size, self.num_hidden_layers
        own = sum(f"/position_{x}/" not in self.absent() for x in ("key", "query"))
        more = own * layers * (width + 1) * width
        if self.relative_attention:
            more += 2 * (self.span + (self.norm_rel_ebd != "none")) * width
        if self.conv_kernel_size:
            more += (self.conv_kernel_size * width + 3) * width
        if self.has_projection:  # without a bias, and the norm is of its output
            more += width - 2 * self.embedding_size
        return super().num_weights() + more

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "DebertaConfig":
        """Builds a config from Hugging Face's keys, as in RelativeConfig.

        Raises:
            ValueError: as there, or a width is another than hidden_size makes it.
        """
        raw, known = dict(raw), config_lib.HUGGING_FACE_ACTIVATIONS
        raw["pos_att_type"] = _read_terms(raw.get("pos_att_type"))
        raw["norm_rel_ebd"] = _read_norm(raw.get("norm_rel_ebd", "none"))
        for key in _UNLIMITED:
            if raw.get(key) == -1:
                raw[key] = 0
        for key in ("conv_act", "pooler_hidden_act"):
            if key in raw:
                raw[key] = config_lib.read_activation(key, raw[key], known)
        config = super().from_dict(raw)
        width = config.hidden_size
        for key, size in (
            ("pooler_hidden_size", width),
            ("attention_head_size", width // config.num_attention_heads),
        ):
            if raw.get(key, size) != size:
                raise errors.InputError(
                    f"{key} is {raw[key]!r}, and hidden_size={width} makes it {size}; "
                    "correct the config"
                )
        return config

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw, known = super().to_dict(), config_lib.HUGGING_FACE_ACTIVATIONS
        raw["pos_att_type"] = self.pos_att_type or None
        for key in _UNLIMITED:
            raw[key] = raw[key] or -1
        for key in ("conv_act", "pooler_hidden_act"):
            raw[key] = config_lib.name_activation(raw[key], known)
        unset = ["layer_norm_epsilon"]  # which layer_norm_eps has
        unset += ["cls_dropout"] * (self.cls_dropout is None)
        unset += ["conv_kernel_size", "conv_act"] * (not self.conv_kernel_size)
        return {key: value for key, value in raw.items() if key not in unset}


def _read_terms(value):
    """pos_att_type of a file: a list, a text with | between, or None."""
    parts = value.lower().split("|") if isinstance(value, str) else value or ()
    terms = [str(part).strip() for part in parts if part]
    if unknown := [term for term in terms if term not in _TERMS]:
        raise errors.InputError(
            f"pos_att_type is {value!r}, and {unknown[0]} is none of "
            f"{', '.join(_TERMS)}; give a model of DeBERTa-v2 or v3"
        )
    return "|".join(term for term in _TERMS if term in terms)


def _read_norm(value):
    parts = [part.strip() for part in str(value).lower().split("|")]
    return next((part for part in parts if part != "none"), "none")
