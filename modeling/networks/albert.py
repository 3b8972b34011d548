"""ALBERT (Lan et al., 2020)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contract import errors, file_names
from modeling import bert, dropout_sites
from modeling.checkpoints import names
from modeling.networks import bert_family, bert_names


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig(bert_family.RelativeConfig):
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
    has_next_sentence: ClassVar[bool] = True
    has_pooler: ClassVar[bool] = True
    has_projection: ClassVar[bool] = True
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **bert_family.RelativeConfig.required,
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


class SharedPass:
    """One pass through a block whose weights several layers share.

    It is called as a bert.EncoderBlock; dropout differs from that of other passes.
    """

    def __init__(self, block, number):
        self.block, self.number = block, number
        self.attention = block.attention

    def build(self, input_shape):
        """Creates the variables of the block, once."""
        if not self.block.built:
            self.block.build(input_shape)

    def __call__(self, *inputs, seed=None, **options):
        seed = dropout_sites.seed_of_pass(seed, self.number)
        return self.block(*inputs, seed=seed, **options)


class AlbertEncoder(bert.BertEncoder):
    """ALBERT (Lan et al., 2020): layers share the weights of a few blocks.

    `groups` are the blocks with weights, `blocks` a SharedPass a layer.
    """

    def make_blocks(self, count):
        """So many passes; the layers of a group follow each other."""
        self.groups = super().make_blocks(self.config.num_hidden_groups)
        groups = (self.groups[i * len(self.groups) // count] for i in range(count))
        return [SharedPass(group, i) for i, group in enumerate(groups)]


NETWORK = bert_family.FamilySpec(
    **bert_family.OF_BLOCKS,
    kind="ALBERT",
    config=AlbertConfig,
    layers=AlbertEncoder,
    model_types=("albert",),
    classes={"albert": "Albert"},
    config_file=file_names.ALBERT_CONFIG,
    file_keys=("num_hidden_groups",),  # of Google's releases
    sizes=bert_family.FACTORIZED_SIZES,
    prefix="albert",
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.encoder.layer.", "albert.encoder.albert_layer_groups."),
            ("bert.pooler.dense.", "albert.pooler."),
            ("bert.embeddings.", "albert.embeddings."),
            (".attention.output.", ".albert_layers.0.attention."),
            (".attention.self.", ".albert_layers.0.attention."),
            (".intermediate.dense.", ".albert_layers.0.ffn."),
            (".output.dense.", ".albert_layers.0.ffn_output."),
            (".output.LayerNorm.", ".albert_layers.0.full_layer_layer_norm."),
            ("cls.predictions.transform.", "predictions."),
            ("cls.predictions.", "predictions."),
            ("cls.seq_relationship.", "sop_classifier.classifier."),
        ),
        google=(
            ("bert/encoder/layer_", "bert/encoder/transformer/group_"),
            ("/attention/output/LayerNorm/", "/inner_group_0/LayerNorm/"),
            ("/attention/output/dense/", "/attention/self/output/dense/"),
            ("/intermediate/dense/", "/inner_group_0/ffn_1/intermediate/dense/"),
            ("/output/LayerNorm/", "/inner_group_0/LayerNorm_1/"),
            ("/self/output/", "/self/"),
            ("/output/dense/", "/inner_group_0/ffn_1/intermediate/output/dense/"),
            ("/attention/self/dense/", "/inner_group_0/attention_1/output/dense/"),
            ("/attention/self/", "/inner_group_0/attention_1/self/"),
        ),
        rows=tuple(
            names.rows(
                names.DENSE,
                "bert/embeddings/projection",
                "bert/encoder/embedding_hidden_mapping_in",
                "albert.encoder.embedding_hidden_mapping_in",
            )
        ),
    ),
)
