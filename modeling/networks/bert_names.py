"""The names of BERT's variables, and how those of its relatives follow from them."""

import dataclasses

from modeling.checkpoints import names

ATTENTION = (
    ("attention/query", "attention/self/query", names.DENSE),
    ("attention/key", "attention/self/key", names.DENSE),
    ("attention/value", "attention/self/value", names.DENSE),
    ("attention/output", "attention/output/dense", names.DENSE),
    ("attention_norm", "attention/output/LayerNorm", names.NORM),
)
CROSS_ATTENTION = tuple(
    (f"cross_{path}", f"cross{name}", variables) for path, name, variables in ATTENTION
)
FEED_FORWARD = (
    ("ffn_in", "intermediate/dense", names.DENSE),
    ("ffn_out", "output/dense", names.DENSE),
    ("ffn_norm", "output/LayerNorm", names.NORM),
)
BLOCK = *ATTENTION, *FEED_FORWARD


def layer_rows(i, parts=BLOCK):
    """The rows of layer i; `parts` are (path, name, variables) each."""
    rows = []
    for path, name, variables in parts:
        google = f"bert/encoder/layer_{i}/{name}"
        theirs = f"bert.encoder.layer.{i}.{name.replace('/', '.')}"
        rows += names.rows(variables, f"bert/block_{i}/{path}", google, theirs)
    return rows


EMBEDDINGS = (
    *(
        names.Name(path, path, f"{path.replace('/', '.')}.weight")
        for name in ("word", "token_type", "position")
        for path in [f"bert/embeddings/{name}_embeddings"]
    ),
    *names.rows(
        names.NORM,
        "bert/embeddings/layer_norm",
        "bert/embeddings/LayerNorm",
        "bert.embeddings.LayerNorm",
    ),
)
POOLER = names.rows(
    names.DENSE, "bert/pooler", "bert/pooler/dense", "bert.pooler.dense"
)
MASKED_LM = (
    *names.rows(
        names.DENSE,
        "masked_lm/transform",
        "cls/predictions/transform/dense",
        "cls.predictions.transform.dense",
    ),
    *names.rows(
        names.NORM,
        "masked_lm/layer_norm",
        "cls/predictions/transform/LayerNorm",
        "cls.predictions.transform.LayerNorm",
    ),
    names.Name("masked_lm/bias", "cls/predictions/output_bias", "cls.predictions.bias"),
)
# Where the head has a table of its own; the bias is then that of its product.
UNTIED = (
    *MASKED_LM[:-1],
    dataclasses.replace(MASKED_LM[-1], hugging_face="cls.predictions.decoder.bias"),
    names.Name(
        "masked_lm/table", "cls/predictions/table", "cls.predictions.decoder.weight"
    ),
)


@dataclasses.dataclass(frozen=True)
class Renaming:
    """How a relative's names follow from BERT's.

    Attributes:
        hugging_face, google: pairs of parts of names, BERT's and the relative's,
            replaced in this order.
        absent: beginnings of the paths of variables that it has not.
        rows: of further variables of the network.
        head_rows: of further variables of heads.
    """

    hugging_face: tuple[tuple[str, str], ...] = ()
    google: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    rows: tuple[names.Name, ...] = ()
    head_rows: tuple[names.Name, ...] = ()

    def of(self, rows):
        """The rows of the relative for those of BERT, without those that it lacks."""
        kept = [row for row in rows if not row.path.startswith(self.absent)]
        for place, row in enumerate(kept):
            theirs, google = row.hugging_face, row.google
            for ours, other in self.hugging_face:
                theirs = theirs.replace(ours, other)
            for ours, other in self.google:
                google = google.replace(ours, other)
            kept[place] = dataclasses.replace(row, hugging_face=theirs, google=google)
        return kept


NONE = Renaming()


def masked_lm_rows(config):
    """The rows of the head that predicts masked tokens, of a BERT."""
    return [*(MASKED_LM if config.tie_word_embeddings else UNTIED)]


def dense_classifier(*layers):
    """The rows of dense layers of a classifier, by pairs (name here, name there)."""
    variables = (
        ("kernel", "/kernel", "weight"),
        ("bias", "/bias", "bias"),
    )  # not transposed
    paths = [(f"classifier/{ours}", theirs) for ours, theirs in layers]
    return tuple(
        row for path, to in paths for row in names.rows(variables, path, path, to)
    )
