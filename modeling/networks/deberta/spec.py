"""The record of DeBERTa-v2 and v3, and the names of their variables."""

import dataclasses

from modeling.checkpoints import names
from modeling.networks import bert_family, bert_names, spec
from modeling.networks.deberta import config as deberta_config
from modeling.networks.deberta import network, onnx

_KERNEL, _BIAS = names.DENSE
_CONV_KERNEL = _KERNEL[:3]  # no linear layer, whose kernel lies transposed there
_NETWORK = (
    ("embeddings/projection", "embeddings_project", "embeddings.embed_proj", [_KERNEL]),
    ("relative/norm", "encoder/LayerNorm", "encoder.LayerNorm", names.NORM),
    ("convolution", "encoder/conv", "encoder.conv.conv", [_CONV_KERNEL, _BIAS]),
    ("convolution/norm", "encoder/conv/norm", "encoder.conv.LayerNorm", names.NORM),
)
_ATTENTION = ("position_key", "pos_key_proj"), ("position_query", "pos_query_proj")
_TABLE = "deberta.encoder.rel_embeddings.weight"
_LM_HEAD = (
    ("cls.predictions.transform.", "lm_predictions.lm_head."),
    ("cls.predictions.", "lm_predictions.lm_head."),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Deberta(bert_family.FamilySpec):
    def input_rows(self):
        path, rows = "bert/relative/table", super().input_rows()
        rows.append(
            names.Name(path, "deberta/encoder/rel_embeddings", _TABLE),
        )
        for ours, google, theirs, variables in _NETWORK:
            google, theirs = f"deberta/{google}", f"deberta.{theirs}"
            rows += names.rows(variables, f"bert/{ours}", google, theirs)
        return rows

    def layer_rows(self, number):
        parts = (
            (f"attention/{ours}", f"attention/self/{theirs}", names.DENSE)
            for ours, theirs in _ATTENTION
        )
        more = bert_names.layer_rows(number, parts)
        return [*super().layer_rows(number), *self.renaming.of(more)]

    def rows(self, config):
        absent, rows = config.absent(), super().rows(config)
        return [row for row in rows if not any(part in row.path for part in absent)]

    def head_rows(self, config):
        rows = super().head_rows(config)
        renaming = bert_names.Renaming(hugging_face=() if config.legacy else _LM_HEAD)
        return renaming.of(rows)

    def classifier_of(self, config):
        rate, before = config.cls_dropout, config.pooler_dropout
        rate = config.hidden_dropout_prob if rate is None else rate
        return spec.Classifier(config.pooler_hidden_act, rate, True, input_rate=before)


NETWORK = _Deberta(
    **{
        **bert_family.OF_BLOCKS,
        "attention_weights": network.attention_weights,
        "joined_projections": None,
        "onnx": onnx.Writer,
    },
    kind="DeBERTa",
    config=deberta_config.DebertaConfig,
    layers=network.DebertaEncoder,
    model_types=("deberta-v2",),
    classes={"deberta-v2": "DebertaV2"},
    sizes=bert_family.FACTORIZED_SIZES,
    inputs=("bert/embeddings/", "bert/relative/", "bert/convolution/"),
    prefix="deberta",
    read_whole=(_TABLE,),
    bare=("embeddings.", "encoder."),
    unprefixed="deberta.",  # so that its pooler stays beside it
    classifier=spec.Classifier("gelu_erf", 0.1, drops_input=True),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.", "deberta."),
            (".self.query.", ".self.query_proj."),
            (".self.key.", ".self.key_proj."),
            (".self.value.", ".self.value_proj."),
        ),
        google=(("bert/", "deberta/"),),
        absent=("bert/pooler/", "next_sentence/"),
        head_rows=bert_names.dense_classifier(
            ("dense", "pooler.dense"), ("out_proj", "classifier")
        ),
    ),
)
