"""ELMo's variables: their names in training checkpoints and HDF5 files, and sizes.

Training checkpoints are those of bilm-tf; its dumps are HDF5. Files with one LSTM a
direction call it otherwise: that is not stacked, so it has no number.
"""

import itertools
import re

# By path here, in HDF5 files; {} is a number.
_HDF5 = {
    "elmo/characters/embedding": "char_embed",
    "elmo/characters/convolution_{}/kernel": "CNN/W_cnn_{}",
    "elmo/characters/convolution_{}/bias": "CNN/b_cnn_{}",
    "elmo/characters/highway_{}/carry/kernel": "CNN_high_{}/W_carry",
    "elmo/characters/highway_{}/carry/bias": "CNN_high_{}/b_carry",
    "elmo/characters/highway_{}/transform/kernel": "CNN_high_{}/W_transform",
    "elmo/characters/highway_{}/transform/bias": "CNN_high_{}/b_transform",
    "elmo/characters/projection/kernel": "CNN_proj/W_proj",
    "elmo/characters/projection/bias": "CNN_proj/b_proj",
    **{
        f"elmo/{direction}_{{}}/{ours}": f"{cells}/Cell{{}}/LSTMCell/{theirs}"
        for direction, cells in (
            ("forward", "RNN_0/RNN/MultiRNNCell"),
            ("backward", "RNN_1/RNN/MultiRNNCell"),
        )
        for ours, theirs in (("kernel", "W_0"), ("bias", "B"), ("projection", "W_P_0"))
    },
    "bidirectional_lm/kernel": "softmax/W",
    "bidirectional_lm/bias": "softmax/b",
}
# From these names to those of training checkpoints, which begin with lm/.
_IN_TRAINING = {
    "/RNN/MultiRNNCell/Cell": "/rnn/multi_rnn_cell/cell_",
    "/LSTMCell/W_P_0": "/lstm_cell/projection/kernel",
    "/LSTMCell/W_0": "/lstm_cell/kernel",
    "/LSTMCell/B": "/lstm_cell/bias",
}
_ALONE = re.compile(r"^((?:lm/)?RNN_[01]/)(rnn|RNN)/(?=lstm_cell/|LSTMCell/)")
_CELLS = {"rnn": "rnn/multi_rnn_cell/cell_0/", "RNN": "RNN/MultiRNNCell/Cell0/"}
# Keys of the config that the network's variables follow from, and its depth.
SIZES = (
    "char_dim",
    "filters",
    "num_highway",
    "projection_dim",
    "lstm_dim",
)
HEAD = ("bidirectional_lm/kernel", "bidirectional_lm/bias")  # of pretraining


def find_names(path):
    """The names of a variable in a training checkpoint and in an HDF5 file.

    Raises:
        KeyError: ELMo has no such variable.
    """
    number = re.search(r"_(\d+)/", path)
    pattern = path.replace(number[0], "_{}/") if number else path
    hdf5 = google = _HDF5[pattern].format(number and number[1])
    for old, new in _IN_TRAINING.items():
        google = google.replace(old, new)
    return f"lm/{google}", hdf5


def number_cells(key):
    """A name in a file, where a single LSTM has the number that stacked ones have.

    Differs from bilm-tf: weights of one layer are read under both names; its dump gives
    them names that its network does not find.
    """
    return _ALONE.sub(lambda match: match[1] + _CELLS[match[2]], key)


def list_paths(config):
    """The variables of the network that a config.ElmoConfig describes."""
    yield "elmo/characters/embedding"
    parts = [f"convolution_{k}" for k in range(len(config.filters))]
    for k in range(config.num_highway):
        parts += [f"highway_{k}/carry", f"highway_{k}/transform"]
    if sum(count for _, count in config.filters) != config.projection_dim:
        parts.append("projection")
    for part in parts:
        yield from (f"elmo/characters/{part}/{end}" for end in ("kernel", "bias"))
    for j in range(config.num_hidden_layers):
        for direction in ("forward", "backward"):
            yield from (f"elmo/{direction}_{j}/{end}" for end in ("kernel", "bias"))
            if config.lstm_dim != config.projection_dim:
                yield f"elmo/{direction}_{j}/projection"


def sizes(shape):
    """{key of the config: value}, as far as a file shows it; {} if it has no ELMo.

    `shape` is a function from a path here to a shape in the file, or None.
    """

    def shapes_of(pattern):  # of number 0, 1, ...
        each = (shape(pattern.format(k)) for k in itertools.count())
        return list(itertools.takewhile(bool, each))

    values = {}
    if table := shape("elmo/characters/embedding"):
        kernels = shapes_of("elmo/characters/convolution_{}/kernel")
        values |= {
            "char_dim": table[-1],
            "filters": tuple((kernel[1], kernel[-1]) for kernel in kernels),
            "num_highway": len(shapes_of("elmo/characters/highway_{}/carry/bias")),
        }
    kernel, bias = shape("elmo/forward_0/kernel"), shape("elmo/forward_0/bias")
    if kernel and bias:  # [P + P, 4 * lstm_dim] and [4 * lstm_dim]
        values |= {
            "projection_dim": kernel[0] // 2,
            "lstm_dim": bias[0] // 4,
            "num_hidden_layers": len(shapes_of("elmo/forward_{}/bias")),
        }
    return values
