r"""Makes TFRecords for masked-LM and next-sentence pretraining from raw text.

Takes every flag of google-research/bert's create_pretraining_data.py; see
docs/pretraining.md for those that are new.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=records.tfrecord --vocab_file=vocab.txt
"""

import functools
import time

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS


def define_flags():
    _define_files()
    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string(
            "vocab_file", None, "The vocabulary file that the model is trained on."
        )
        flags.DEFINE_bool(
            "do_lower_case", True, "True for uncased models, False for cased."
        )
        flags.DEFINE_bool(
            "check_case", True, "Refuse a vocabulary that contradicts --do_lower_case."
        )
    _define_records()
    _define_processes()
    flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


def _define_files():
    string = flags.DEFINE_string
    with command_line.heading("Data"):
        string(
            "input_file",
            None,
            "Text files, by comma; each may be a glob, or end in .gz.",
        )
    with command_line.heading("Output"):
        string(
            "output_file", None, "TFRecord files, by comma; instances are dealt out."
        )
        flags.DEFINE_integer(
            "num_shards",
            1,
            "Files that each --output_file is split into.",
            lower_bound=1,
        )


@command_line.heading("Records")
def _define_records():
    integer, real = flags.DEFINE_integer, command_line.define_float
    integer("max_seq_length", 128, "Maximum sequence length, in tokens.", lower_bound=5)
    integer(
        "max_predictions_per_seq", 20, "Most masked tokens a sequence.", lower_bound=1
    )
    real("masked_lm_prob", 0.15, "Masked share of the tokens.", 0.0, 1.0)
    real("short_seq_prob", 0.1, "Share of shorter sequences.", 0.0, 1.0)
    flags.DEFINE_enum(
        "masking",
        "word_piece",
        ["word_piece", "whole_word", "span", "ngram", "none"],
        "What is masked at once: a word piece, a whole word, a span of up to 10 words "
        "(SpanBERT), an n-gram of up to 3 (ALBERT); none leaves it to training.",
    )
    flags.DEFINE_bool("do_whole_word_mask", False, "The same as --masking=whole_word.")
    flags.DEFINE_enum(
        "sentence_task",
        "next",
        ["next", "order", "none"],
        "Whether B is the next segment or a random one, whether two segments are "
        "swapped (ALBERT), or no second task (RoBERTa).",
    )
    integer(
        "dupe_factor",
        10,
        "Times the text is used, each time with other pairs and masks; 1 by default "
        "with --masking=none.",
        lower_bound=1,
    )
    integer("random_seed", 12345, "Decides everything that is drawn.")


@command_line.heading("Processes")
def _define_processes():
    flags.DEFINE_integer(
        "num_workers",
        0,
        "Processes; 0 for one a core. Records do not depend on it.",
        lower_bound=0,
    )
    flags.DEFINE_enum(
        "engine", "local", ["local", "beam"], "This machine, or Apache Beam's runners."
    )
    flags.DEFINE_multi_string("beam_option", [], "Such as --runner=DataflowRunner.")


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import joblib
from absl import logging

from contract import atomic_files
from data_pipeline.corpus import byte_ranges, processes
from data_pipeline.creation import (
    creation_job,
    creation_runners,
    creation_tasks,
)
from data_pipeline.files import file_patterns
from data_pipeline.pretraining import masking, record_metadata
from data_pipeline.text import tokenization, vocabulary_checks
from terminal import progress
from training import errors

LOGGED_EXAMPLES = 20  # as many as the original logs


def output_files(inputs):
    """The files that --output_file and --num_shards stand for; none is an input."""
    names = [name.strip() for name in FLAGS.output_file.split(",") if name.strip()]
    count = FLAGS.num_shards
    if count > 1:
        names = [f"{n}-{i:05}-of-{count:05}" for n in names for i in range(count)]
    if len(set(names)) != len(names) or not names:
        raise ValueError(
            f"--output_file={FLAGS.output_file} names no file, or one file twice"
        )
    if both := file_patterns.among(names, inputs):
        raise ValueError(
            f"--output_file={both[0]} is one of --input_file and would be overwritten; "
            "choose another name"
        )
    for name in names:
        atomic_files.check_writable(name)
    return tuple(names)


def masking_kind():
    if not FLAGS.do_whole_word_mask:
        return FLAGS.masking
    if FLAGS["masking"].present and FLAGS.masking != "whole_word":
        raise ValueError(
            f"--do_whole_word_mask and --masking={FLAGS.masking} contradict each "
            "other; leave one of them out"
        )
    return "whole_word"


def prepare():
    kind = masking_kind()
    is_masked = kind != record_metadata.UNMASKED
    uses_once = not is_masked and not FLAGS["dupe_factor"].present
    files = byte_ranges.find_files(FLAGS.input_file)
    tokenizer = tokenization.BertTokenizer.from_file(
        FLAGS.vocab_file, FLAGS.do_lower_case
    )
    masking.pieces_of(tokenizer)
    if FLAGS.check_case:
        vocabulary_checks.check_case(tokenizer, FLAGS.vocab_file, "")
    if is_masked:
        warn_of_few_predictions()
    settings = record_metadata.Metadata(
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq if is_masked else 0,
        masking=kind,
        masked_lm_prob=FLAGS.masked_lm_prob if is_masked else 0.0,
        sentence_task=FLAGS.sentence_task,
        do_lower_case=FLAGS.do_lower_case,
        vocab_size=tokenizer.vocab_size,
        vocab_digest=record_metadata.vocab_digest(tokenizer.definition()),
        dupe_factor=1 if uses_once else FLAGS.dupe_factor,
        short_seq_prob=FLAGS.short_seq_prob,
        random_seed=FLAGS.random_seed,
    )
    return creation_job.Job(
        input_files=tuple(files),
        output_files=output_files(files),
        vocab_file=FLAGS.vocab_file,
        settings=settings,
    )


def warn_of_few_predictions():
    wanted = round(FLAGS.max_seq_length * FLAGS.masked_lm_prob)
    if wanted > FLAGS.max_predictions_per_seq:
        logging.warning(
            "--max_predictions_per_seq=%d is less than --max_seq_length=%d times "
            "--masked_lm_prob=%s, so full sequences have fewer masked tokens than "
            "that; %d would be enough",
            FLAGS.max_predictions_per_seq,
            FLAGS.max_seq_length,
            FLAGS.masked_lm_prob,
            wanted,
        )


def main(_):
    command_line.quiet_libraries()
    started = time.monotonic()
    count = FLAGS.num_workers or joblib.cpu_count()
    local = 1 if FLAGS.engine == "beam" else count
    warm_up = functools.partial(
        creation_job.load_tokenizer, FLAGS.vocab_file, FLAGS.do_lower_case
    )
    with (
        errors.explained(),
        errors.of_input(),
        processes.start(local, warm_up) as executor,
    ):
        job = prepare()
        print(
            f"reading {len(job.input_files)} files, writing {len(job.output_files)}; "
            f"workers: {count if FLAGS.engine == 'local' else 'those of Beam'}",
            flush=True,
        )
        if FLAGS.engine == "beam":
            done = creation_runners.run_beam(job, FLAGS.beam_option)
        else:
            with progress.Progress("writing: task") as report:
                done = creation_runners.run_local(job, executor, local, report)
    seconds = time.monotonic() - started
    for name, number in done.items():
        print(f"  {name} = {number}")
    print(f"  seconds = {seconds:.2f}")
    if logging.level_info():
        for line in creation_tasks.describe(job, LOGGED_EXAMPLES):
            logging.info("%s", line)
    for path in job.output_files:
        print(f"wrote {path}")


if __name__ == "__main__":
    command_line.run(main)
