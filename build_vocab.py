"""Learns a WordPiece vocabulary from raw text, for pretraining in any language.

google-research/bert never published its own; see docs/pretraining.md.

    python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt
"""

import dataclasses
import os
import tempfile

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS


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
        flags.DEFINE_integer(
            "num_workers",
            0,
            "Processes; 0 for one a core. Results do not depend on it.",
            lower_bound=0,
        )
    flags.mark_flags_as_required(["input_file", "output_file"])


@command_line.heading("Model and vocabulary")
def _define_vocabulary():
    integer = flags.DEFINE_integer
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
        "output_file", None, "The vocabulary to write, one entry a line."
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

from contract import atomic_files
from data_pipeline.corpus import byte_ranges, processes, word_counts, wordpiece_learning
from data_pipeline.files import file_patterns
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


def check_output(path, files):
    """Refuses a file that cannot be written, before hours of work for it."""
    if file_patterns.among([path], files):
        raise ValueError(
            f"{path} is to be written and is one of --input_file; choose another name"
        )
    atomic_files.check_writable(path)


def learn(executor, num_workers, files):
    with (
        tempfile.TemporaryDirectory() as directory,
        progress.Progress("counting: range") as report,
    ):
        plain = word_counts.plain_files(files, directory, executor)
        counts = word_counts.count(
            byte_ranges.Corpus.of(plain),
            executor,
            num_workers,
            do_lower_case=FLAGS.do_lower_case,
            report=report,
        )
    if counts.dropped_below:
        print(
            f"words seen less than {counts.dropped_below} times so far were dropped "
            f"while counting, to keep at most {word_counts.MAX_WORDS} in memory"
        )
    vocab = wordpiece_learning.learn(
        counts,
        FLAGS.vocab_size,
        num_unused_tokens=FLAGS.num_unused_tokens,
        min_character_frequency=FLAGS.min_character_frequency,
        report=lambda line: print(line, flush=True),
    )
    return vocab, counts


def write(vocab, config):
    if len(vocab) < FLAGS.vocab_size:
        print(
            f"the text gives only {len(vocab)} entries, less than "
            f"--vocab_size={FLAGS.vocab_size}"
        )
    atomic_files.write_text(FLAGS.output_file, "".join(f"{v}\n" for v in vocab))
    print(f"wrote {FLAGS.output_file}")
    if config:
        config = dataclasses.replace(config, vocab_size=len(vocab))
        atomic_files.write_text(FLAGS.output_config_file, config.to_json_string())
        print(f"wrote {FLAGS.output_config_file}")


def main(_):
    command_line.quiet_libraries()
    num_workers = FLAGS.num_workers or joblib.cpu_count()
    with (
        errors.explained(),
        errors.of_input(),
        processes.start(num_workers) as executor,
    ):
        files = byte_ranges.find_files(FLAGS.input_file)
        config = base_config()
        for path in filter(None, (FLAGS.output_file, FLAGS.output_config_file)):
            check_output(path, files)
        vocab, counts = learn(executor, num_workers, files)
        write(vocab, config)
    spelled = wordpiece_learning.coverage(vocab, counts, FLAGS.do_lower_case)
    print(f"  words = {counts.num_words}")
    print(f"  different_words = {len(counts.words)}")
    print(f"  entries = {len(vocab)}")
    print(f"  whole_word_share = {spelled.whole_share:.5f}")
    print(f"  unknown_word_share = {spelled.unknown_share:.5f}")
    print(f"  pieces_per_word = {spelled.pieces_per_word:.4f}")


if __name__ == "__main__":
    command_line.run(main)
