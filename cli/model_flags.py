"""Flags of the network and its vocabulary, for every script that runs one."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from absl import flags

from cli import command_line
from contract import errors, hub_ids

FLAGS = flags.FLAGS
# How many tokens are read; a script has the first, or the others.
LENGTHS = ("max_seq_length", "max_source_length", "max_target_length")
CHECKPOINT_REMEDY = "give a prefix such as DIR/bert_model.ckpt, or its directory"
# Of `define_vectors`.
VECTOR_FLAGS = ("layers", "combine", "layer_weights", "pooling", "normalize")


class ModelFiles(NamedTuple):
    """The files of the network; init_checkpoint is "" for random weights."""

    config_file: str
    vocab_file: str  # "" where there is none and none is needed
    init_checkpoint: str
    do_lower_case: bool
    # Of init_checkpoint, whether layers may be missing; None where nothing is trained.
    allows_missing: bool | None = None
    # How GPT's and ELMo's words are found, where this was said.
    gpt_tokenizer: str | None = None
    split_words: str | None = None


@command_line.heading("Model and vocabulary")
def define(max_seq_length: int | None, *, output_dir: bool = True) -> None:
    """Which network and vocabulary, and in most scripts the directory of results.

    A script that reads texts whole has no `max_seq_length`.
    """
    flags.DEFINE_string(
        "pretrained",
        None,
        "Directory of a pretrained model (Google's zip, Hugging Face's files or an "
        "output_dir), or its id on Hugging Face's hub. Stands for --bert_config_file, "
        "--vocab_file and --init_checkpoint, each of which overrides it.",
    )
    define_config_and_vocabulary()
    if output_dir:
        with command_line.heading("Output"):
            flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.")
    flags.DEFINE_string(
        "init_checkpoint", None, "Initial weights: a prefix or a directory."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text: True for uncased models and False for cased ones. "
        "--pretrained sets it where the directory says what it is.",
    )
    if max_seq_length is not None:
        flags.DEFINE_integer(
            "max_seq_length",
            max_seq_length,
            "Most tokens a sequence, [CLS] and [SEP] included; longer texts are cut.",
            lower_bound=4,
        )


@command_line.heading("Model and vocabulary")
def define_config_and_vocabulary() -> None:
    """The files beside the weights, and whether to compare them."""
    flags.DEFINE_string("bert_config_file", None, "bert_config.json or config.json.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary the model was trained on.")
    flags.DEFINE_bool(
        "check_case", True, "Refuse a vocabulary that contradicts --do_lower_case."
    )
    define_gpt_tokenizer()
    define_split_words()


def define_split_words() -> None:
    """How the words of an ELMo are found."""
    flags.DEFINE_enum(
        "split_words",
        None,
        ["whitespace", "punctuation"],
        "How ELMo's words are found in a text: as in tokenised sentences, or as BERT "
        "splits text, for one that is not. By default as tokenizer_config.json beside "
        "the vocabulary says, or else whitespace.",
    )


def define_gpt_tokenizer() -> None:
    """How a tokenizer of GPT finds words."""
    flags.DEFINE_enum(
        "gpt_tokenizer",
        None,
        ["hugging_face", "original"],
        "How GPT's words are found: as by transformers, or as by GPT's own code, which "
        "needs ftfy and spaCy. By default as tokenizer_config.json beside the "
        "vocabulary says, or else hugging_face. GPT-2 and BERT have one way each.",
    )


@command_line.heading("Vectors")
def define_vectors(*, layers: str, pooling: str, others: Sequence[str] = ()) -> None:
    """Which vectors of tokens or texts, with these defaults; `vector_choice` reads it.

    `others` are the values of --pooling beside cls and mean.
    """
    flags.DEFINE_list("layers", layers, "Wanted layers: 0 is the first, -1 the last.")
    flags.DEFINE_enum(
        "combine",
        "none",
        [
            *("none", "embedding", "second_to_last", "last"),
            *("sum_last_4", "concat_last_4", "sum_all"),
        ],
        "Instead of --layers: one vector, made as in Table 7 of BERT's paper.",
    )
    flags.DEFINE_list(
        "layer_weights", [], "Weights of the layers that are summed, the last first."
    )
    flags.DEFINE_enum(
        "pooling",
        pooling,
        [*others, "cls", "mean"],
        "Vectors of texts: of [CLS] alone, or means over the tokens. "
        + ("none: vectors of tokens." if "none" in others else ""),
    )
    flags.DEFINE_bool("normalize", False, "Scale every vector to the length 1.")


def vector_choice() -> dict[str, Any]:
    """What the flags of `define_vectors` say, as modeling's vectors.choose takes it."""
    # A combination names its layers, so only those that were given contradict it.
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
    _check_named(needs_weights)
    command_line.check_files(
        *("bert_config_file", "vocab_file"),
        remedy="give the file that lies beside the checkpoint",
    )
    output_dir = FLAGS.output_dir if "output_dir" in FLAGS else None
    if not (output_dir and command_line.is_there(output_dir)):
        # Which a run that is resumed can do without.
        command_line.check_files("init_checkpoint", remedy=CHECKPOINT_REMEDY)
    if FLAGS.pretrained and not command_line.is_there(FLAGS.pretrained):
        hub_ids.check(FLAGS.pretrained, "--pretrained")


def _check_named(needs_weights: bool) -> None:
    needed = ["bert_config_file", *(["init_checkpoint"] if needs_weights else [])]
    for flag in needed:
        if not (FLAGS[flag].value or FLAGS.pretrained):
            raise errors.InputError(
                f"--{flag} is missing; set it, or set --pretrained to the directory "
                "of a model"
            )


def files(
    locate: Callable[[str], Any],
    *,
    needs_weights: bool = False,
) -> ModelFiles:
    """The files of the flags, or else of --pretrained.

    ValueError if one is missing, but for the vocabulary: not every tokenizer has one.
    """
    _check_named(needs_weights)
    found = locate(FLAGS.pretrained) if FLAGS.pretrained else None
    config_file = FLAGS.bert_config_file or (found.config_file if found else "")
    vocab_file = FLAGS.vocab_file or (found.vocab_file if found else "")
    checkpoint = FLAGS.init_checkpoint or (found.checkpoint if found else "")
    lower = FLAGS.do_lower_case
    if found and found.do_lower_case is not None and not FLAGS["do_lower_case"].present:
        lower = found.do_lower_case
    allows = FLAGS.allow_missing_weights if "allow_missing_weights" in FLAGS else None
    words = FLAGS.gpt_tokenizer, FLAGS.split_words
    return ModelFiles(config_file, vocab_file, checkpoint, lower, allows, *words)


def weights_loader(load: Callable[..., Any]) -> Callable[..., Any]:
    """`load`, which is pretrained.load_weights, as --allow_missing_weights says."""
    return functools.partial(load, allows_missing=FLAGS.allow_missing_weights)


def files_found(found: Any, do_lower_case: bool | None = None) -> ModelFiles:
    """The files of a directory, as `locate` returns them; by default lower-cases."""
    said = (do_lower_case, found.do_lower_case, True)
    lowers = next(value for value in said if value is not None)
    return ModelFiles(found.config_file, found.vocab_file, found.checkpoint, lowers)
