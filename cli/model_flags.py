"""Flags of the network and its vocabulary, for every script that runs one."""

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from cli import command_line
from contract import errors, hub_ids

FLAGS = flags.FLAGS
# How many tokens are read; a script has the first, or the others.
LENGTHS = ("max_seq_length", "max_source_length", "max_target_length")
CHECKPOINT_REMEDY = "give a prefix such as DIR/bert_model.ckpt, or its directory"
# `define_vectors` defines them.
VECTOR_FLAGS = ("layers", "combine", "layer_weights", "pooling", "normalize")
# Those of modeling.features.layer_choices, whose import takes seconds.
COMBINATIONS = (
    "embedding",
    "second_to_last",
    "last",
    "sum_last_4",
    "concat_last_4",
    "sum_all",
)


@command_line.heading("Model and vocabulary")
def define(max_seq_length: int | None, *, output_dir: bool = True) -> None:
    """Which network and vocabulary, and in most scripts the directory of results.

    A script that reads texts whole has no `max_seq_length`.
    """
    flags.DEFINE_string(
        "pretrained",
        None,
        "Directory of a pretrained model (an unpacked release of Google, files of "
        "Hugging Face, or an output_dir), or its id on the Hugging Face hub. It "
        "replaces --bert_config_file, --vocab_file and --init_checkpoint; each of "
        "these overrides its part.",
    )
    define_config_and_vocabulary()
    if output_dir:
        with command_line.heading("Output"):
            flags.DEFINE_string(
                "output_dir", None, "Output directory for checkpoints and results."
            )
    flags.DEFINE_string(
        "init_checkpoint", None, "Initial checkpoint: a prefix, a file or a directory."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models. By default the directory of --pretrained decides, if it "
        "indicates the case.",
    )
    if max_seq_length is not None:
        flags.DEFINE_integer(
            "max_seq_length",
            max_seq_length,
            "Maximum number of tokens per sequence, including [CLS] and [SEP]; longer "
            "texts are truncated.",
            lower_bound=4,
        )


class _ConfigParser(flags.ArgumentParser):
    """A path; configs/NAME.json is that of this project where there is no such file."""

    def parse(self, argument):
        packaged = os.path.join(os.path.dirname(__file__), os.pardir, argument)
        is_ours = os.path.dirname(argument) == "configs"
        if is_ours and not os.path.exists(argument) and os.path.exists(packaged):
            return os.path.abspath(packaged)
        return argument


def define_config_file(name: str, help_text: str) -> None:
    """A flag of the path of a config."""
    serializer: Any = flags.ArgumentSerializer()
    flags.DEFINE(_ConfigParser(), name, None, help_text, serializer=serializer)


@command_line.heading("Model and vocabulary")
def define_config_and_vocabulary() -> None:
    """The files beside the weights, and whether to compare them."""
    define_config_file(
        "bert_config_file",
        "Config file of the model, such as bert_config.json or config.json.",
    )
    flags.DEFINE_string("vocab_file", None, "Vocabulary file of the model.")
    define_checks()
    define_split_words()


def define_checks() -> None:
    """Whether a vocabulary and the files beside it are compared with what is done."""
    flags.DEFINE_bool(
        "check_case", True, "Refuse a vocabulary that contradicts --do_lower_case."
    )
    flags.DEFINE_bool(
        "check_tokenizer",
        True,
        "Refuse a tokenizer whose files have settings that are not supported, and "
        "texts of which more than half of the words are unknown to the vocabulary.",
    )


def define_split_words() -> None:
    """How the words of an ELMo, or of word pieces, are found."""
    flags.DEFINE_enum(
        "split_words",
        None,
        ["whitespace", "punctuation"],
        "How to split a text into words for ELMo and word pieces: at whitespace alone, "
        "for tokenised sentences, or as BERT does, for other text. By default the "
        "value in tokenizer_config.json or tokenizer.json beside the vocabulary, or "
        "else whitespace for ELMo and punctuation for BERT.",
    )


@command_line.heading("Vectors")
def define_vectors(*, layers: str, pooling: str, others: Sequence[str] = ()) -> None:
    """Which vectors of tokens or texts, with these defaults; `vector_choice` reads it.

    `others` are the values of --pooling beside cls and mean.
    """
    flags.DEFINE_list("layers", layers, "Layers to read: 0 is the first, -1 the last.")
    flags.DEFINE_enum(
        "combine",
        "none",
        ["none", *COMBINATIONS],
        "Combination of layers into one vector, as in Table 7 of the BERT paper, "
        "instead of --layers.",
    )
    flags.DEFINE_list(
        "layer_weights", [], "Weights of the summed layers, the last layer first."
    )
    flags.DEFINE_enum(
        "pooling",
        pooling,
        [*others, "cls", "mean"],
        "Vectors of texts: the vector of [CLS], or the mean over the tokens."
        + (" none: vectors of tokens." if "none" in others else ""),
    )
    flags.DEFINE_bool("normalize", False, "Scale every vector to length 1.")


def vector_choice() -> dict[str, Any]:
    """The arguments of modeling's vectors.choose."""
    # A combination names its layers, so only those on the command line contradict it.
    has_layers = FLAGS["layers"].present or FLAGS.combine == "none"
    return {
        "layers": command_line.numbers("layers", int) if has_layers else None,
        "combine": FLAGS.combine,
        "weights": command_line.numbers("layer_weights", float),
        "pooling": FLAGS.pooling,
        "normalize": FLAGS.normalize,
    }


def lengths() -> dict[str, Any]:
    """{flag: tokens} of the script's flags among LENGTHS; of inputs comes first."""
    return {name: FLAGS[name].value for name in LENGTHS if name in FLAGS}


def check(*, needs_weights: bool = False) -> None:
    """Raises ValueError where a file is not named, or is local and not there."""
    check_named(needs_weights)
    command_line.check_files(
        "bert_config_file",
        "vocab_file",
        remedy="give the file that lies beside the checkpoint",
    )
    output_dir = FLAGS.output_dir if "output_dir" in FLAGS else None
    if not (output_dir and command_line.is_there(output_dir)):
        # A run that is resumed can do without it.
        command_line.check_files("init_checkpoint", remedy=CHECKPOINT_REMEDY)
    if FLAGS.pretrained and not command_line.is_there(FLAGS.pretrained):
        hub_ids.check(FLAGS.pretrained, "--pretrained")


def check_named(needs_weights: bool) -> None:
    """Raises ValueError where neither a file's flag nor --pretrained is set."""
    for flag in ("bert_config_file", "init_checkpoint")[: 1 + needs_weights]:
        if not (FLAGS[flag].value or FLAGS.pretrained):
            raise errors.InputError(
                f"--{flag} is missing; set it, or set --pretrained to the directory "
                "of a model"
            )
