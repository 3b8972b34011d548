"""The config of ModernBERT."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contract import errors
from modeling import rotary
from modeling.configs import config as config_lib
from modeling.networks import bert_family

# Transformers' names of a layer that attends to all tokens, and to those near by.
GLOBAL, LOCAL = LAYER_TYPES = "full_attention", "sliding_attention"
_BASES = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModernBertConfig(bert_family.RelativeConfig):
    """ModernBERT; the defaults are those of Hugging Face, of its base model."""

    model_type: str = "modernbert"
    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_act: str = "gelu_erf"
    classifier_act: str = "gelu_erf"  # of the dense layer below all heads
    attention_probs_dropout_prob: float = 0.0  # of the output of attention, too
    embedding_dropout: float = 0.0
    mlp_dropout: float = 0.0
    classifier_dropout: float = 0.0
    max_position_embeddings: int = 8192
    layer_norm_epsilon: float = 1e-5
    local_attention: int = 128  # tokens that a local layer sees, half on either side
    global_attn_every_n_layers: int = 3
    layer_types: Sequence[str] = ()  # where it does not follow from the number before
    global_rope_theta: float = 160000.0
    local_rope_theta: float = 10000.0
    classifier_pooling: str = "cls"
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False  # type: ignore[misc]
    classifier_bias: bool = False
    decoder_bias: bool = True
    hidden_dropout_prob: ClassVar[float] = 0.0  # type: ignore[misc]
    type_vocab_size: ClassVar[int] = 0  # type: ignore[misc]
    scales_outputs: ClassVar[bool] = True  # whether what is summed up begins smaller
    network: ClassVar[str] = "modernbert"
    kind: ClassVar[str] = "ModernBERT"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "add_cross_attention": (False, None),
        "is_decoder": (False, None),
        "is_causal": (False, None),
        "causal_mask": (False, None),
        "rope_scaling": (None,),
        "rope_theta": (None,),
        "partial_rotary_factor": (None, 1.0),
        "head_dim": (None,),
        "initializer_cutoff_factor": (2.0,),
    }
    tolerated: ClassVar[frozenset[str]] = config_lib.NetworkConfig.tolerated | {
        "cls_token_id",
        "compiled_mlp",
        "deterministic_flash_attn",
        "layer_norm_eps",  # of earlier versions, beside norm_eps
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_types", tuple(self.layer_types))  # of a list
        super().__post_init__()
        config_lib.check_choice(
            "classifier_pooling", self.classifier_pooling, ("cls", "mean")
        )
        types, count = self.layer_types, self.num_hidden_layers
        if types and (len(types) != count or not {*types} <= {*LAYER_TYPES}):
            raise errors.InputError(
                f"layer_types={[*types]} does not name {' or '.join(LAYER_TYPES)} for "
                f"each of num_hidden_layers={count}; correct the config"
            )
        rotary.check_width(self)

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of its one table."""
        return {"word_embeddings": self.vocab_size}

    @property
    def head_act(self) -> str:
        """The activation of the masked-LM head."""
        return self.classifier_act

    @property
    def reach(self) -> int:
        """How far a token sees to either side in a local layer."""
        return self.local_attention // 2

    def types_of_layers(self, every: int | None = None) -> tuple[str, ...]:
        """Of each layer its type; `every` replaces global_attn_every_n_layers."""
        if self.layer_types and every is None:
            return tuple(self.layer_types)
        every = every or self.global_attn_every_n_layers
        layers = range(self.num_hidden_layers)
        return tuple(LAYER_TYPES[i % every > 0] for i in layers)

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of ModernBERT's config.json."""
        keys = {ours: ours for ours in super().keys().values()}
        renamed = {
            "hidden_activation": "hidden_act",
            "classifier_activation": "classifier_act",
            "attention_dropout": "attention_probs_dropout_prob",
            "norm_eps": "layer_norm_epsilon",
        }
        for field in (*renamed.values(), "model_type"):
            del keys[field]
        return {**keys, **renamed}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "ModernBertConfig":
        """Builds a config from Hugging Face's keys, also of transformers 5.

        Raises:
            ValueError: as in RelativeConfig, or angles grow in another way.
        """
        raw, key = dict(raw), "classifier_activation"
        known = config_lib.HUGGING_FACE_ACTIVATIONS
        raw[key] = config_lib.read_activation(key, raw.get(key, "gelu"), known)
        rotations = raw.pop("rope_parameters", None) or {}
        for name, values in rotations.items():
            is_known = isinstance(values, dict) and name in _BASES
            given = dict(values) if is_known else {}
            base = given.pop("rope_theta", getattr(cls, _BASES.get(name, ""), None))
            if given != {"rope_type": "default"}:
                raise errors.InputError(
                    f"rope_parameters={rotations!r}, and only rope_theta of "
                    f"{' and '.join(LAYER_TYPES)} with rope_type 'default' is "
                    "supported; give a model of this network"
                )
            raw[_BASES[name]] = base
        types = raw.pop("layer_types", None)
        config: ModernBertConfig = super().from_dict(raw)
        if types is None:
            return config
        config = dataclasses.replace(config, layer_types=types)
        usual = config.global_attn_every_n_layers
        for every in (usual, *range(1, config.num_hidden_layers + 1)):
            if config.types_of_layers(every) == config.layer_types:
                changes = {"global_attn_every_n_layers": every, "layer_types": ()}
                return dataclasses.replace(config, **changes)
        return config

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json, for transformers 4 and 5."""
        raw, known = super().to_dict(), config_lib.HUGGING_FACE_ACTIVATIONS
        key = "classifier_activation"
        raw[key] = config_lib.name_activation(self.classifier_act, known)
        raw["layer_types"] = [*self.types_of_layers()]
        raw["rope_parameters"] = {
            name: {"rope_type": "default", "rope_theta": raw[base]}
            for name, base in _BASES.items()
        }
        return raw

    def to_hugging_face(self) -> dict[str, Any]:
        """As `to_dict`; the library's usual id of padding is one of 50,368 rows."""
        return {"pad_token_id": None, **self.to_dict()}

    def num_weights(self) -> int:
        """Numbers in all variables of the network, but for biases and norms."""
        layer = 4 * self.hidden_size + 3 * self.intermediate_size
        rows = self.vocab_size + self.num_hidden_layers * layer
        return rows * self.hidden_size
