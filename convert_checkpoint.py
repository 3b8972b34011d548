"""Converts weights between the files of the originals and Hugging Face's.

See docs/checkpoints.md.

    python convert_checkpoint.py --input=model --to=hugging_face --output_dir=converted
"""

import os

from absl import flags

from cli import command_line, model_flags
from contract import errors

FLAGS = flags.FLAGS
HEADS = (
    "auto",
    "none",
    "pretraining",
    "discriminator",
    "classifier",
    "tagger",
    "span",
    "language_model",
    "text_encoder",
    "seq2seq",
)


@command_line.heading("Model and vocabulary")
def define_flags() -> None:
    string, boolean, enum = flags.DEFINE_string, flags.DEFINE_bool, flags.DEFINE_enum
    string(
        "input",
        None,
        "Weights to convert: the directory of a release, of a run or of Hugging Face, "
        "the prefix of a checkpoint, or a .keras, .hdf5 or tf_model.h5 file.",
    )
    enum(
        "head",
        "auto",
        HEADS,
        "Head to convert; auto detects it from the names in the input. A classifier "
        "and a tagger have the same names: set tagger if no file beside the weights "
        "decides. For an encoder-decoder, none converts the encoder alone, to a BERT.",
    )
    string(
        "pretrained",
        None,
        "Directory or Hugging Face hub id of the config, the vocabulary and, without "
        "--input, the weights. By default the files beside --input are used.",
    )
    model_flags.define_config_and_vocabulary()
    boolean(
        "do_lower_case",
        True,
        "Lower-case the text and remove accents: true for uncased models, false for "
        "cased models. By default the files beside the weights decide, if they "
        "indicate the case.",
    )
    with command_line.heading("What to do"):
        text = "Format to write; hdf5 is for ELMo alone, without a head."
        formats = ["google", "hugging_face", "hdf5"]
        enum("to", None, formats, text)
        string(
            "add_tokens",
            None,
            "File with tokens to add to the vocabulary, one per line.",
        )
        text = (
            "Number of rows of the word embeddings; 0 for as many as the vocabulary "
            "needs."
        )
        flags.DEFINE_integer("resize_embeddings", 0, text, lower_bound=0)
    with command_line.heading("Output"):
        string("output_dir", None, "Output directory; it must be new or empty.")
        boolean("overwrite", False, "Replace an earlier conversion in --output_dir.")
    flags.mark_flags_as_required(["to", "output_dir"])


def check() -> None:
    """Raises ValueError where no input is named, or a local file is not there."""
    if not FLAGS.input and not FLAGS.pretrained:
        raise errors.InputError(
            "--input is missing; name a checkpoint or its directory"
        )
    command_line.check_files("input", remedy=model_flags.CHECKPOINT_REMEDY)
    command_line.check_files("bert_config_file", "vocab_file")


def check_network(network: str) -> None:
    """Refuses new tokens and rows for an ELMo."""
    if network == "elmo" and (FLAGS.add_tokens or FLAGS.resize_embeddings):
        raise errors.InputError(
            "--add_tokens and --resize_embeddings: an ELMo reads characters, or "
            "the words that it was trained on; leave them out"
        )


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # nothing here needs a GPU
    command_line.parse(define_flags, check)

import keras

from cli import networks
from contract import wording
from data_pipeline import label_maps
from data_pipeline.text import opening
from modeling.checkpoints import (
    comparison,
    conversion,
    output_directory,
    pretrained,
)
from training import model_directory


def open_tokenizer(files, config):
    """The tokenizer; None, and a line, without a vocabulary."""
    is_elmo = config.network == "elmo"
    if not files.vocab_file and not is_elmo:
        print("vocabulary: none found, so none is written; --vocab_file names one")
        return None
    return opening.open_tokenizer(files, config.to_dict() if is_elmo else {})


def prepare():
    """The checked input: Converted, tokenizer or None, rules of output_directory."""
    check()
    files = networks.with_flags(pretrained.look_beside(FLAGS.input, FLAGS.pretrained))
    if not files.config_file:
        raise errors.InputError(
            f"{files.init_checkpoint}: there is no config beside it, such as "
            f"{pretrained.CONFIG_FILES[0]}; give --bert_config_file"
        )
    rules = {
        "own_files": conversion.OWN_FILES,
        "overwrite": FLAGS.overwrite,
        "inputs": [files.init_checkpoint],
    }
    output_directory.check(FLAGS.output_dir, **rules)
    config = pretrained.read_config(files.config_file)
    written = conversion.select_config(config, FLAGS.head)
    conversion.check_target(written, FLAGS.to)
    opened = model_directory.ModelDirectory(files, config)
    if tokenizer := open_tokenizer(files, written):
        pretrained.check_sizes(written, tokenizer.vocab_size, files, 0, opened.weights)
    head = "none" if FLAGS.to == "hdf5" and FLAGS.head == "auto" else FLAGS.head
    return opened.read_stored(head), tokenizer, rules


def grow(model, tokenizer):
    """Model and tokenizer with the tokens and rows of the flags."""
    check_network(model.config.network)
    if model.config.network == "elmo":
        return model, tokenizer
    if FLAGS.add_tokens:
        if not tokenizer:
            raise errors.InputError("--add_tokens needs a vocabulary; set --vocab_file")
        tokenizer, never = opening.add_tokens(tokenizer, FLAGS.add_tokens)
        if never:
            print(f"added, but no text becomes them: {wording.listing(never)}")
    entries = tokenizer.vocab_size if tokenizer else 0
    rows = conversion.count_rows(model.config, entries, FLAGS.resize_embeddings)
    if added := rows - model.config.vocab_size:
        print(f"word embeddings: {added} rows added, for {entries} tokens now {rows}")
    return conversion.grow(model, rows), tokenizer


def compare_tokens(tokenizer, directory):
    """Refuses files from which another tokenizer is opened than the one written."""
    files = pretrained.look_in(directory)
    checks = {"check_tokenizer": FLAGS.check_tokenizer, "check_case": False}
    again = opening.open_tokenizer(files._replace(**checks))
    before = tokenizer.definition(), tokenizer.settings()
    if (again.definition(), again.settings()) != before:
        raise errors.InputError(
            f"the tokenizer was not kept, {before[1]} became {again.settings()}; "
            "nothing is written"
        )


def main(_):
    command_line.quiet_libraries()
    keras.utils.set_random_seed(0)  # of variables that the input lacks
    with errors.explained():
        source, tokenizer, rules = prepare()
        missing = source.report.missing
        print(source)
        model, tokenizer = grow(source.model, tokenizer)
        with output_directory.complete(FLAGS.output_dir, **rules) as directory:
            conversion.write_directory(
                directory,
                model,
                FLAGS.to,
                tokenizer=tokenizer,
                left_out=missing,
                modules=source.modules,
                **label_maps.written(source.classes),
            )
            again = conversion.read_again(directory, model, source.head)
            largest = comparison.compare(source.model, again, missing)
            if tokenizer:
                compare_tokens(tokenizer, directory)
    print(f"largest difference, before and after: weights 0, outputs {largest:g}")
    print(f"wrote {FLAGS.output_dir} ({FLAGS.to})")


if __name__ == "__main__":
    command_line.run(main)
