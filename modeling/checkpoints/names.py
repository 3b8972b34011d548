"""The names of every variable, here, in the original's and in Hugging Face's files.

One table of each network converts both ways. Paths are those of Keras without the
model's own name; `{i}` is the layer number from 0. Hugging Face stores the kernels of
its Linear layers transposed ([out, in]), and those of GPT's convolutions without their
first axis; the rows that say so are changed on the way. ELMo's table is elmo_names.py.
"""

import dataclasses
import itertools
import re

from modeling.elmo import names
from modeling.encoder_decoder import config as encoder_decoder_config

# The number of a layer in a key of any format.
_LAYER = re.compile(
    r"^(?:bert[./](?:encoder[./]layer[._]|block_)|gpt/block_|model/h|transformer\.h\."
    r"|elmo/(?:for|back)ward_|lm/RNN_[01]/rnn/multi_rnn_cell/cell_"
    r"|RNN_[01]/RNN/MultiRNNCell/Cell)(\d+)[./]"
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
_SIDES = encoder_decoder_config.SIDES
SIZES[encoder_decoder_config.MODEL_TYPE] = {
    f"{side}.{key}": (path.replace("bert", f"encoder_decoder/{side}", 1), axis)
    for side in _SIDES
    for key, (path, axis) in SIZES["BERT"].items()
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
    """One variable under its names, "" where a format has none for its network."""

    path: str
    google: str
    hugging_face: str = ""
    is_transposed: bool = False
    is_convolution: bool = False
    hdf5: str = ""

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
        """The name in files of a format: google, hugging_face, hdf5 or keras."""
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


def _attention(path, name):
    return (
        (f"{path}/query", f"{name}/self/query", _dense),
        (f"{path}/key", f"{name}/self/key", _dense),
        (f"{path}/value", f"{name}/self/value", _dense),
        (f"{path}/output", f"{name}/output/dense", _dense),
        (f"{path}_norm", f"{name}/output/LayerNorm", _norm),
    )


_ATTENTION = _attention("attention", "attention")
_CROSS_ATTENTION = _attention("cross_attention", "crossattention")


def _block(i, attentions=_ATTENTION):
    rows = []
    for path, name, build in (
        *attentions,
        ("ffn_in", "intermediate/dense", _dense),
        ("ffn_out", "output/dense", _dense),
        ("ffn_norm", "output/LayerNorm", _norm),
    ):
        google = f"bert/encoder/layer_{i}/{name}"
        hugging_face = f"bert.encoder.layer.{i}.{name.replace('/', '.')}"
        rows += build(f"bert/block_{i}/{path}", google, hugging_face)
    return rows


def of_side(side, rows):
    """Rows of a BERT as those of one side of an encoder-decoder."""
    for row in rows:
        path, theirs = row.path, row.hugging_face
        if not is_head(path):
            path = f"encoder_decoder/{side}/{path.removeprefix('bert/')}"
        if side == "encoder":  # a bare network there
            theirs = theirs.removeprefix("bert.")
        yield dataclasses.replace(
            row,
            path=path,
            google=f"{side}/{row.google}",
            hugging_face=f"{side}.{theirs}",
        )


def encoder_decoder(num_encoder_layers, num_decoder_layers):
    """The rows of both sides of an encoder-decoder, without its head."""
    blocks = (
        _block(i, (*_ATTENTION, *_CROSS_ATTENTION)) for i in range(num_decoder_layers)
    )
    return [
        *of_side("encoder", encoder("BERT", num_encoder_layers)),
        *of_side("decoder", [*_EMBEDDINGS, *itertools.chain(*blocks)]),
    ]


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

# What lies between a network and the output layer of a task (features/source.py).
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


def of_config(config):
    """The rows of embeddings and layers of the network of a config, ELMo's too."""
    if config.network == "elmo":
        return [_elmo(path) for path in names.paths(config)]
    if config.network == "encoder_decoder":
        depths = config.encoder.num_hidden_layers, config.decoder.num_hidden_layers
        return encoder_decoder(*depths)
    return encoder(config.kind, config.num_hidden_layers)


def _elmo(path):
    google, hdf5 = names.in_files(path)
    return Name(path, google, hdf5=hdf5)


def heads(network):
    """The rows of the output layers of all heads of a network, by path."""
    rows = _GPT_HEADS if network == "gpt" else _HEADS
    if network == "encoder_decoder":
        rows = of_side("decoder", masked_lm())
    if network == "elmo":
        rows = (*rows, *map(_elmo, names.HEAD))
    return {row.path: row for row in rows}


def masked_lm():
    """The rows of the head that predicts masked tokens."""
    return [row for row in _HEADS if row.path.startswith("masked_lm/")]


def layer_of(key):
    """The number of the layer that a key of any format belongs to, or None."""
    found = _LAYER.match(key)
    return int(found[1]) if found else None


def sizes(shapes, format):
    """{key of the config: value}, as far as the shapes of a file say it, and the kind.

    {} if they are of no network.
    """
    layers = {layer_of(key) for key in shapes} - {None}
    for kind, of_kind in SIZES.items():
        is_pair = kind == encoder_decoder_config.MODEL_TYPE
        rows = encoder_decoder(1, 1) if is_pair else encoder(kind, 1)
        rows = {row.path: row for row in rows}
        if not any(row.key(format) in shapes for row in rows.values()):
            continue
        own = (*_GPT_EMBEDDINGS["GPT-2"], *_GPT_END)  # names of layers are not
        if kind == "GPT" and any(row.key(format) in shapes for row in own):
            continue
        found = {KIND: kind, **({DEPTH: max(layers) + 1} if layers else {})}
        if is_pair:
            found |= _depths(shapes, format)
        for size, (path, axis) in of_kind.items():
            shape = shapes.get(rows[path].key(format), ())
            if len(shape) > axis:
                found[size] = shape[axis]
        return found
    found = names.sizes(lambda path: shapes.get(_elmo(path).key(format)))
    return {KIND: "ELMo", **found} if found else {}


def _depths(shapes, format):
    """Layers in a file of each side of an encoder-decoder, and of both together."""
    found = {}
    for side in _SIDES:
        numbers = itertools.count()
        rows = (list(of_side(side, _block(i))) for i in numbers)
        whole = itertools.takewhile(
            lambda rows: any(row.key(format) in shapes for row in rows), rows
        )
        found[f"{side}.{DEPTH}"] = sum(1 for _ in whole)
    return {**found, DEPTH: sum(found.values())}


def table(paths):
    """The rows of variables, in the order of their paths (see `relative_path`)."""
    if any(path.startswith("elmo/") for path in paths):
        rows = heads("elmo")
        return [rows.get(path) or _elmo(path) for path in paths]
    layers = {int(m[1]) for p in paths if (m := re.match(r"[a-z_/]+/block_(\d+)/", p))}
    if any(path.startswith("encoder_decoder/") for path in paths):
        depth = max(layers) + 1
        rows = {row.path: row for row in encoder_decoder(depth, depth)}
        rows |= heads("encoder_decoder")
        return [rows[path] for path in paths]
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
    return not path.startswith(("bert/", "gpt/", "elmo/", "encoder_decoder/"))
