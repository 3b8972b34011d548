"""DistilBERT (Sanh et al., 2019)."""

import dataclasses
from typing import ClassVar

from modeling.networks import bert_family, bert_names, spec


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistilBertConfig(bert_family.RelativeConfig):
    """DistilBERT (Sanh et al., 2019): BERT's blocks, no segments and no pooler."""

    model_type: str = "distilbert"
    hidden_act: str = "gelu_erf"
    num_hidden_layers: int = 6
    type_vocab_size: ClassVar[int] = 0  # type: ignore[misc]
    layer_norm_epsilon: ClassVar[float] = 1e-12  # type: ignore[misc]
    kind: ClassVar[str] = "DistilBERT"

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


NETWORK = bert_family.FamilySpec(
    **bert_family.OF_BLOCKS,
    kind="DistilBERT",
    config=DistilBertConfig,
    model_types=("distilbert",),
    classes={"distilbert": "DistilBert"},
    sizes=bert_family.ENCODER_SIZES,
    prefix="distilbert",
    bare=(*bert_family.BARE, "transformer."),
    classifier=spec.Classifier("relu", 0.2, drops_input=False),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.encoder.", "bert.transformer."),
            ("bert.", "distilbert."),
            (".attention.self.query.", ".attention.q_lin."),
            (".attention.self.key.", ".attention.k_lin."),
            (".attention.self.value.", ".attention.v_lin."),
            (".attention.output.dense.", ".attention.out_lin."),
            (".attention.output.LayerNorm.", ".sa_layer_norm."),
            (".intermediate.dense.", ".ffn.lin1."),
            (".output.dense.", ".ffn.lin2."),
            (".output.LayerNorm.", ".output_layer_norm."),
            ("cls.predictions.transform.dense.", "vocab_transform."),
            ("cls.predictions.transform.LayerNorm.", "vocab_layer_norm."),
            ("cls.predictions.decoder.", "vocab_projector."),
            ("cls.predictions.", "vocab_projector."),
        ),
        google=(("bert/", "distilbert/"),),
        absent=("bert/embeddings/token_type", "bert/pooler/", "next_sentence/"),
        head_rows=bert_names.dense_classifier(
            ("dense", "pre_classifier"), ("out_proj", "classifier")
        ),
    ),
)
