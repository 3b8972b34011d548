"""What BERT and its relatives share, and the record of BERT itself.

Its layers are in modeling/bert.py, its config is in modeling/configs/config.py.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from contract import file_names
from modeling import bert, kernels_tf
from modeling.checkpoints import names
from modeling.configs import config as config_lib
from modeling.features import attention_maps
from modeling.networks import bert_names, bert_onnx
from modeling.networks import spec as spec_lib

# Sizes of the config that a file of BERT or of a relative shows, beside the depth.
_WORDS, _SEGMENTS, _POSITIONS = (row.path for row in bert_names.EMBEDDINGS[:3])
_INNER = {"intermediate_size": ("bert/block_0/ffn_in/bias", 0)}
BERT_SIZES = {
    "vocab_size": (_WORDS, 0),
    "hidden_size": (_WORDS, 1),
    **_INNER,
    "max_position_embeddings": (_POSITIONS, 0),
    "type_vocab_size": (_SEGMENTS, 0),
}
ENCODER_SIZES = {
    "vocab_size": (_WORDS, 0),
    "hidden_size": ("bert/block_0/attention_norm/gamma", 0),
    **_INNER,
    "num_position_rows": (_POSITIONS, 0),
}
UNUSED_SEGMENTS = {"token_type_rows": (_SEGMENTS, 0)}
FACTORIZED_SIZES = {
    **ENCODER_SIZES,
    "embedding_size": (_WORDS, 1),
    "type_vocab_size": (_SEGMENTS, 0),
}

# How transformers' names begin where a network was saved without prefix.
BARE = ("embeddings.", "embeddings_project.", "encoder.", "pooler.")


def _joined_projections(network):
    """Pairs of a SelfAttention and the names of what is joined of it."""
    last = network.blocks[-1].attention
    # Once each, though passes may share one, as in ALBERT.
    for attention in dict.fromkeys(block.attention for block in network.blocks):
        # The last may compute queries at some positions only.
        yield attention, kernels_tf.BUT_QUERY if attention is last else kernels_tf.EVERY


# What can be done with bert.EncoderBlocks below heads that read words of a text; a
# relative with other blocks must not take it over unseen.
OF_BLOCKS: dict[str, Any] = {
    "attention_weights": attention_maps.of_block,
    "joined_projections": _joined_projections,
    "packs_rows": True,
    "text_vectors": "untrained",
    "onnx": bert_onnx.Writer,
    "weighs_words": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FamilySpec(spec_lib.NetworkSpec):
    """The record of BERT or a relative, whose names follow from BERT's by `renaming`.

    The defaults are those of all relatives; `parts` are those of a block, as in
    bert_names.
    """

    layers: Callable[..., Any] = bert.BertEncoder
    renaming: bert_names.Renaming = bert_names.NONE
    parts: Sequence[Any] = bert_names.BLOCK
    heads: frozenset[str] = spec_lib.TASKS | {"pretraining"}
    objectives: Sequence[str] = ("masked_lm",)
    has_google_release: bool = True
    inputs: Sequence[str] | None = ("bert/embeddings/",)
    above: Sequence[str] = ("bert/pooler/",)
    bare: tuple[str, ...] = BARE
    token_head: Any = bert.MaskedLMHead

    def input_rows(self) -> list[names.Name]:
        """The rows of embeddings, and of their projection."""
        return [*self.renaming.of(bert_names.EMBEDDINGS), *self.renaming.rows]

    def layer_rows(self, number: int) -> list[names.Name]:
        """The rows of a layer."""
        return self.renaming.of(bert_names.layer_rows(number, self.parts))

    def rows(self, config: Any) -> list[names.Name]:
        """The rows of the network of a config, without a pooler."""
        rows = super().rows(config)
        if config.has_projection:
            return rows
        return [row for row in rows if "/projection/" not in row.path]

    def head_rows(self, config: Any) -> list[names.Name]:
        """The rows of the pooler and of all heads."""
        words = bert_names.masked_lm_rows(config)
        rows = self.renaming.of([*bert_names.POOLER, *names.HEADS, *words])
        return [*rows, *self.renaming.head_rows]

    def ties(self) -> spec_lib.Ties:
        """The table and the bias of the head of words, where it has none of its own."""
        tied, own, words = map(
            self.renaming.of,
            (bert_names.MASKED_LM, bert_names.UNTIED, bert_names.EMBEDDINGS[:1]),
        )
        pairs = (own[-1], words[0]), (own[-2], tied[-1])
        return spec_lib.Ties(
            {
                copy.hugging_face: original.hugging_face
                for copy, original in pairs
                if copy.hugging_face != original.hugging_face
            },
            tied[-1].path,
        )


BERT = FamilySpec(
    **OF_BLOCKS,
    kind="BERT",
    config=config_lib.BertConfig,
    model_types=("bert", "ernie"),  # ERNIE 1.0, whose network is BERT's
    classes={"bert": "Bert", "ernie": "Ernie"},
    config_file=file_names.BERT_CONFIG,
    heads=spec_lib.TASKS | {"pretraining", "language_model"},
    objectives=("masked_lm", "left_to_right"),
    sizes=BERT_SIZES,
    prefix="bert",
    renamed={"ernie.": "bert."},
    writes_texts=True,
    fills_pairs=True,
)


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
