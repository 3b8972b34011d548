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
        "Train the head alone: the network is a fixed source of features, without "
        "dropout.",
    )
    flags.DEFINE_enum(
        "layer_mix",
        "last",
        [*model_flags.COMBINATIONS, "learned"],
        "Input of the head: one layer; several, summed or concatenated, as in Table 7 "
        "of BERT's paper; or learned, as in ELMo's paper: a sum of all layers "
        "and the embeddings' output with learned weights and a factor.",
    )
    command_line.define_float(
        "feature_dropout",
        0.0,
        "Rate of dropout on what the head reads, and between its LSTM layers.",
        lower_bound=0,
        upper_bound=0.99,
    )
    flags.DEFINE_enum(
        "head",
        "linear",
        ["linear", "bilstm"],
        "linear: one layer, as the original. bilstm: LSTMs of both directions before "
        "it; of a text it reads the largest values over its tokens.",
    )
    flags.DEFINE_integer(
        "bilstm_layers", 2, "LSTM layers of each direction.", 1, upper_bound=8
    )
    flags.DEFINE_integer(
        "bilstm_units", 768, "Units of an LSTM of one direction.", lower_bound=1
    )
    _define_cache()


def _define_cache() -> None:
    flags.DEFINE_enum(
        "feature_cache",
        "auto",
        ["auto", "memory", "none"],
        "Whether to keep a frozen network's outputs for all rows in memory, so that it "
        "runs once for each. auto: where they fit; none: it runs in each step.",
    )


def present() -> dict[str, Any]:
    """{flag: value} of those on the command line."""
    return {name: FLAGS[name].value for name in NAMES if FLAGS[name].present}
