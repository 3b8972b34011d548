"""Learns a vocabulary from raw text: BERT's word pieces, or GPT-2's byte pairs.

google-research/bert never published its own; see docs/pretraining.md. Byte pairs are a
vocab.json and a merges.txt, as Hugging Face has them; see docs/left_to_right.md.

    python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt
"""

import dataclasses
import functools
import os
import tempfile

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS
WORD_PIECE, BYTE_PAIR = "word_piece", "byte_pair"
# Flags that say something of word pieces alone.
OF_WORD_PIECES = ("do_lower_case", "num_unused_tokens", "min_character_frequency")


def define_flags():
    with command_line.heading("Data"):
        flags.DEFINE_string(
            "input_file",
            None,
            "Text files, by comma; each may be a glob, or end in .gz.",
        )
    _define_vocabulary()
    _define_output()
    with command_line.heading("Processes"):
        text = "Processes; 0 for one a core. Results do not depend on it."
        flags.DEFINE_integer("num_workers", 0, text, lower_bound=0)
    flags.mark_flags_as_required(["input_file", "output_file"])


@command_line.heading("Model and vocabulary")
def _define_vocabulary():
    integer = flags.DEFINE_integer
    flags.DEFINE_enum(
        "kind",
        WORD_PIECE,
        [WORD_PIECE, BYTE_PAIR],
        "word_piece: BERT's. byte_pair: GPT-2's, which spells every text, cased and "
        "without losing anything, and ends in <|endoftext|>.",
    )
    integer("vocab_size", 30522, "Most entries that the vocabulary has.", lower_bound=6)
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text and take its accents away: True for uncased models, False "
        "for cased ones.",
    )
    integer(
        "num_unused_tokens",
        99,
        "Entries [unused0], [unused1], ... left free for tokens of one's own. With 99, "
        "[UNK], [CLS], [SEP] and [MASK] are 100 to 103, as in released vocabularies.",
        lower_bound=0,
    )
    integer(
        "min_character_frequency",
        1,
        "Characters that occur less often become [UNK], with the word they are in.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "base_config_file",
        None,
        "Such as configs/bert_tiny.json: the shape of the model to be trained.",
    )


@command_line.heading("Output")
def _define_output():
    flags.DEFINE_string(
        "output_file",
        None,
        "The vocabulary to write, one entry a line. Of byte pairs: a vocab.json, and "
        "merges.txt beside it.",
    )
    flags.DEFINE_string(
        "output_config_file",
        None,
        "Where --base_config_file goes with the size of this vocabulary as its "
        "vocab_size.",
    )


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # strings stay on the CPU
    command_line.parse(define_flags)

import joblib

from contract import atomic_files, file_names
from data_pipeline.corpus import (
    byte_pair_learning,
    byte_ranges,
    processes,
    word_counts,
    wordpiece_learning,
)
from data_pipeline.files import file_patterns
from data_pipeline.text import tokenization
from data_pipeline.text.byte_pairs import byte_pair_files
from modeling.checkpoints import pretrained
from terminal import progress
from training import errors


def base_config():
    if bool(FLAGS.base_config_file) != bool(FLAGS.output_config_file):
        raise ValueError(
            "--base_config_file and --output_config_file belong together: the config "
            "to start from, and where it goes with the size of this vocabulary"
        )
    if not FLAGS.base_config_file:
        return None
    if file_patterns.among([FLAGS.output_config_file], [FLAGS.output_file]):
        raise ValueError(
            f"--output_config_file={FLAGS.output_config_file} is --output_file, too; "
            "choose another name"
        )
    return pretrained.read_config(FLAGS.base_config_file)


def check_kind():
    """Refuses flags that do not belong to the kind of the vocabulary."""
    if FLAGS.kind == WORD_PIECE:
        return
    for name in OF_WORD_PIECES:
        if FLAGS[name].present:
            raise ValueError(
                f"--{name} belongs to --kind={WORD_PIECE}; leave it out with "
                f"--kind={FLAGS.kind}"
            )
    if not FLAGS.output_file.endswith(file_names.VOCAB_JSON):
        raise ValueError(
            f"--output_file={FLAGS.output_file}: the name of byte pairs ends in "
            f"{file_names.VOCAB_JSON}; choose another"
        )


def outputs():
    """The files to write: vocabulary, merges if there are some, config if asked for."""
    is_pairs = FLAGS.kind == BYTE_PAIR
    merges = byte_pair_files.merges_of(FLAGS.output_file) if is_pairs else ""
    return [f for f in (FLAGS.output_file, merges, FLAGS.output_config_file) if f]


def check_output(path, files):
    """Refuses a file that cannot be written, before hours of work for it."""
    if file_patterns.among([path], files):
        raise ValueError(
            f"{path} is to be written and is one of --input_file; choose another name"
        )
    atomic_files.check_writable(path)


def learn(executor, num_workers, files):
    """The tokenizer of the vocabulary that is learned, and what it is learned from."""
    is_word_piece = FLAGS.kind == WORD_PIECE
    split = (
        word_counts.Words(FLAGS.do_lower_case)
        if is_word_piece
        else word_counts.Pieces()
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        progress.Progress("counting: range") as report,
    ):
        plain = word_counts.plain_files(files, directory, executor)
        counts = word_counts.count(
            byte_ranges.Corpus.of(plain),
            executor,
            num_workers,
            split=split,
            report=report,
        )
    if counts.dropped_below:
        print(
            f"words seen less than {counts.dropped_below} times so far were dropped "
            f"while counting, to keep at most {word_counts.MAX_WORDS} in memory"
        )
    say = functools.partial(print, flush=True)
    if not is_word_piece:
        return byte_pair_learning.learn(counts, FLAGS.vocab_size, say), counts
    vocab = wordpiece_learning.learn(
        counts,
        FLAGS.vocab_size,
        num_unused_tokens=FLAGS.num_unused_tokens,
        min_character_frequency=FLAGS.min_character_frequency,
        report=say,
    )
    return tokenization.BertTokenizer(vocab, FLAGS.do_lower_case), counts


def write(tokenizer, config):
    size = tokenizer.vocab_size
    if size < FLAGS.vocab_size:
        print(
            f"the text gives only {size} entries, less than "
            f"--vocab_size={FLAGS.vocab_size}"
        )
    written = tokenizer.files()
    names = (
        (file_names.VOCAB,)
        if FLAGS.kind == WORD_PIECE
        else (file_names.VOCAB_JSON, file_names.MERGES_TXT)
    )
    texts = [written[name] for name in names]
    if config:
        texts.append(dataclasses.replace(config, vocab_size=size).to_json_string())
    for path, text in zip(outputs(), texts, strict=True):
        atomic_files.write_text(path, text)
        print(f"wrote {path}")


def main(_):
    command_line.quiet_libraries()
    num_workers = FLAGS.num_workers or joblib.cpu_count()
    with (
        errors.explained(),
        errors.of_input(),
        processes.start(num_workers) as executor,
    ):
        files = byte_ranges.find_files(FLAGS.input_file)
        check_kind()
        config = base_config()
        for path in outputs():
            check_output(path, files)
        tokenizer, counts = learn(executor, num_workers, files)
        write(tokenizer, config)
    spelled = wordpiece_learning.coverage(tokenizer, counts)
    print(f"  words = {counts.num_words}")
    print(f"  different_words = {len(counts.words)}")
    print(f"  entries = {tokenizer.vocab_size}")
    print(f"  whole_word_share = {spelled.whole_share:.5f}")
    print(f"  unknown_word_share = {spelled.unknown_share:.5f}")
    print(f"  pieces_per_word = {spelled.pieces_per_word:.4f}")


if __name__ == "__main__":
    command_line.run(main)
