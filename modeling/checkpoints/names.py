"""The names of every variable, here, in Google's and in Hugging Face's checkpoints.

One table converts both ways. Paths are those of Keras without the model's own name;
`{i}` is the layer number from 0. Hugging Face stores the kernels of its Linear layers
transposed ([out, in]); the rows that say so are transposed on the way.
"""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Name:
    """One variable under its three names."""

    path: str
    google: str
    hugging_face: str
    is_transposed: bool = False

    def key(self, format):
        """The name in files of a format: google, hugging_face or keras."""
        return self.path if format == "keras" else getattr(self, format)


def _dense(path, google, hugging_face):
    return (
        Name(f"{path}/kernel", f"{google}/kernel", f"{hugging_face}.weight", True),
        Name(f"{path}/bias", f"{google}/bias", f"{hugging_face}.bias"),
    )


def _norm(path, google, hugging_face):
    return (
        Name(f"{path}/gamma", f"{google}/gamma", f"{hugging_face}.weight"),
        Name(f"{path}/beta", f"{google}/beta", f"{hugging_face}.bias"),
    )


def _projection(path, google, hugging_face):
    return (
        Name(f"{path}/kernel", f"{google}output_weights", f"{hugging_face}.weight"),
        Name(f"{path}/bias", f"{google}output_bias", f"{hugging_face}.bias"),
    )


def _table(name):
    path = f"bert/embeddings/{name}"
    return Name(path, path, f"bert.embeddings.{name}.weight")


_EMBEDDINGS = (
    _table("word_embeddings"),
    _table("token_type_embeddings"),
    _table("position_embeddings"),
    *_norm(
        "bert/embeddings/layer_norm",
        "bert/embeddings/LayerNorm",
        "bert.embeddings.LayerNorm",
    ),
)


def _block(i):
    rows = []
    for path, name, build in (
        ("attention/query", "attention/self/query", _dense),
        ("attention/key", "attention/self/key", _dense),
        ("attention/value", "attention/self/value", _dense),
        ("attention/output", "attention/output/dense", _dense),
        ("attention_norm", "attention/output/LayerNorm", _norm),
        ("ffn_in", "intermediate/dense", _dense),
        ("ffn_out", "output/dense", _dense),
        ("ffn_norm", "output/LayerNorm", _norm),
    ):
        google = f"bert/encoder/layer_{i}/{name}"
        hugging_face = f"bert.encoder.layer.{i}.{name.replace('/', '.')}"
        rows += build(f"bert/block_{i}/{path}", google, hugging_face)
    return rows


_POOLER = _dense("bert/pooler", "bert/pooler/dense", "bert.pooler.dense")

# The output layers of the heads, by the path under which a model holds them.
_HEADS = (
    *_dense(
        "masked_lm/transform",
        "cls/predictions/transform/dense",
        "cls.predictions.transform.dense",
    ),
    *_norm(
        "masked_lm/layer_norm",
        "cls/predictions/transform/LayerNorm",
        "cls.predictions.transform.LayerNorm",
    ),
    Name("masked_lm/bias", "cls/predictions/output_bias", "cls.predictions.bias"),
    *_projection("next_sentence", "cls/seq_relationship/", "cls.seq_relationship"),
    *_projection("classifier/logits", "", "classifier"),
    *_projection("tagger/logits", "", "classifier"),
    *_projection("span/logits", "cls/squad/", "qa_outputs"),
)


def table(paths):
    """The rows of variables, in the order of their paths (see `relative_path`)."""
    layers = {int(m[1]) for p in paths if (m := re.match(r"bert/block_(\d+)/", p))}
    rows = {row.path: row for row in (*_EMBEDDINGS, *_POOLER, *_HEADS)}
    for i in layers:
        rows.update((row.path, row) for row in _block(i))
    return [rows[path] for path in paths]


def relative_path(variable):
    """`bert/block_0/ffn_in/kernel`, whatever model the variable is part of."""
    return variable.path.split("/", 1)[1]


def named_variables(model):
    """Pairs of Name and variable, for each weight of a built model."""
    variables = model.trainable_variables + [
        v for v in model.non_trainable_variables if "fit_seed" not in v.path
    ]
    paths = [relative_path(variable) for variable in variables]
    return list(zip(table(paths), variables, strict=True))


def is_head(path):
    """Whether a variable belongs to a head and not to the encoder."""
    return not path.startswith("bert/")
