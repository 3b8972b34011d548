"""RoBERTa (Liu et al., 2019), and those that have its network to the letter.

XLM-RoBERTa (Conneau et al., 2020) and CamemBERT (Martin et al., 2020) are other texts
and another tokenizer. data2vec (Baevski et al., 2022) was trained otherwise, and names
its variables so.
"""

import dataclasses
from typing import Any, ClassVar

from contract import errors
from modeling.configs import config as config_lib
from modeling.networks import bert_family, bert_names, spec


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobertaConfig(bert_family.RelativeConfig):
    """RoBERTa (Liu et al., 2019), XLM-RoBERTa or CamemBERT.

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
class Data2VecConfig(RobertaConfig):
    """data2vec's network of texts (Baevski et al., 2022), which is RoBERTa's."""

    model_type: str = "data2vec-text"
    kind: ClassVar[str] = "data2vec"


NETWORK = bert_family.FamilySpec(
    **bert_family.OF_BLOCKS,
    kind="RoBERTa",
    config=RobertaConfig,
    model_types=("roberta", "xlm-roberta", "camembert"),
    classes={
        "roberta": "Roberta",
        "xlm-roberta": "XLMRoberta",
        "camembert": "Camembert",
    },
    sizes={**bert_family.ENCODER_SIZES, **bert_family.UNUSED_SEGMENTS},
    prefix="roberta",
    classifier=spec.Classifier("tanh", 0.1, drops_input=True),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.", "roberta."),
            ("cls.predictions.transform.dense.", "lm_head.dense."),
            ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
            ("cls.predictions.", "lm_head."),
        ),
        google=(("bert/", "roberta/"),),
        absent=("next_sentence/",),
        head_rows=bert_names.dense_classifier(
            ("dense", "classifier.dense"), ("out_proj", "classifier.out_proj")
        ),
    ),
)

_THEIRS = "data2vec_text"  # what its names begin with
DATA2VEC = dataclasses.replace(
    NETWORK,
    kind="data2vec",
    config=Data2VecConfig,
    model_types=("data2vec-text",),
    classes={"data2vec-text": "Data2VecText"},
    prefix=_THEIRS,
    renaming=dataclasses.replace(
        NETWORK.renaming,
        hugging_face=(("bert.", f"{_THEIRS}."), *NETWORK.renaming.hugging_face[1:]),
        google=(("bert/", f"{_THEIRS}/"),),
    ),
)
