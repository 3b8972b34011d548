"""The names of every variable, here, in the original's and in Hugging Face's files.

One table of each network converts both ways. Paths are those of Keras without the
model's own name. Hugging Face stores the kernels of its Linear layers transposed
([out, in]), and those of GPT's convolutions without their first axis; arrays change on
the way as `layout` demands. ELMo's table is modeling/networks/elmo/names.py.
"""

import dataclasses
import itertools
import re
from typing import NamedTuple

from modeling.networks.elmo import names as elmo_names
from modeling.networks.encoder_decoder import config as encoder_decoder_config

# The number of a layer in a key of any format.
_LAYER = re.compile(
    r"^(?:bert/block_|(?:\w*bert|roberta|electra)[./](?:encoder|transformer)[./]"
    r"(?:layer[._]|albert_layer_groups\.|transformer/group_)|gpt/block_|model/h|transformer\.h\."
    r"|elmo/(?:for|back)ward_|lm/RNN_[01]/rnn/multi_rnn_cell/cell_"
    r"|RNN_[01]/RNN/MultiRNNCell/Cell)(\d+)[./]"
)
DEPTH, KIND = "num_hidden_layers", "kind"
# GPT's one table: its tokens, then its positions, which Hugging Face stores apart.
GPT_TABLE = "gpt/embeddings/word_and_position_embeddings"
GPT_TABLES = ("transformer.tokens_embed.weight", "transformer.positions_embed.weight")
# Tables of GPT and GPT-2 that get rows for special tokens, behind their other tokens,
# and at most how many.
TOKEN_TABLES = (GPT_TABLE, "gpt/embeddings/word_embeddings")
NEW_TOKENS = 3
# How the Google names of a generator's layers begin that lie beside a discriminator.
GENERATOR = "generator/"
GENERATOR_NORM = f"{GENERATOR}encoder/layer_0/attention/output/LayerNorm/gamma"
# Prefixes of the variables of a task, and of its layers with a row for each class.
TASK_PARTS = ("layer_mix/", "bilstm/", "classifier/", "tagger/", "span/")
CLASS_LAYERS = ("classifier/logits/", "classifier/out_proj/", "tagger/logits/")
_MOST_LSTMS = 8  # layers; flags allow no more
MOST_PROJECTIONS = 4  # of the vector of a text
_PAIR = encoder_decoder_config.MODEL_TYPE


@dataclasses.dataclass(frozen=True)
class Name:
    """One variable under its names, "" where a format has none for its network."""

    path: str
    google: str
    hugging_face: str = ""
    layout: str = ""  # in Hugging Face's file: transposed, convolution, or the same
    hdf5: str = ""

    def from_hugging_face(self, value):
        """The array of the variable, from that of a file."""
        if self.layout == "convolution":
            return value[None]
        return value.T if self.layout == "transposed" else value

    def shape_from_hugging_face(self, shape):
        """The shape of the variable, from that of a file."""
        if self.layout == "convolution":
            return (1, *shape)
        return shape[::-1] if self.layout == "transposed" else shape

    def to_hugging_face(self, value):
        """The array of a file, from that of the variable."""
        if self.layout == "convolution":
            return value[0]
        return value.T if self.layout == "transposed" else value

    def key(self, format):
        """The name in files of a format: google, hugging_face, hdf5 or keras."""
        return self.path if format == "keras" else getattr(self, format)


# The variables of a layer: names here, in the original's and in Hugging Face's files.
_DENSE = (("kernel", "/kernel", "weight", "transposed"), ("bias", "/bias", "bias"))
_NORM = (("gamma", "/gamma", "weight"), ("beta", "/beta", "bias"))
_PROJECTION = (
    ("kernel", "output_weights", "weight"),
    ("bias", "output_bias", "bias"),
)
_GPT_DENSE = (("kernel", "/w", "weight", "convolution"), ("bias", "/b", "bias"))
_GPT_NORM = (("gamma", "/g", "weight"), ("beta", "/b", "bias"))
_ATTENTION = (
    ("attention/query", "attention/self/query", _DENSE),
    ("attention/key", "attention/self/key", _DENSE),
    ("attention/value", "attention/self/value", _DENSE),
    ("attention/output", "attention/output/dense", _DENSE),
    ("attention_norm", "attention/output/LayerNorm", _NORM),
)
_CROSS_ATTENTION = tuple(
    (f"cross_{path}", f"cross{name}", variables) for path, name, variables in _ATTENTION
)
_FEED_FORWARD = (
    ("ffn_in", "intermediate/dense", _DENSE),
    ("ffn_out", "output/dense", _DENSE),
    ("ffn_norm", "output/LayerNorm", _NORM),
)
_GPT_LAYER = (
    ("attention/query_key_value", "attn/c_attn", _GPT_DENSE),
    ("attention/output", "attn/c_proj", _GPT_DENSE),
    ("attention_norm", "ln_1", _GPT_NORM),
    ("ffn_in", "mlp/c_fc", _GPT_DENSE),
    ("ffn_out", "mlp/c_proj", _GPT_DENSE),
    ("ffn_norm", "ln_2", _GPT_NORM),
)


def _rows(variables, path, google, hugging_face):
    """The rows of one layer, by its path and names."""
    return [
        Name(f"{path}/{ours}", f"{google}{original}", f"{hugging_face}.{theirs}", *more)
        for ours, original, theirs, *more in variables
    ]


def _bert_layer(i, parts=(*_ATTENTION, *_FEED_FORWARD)):
    rows = []
    for path, name, variables in parts:
        google = f"bert/encoder/layer_{i}/{name}"
        theirs = f"bert.encoder.layer.{i}.{name.replace('/', '.')}"
        rows += _rows(variables, f"bert/block_{i}/{path}", google, theirs)
    return rows


def _gpt_layer(i):
    rows = []
    for path, name, variables in _GPT_LAYER:
        theirs = f"transformer.h.{i}.{name.replace('/', '.')}"
        rows += _rows(variables, f"gpt/block_{i}/{path}", f"model/h{i}/{name}", theirs)
    return rows


_EMBEDDINGS = (
    *(
        Name(path, path, f"{path.replace('/', '.')}.weight")
        for name in ("word", "token_type", "position")
        for path in [f"bert/embeddings/{name}_embeddings"]
    ),
    *_rows(
        _NORM,
        "bert/embeddings/layer_norm",
        "bert/embeddings/LayerNorm",
        "bert.embeddings.LayerNorm",
    ),
)
_POOLER = _rows(_DENSE, "bert/pooler", "bert/pooler/dense", "bert.pooler.dense")
_GPT_EMBEDDINGS = {
    "GPT": (Name(GPT_TABLE, "model/we", GPT_TABLES[0]),),
    "GPT-2": tuple(
        Name(f"gpt/embeddings/{path}", f"model/{name}", f"transformer.{name}.weight")
        for path, name in (("word_embeddings", "wte"), ("position_embeddings", "wpe"))
    ),
}
_GPT_END = {  # a norm of GPT-2
    "GPT": [],
    "GPT-2": _rows(_GPT_NORM, "gpt/final_norm", "model/ln_f", "transformer.ln_f"),
}
_MASKED_LM = (
    *_rows(
        _DENSE,
        "masked_lm/transform",
        "cls/predictions/transform/dense",
        "cls.predictions.transform.dense",
    ),
    *_rows(
        _NORM,
        "masked_lm/layer_norm",
        "cls/predictions/transform/LayerNorm",
        "cls.predictions.transform.LayerNorm",
    ),
    Name("masked_lm/bias", "cls/predictions/output_bias", "cls.predictions.bias"),
)
# Where the head has a table of its own; the bias is then that of its product.
_UNTIED = (
    *_MASKED_LM[:-1],
    dataclasses.replace(_MASKED_LM[-1], hugging_face="cls.predictions.decoder.bias"),
    Name("masked_lm/table", "cls/predictions/table", "cls.predictions.decoder.weight"),
)
# The output layers of all heads, and what lies before them.
_HEADS = (
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
    *itertools.chain(
        *(
            _rows(_DENSE, name, name, name)
            for j in range(MOST_PROJECTIONS)
            for name in [f"projection_{j}"]
        )
    ),
    *_rows(
        _PROJECTION, "next_sentence", "cls/seq_relationship/", "cls.seq_relationship"
    ),
    *_rows(_PROJECTION, "classifier/logits", "", "classifier"),
    *_rows(_PROJECTION, "tagger/logits", "", "classifier"),
    *_rows(_PROJECTION, "span/logits", "cls/squad/", "qa_outputs"),
)
# GPT has another classifier; Hugging Face's has no bias.
_GPT_CLASSIFIER = (
    Name("classifier/logits/kernel", "model/clf/w", "score.weight", "transposed"),
    Name("classifier/logits/bias", "model/clf/b", "score.bias"),
)


class Renaming(NamedTuple):
    """How a relative's names follow from BERT's.

    Attributes:
        hugging_face, google: pairs of parts of names, BERT's and the relative's,
            replaced in this order.
        absent: beginnings of the paths of variables that it has not.
        rows: of its further variables.
    """

    hugging_face: tuple[tuple[str, str], ...]
    google: tuple[tuple[str, str], ...]
    absent: tuple[str, ...] = ()
    rows: tuple[Name, ...] = ()


def _classifier(*layers):
    """The rows of dense layers of a classifier, by pairs (name here, name there)."""
    variables = ("kernel", "/kernel", "weight"), ("bias", "/bias", "bias")
    paths = [(f"classifier/{ours}", theirs) for ours, theirs in layers]
    return tuple(row for path, to in paths for row in _rows(variables, path, path, to))


_RELATIVES = {
    "BERT": Renaming((), ()),
    "RoBERTa": Renaming(
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
    ),
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
            *_rows(
                _DENSE,
                "bert/embeddings/projection",
                "electra/embeddings_project",
                "electra.embeddings_project",
            ),
            *_rows(
                _DENSE,
                "discriminator/dense",
                "discriminator_predictions/dense",
                "discriminator_predictions.dense",
            ),
            *_rows(
                _DENSE,
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
        rows=(
            *_rows(
                _DENSE,
                "bert/embeddings/projection",
                "bert/encoder/embedding_hidden_mapping_in",
                "albert.encoder.embedding_hidden_mapping_in",
            ),
        ),
    ),
}


def encoder_rows(kind, num_layers):
    """The rows of embeddings and layers of a BERT, GPT or GPT-2, without a pooler.

    `kind` may be a relative of BERT; an ALBERT has as many layers as groups.
    """
    if kind in _GPT_END:
        layers = itertools.chain(*map(_gpt_layer, range(num_layers)))
        return [*_GPT_EMBEDDINGS[kind], *layers, *_GPT_END[kind]]
    layers = itertools.chain(*map(_bert_layer, range(num_layers)))
    further = [row for row in _RELATIVES[kind].rows if not is_head(row.path)]
    return renamed(kind, [*_EMBEDDINGS, *layers]) + further


def renamed(kind, rows):
    """The rows of a relative for those of BERT, without those that it lacks."""
    relative = _RELATIVES.get(kind, _RELATIVES["BERT"])
    kept = [row for row in rows if not row.path.startswith(relative.absent)]
    for place, row in enumerate(kept):
        theirs, google = row.hugging_face, row.google
        for ours, other in relative.hugging_face:
            theirs = theirs.replace(ours, other)
        for ours, other in relative.google:
            google = google.replace(ours, other)
        kept[place] = dataclasses.replace(row, hugging_face=theirs, google=google)
    return kept


def side_rows(side, rows):
    """Rows of a BERT, renamed as those of one side of an encoder-decoder."""
    for row in rows:
        path, theirs = row.path, row.hugging_face
        if not is_head(path):
            path = f"encoder_decoder/{side}/{path.removeprefix('bert/')}"
        if side == "encoder":  # a bare network there
            theirs = theirs.removeprefix("bert.")
        google, theirs = f"{side}/{row.google}", f"{side}.{theirs}"
        yield dataclasses.replace(row, path=path, google=google, hugging_face=theirs)


def _pair_rows(num_encoder_layers, num_decoder_layers):
    parts = (*_ATTENTION, *_CROSS_ATTENTION, *_FEED_FORWARD)
    layers = (_bert_layer(i, parts) for i in range(num_decoder_layers))
    return [
        *side_rows("encoder", encoder_rows("BERT", num_encoder_layers)),
        *side_rows("decoder", [*_EMBEDDINGS, *itertools.chain(*layers)]),
    ]


def network_rows(config):
    """The rows of embeddings and layers of the network of a config."""
    if config.network == "elmo":
        return [_elmo_row(path) for path in elmo_names.list_paths(config)]
    if config.network == "encoder_decoder":
        depths = config.encoder.num_hidden_layers, config.decoder.num_hidden_layers
        return _pair_rows(*depths)
    rows = encoder_rows(config.kind, config.num_blocks)
    if getattr(config, "has_projection", False):
        return rows
    return [row for row in rows if "/projection/" not in row.path]


def _elmo_row(path):
    google, hdf5 = elmo_names.find_names(path)
    return Name(path, google, hdf5=hdf5)


def head_rows(config):
    """{path: row} of the output layers of all heads of the network of a config."""
    rows = [*_HEADS, *masked_lm_rows(config)]
    if config.network == "gpt":
        rows += _GPT_CLASSIFIER
    if config.network == "encoder_decoder":
        rows = side_rows("decoder", masked_lm_rows(config.decoder))
    if config.network == "elmo":
        rows += map(_elmo_row, elmo_names.HEAD)
    if config.network == "bert":
        further = [row for row in _RELATIVES[config.kind].rows if is_head(row.path)]
        rows = [*renamed(config.kind, rows), *further]
        rows += generator_rows(config) if config.kind == "ELECTRA" else []
    return {row.path: row for row in rows}


def generator_rows(config):
    """The rows of a generator beside its discriminator, whose tables it has."""
    rows = renamed(config.kind, masked_lm_rows(config))
    rows += encoder_rows(config.kind, config.num_blocks)
    return [
        Name(f"generator/{row.path}", row.google.replace("electra/", GENERATOR))
        for row in rows
        if "/embeddings/" not in row.path or "/projection/" in row.path
    ]


def masked_lm_rows(config):
    """The rows of the head that predicts masked tokens, as a BERT names them."""
    return [*(_MASKED_LM if getattr(config, "tie_word_embeddings", True) else _UNTIED)]


def tied_keys(kind):
    """{copy: original} of Hugging Face's names of a masked-LM head that is tied."""
    tied, own, words = (
        renamed(kind, rows) for rows in (_MASKED_LM, _UNTIED, _EMBEDDINGS[:1])
    )
    pairs = (own[-1], words[0]), (own[-2], tied[-1])
    return {
        copy.hugging_face: original.hugging_face
        for copy, original in pairs
        if copy.hugging_face != original.hugging_face
    }


def named_variables(model):
    """Pairs of Name and variable, for each weight of a built model.

    Raises:
        KeyError: a variable is in no table.
    """
    config = model.config
    pooler = renamed(config.kind, _POOLER) if config.network == "bert" else []
    rows = {row.path: row for row in [*network_rows(config), *pooler]}
    rows |= head_rows(config)
    variables = model.trainable_variables + [
        v for v in model.non_trainable_variables if "fit_seed" not in v.path
    ]
    return [(rows[relative_path(variable)], variable) for variable in variables]


def relative_path(variable):
    """`bert/block_0/ffn_in/kernel`, whatever model the variable is part of."""
    return variable.path.split("/", 1)[1]


def is_head(path):
    """Whether a variable belongs to a head and not to the encoder."""
    return not path.startswith(("bert/", "gpt/", "elmo/", "encoder_decoder/"))


def layer_number(key):
    """The number of the layer that a key of any format belongs to, or None."""
    match = _LAYER.match(key)
    return int(match[1]) if match else None


# {kind: {size of the config: (variable, its axis)}}, beside the depth.
_WORDS, _POSITIONS = (
    "bert/embeddings/word_embeddings",
    "bert/embeddings/position_embeddings",
)
_SEGMENTS = "bert/embeddings/token_type_embeddings"
_ENCODER_SIZES = {
    "vocab_size": (_WORDS, 0),
    "hidden_size": ("bert/block_0/attention_norm/gamma", 0),
    "intermediate_size": ("bert/block_0/ffn_in/bias", 0),
    "num_position_rows": (_POSITIONS, 0),
}
_FACTORIZED = {
    **_ENCODER_SIZES,
    "embedding_size": (_WORDS, 1),
    "type_vocab_size": (_SEGMENTS, 0),
}
_SIZES = {
    "DistilBERT": _ENCODER_SIZES,
    "RoBERTa": {**_ENCODER_SIZES, "token_type_rows": (_SEGMENTS, 0)},
    "ELECTRA": _FACTORIZED,
    "ALBERT": _FACTORIZED,
    "BERT": {
        "vocab_size": (_WORDS, 0),
        "hidden_size": (_WORDS, 1),
        "intermediate_size": ("bert/block_0/ffn_in/bias", 0),
        "max_position_embeddings": (_POSITIONS, 0),
        "type_vocab_size": (_SEGMENTS, 0),
    },
    "GPT-2": {
        "vocab_size": ("gpt/embeddings/word_embeddings", 0),
        "hidden_size": ("gpt/embeddings/word_embeddings", 1),
        "intermediate_size": ("gpt/block_0/ffn_in/bias", 0),
        "max_position_embeddings": ("gpt/embeddings/position_embeddings", 0),
    },
    "GPT": {
        "num_table_rows": (GPT_TABLE, 0),
        "hidden_size": (GPT_TABLE, 1),
        "intermediate_size": ("gpt/block_0/ffn_in/bias", 0),
    },
}
_SIZES[_PAIR] = {
    f"{side}.{size}": (path.replace("bert", f"encoder_decoder/{side}", 1), axis)
    for side in encoder_decoder_config.SIDES
    for size, (path, axis) in _SIZES["BERT"].items()
}


def size_keys(kind):
    """The keys that `sizes` has for a whole network of a kind."""
    return (*_SIZES.get(kind, elmo_names.SIZES), DEPTH, KIND)


def sizes(shapes, format):
    """{key of the config: value}, as far as the shapes of a file show it, and the kind.

    {} if they are of no network.
    """
    for kind, of_kind in _SIZES.items():
        rows = _pair_rows(1, 1) if kind == _PAIR else encoder_rows(kind, 1)
        marks = {row.key(format) for row in rows}
        # GPT-2 has names of GPT's layers, and Google's ALBERT some of BERT's.
        if kind == "GPT-2":
            marks -= {row.key(format) for row in _gpt_layer(0)}
        if kind == "ALBERT":
            marks -= {row.key(format) for row in encoder_rows("BERT", 1)}
        if not marks & shapes.keys():
            continue
        values = {KIND: kind, **_depths(kind, shapes, format)}
        keys = {row.path: row.key(format) for row in rows}
        for size, (path, axis) in of_kind.items():
            shape = shapes.get(keys[path], ())
            if len(shape) > axis:
                values[size] = shape[axis]
        return values
    # The key of a row without a name in this format is "", which no file may hold.
    shape_of = {key: shape for key, shape in shapes.items() if key}.get
    values = elmo_names.sizes(lambda path: shape_of(_elmo_row(path).key(format)))
    return {KIND: "ELMo", **values} if values else {}


def _depths(kind, shapes, format):
    """{DEPTH: layers in a file}; of an encoder-decoder also those of each side."""
    if kind != _PAIR:
        numbers = {layer_number(key) for key in shapes} - {None}
        return {DEPTH: max(numbers) + 1} if numbers else {}
    depths = {}
    for side in encoder_decoder_config.SIDES:
        layers = (side_rows(side, _bert_layer(i)) for i in itertools.count())
        has_layer = (any(row.key(format) in shapes for row in rows) for rows in layers)
        depth = sum(1 for _ in itertools.takewhile(bool, has_layer))
        depths[f"{side}.{DEPTH}"] = depth
    return {**depths, DEPTH: sum(depths.values())}
