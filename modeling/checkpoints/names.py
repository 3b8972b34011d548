"""The names of every variable, here, in Google's and in Hugging Face's checkpoints.

One table converts both ways. Paths are those of Keras without the model's own name;
`{i}` is the layer number from 0. Hugging Face stores the kernels of its Linear layers
transposed ([out, in]); the rows that say so are transposed on the way.
"""

import dataclasses
import itertools
import re

# The number of a layer in a key of any format.
_LAYER = re.compile(r"^bert[./](?:encoder[./]layer[._]|block_)(\d+)[./]")
DEPTH = "num_hidden_layers"
# Which axis of which variable each other size of the config gives.
SIZES = {
    "vocab_size": ("bert/embeddings/word_embeddings", 0),
    "hidden_size": ("bert/embeddings/word_embeddings", 1),
    "intermediate_size": ("bert/block_0/ffn_in/bias", 0),
    "max_position_embeddings": ("bert/embeddings/position_embeddings", 0),
    "type_vocab_size": ("bert/embeddings/token_type_embeddings", 0),
}


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


def encoder(num_layers):
    """The rows of embeddings and layers, without the pooler."""
    return [
        *_EMBEDDINGS,
        *itertools.chain.from_iterable(map(_block, range(num_layers))),
    ]


def masked_lm():
    """The rows of the head that predicts masked tokens."""
    return [row for row in _HEADS if row.path.startswith("masked_lm/")]


def layer_of(key):
    """The number of the layer that a key of any format belongs to, or None."""
    found = _LAYER.match(key)
    return int(found[1]) if found else None


def sizes(shapes, format):
    """{key of the config: number}, as far as the shapes of a file say it."""
    found = {}
    rows = {row.path: row for row in encoder(1)}
    for size, (path, axis) in SIZES.items():
        shape = shapes.get(rows[path].key(format), ())
        if len(shape) > axis:
            found[size] = shape[axis]
    layers = {layer_of(key) for key in shapes} - {None}
    return {**found, DEPTH: max(layers) + 1} if layers else found


def listing(keys):
    """Keys in text; where a layer is there as a whole, its number alone."""
    of_layers = {}
    for key in keys:
        of_layers.setdefault(layer_of(key), []).append(key)
    named = of_layers.pop(None, [])
    whole = []
    for layer, its in sorted(of_layers.items()):
        if len(its) < len(_block(layer)):
            named += its
        else:
            whole.append(layer)
    return ", ".join([*(["layers " + _ranges(whole)] if whole else []), *named])


def _ranges(numbers):
    """[0, 1, 2, 5] to "0 to 2 and 5"."""
    runs = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " and ".join(
        f"{first} to {last}" if last > first else str(first) for first, last in runs
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
