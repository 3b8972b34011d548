"""The names of every variable, here, in the original's and in Hugging Face's files.

One table of each network, in its file, converts both ways. Paths are those of Keras
without the model's own name. Hugging Face stores the kernels of its Linear layers
transposed ([out, in]), and those of GPT's convolutions without their first axis; arrays
change on the way as `layout` demands.
"""

import dataclasses
import itertools

FORMATS = ("google", "hugging_face", "hdf5", "keras")
DEPTH, KIND = "num_hidden_layers", "kind"
# Prefixes of the variables of a task, and of its layers with a row for each class.
TASK_PARTS = ("layer_mix/", "bilstm/", "classifier/", "tagger/", "span/")
CLASS_LAYERS = ("classifier/logits/", "classifier/out_proj/", "tagger/logits/")
_MOST_LSTMS = 8  # layers; flags allow no more
MOST_PROJECTIONS = 4  # of the vector of a text


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


# Variables of a layer: names here, in the original's and in Hugging Face's files.
DENSE = (("kernel", "/kernel", "weight", "transposed"), ("bias", "/bias", "bias"))
NORM = (("gamma", "/gamma", "weight"), ("beta", "/beta", "bias"))
PROJECTION = (
    ("kernel", "output_weights", "weight"),
    ("bias", "output_bias", "bias"),
)


def rows(variables, path, google, hugging_face):
    """The rows of one layer of Keras, by its path and names."""
    return [
        Name(f"{path}/{ours}", f"{google}{original}", f"{hugging_face}.{theirs}", *more)
        for ours, original, theirs, *more in variables
    ]


# The output layers of all heads, and what lies before them.
HEADS = (
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
            rows(DENSE, name, name, name)
            for j in range(MOST_PROJECTIONS)
            for name in [f"projection_{j}"]
        )
    ),
    *rows(PROJECTION, "next_sentence", "cls/seq_relationship/", "cls.seq_relationship"),
    *rows(PROJECTION, "classifier/logits", "", "classifier"),
    *rows(PROJECTION, "tagger/logits", "", "classifier"),
    *rows(PROJECTION, "span/logits", "cls/squad/", "qa_outputs"),
)


def network_rows(config):
    """The rows of embeddings and layers of the network of a config."""
    return config.spec.rows(config)


def head_rows(config):
    """{path: row} of a pooler and of the output layers of all heads of a network."""
    return {row.path: row for row in config.spec.head_rows(config)}


def named_variables(model):
    """Pairs of Name and variable, for each weight of a built model.

    Raises:
        KeyError: a variable is in no table.
    """
    config = model.config
    rows = {row.path: row for row in network_rows(config)} | head_rows(config)
    variables = model.trainable_variables + [
        v for v in model.non_trainable_variables if "fit_seed" not in v.path
    ]
    return [(rows[relative_path(variable)], variable) for variable in variables]


def relative_path(variable):
    """`bert/block_0/ffn_in/kernel`, whatever model the variable is part of."""
    return variable.path.split("/", 1)[1]
