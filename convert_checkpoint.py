"""Converts weights between the files of the originals, Hugging Face's and Keras'.

See docs/checkpoints.md.

    python convert_checkpoint.py --input=model --to=keras --output_dir=converted
"""

import os

from absl import flags

from cli import command_line, conversion_flags

FLAGS = flags.FLAGS


def define_flags():
    conversion_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # nothing here needs a GPU
    command_line.parse(define_flags, conversion_flags.check)

import keras

from contract import errors, wording
from data_pipeline import label_maps
from data_pipeline.text import opening, wordpiece
from modeling.checkpoints import (
    comparison,
    conversion,
    keras_files,
    output_directory,
    pretrained,
)
from training import loading


def find_files():
    """The input and the files beside it; flags go before these."""
    conversion_flags.check()
    files = pretrained.look_beside(FLAGS.input, FLAGS.pretrained)
    lowers = files.do_lower_case
    if FLAGS["do_lower_case"].present or lowers is None:
        lowers = FLAGS.do_lower_case
    if not (config_file := FLAGS.bert_config_file or files.config_file):
        raise errors.InputError(
            f"{files.init_checkpoint}: there is no config beside it, such as "
            f"{pretrained.CONFIG_FILES[0]}; give --bert_config_file"
        )
    return files._replace(
        config_file=config_file,
        vocab_file=FLAGS.vocab_file or files.vocab_file,
        do_lower_case=lowers,
        split_words=FLAGS.split_words,
    )


def read_tokenizer(files, config):
    is_elmo = config.network == "elmo"
    if not files.vocab_file and not is_elmo:
        print("vocabulary: none found, so none is written; --vocab_file names one")
        return None
    if is_elmo:
        tokenizer = opening.open_elmo(files, config.to_dict())
    else:
        tokenizer = opening.open_vocabulary(
            files.vocab_file,
            files.do_lower_case,
            files.split_words,
            checks=FLAGS.check_tokenizer,
        )
    pretrained.check_sizes(config, tokenizer.vocab_size, files, 0)
    if FLAGS.check_case and isinstance(tokenizer, wordpiece.BertTokenizer):
        opening.check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    return tokenizer


def prepare():
    """The checked input: Converted, tokenizer or None, Classes or None."""
    files = find_files()
    output_directory.check(
        FLAGS.output_dir,
        own_files=conversion.OWN_FILES,
        overwrite=FLAGS.overwrite,
        inputs=[files.init_checkpoint],
    )
    config = pretrained.read_config(files.config_file)
    written = conversion.select_config(config, FLAGS.head)
    conversion.check_target(written, FLAGS.to)
    tokenizer = read_tokenizer(files, written)
    head = "none" if FLAGS.to == "hdf5" and FLAGS.head == "auto" else FLAGS.head
    source, classes = loading.read_stored_head(files.init_checkpoint, config, head)
    return source, tokenizer, classes


def grow(model, tokenizer):
    """Model and tokenizer with the tokens and rows of the flags."""
    conversion_flags.check_network(model.config.network)
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
        source, tokenizer, classes = prepare()
        missing = source.report.missing
        print(source)
        if FLAGS.to == "keras" and missing:
            print("a Keras file holds what is missing, too: values drawn at random")
        model, tokenizer = grow(source.model, tokenizer)
        is_bare = FLAGS.to == "keras" and FLAGS.keras_file == "weights"
        with output_directory.complete(FLAGS.output_dir) as directory:
            conversion.write_directory(
                directory,
                model,
                keras_files.WEIGHTS_FILE if is_bare else FLAGS.to,
                tokenizer=tokenizer,
                left_out=missing,
                modules=source.modules,
                **label_maps.written(classes),
            )
            again = conversion.read_again(directory, model, source.head)
            largest = comparison.compare(source.model, again, missing)
            if tokenizer:
                compare_tokens(tokenizer, directory)
    print(f"largest difference, before and after: weights 0, outputs {largest:g}")
    print(f"wrote {FLAGS.output_dir} ({FLAGS.to})")


if __name__ == "__main__":
    command_line.run(main)
