"""Converts weights between the files of the originals, Hugging Face's and Keras'.

See docs/checkpoints.md.

    python convert_checkpoint.py --input=model --to=keras --output_dir=converted
"""

import os

from absl import flags

from cli import command_line, model_flags

FLAGS = flags.FLAGS


@command_line.heading("Model and vocabulary")
def define_flags():
    string, boolean, enum = flags.DEFINE_string, flags.DEFINE_bool, flags.DEFINE_enum
    string(
        "input",
        None,
        "The weights: the directory of a release, of a run or of Hugging Face, the "
        "prefix of a checkpoint, or a .keras or .hdf5 file.",
    )
    enum(
        "head",
        "auto",
        [
            *("auto", "none", "pretraining", "classifier", "tagger", "span"),
            *("language_model", "seq2seq"),
        ],
        "Head to convert; auto finds it from the names in the input. A classifier and "
        "a tagger have the same names: say tagger, where nothing beside them does. Of "
        "an encoder-decoder none gives the encoder, as a BERT.",
    )
    string(
        "pretrained",
        None,
        "Directory, or id on Hugging Face's hub, of config and vocabulary, and without "
        "--input of the weights. By default they lie beside --input.",
    )
    model_flags.define_config_and_vocabulary()
    boolean(
        "do_lower_case",
        True,
        "Whether the model is uncased, where nothing beside the weights says it.",
    )
    with command_line.heading("What to do"):
        text = "The format to write; hdf5 is of ELMo alone, and holds no head."
        enum("to", None, ["google", "hugging_face", "keras", "hdf5"], text)
        enum("keras_file", "keras", ["keras", "weights"], ".keras or .weights.h5.")
        string("add_tokens", None, "File of tokens to add, one a line.")
        text = "Rows of the word embeddings; 0 for as many as the vocabulary needs."
        flags.DEFINE_integer("resize_embeddings", 0, text, lower_bound=0)
    with command_line.heading("Output"):
        string("output_dir", None, "Directory to write, new or empty.")
        boolean("overwrite", False, "Replace an earlier conversion in --output_dir.")
    flags.mark_flags_as_required(["to", "output_dir"])


def check():
    if not FLAGS.input and not FLAGS.pretrained:
        raise errors.InputError(
            "--input is missing; name a checkpoint or its directory"
        )
    command_line.check_files("input", remedy=model_flags.CHECKPOINT_REMEDY)
    command_line.check_files("bert_config_file", "vocab_file")


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # nothing here needs a GPU
    command_line.parse(define_flags, check)

import keras

from cli import opening
from contract import errors, file_names, wording
from data_pipeline import label_maps
from data_pipeline.text import added_tokens, tokenization, vocabulary_checks
from modeling import pretrainers
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    keras_files,
    output_directory,
    pretrained,
)

SEED = 0  # of what the input lacks and a Keras file must have


def find_files():
    """The input and what lies beside it; "" for a file that is absent."""
    check()
    path = checkpoint.find(FLAGS.input) if FLAGS.input else ""
    beside = path if os.path.isdir(path) else os.path.dirname(path) or "."
    found = pretrained.look_in(FLAGS.pretrained or beside)
    path = path or checkpoint.find(found.checkpoint)
    is_whole = path.endswith(keras_files.MODEL_ENDING)  # the config is in it
    config_file = FLAGS.bert_config_file or (path if is_whole else found.config_file)
    # It has the tokens that were added, which vocab.txt lacks.
    tokenizer_file = os.path.join(found.checkpoint, file_names.TOKENIZER)
    has_vocab_json = os.path.basename(found.vocab_file) in file_names.MERGES
    if has_vocab_json or not os.path.exists(tokenizer_file):
        tokenizer_file = found.vocab_file
    is_given = FLAGS["do_lower_case"].present
    lowers = FLAGS.do_lower_case if is_given else found.do_lower_case
    vocab_file = FLAGS.vocab_file or tokenizer_file
    return pretrained.Pretrained(config_file, vocab_file, path, lowers)


def read_config(files):
    if not files.config_file:
        raise errors.InputError(
            f"{files.checkpoint}: there is no {' or '.join(pretrained.CONFIG_FILES)} "
            "beside it; give --bert_config_file"
        )
    if files.config_file == files.checkpoint:
        return keras_files.stored_config(files.checkpoint)
    return pretrained.read_config(files.config_file)


def read_tokenizer(files, config):
    if config.network == "elmo" and (files.vocab_file or config.reads_characters):
        found = opening.files_in(files)._replace(split_words=FLAGS.split_words)
        tokenizer = vocabulary_checks.open_elmo(found, config.to_dict())
        pretrained.check_sizes(config, tokenizer.vocab_size, files, max_seq_length=0)
        return tokenizer
    if not files.vocab_file:
        print("vocabulary: none found, so none is written; --vocab_file names one")
        return None
    lowers = FLAGS.do_lower_case if files.do_lower_case is None else files.do_lower_case
    tokenizer = vocabulary_checks.open_vocabulary(
        files.vocab_file, lowers, FLAGS.gpt_tokenizer
    )
    pretrained.check_sizes(config, tokenizer.vocab_size, files, max_seq_length=0)
    if FLAGS.check_case and isinstance(tokenizer, tokenization.BertTokenizer):
        vocabulary_checks.check_case(tokenizer, files.vocab_file, files.checkpoint)
    return tokenizer


def find_classes(path, source):
    """What the classes are called, from label_map.json or the config; or None."""
    if source.head not in pretrainers.CLASS_HEADS:
        return None
    num_classes = source.model.num_classes
    if path:
        return label_maps.read(path, num_classes)
    told = hugging_face.labels_in(source.model.config, num_classes)
    return label_maps.told(source.head, *told)


def prepare():
    """The checked input: Converted, BertTokenizer or None, Classes or None."""
    files = find_files()
    output_directory.check(
        FLAGS.output_dir,
        own_files=conversion.OWN_FILES,
        overwrite=FLAGS.overwrite,
        inputs=[files.checkpoint],
    )
    config = read_config(files)
    written = conversion.config_read(config, FLAGS.head)
    conversion.check_target(written, FLAGS.to)
    tokenizer = read_tokenizer(files, written)
    label_map = label_maps.find(files.checkpoint)
    head = label_maps.head(label_map, FLAGS.head)
    if FLAGS.to == "hdf5" and FLAGS.head == "auto":
        head = "none"
    source = conversion.read(files.checkpoint, config, head)
    return source, tokenizer, find_classes(label_map, source)


def grow(model, tokenizer):
    """Model and tokenizer with the tokens and rows that flags ask for."""
    if model.config.network == "elmo":
        if FLAGS.add_tokens or FLAGS.resize_embeddings:
            raise errors.InputError(
                "--add_tokens and --resize_embeddings: an ELMo reads characters, or "
                "the words that it was trained on; leave them out"
            )
        return model, tokenizer
    if FLAGS.add_tokens:
        if not tokenizer:
            raise errors.InputError(
                "--add_tokens needs a vocabulary; give --vocab_file"
            )
        tokenizer, never = added_tokens.add(tokenizer, FLAGS.add_tokens)
        if never:
            print(f"added, but no text becomes them: {wording.listing(never)}")
    entries = tokenizer.vocab_size if tokenizer else 0
    rows = conversion.num_rows(model.config, entries, FLAGS.resize_embeddings)
    if added := rows - model.config.vocab_size:
        print(f"word embeddings: {added} rows added, for {entries} tokens now {rows}")
    return conversion.grow(model, rows), tokenizer


def write(directory, model, tokenizer, classes, missing):
    """Writes the weights, without what is missing in the input, and their files."""
    is_bare = FLAGS.to == "keras" and FLAGS.keras_file == "weights"
    conversion.write_directory(
        directory,
        model,
        keras_files.WEIGHTS_FILE if is_bare else FLAGS.to,
        tokenizer=tokenizer,
        labels=classes.names if classes else (),
        problem_type=getattr(classes, "problem_type", ""),  # tags have none
        files={file_names.LABEL_MAP: label_maps.text(classes)} if classes else {},
        left_out=missing,
    )


def main(_):
    command_line.quiet_libraries()
    keras.utils.set_random_seed(SEED)
    with errors.explained():
        source, tokenizer, classes = prepare()
        missing = source.report.missing
        print(source)
        if FLAGS.to == "keras" and missing:
            print("a Keras file holds what is missing, too: values drawn at random")
        model, tokenizer = grow(source.model, tokenizer)
        with output_directory.complete(FLAGS.output_dir) as directory:
            write(directory, model, tokenizer, classes, missing)
            again = conversion.read_again(directory, model, source.head)
            largest = conversion.compare(source.model, again, missing)
    print(f"largest difference, before and after: weights 0, outputs {largest:g}")
    print(f"wrote {FLAGS.output_dir} ({FLAGS.to})")


if __name__ == "__main__":
    command_line.run(main)
