"""Learns a vocabulary from text: BERT's word pieces, GPT-2's byte pairs, ELMo's words.

google-research/bert never published its own; see docs/pretraining_data.md. Byte pairs
are a vocab.json and a merges.txt, as in Hugging Face; see docs/left_to_right.md. Words
are those that an ELMo learns to predict; see docs/elmo.md.

    python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt
"""

import functools
import json
import os

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


def define_flags() -> None:
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


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # strings stay on the CPU
    command_line.parse(define_flags, lambda: command_line.check_files("input_file"))

from absl import logging

from contract import atomic_files, cores, errors, json_files, remote_files
from data_pipeline import engines
from data_pipeline.tables import file_patterns
from data_pipeline.text import byte_pairs, elmo, normalization, wordpiece
from data_pipeline.vocabularies import (
    byte_ranges,
    learn_bpe,
    learn_wordpiece,
    word_counts,
)
from modeling.checkpoints import pretrained
from terminal import progress

MAX_LONG_SHARE = 0.05  # of words, before a warning


def base_config():
    if not FLAGS.base_config_file:
        return None
    config = pretrained.read_config(FLAGS.base_config_file)
    if config.network == "encoder_decoder" and FLAGS.kind != WORD_PIECE:
        raise errors.InputError(
            f"--base_config_file={FLAGS.base_config_file} is of an {config.kind}, whose"
            f" texts stand between [CLS] and [SEP]; set --kind={WORD_PIECE}"
        )
    return config


def outputs():
    """{what a tokenizer calls it: path} of the files to write; "" is the config."""
    path = FLAGS.output_file
    paths = {file_names.VOCAB: path}
    if FLAGS.kind == BYTE_PAIR:
        paths = {file_names.VOCAB_JSON: path}
        paths[file_names.MERGES_TXT] = byte_pairs.merges_of(path)
    elif FLAGS.kind == WORD:
        name = file_names.TOKENIZER_CONFIG
        paths[name] = os.path.join(os.path.dirname(path), name)
    return paths | ({"": FLAGS.output_config_file} if FLAGS.output_config_file else {})


def check_outputs(files):
    """Refuses a file that cannot or must not be written, before hours of work."""
    paths = outputs()
    for name, path in paths.items():
        for others, what in (
            (files, "one of --input_file"),
            ([paths[n] for n in paths if n != name], "--output_file or beside it, too"),
        ):
            if file_patterns.among([path], others):
                raise errors.InputError(
                    f"{path} is to be written and is {what}; choose another name"
                )
        atomic_files.check_writable(path)
    path = paths.get(file_names.TOKENIZER_CONFIG)  # which no flag names
    if path and remote_files.exists(path):
        ours, key = elmo.ElmoTokenizer().settings(), file_names.SPLIT_WORDS
        if {**json_files.read_object(path), key: ours[key]} != ours:
            raise errors.InputError(
                f"{path} is of another tokenizer, and --kind={WORD} writes its own "
                "beside --output_file; choose another directory"
            )


def learn(executor, num_workers, files):
    """The tokenizer of the vocabulary that is learned, and what it is learned from."""
    split = {
        WORD_PIECE: word_counts.Words(FLAGS.do_lower_case),
        BYTE_PAIR: word_counts.Pieces(),
        WORD: word_counts.Spaced(FLAGS.split_words or normalization.WHITESPACE),
    }[FLAGS.kind]
    with progress.Progress("counting: range") as report:
        counts = word_counts.count_files(
            files, executor, num_workers, split=split, report=report
        )
    if line := byte_ranges.check_lines(
        files, counts.num_lines, counts.num_invalid_lines
    ):
        logging.warning("%s", line)
    if counts.dropped_below:
        print(
            f"words seen less than {counts.dropped_below} times so far were dropped "
            f"while counting, to keep at most {word_counts.MAX_WORDS} in memory"
        )
    size, say = FLAGS.vocab_size, functools.partial(print, flush=True)
    if isinstance(split, word_counts.Spaced):
        return word_counts.learn_words(counts, size, split.split_words), counts
    if FLAGS.kind == BYTE_PAIR:
        return learn_bpe.learn(counts, size, say), counts
    vocab = learn_wordpiece.learn(
        counts,
        FLAGS.vocab_size,
        num_unused_tokens=FLAGS.num_unused_tokens,
        min_character_frequency=FLAGS.min_character_frequency,
        report=say,
    )
    return wordpiece.BertTokenizer(vocab, FLAGS.do_lower_case), counts


def write(tokenizer, config):
    if (size := len(tokenizer.vocab)) < FLAGS.vocab_size:
        print(
            f"the text gives only {size} entries, less than "
            f"--vocab_size={FLAGS.vocab_size}"
        )
    texts = tokenizer.files()
    if config:
        config = config.with_vocabulary(tokenizer.vocab)
        name, text = os.path.basename(FLAGS.output_config_file), config.to_json_string()
        if config.network == "bert" and name == file_names.HUGGING_FACE_CONFIG:
            # Under this name activations have the library's names.
            text = json.dumps(config.to_hugging_face(), indent=2, sort_keys=True) + "\n"
        texts[""] = text
    paths = outputs()
    atomic_files.write({path: [texts[name]] for name, path in paths.items()})
    for path in paths.values():
        print(f"wrote {path}")


def main(_):
    command_line.quiet_libraries()
    num_workers = FLAGS.num_workers or cores.usable()
    with errors.explained(), engines.start_workers(num_workers) as executor:
        files = byte_ranges.find_files(FLAGS.input_file)
        check_kind()
        config = base_config()
        check_outputs(files)
        tokenizer, counts = learn(executor, num_workers, files)
        write(tokenizer, config)
    spelled = learn_wordpiece.coverage(tokenizer, counts)
    print(f"  words = {counts.num_words + counts.num_too_long}")
    print(f"  different_words = {len(counts.words)}")
    print(f"  entries = {len(tokenizer.vocab)}")
    print(f"  whole_word_share = {spelled.whole_share:.5f}")
    print(f"  unknown_word_share = {spelled.unknown_share:.5f}")
    print(f"  pieces_per_word = {spelled.pieces_per_word:.4f}")
    if counts.num_too_long > MAX_LONG_SHARE * counts.num_words:
        logging.warning(
            "%d words have more than %d characters, and become [UNK]; separate the "
            "words of the text by spaces",
            counts.num_too_long,
            normalization.MAX_WORD_CHARS,
        )


if __name__ == "__main__":
    command_line.run(main)
