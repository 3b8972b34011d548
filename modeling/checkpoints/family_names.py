"""Names of the variables of BERT's relatives, as changes to those of BERT."""

from typing import NamedTuple


class Renaming(NamedTuple):
    """How a relative's names follow from BERT's.

    Attributes:
        hugging_face, google: pairs of parts of names, BERT's and the relative's,
            replaced in this order.
        absent: beginnings of the paths of variables that it has not.
        rows: further rows, as arguments of names.Name.
    """

    hugging_face: tuple[tuple[str, str], ...]
    google: tuple[tuple[str, str], ...]
    absent: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def _dense(path, google, hugging_face):
    return (
        (f"{path}/kernel", f"{google}/kernel", f"{hugging_face}.weight", "transposed"),
        (f"{path}/bias", f"{google}/bias", f"{hugging_face}.bias"),
    )


def _classifier(*layers):
    """The rows of dense layers of a classifier, by pairs (name here, name there)."""
    return tuple(
        (f"classifier/{ours}/{end}", f"classifier/{ours}/{end}", f"{theirs}.{kind}")
        for ours, theirs in layers
        for end, kind in (("kernel", "weight"), ("bias", "bias"))
    )


_ROBERTA = Renaming(
    (
        ("bert.", "roberta."),
        ("cls.predictions.transform.dense.", "lm_head.dense."),
        ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
        ("cls.predictions.", "lm_head."),
    ),
    (("bert/", "roberta/"),),
    absent=("next_sentence/",),
    rows=_classifier(
        ("dense", "classifier.dense"), ("out_proj", "classifier.out_proj")
    ),
)
RELATIVES = {
    "DistilBERT": Renaming(
        (
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
        (("bert/", "distilbert/"),),
        absent=("bert/embeddings/token_type", "bert/pooler/", "next_sentence/"),
        rows=_classifier(("dense", "pre_classifier"), ("out_proj", "classifier")),
    ),
    "RoBERTa": _ROBERTA,
    "ELECTRA": Renaming(
        (
            ("bert.", "electra."),
            ("cls.predictions.transform.", "generator_predictions."),
            ("cls.predictions.decoder.", "generator_lm_head."),
            ("cls.predictions.", "generator_lm_head."),
        ),
        (
            ("bert/", "electra/"),
            ("cls/predictions/transform/", "generator_predictions/"),
            ("cls/predictions/", "generator_predictions/"),
        ),
        absent=("bert/pooler/", "next_sentence/"),
        rows=(
            *_dense(
                "bert/embeddings/projection",
                "electra/embeddings_project",
                "electra.embeddings_project",
            ),
            *_dense(
                "discriminator/dense",
                "discriminator_predictions/dense",
                "discriminator_predictions.dense",
            ),
            *_dense(
                "discriminator/logits",
                "discriminator_predictions/dense_1",
                "discriminator_predictions.dense_prediction",
            ),
            *_classifier(
                ("dense", "classifier.dense"),
                ("out_proj", "classifier.out_proj"),
                ("summary", "sequence_summary.summary"),
            ),
        ),
    ),
    "ALBERT": Renaming(
        (
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
        (
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
        rows=_dense(
            "bert/embeddings/projection",
            "bert/encoder/embedding_hidden_mapping_in",
            "albert.encoder.embedding_hidden_mapping_in",
        ),
    ),
}
