"""Flags of build_vocab.py."""

from absl import flags

from cli import command_line, model_flags
from contract import file_names

FLAGS = flags.FLAGS
WORD_PIECE, BYTE_PAIR, WORD = "word_piece", "byte_pair", "word"
# Flags that one kind alone reads.
_OF_KINDS = {
    "do_lower_case": WORD_PIECE,
    "num_unused_tokens": WORD_PIECE,
    "min_character_frequency": WORD_PIECE,
    "split_words": WORD,
}


def define() -> None:
    """All flags of the script."""
    with command_line.heading("Data"):
        text = "Comma-separated text files or globs; files may be compressed (.gz)."
        flags.DEFINE_string("input_file", None, text)
    _define_vocabulary()
    _define_output()
    with command_line.heading("Processes"):
        text = (
            "Number of processes; 0 for one per core. The output does not depend on it."
        )
        flags.DEFINE_integer("num_workers", 0, text, lower_bound=0)
    flags.mark_flags_as_required(["input_file", "output_file"])


@command_line.heading("Model and vocabulary")
def _define_vocabulary() -> None:
    integer = flags.DEFINE_integer
    flags.DEFINE_enum(
        "kind",
        WORD_PIECE,
        [WORD_PIECE, BYTE_PAIR, WORD],
        "word_piece: as in BERT. byte_pair: as in GPT-2; cased, spells every text "
        "without loss, and ends in <|endoftext|>. word: as in ELMo; <S>, </S>, <UNK>, "
        "then words by frequency.",
    )
    model_flags.define_split_words()
    integer(
        "vocab_size",
        30522,
        "Maximum number of entries in the vocabulary.",
        lower_bound=6,
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models.",
    )
    integer(
        "num_unused_tokens",
        99,
        "Number of free entries [unused0], [unused1], ... for your own tokens. With "
        "99, [UNK], [CLS], [SEP] and [MASK] are 100 to 103, as in released "
        "vocabularies.",
        lower_bound=0,
    )
    integer(
        "min_character_frequency",
        1,
        "Minimum frequency of a character; rarer characters become [UNK], together "
        "with their word.",
        lower_bound=1,
    )
    model_flags.define_config_file(
        "base_config_file",
        "Config of the model to train, such as configs/bert_tiny.json; it is copied "
        "to --output_config_file.",
    )


@command_line.heading("Output")
def _define_output() -> None:
    flags.DEFINE_string(
        "output_file",
        None,
        "Vocabulary file to write, one entry per line. For --kind=byte_pair: a "
        "vocab.json, with merges.txt beside it.",
    )
    flags.DEFINE_string(
        "output_config_file",
        None,
        "File for a copy of --base_config_file with the size of this vocabulary as "
        "vocab_size.",
    )


def check_kind() -> None:
    """Refuses flags that do not belong to the kind of the vocabulary."""
    name, path = file_names.VOCAB_JSON, FLAGS.output_file
    command_line.refuse(
        *(
            (
                FLAGS[flag].present and FLAGS.kind != kind,
                f"--{flag} belongs to --kind={kind}; leave it out with "
                f"--kind={FLAGS.kind}",
            )
            for flag, kind in _OF_KINDS.items()
        ),
        (
            FLAGS.kind == BYTE_PAIR and not path.endswith(name),
            f"--output_file={path}: the name of byte pairs ends in {name}; choose "
            "another",
        ),
        (
            bool(FLAGS.base_config_file) != bool(FLAGS.output_config_file),
            "--base_config_file and --output_config_file belong together: the config "
            "to start from, and where it goes with the size of this vocabulary",
        ),
    )
