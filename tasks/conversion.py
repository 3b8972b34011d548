"""Conversion of weights between the files of the originals and Hugging Face's."""

import dataclasses
import os

import keras

from contract import errors, wording
from data_pipeline import label_maps
from data_pipeline.text import opening
from loading import model_directory
from modeling.checkpoints import (
    comparison,
    conversion,
    output_directory,
    places,
)
from modeling.configs import config_limits
from tasks import networks
from tasks.settings.conversion import ConversionSettings


def open_tokenizer(files, config):
    """The tokenizer; None, and a line, without a vocabulary."""
    if not files.vocab_file and not config.spec.reads_characters:
        print("vocabulary: none found, so none is written; --vocab_file names one")
        return None
    return opening.open_tokenizer(files, config)


def _inputs(files):
    """Yields the paths that a conversion reads, which it must not replace."""
    yield from (files.init_checkpoint, files.config_file, files.vocab_file)
    if os.path.isdir(files.init_checkpoint):
        yield places.find_base(files.init_checkpoint)


def prepare(settings: ConversionSettings):
    """The checked input: Converted, tokenizer or None, rules of output_directory.

    The fourth are settings of the run that trained it, None where unknown.
    """
    files = networks.find_files(
        settings, model_directory.locate_weights(settings.input, settings.pretrained)
    )
    if not files.config_file:
        raise errors.InputError(
            f"{files.init_checkpoint}: there is no config beside it, such as "
            f"{places.CONFIG_FILES[0]}; give --bert_config_file"
        )
    rules = {
        "own_files": conversion.OWN_FILES,
        "always": conversion.ALWAYS,
        "overwrite": settings.overwrite,
        "inputs": [*filter(None, _inputs(files))],
    }
    output_directory.check(settings.output_dir, **rules)
    config = model_directory.read_config(files.config_file)
    written = conversion.select_config(config, settings.head)
    conversion.check_target(written, settings.to)
    settings.check_network(written)
    opened = model_directory.ModelDirectory(files, config)
    tokenizer = open_tokenizer(files, written)
    if settings.add_tokens and not tokenizer:
        raise errors.InputError("--add_tokens needs a vocabulary; set --vocab_file")
    if tokenizer:
        config_limits.check_sizes(
            written, tokenizer.vocab_size, files, 0, opened.weights
        )
    head = (
        "none" if settings.to == "hdf5" and settings.head == "auto" else settings.head
    )
    of_run = {
        "max_seq_length": opened.run.flags.get("max_seq_length"),
        "multi_label_threshold": opened.threshold,
        "num_texts": opened.num_texts,
    }
    return opened.read(head, is_converted=True), tokenizer, rules, of_run


def grow(settings: ConversionSettings, model, tokenizer):
    """Model and tokenizer with the tokens and rows of the settings."""
    if model.config.spec.reads_characters:
        return model, tokenizer
    if settings.add_tokens:
        tokenizer, never = opening.add_tokens(tokenizer, settings.add_tokens)
        if never:
            print(f"added, but no text becomes them: {wording.listing(never)}")
    entries = tokenizer.vocab_size if tokenizer else 0
    rows = conversion.count_rows(model.config, entries, settings.resize_embeddings)
    if added := rows - model.config.vocab_size:
        print(f"word embeddings: {added} rows added, for {entries} tokens now {rows}")
    return conversion.grow(model, rows), tokenizer


def compare_tokens(settings: ConversionSettings, config, tokenizer, directory):
    """Refuses files from which another tokenizer is opened than the one written."""
    files = dataclasses.replace(
        model_directory.locate(directory, needs_all=False),
        check_tokenizer=settings.check_tokenizer,
        check_case=False,
    )
    again = opening.open_tokenizer(files, config)
    before = tokenizer.definition(), tokenizer.settings()
    if (again.definition(), again.settings()) != before:
        raise errors.InputError(
            f"the tokenizer was not kept, {before[1]} became {again.settings()}; "
            "nothing is written"
        )


def read_again(directory, head):
    """The model in a directory that conversion.write_directory has written."""
    files = model_directory.locate(directory, needs_all=False)
    config = model_directory.read_config(files.config_file)
    opened = model_directory.ModelDirectory(files, config)
    return opened.read(head, is_converted=True).model  # sequences as its labels have it


def run(settings: ConversionSettings) -> None:
    """What convert_checkpoint.py does."""
    keras.utils.set_random_seed(0)  # of variables that the input lacks
    source, tokenizer, rules, of_run = prepare(settings)
    missing = source.report.missing
    print(source)
    model, tokenizer = grow(settings, source.model, tokenizer)
    with output_directory.complete(settings.output_dir, **rules) as directory:
        conversion.write_directory(
            directory,
            model,
            settings.to,
            tokenizer=tokenizer,
            left_out=missing,
            modules=source.modules,
            **label_maps.written(source.classes, of_run),
        )
        again = read_again(directory, source.head)
        largest = comparison.compare(source.model, again, missing)
        if tokenizer:
            compare_tokens(settings, model.config, tokenizer, directory)
    print(f"largest difference, before and after: weights 0, outputs {largest:g}")
    print(f"wrote {settings.output_dir} ({settings.to})")
