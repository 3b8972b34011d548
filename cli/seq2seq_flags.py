"""Flags of run_seq2seq.py: sources and targets, their lengths, and how one writes."""

import dataclasses
from typing import Any

from absl import flags

from cli import command_line, fine_tuning_flags, generation_flags, table_flags
from contract import errors, export_formats
from data_pipeline.seq2seq import pairs
from modeling.encoder_decoder import config as encoder_decoder_config

FLAGS = flags.FLAGS
_DRAWS = ("temperature", "top_k", "top_p")
_BEAMS = ("num_beams", "length_penalty", "early_stopping")


def define() -> None:
    """Where pairs come from, how long they are, and how targets are written."""
    _define_pairs()
    _define_lengths()
    _define_writing()


@command_line.heading("Data")
def _define_pairs() -> None:
    table_flags.define_files("TSV, CSV or JSONL file with the {} set.")
    table_flags.define_form()
    for role, place in (("source", "first"), ("target", "second")):
        flags.DEFINE_string(
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
        "Maximum number of tokens of a source, including [CLS] and [SEP]; longer "
        "sources are truncated.",
        lower_bound=3,
    )
    flags.DEFINE_integer(
        "max_target_length",
        128,
        "Maximum number of tokens of a target, including the end token; longer "
        "targets are truncated, and generated texts end there.",
        lower_bound=2,
    )


@command_line.heading("Text")
def _define_writing() -> None:
    flags.DEFINE_integer(
        "num_beams",
        1,
        "Number of beams for dev rows, test rows and exports; 1 takes the most likely "
        "token at each step.",
        lower_bound=1,
    )
    command_line.define_float(
        "length_penalty",
        1.0,
        "With several beams: the log probability of a text is divided by its length "
        "to this power. 0 leaves out the division and prefers short texts; larger "
        "values prefer long texts.",
    )
    flags.DEFINE_enum(
        "early_stopping",
        "never",
        ["true", "false", "never"],
        "With several beams: end at as many texts as beams (true), where no open text "
        "is better so far (false, transformers' default), or where none can be.",
    )
    flags.DEFINE_integer(
        "no_repeat_ngram_size", 0, "Size of n-grams that no text has twice; 0: none.", 0
    )
    flags.DEFINE_integer(
        "min_target_length", 0, "Least tokens of a written text, its end included.", 0
    )
    flags.DEFINE_bool(
        "do_sample",
        False,
        "Draw tokens at random instead of taking the most likely ones. Draws depend "
        "on --seed and the number of the row.",
    )
    generation_flags.define_sampling()


def check() -> None:
    """Raises ValueError where flags contradict each other."""
    source, beams = FLAGS.source_column, FLAGS.num_beams
    command_line.refuse(
        (
            source is not None and source == FLAGS.target_column,
            f"--source_column and --target_column are both {source}; each needs a "
            "column of its own",
        ),
        (
            FLAGS.export_format != export_formats.SAVED_MODEL,
            f"--export_format={FLAGS.export_format} runs a network once, and this one "
            "runs for each token that it writes; leave it out",
        ),
        generation_flags.no_token_to_draw(),
        (
            FLAGS.do_sample and beams > 1,
            f"--do_sample draws one text and --num_beams={beams} compares several; "
            "leave one of them out",
        ),
        (
            FLAGS.do_sample and FLAGS.temperature == 0,
            "--temperature=0 draws nothing; leave --do_sample out, or raise it",
        ),
        *(
            (
                FLAGS[name].present and not FLAGS.do_sample,
                f"--{name}={FLAGS[name].value} is for drawing tokens; add --do_sample, "
                "or leave it out",
            )
            for name in _DRAWS
        ),
    )


def check_scorers(path: str) -> None:
    """Raises InputError where a package is missing that scores targets of `path`."""
    errors.check_installed(f"{path}: scoring targets", "rouge_score", "sacrebleu")


def take_settings(config: Any) -> Any:
    """Takes how texts are written from a config where no flag is set; the run's config.

    Draws take nothing about beams, and a run that trains keeps its lengths.
    """
    for name, key in encoder_decoder_config.SETTINGS.items():
        flag, value = FLAGS[name], config.generation.get(key)
        value = str(value).lower() if isinstance(value, bool) else value
        keeps = flag.present or (FLAGS.do_sample and name in _BEAMS)
        keeps |= FLAGS.num_beams == 1 and name in _BEAMS[1:]
        keeps |= FLAGS.do_train and name == "max_target_length"
        if not keeps and value not in (None, flag.value):
            flag.value = value
            print(f"{name}: {value}, as the directory of the model has it")
    names = encoder_decoder_config.SETTINGS
    is_usual = all(FLAGS[name].value == FLAGS[name].default for name in names)
    return dataclasses.replace(config, generation={} if is_usual else settings())


def check_network(config_file: str, config: Any, vocab_size: int) -> None:
    """Raises ValueError where texts, or beams, do not fit an encoder-decoder."""
    command_line.refuse(
        *(
            (
                FLAGS[flag].value > side.max_position_embeddings,
                f"--{flag}={FLAGS[flag].value} is more than the "
                f"{side.max_position_embeddings} positions of the {part}; lower it",
            )
            for flag, side, part in (
                ("max_source_length", config.encoder, "encoder"),
                ("max_target_length", config.decoder, "decoder"),
            )
        ),
        (
            FLAGS.num_beams > vocab_size,
            f"--num_beams={FLAGS.num_beams} is more than the {vocab_size} tokens of "
            f"the vocabulary ({config_file}); give fewer",
        ),
        (
            FLAGS.min_target_length > FLAGS.max_target_length,
            f"--min_target_length={FLAGS.min_target_length} is more than "
            f"--max_target_length={FLAGS.max_target_length}; lower it",
        ),
        *(
            (
                FLAGS[name].present and FLAGS.num_beams == 1,
                f"--{name}={FLAGS[name].value} compares beams; set --num_beams to 2 or "
                "more, or leave it out",
            )
            for name in _BEAMS[1:]
        ),
    )


def paths() -> dict[str, Any]:
    """The files that the run needs; ValueError where a flag is not set."""
    return table_flags.paths(fine_tuning_flags.wanted_splits(), "pairs")


def layout() -> pairs.Layout:
    """Where sources and targets stand."""
    return pairs.Layout(
        file_format=FLAGS.file_format,
        **table_flags.form(),
        source=FLAGS.source_column,
        target=FLAGS.target_column,
    )


def limits() -> tuple[int, int]:
    """The most tokens of a source and of a target, as in split.Limits."""
    return FLAGS.max_source_length, FLAGS.max_target_length


def sampling() -> dict[str, Any]:
    """How tokens are drawn, by the names of sampling.Sampling."""
    draws = {name: FLAGS[name].value for name in _DRAWS}
    return draws if FLAGS.do_sample else {**draws, "temperature": 0.0}


def settings() -> dict[str, Any]:
    """How texts are written, by the keys of generation_config.json."""
    names = encoder_decoder_config.SETTINGS.items()
    values = {key: FLAGS[name].value for name, key in names}
    ends = {"true": True, "false": False}.get(FLAGS.early_stopping, "never")
    return {**values, "early_stopping": ends}
