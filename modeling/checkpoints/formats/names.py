"""The names of every variable, here, in the original's and in Hugging Face's files.

One table of each network converts both ways. Paths are those of Keras without the
model's own name; `{i}` is the layer number from 0. Hugging Face stores the kernels of
its Linear layers transposed ([out, in]), and those of GPT's convolutions without their
first axis; the rows that say so are changed on the way.
"""

import dataclasses
import itertools
import re

# The number of a layer in a key of any format.
_LAYER = re.compile(
    r"^(?:bert[./](?:encoder[./]layer[._]|block_)|gpt/block_|model/h|transformer\.h\.)"
    r"(\d+)[./]"
)
DEPTH, KIND = "num_hidden_layers", "kind"
# Which axis of which variable each other size of the config gives, by network.
SIZES = {
    "BERT": {
        "vocab_size": ("bert/embeddings/word_embeddings", 0),
        "hidden_size": ("bert/embeddings/word_embeddings", 1),
        "intermediate_size": ("bert/block_0/ffn_in/bias", 0),
        "max_position_embeddings": ("bert/embeddings/position_embeddings", 0),
        "type_vocab_size": ("bert/embeddings/token_type_embeddings", 0),
    },
    "GPT": {
        "num_table_rows": ("gpt/embeddings/word_and_position_embeddings", 0),
        "hidden_size": ("gpt/embeddings/word_and_position_embeddings", 1),
        "intermediate_size": ("gpt/block_0/ffn_in/bias", 0),
    },
    "GPT-2": {
        "vocab_size": ("gpt/embeddings/word_embeddings", 0),
        "hidden_size": ("gpt/embeddings/word_embeddings", 1),
        "intermediate_size": ("gpt/block_0/ffn_in/bias", 0),
        "max_position_embeddings": ("gpt/embeddings/position_embeddings", 0),
    },
}
# GPT's one table: its tokens, then its positions, which Hugging Face stores apart.
GPT_TABLE = "gpt/embeddings/word_and_position_embeddings"
GPT_TABLES = ("transformer.tokens_embed.weight", "transformer.positions_embed.weight")
# Tables of GPT and GPT-2 that get rows for special tokens, behind their other tokens,
# and at most how many.
TOKEN_TABLES = (GPT_TABLE, "gpt/embeddings/word_embeddings")
NEW_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class Name:
    """One variable under its three names."""

    path: str
    google: str
    hugging_face: str
    is_transposed: bool = False
    is_convolution: bool = False

    def from_hugging_face(self, value):
        """The array of the variable, from that of a file."""
        if self.is_convolution:
            return value[None]
        return value.T if self.is_transposed else value

    def to_hugging_face(self, value):
        """The array of a file, from that of the variable."""
        if self.is_convolution:
            return value[0]
        return value.T if self.is_transposed else value

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


def _gpt_layer(i):
    rows = []
    for path, name in (
        ("attention/query_key_value", "attn/c_attn"),
        ("attention/output", "attn/c_proj"),
        ("attention_norm", "ln_1"),
        ("ffn_in", "mlp/c_fc"),
        ("ffn_out", "mlp/c_proj"),
        ("ffn_norm", "ln_2"),
    ):
        build = _gpt_norm if path.endswith("norm") else _gpt_dense
        rows += build(f"gpt/block_{i}/{path}", f"h{i}/{name}", f"h.{i}/{name}")
    return rows


def _gpt_dense(path, google, hugging_face):
    google, theirs = f"model/{google}", _gpt_key(hugging_face)
    kernel = Name(f"{path}/kernel", f"{google}/w", f"{theirs}.weight")
    return (
        dataclasses.replace(kernel, is_convolution=True),
        Name(f"{path}/bias", f"{google}/b", f"{theirs}.bias"),
    )


def _gpt_norm(path, google, hugging_face):
    google, theirs = f"model/{google}", _gpt_key(hugging_face)
    return (
        Name(f"{path}/gamma", f"{google}/g", f"{theirs}.weight"),
        Name(f"{path}/beta", f"{google}/b", f"{theirs}.bias"),
    )


def _gpt_key(name):
    return f"transformer.{name.replace('/', '.')}"


_GPT_EMBEDDINGS = {
    "GPT": (Name(GPT_TABLE, "model/we", GPT_TABLES[0]),),
    "GPT-2": tuple(
        Name(f"gpt/embeddings/{path}", f"model/{name}", f"transformer.{name}.weight")
        for path, name in (("word_embeddings", "wte"), ("position_embeddings", "wpe"))
    ),
}
_GPT_END = _gpt_norm("gpt/final_norm", "ln_f", "ln_f")  # of GPT-2

_POOLER = _dense("bert/pooler", "bert/pooler/dense", "bert.pooler.dense")

# What lies between a network and the output layer of a task (feature_heads.py).
FEATURES = ("layer_mix/", "bilstm/")
_MOST_LSTMS = 8  # layers; flags allow no more
_FEATURES = (
    # bilm-tf's are {name}_ELMo_W and {name}_ELMo_gamma, for a task may have several.
    Name("layer_mix/weights", "layer_mix/ELMo_W", "layer_mix.weights"),
    Name("layer_mix/gamma", "layer_mix/ELMo_gamma", "layer_mix.gamma"),
    *(
        Name(path, path, path.replace("/", "."))
        for j in range(_MOST_LSTMS)
        for direction in ("forward", "backward")
        for end in ("kernel", "bias")
        for path in [f"bilstm/{direction}_{j}/{end}"]
    ),
)

# The output layers of the heads, by the path under which a model holds them.
_HEADS = (
    *_FEATURES,
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


# GPT has a classifier of its own; Hugging Face's has no bias.
_GPT_HEADS = (
    Name("classifier/logits/kernel", "model/clf/w", "score.weight", True),
    Name("classifier/logits/bias", "model/clf/b", "score.bias"),
    *(row for row in _HEADS if not row.path.startswith("classifier/")),
)


def encoder(kind, num_layers):
    """The rows of embeddings and layers of a network, without a pooler."""
    if kind == "BERT":
        return [*_EMBEDDINGS, *itertools.chain(*map(_block, range(num_layers)))]
    layers = itertools.chain(*map(_gpt_layer, range(num_layers)))
    end = _GPT_END if kind == "GPT-2" else ()
    return [*_GPT_EMBEDDINGS[kind], *layers, *end]


def heads(network):
    """The rows of the output layers of all heads of bert or gpt, by path."""
    return {row.path: row for row in (_HEADS if network == "bert" else _GPT_HEADS)}


def masked_lm():
    """The rows of the head that predicts masked tokens."""
    return [row for row in _HEADS if row.path.startswith("masked_lm/")]


def layer_of(key):
    """The number of the layer that a key of any format belongs to, or None."""
    found = _LAYER.match(key)
    return int(found[1]) if found else None


def sizes(shapes, format):
    """{key of the config: number}, as far as the shapes of a file say it, and the kind.

    {} if they are of no network.
    """
    layers = {layer_of(key) for key in shapes} - {None}
    for kind, of_kind in SIZES.items():
        rows = {row.path: row for row in encoder(kind, 1)}
        if not any(row.key(format) in shapes for row in rows.values()):
            continue
        own = (*_GPT_EMBEDDINGS["GPT-2"], *_GPT_END)  # names of layers are not
        if kind == "GPT" and any(row.key(format) in shapes for row in own):
            continue
        found = {KIND: kind, **({DEPTH: max(layers) + 1} if layers else {})}
        for size, (path, axis) in of_kind.items():
            shape = shapes.get(rows[path].key(format), ())
            if len(shape) > axis:
                found[size] = shape[axis]
        return found
    return {}


def listing(keys):
    """Keys in text; where a layer is there as a whole, its number alone."""
    of_layers = {}
    for key in keys:
        of_layers.setdefault(layer_of(key), []).append(key)
    named = of_layers.pop(None, [])
    whole = []
    for layer, its in sorted(of_layers.items()):
        is_bert = its[0].startswith("bert")
        if len(its) < len(_block(layer) if is_bert else _gpt_layer(layer)):
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
    layers = {int(m[1]) for p in paths if (m := re.match(r"\w+/block_(\d+)/", p))}
    is_bert = not any(path.startswith("gpt/") for path in paths)
    every = [_POOLER, heads("bert" if is_bert else "gpt").values()]
    for kind in ("BERT",) if is_bert else ("GPT", "GPT-2"):
        every.append(encoder(kind, max(layers, default=-1) + 1))
    rows = {row.path: row for row in itertools.chain(*every)}
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
    return not path.startswith(("bert/", "gpt/"))
