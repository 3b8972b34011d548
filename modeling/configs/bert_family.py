"""The configs of BERT's relatives: DistilBERT, RoBERTa, ELECTRA and ALBERT.

Each is a BertConfig whose file has the keys of Hugging Face's config.json. Fields that
a network does not have are constants of its class.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from contract import errors, file_names
from modeling.configs import config as config_lib

_Relative = TypeVar("_Relative", bound="RelativeConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelativeConfig(config_lib.BertConfig):
    """The base of the relatives' configs.

    `model_type` is Hugging Face's name of the network. It is a field, so that a dict of
    the fields names their network.
    """

    model_type: str
    attention: ClassVar[str] = "bidirectional"  # type: ignore[misc]
    file_name: ClassVar[str] = file_names.HUGGING_FACE_CONFIG
    model_types: ClassVar[Sequence[str]]  # those that may be read
    has_next_sentence: ClassVar[bool] = False
    has_pooler: ClassVar[bool] = False
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "position_embedding_type": ("absolute",),
        "add_cross_attention": (False, None),
        "is_decoder": (False, None),
        "attention": ("bidirectional",),
    }

    def key_in_file(self, field: str) -> str:
        """Returns the key of a field; that of positions counts all rows."""
        is_rows = field == "num_position_rows"
        return super().key_in_file("max_position_embeddings" if is_rows else field)

    @classmethod
    def from_dict(cls: type[_Relative], raw: dict[str, Any]) -> _Relative:
        """Builds a config from Hugging Face's keys.

        Raises:
            ValueError: as in NetworkConfig, or the activation is unknown.
        """
        key = {field: key for key, field in cls.keys().items()}["hidden_act"]
        known = config_lib.HUGGING_FACE_ACTIVATIONS
        fields = {"model_type": raw["model_type"]}
        if key in raw:
            fields["hidden_act"] = config_lib.read_activation(key, raw[key], known)
        return cls._from_keys(raw, **fields)

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw = {**self._to_keys(), "model_type": self.model_type}
        raw[self.key_in_file("hidden_act")] = config_lib.name_activation(
            self.hidden_act, config_lib.HUGGING_FACE_ACTIVATIONS
        )
        return raw

    def to_hugging_face(self) -> dict[str, Any]:
        return self.to_dict()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistilBertConfig(RelativeConfig):
    """DistilBERT (Sanh et al., 2019): BERT's blocks, no segments and no pooler."""

    model_type: str = "distilbert"
    hidden_act: str = "gelu_erf"
    num_hidden_layers: int = 6
    type_vocab_size: ClassVar[int] = 0  # type: ignore[misc]
    layer_norm_epsilon: ClassVar[float] = 1e-12  # type: ignore[misc]
    kind: ClassVar[str] = "DistilBERT"
    model_types: ClassVar[Sequence[str]] = ("distilbert",)

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of the tables of words and positions."""
        rows = super().table_rows
        del rows["token_type_embeddings"]
        return rows

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of DistilBERT's config.json."""
        return {
            "vocab_size": "vocab_size",
            "dim": "hidden_size",
            "n_layers": "num_hidden_layers",
            "n_heads": "num_attention_heads",
            "hidden_dim": "intermediate_size",
            "activation": "hidden_act",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
            "max_position_embeddings": "max_position_embeddings",
            "initializer_range": "initializer_range",
            "tie_word_embeddings": "tie_word_embeddings",
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobertaConfig(RelativeConfig):
    """RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2020).

    Positions begin after that of padding. `max_position_embeddings` counts those of
    texts alone, and not the first ones, which the file counts as well. All tokens are
    of one segment, whatever segments the table has.
    """

    model_type: str = "roberta"
    vocab_size: int = 50265
    hidden_act: str = "gelu_erf"
    token_type_rows: int = 2
    pad_token_id: int = 1
    may_be_0 = ("pad_token_id",)
    type_vocab_size: ClassVar[int] = 0  # type: ignore[misc]
    has_pooler: ClassVar[bool] = True
    head_act: ClassVar[str] = "gelu_erf"
    kind: ClassVar[str] = "RoBERTa"
    model_types: ClassVar[Sequence[str]] = ("roberta", "xlm-roberta")

    @property
    def first_position(self) -> int:  # type: ignore[override]
        """The row of the first token in the table of positions."""
        return self.pad_token_id + 1

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of each table, segments included, of which one is read."""
        return {**super().table_rows, "token_type_embeddings": self.token_type_rows}

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of RoBERTa's config.json."""
        keys = super().keys()
        del keys["token_type_rows"]
        return {**keys, "type_vocab_size": "token_type_rows"}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "RobertaConfig":
        """Builds a config from Hugging Face's keys, as in RelativeConfig."""
        rows = raw.get("max_position_embeddings", 512)
        padding = raw.get("pad_token_id", cls.pad_token_id)
        config_lib.check_value("max_position_embeddings", int, rows)
        first = padding + 1 if isinstance(padding, int) else 0
        if rows <= first:
            raise errors.InputError(
                f"max_position_embeddings={rows}, and the first position is {first}, "
                "pad_token_id + 1; correct the config"
            )
        return super().from_dict({**raw, "max_position_embeddings": rows - first})

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        return super().to_dict() | {"max_position_embeddings": self.num_position_rows}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElectraConfig(RelativeConfig):
    """ELECTRA (Clark et al., 2020), discriminator or generator: narrow embeddings."""

    model_type: str = "electra"
    embedding_size: int = 128  # E
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    hidden_act: str = "gelu_erf"
    type_vocab_size: int = 2
    head_act: ClassVar[str] = "gelu_erf"
    kind: ClassVar[str] = "ELECTRA"
    model_types: ClassVar[Sequence[str]] = ("electra",)
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **RelativeConfig.required,
        "summary_type": ("first",),  # these three are of the head of choices
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    }

    @property
    def has_projection(self) -> bool:  # type: ignore[override]
        """Whether embeddings [E] become inputs of blocks [D] by an affine map."""
        return self.embedding_size != self.hidden_size

    def generator(self, size: float) -> "ElectraConfig":
        """The config of a generator `size` times as wide (section 3.2 there).

        Raises:
            ValueError: this makes no whole number of heads.
        """
        heads = size * self.num_attention_heads
        if round(heads) < 1 or abs(heads - round(heads)) > 0.01:  # 0.333 is a third
            raise errors.InputError(
                f"--generator_size={size:g} makes {heads:g} heads; choose a multiple "
                f"of 1/{self.num_attention_heads}"
            )
        share = round(heads) / self.num_attention_heads
        return dataclasses.replace(
            self,
            hidden_size=round(share * self.hidden_size),
            num_attention_heads=round(heads),
            intermediate_size=round(share * self.intermediate_size),
            extra={},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig(RelativeConfig):
    """ALBERT (Lan et al., 2020): factorized embeddings, blocks that share weights.

    Layers are `num_hidden_groups` runs of equal blocks. The defaults are those of
    Hugging Face, of its xxlarge model.
    """

    model_type: str = "albert"
    embedding_size: int = 128  # E
    hidden_size: int = 4096
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    num_hidden_groups: int = 1
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 2
    blocks_field: ClassVar[str] = "num_hidden_groups"
    kind: ClassVar[str] = "ALBERT"
    model_types: ClassVar[Sequence[str]] = ("albert",)
    has_next_sentence: ClassVar[bool] = True
    has_pooler: ClassVar[bool] = True
    has_projection: ClassVar[bool] = True
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **RelativeConfig.required,
        "inner_group_num": (1,),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_hidden_groups > self.num_hidden_layers:
            raise errors.InputError(
                f"num_hidden_groups={self.num_hidden_groups} is more than "
                f"num_hidden_layers={self.num_hidden_layers}; correct the config"
            )

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "AlbertConfig":
        """Builds a config from Hugging Face's keys, or from albert_config.json.

        There gelu is the tanh form, as in google-research/bert.
        """
        if "model_type" not in raw:
            usual = {"model_type": "albert", "num_hidden_groups": 1}
            raw = {**usual, **raw}
            if raw.get("hidden_act") == "gelu":
                raw["hidden_act"] = "gelu_new"
        return super().from_dict(raw)


RELATIVES: dict[str, type[config_lib.BertConfig]] = {
    model_type: kind
    for kind in (DistilBertConfig, RobertaConfig, ElectraConfig, AlbertConfig)
    for model_type in kind.model_types
}
