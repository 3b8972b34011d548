"""Flags of run_seq2seq.py: sources and targets, their lengths, and how one writes."""

from collections.abc import Sequence
from typing import Any

from absl import flags

from cli import command_line, generation_flags
from contract import errors

FLAGS = flags.FLAGS
SPLITS = ("train", "dev", "test")
_HAS_HEADER = {"auto": None, "true": True, "false": False}
_DRAWS = ("temperature", "top_k", "top_p")


def define() -> None:
    """Where pairs come from, how long they are, and how targets are written."""
    _define_pairs()
    _define_lengths()
    _define_writing()


@command_line.heading("Data")
def _define_pairs() -> None:
    string, enum = flags.DEFINE_string, flags.DEFINE_enum
    for split in SPLITS:
        string(f"{split}_file", None, f"TSV, CSV or JSONL file of the {split} pairs.")
    enum("file_format", "auto", ["auto", "tsv", "csv", "jsonl"], "auto: by the ending.")
    enum("has_header", "auto", [*_HAS_HEADER], "Whether line 1 has names.")
    for role, place in (("source", "first"), ("target", "second")):
        string(
            f"{role}_column",
            None,
            f"Name, or number from 0, of the column of {role}s. By default the one "
            f"called {role} or, where there are no such names, the {place}.",
        )


@command_line.heading("Model and vocabulary")
def _define_lengths() -> None:
    flags.DEFINE_integer(
        "max_source_length",
        128,
        "Most tokens of a source, [CLS] and [SEP] included; longer ones are cut.",
        lower_bound=3,
    )
    flags.DEFINE_integer(
        "max_target_length",
        128,
        "Most tokens of a target, the end token included; longer ones are cut, and "
        "what is written ends there.",
        lower_bound=2,
    )


@command_line.heading("Text")
def _define_writing() -> None:
    flags.DEFINE_integer(
        "num_beams",
        1,
        "Unfinished texts that are kept at each step, the likeliest; 1 takes the "
        "likeliest token each time. For dev and test rows, and exports.",
        lower_bound=1,
    )
    command_line.define_float(
        "length_penalty",
        1.0,
        "With several beams, the power of a text's length by which its log probability "
        "is divided: 0 for none, which prefers short texts; larger ones prefer long.",
    )
    flags.DEFINE_bool(
        "do_sample",
        False,
        "Draw tokens instead of taking the likeliest; draws follow from --seed and the "
        "number of the row.",
    )
    generation_flags.define_sampling()


def check() -> None:
    """Raises ValueError where flags contradict each other."""
    if FLAGS.source_column is not None and FLAGS.source_column == FLAGS.target_column:
        raise errors.InputError(
            f"--source_column and --target_column are both {FLAGS.source_column}; "
            "each needs a column of its own"
        )
    if "export_format" in FLAGS and FLAGS.export_format == "litert":
        raise errors.InputError(
            "--export_format=litert holds networks that run once, and this one runs "
            "for each token that it writes; leave it out: a SavedModel does that"
        )
    generation_flags.check_sampling()
    if FLAGS.do_sample and FLAGS.num_beams > 1:
        raise errors.InputError(
            f"--do_sample draws one text and --num_beams={FLAGS.num_beams} compares "
            "several; leave one of them out"
        )
    if FLAGS.do_sample and FLAGS.temperature == 0:
        raise errors.InputError(
            "--temperature=0 draws nothing; leave --do_sample out, or raise it"
        )
    for name in _DRAWS:
        if FLAGS[name].present and not FLAGS.do_sample:
            raise errors.InputError(
                f"--{name}={FLAGS[name].value} is for drawing tokens; add --do_sample, "
                "or leave it out"
            )
    if FLAGS["length_penalty"].present and FLAGS.num_beams == 1:
        raise errors.InputError(
            f"--length_penalty={FLAGS.length_penalty} compares beams; set --num_beams "
            "to 2 or more, or leave it out"
        )


def check_network(config_file: str, sources: int, targets: int, size: int) -> None:
    """Raises ValueError where texts, or beams, do not fit the network.

    `sources` and `targets` are positions of encoder and decoder, and `size` is that of
    the vocabulary, as `config_file` has them.
    """
    for flag, value, positions, part in (
        ("max_source_length", FLAGS.max_source_length, sources, "encoder"),
        ("max_target_length", FLAGS.max_target_length, targets, "decoder"),
    ):
        if value > positions:
            raise errors.InputError(
                f"--{flag}={value} is more than the {positions} positions of the "
                f"{part} ({config_file}); give at most {positions}"
            )
    if FLAGS.num_beams > size:
        raise errors.InputError(
            f"--num_beams={FLAGS.num_beams} is more than the {size} tokens of the "
            f"vocabulary ({config_file}); give fewer"
        )


def paths(splits: Sequence[str]) -> dict[str, Any]:
    """The file of each split; raises ValueError where a flag is not set."""
    missing = [split for split in splits if not FLAGS[f"{split}_file"].value]
    if missing:
        raise errors.InputError(
            f"the {missing[0]} pairs are needed and --{missing[0]}_file is not set; "
            "set it"
        )
    return {split: FLAGS[f"{split}_file"].value for split in splits}


def layout() -> dict[str, Any]:
    """Where sources and targets stand, by the names of text_pairs.Layout."""
    return {
        "file_format": FLAGS.file_format,
        "has_header": _HAS_HEADER[FLAGS.has_header],
        "source": FLAGS.source_column,
        "target": FLAGS.target_column,
    }


def limits() -> tuple[int, int]:
    """The most tokens of a source and of a target, as in split.Limits."""
    return FLAGS.max_source_length, FLAGS.max_target_length


def sampling() -> dict[str, Any]:
    """How tokens are drawn, by the names of sampling.Sampling."""
    found = {name: FLAGS[name].value for name in _DRAWS}
    return found if FLAGS.do_sample else {**found, "temperature": 0.0}


def beams() -> dict[str, Any]:
    """How many beams there are, and how they are compared, by the flags' names."""
    return {"num_beams": FLAGS.num_beams, "length_penalty": FLAGS.length_penalty}
