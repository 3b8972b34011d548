"""Flags of how a task reads the network: its layers, trained or not, by which head."""

from typing import Any

from absl import flags

from cli import command_line, model_flags

FLAGS = flags.FLAGS
NAMES = (
    "freeze_encoder",
    "layer_mix",
    "feature_dropout",
    "head",
    "bilstm_layers",
    "bilstm_units",
)


@command_line.heading("Vectors")
def define() -> None:
    """Which layers a head reads, and what it is; the defaults are the original's."""
    flags.DEFINE_bool(
        "freeze_encoder",
        False,
        "Train the head alone; the network is a fixed feature extractor without "
        "dropout.",
    )
    flags.DEFINE_enum(
        "layer_mix",
        "last",
        [*model_flags.COMBINATIONS, "learned"],
        "Input of the head: one layer, or the sum or concatenation of several, as in "
        "Table 7 of the BERT paper. learned: a scaled sum of all layers and the "
        "output of the embeddings, with learned weights, as in the ELMo paper.",
    )
    command_line.define_float(
        "feature_dropout",
        0.0,
        "Dropout rate for the input of the head and between its LSTM layers.",
        lower_bound=0,
        upper_bound=0.99,
    )
    flags.DEFINE_enum(
        "head",
        "linear",
        ["linear", "bilstm"],
        "linear: one linear layer, as in google-research/bert. bilstm: bidirectional "
        "LSTMs before the linear layer; for a text, with max pooling over its tokens.",
    )
    flags.DEFINE_integer(
        "bilstm_layers", 2, "Number of LSTM layers in each direction.", 1, upper_bound=8
    )
    flags.DEFINE_integer(
        "bilstm_units",
        768,
        "Number of units of each LSTM, per direction.",
        lower_bound=1,
    )
    _define_cache()


def _define_cache() -> None:
    flags.DEFINE_enum(
        "feature_cache",
        "auto",
        ["auto", "memory", "none"],
        "Keep the outputs of a frozen network, so that it runs once per row. auto: up "
        "to 4 GB. memory: always. none: run the network in each step.",
    )


def present() -> dict[str, Any]:
    """{flag: value} of those on the command line."""
    return {name: FLAGS[name].value for name in NAMES if FLAGS[name].present}
