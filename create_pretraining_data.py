r"""Makes TFRecords for pretraining from raw text: masked words, or left to right.

Takes every flag of google-research/bert's create_pretraining_data.py; see
docs/pretraining.md for those that are new.

    python create_pretraining_data.py --input_file='corpus/*.txt' \
        --output_file=records.tfrecord --vocab_file=vocab.txt
"""

import functools
import time

from absl import flags

from cli import command_line, model_flags, pretraining_flags

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
        model_flags.define_gpt_tokenizer()
    pretraining_flags.define_creation()
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
    command_line.parse(define_flags, pretraining_flags.check_creation)

import joblib
from absl import logging

from contract import atomic_files, errors, wording
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import runners, tasks
from data_pipeline.tables import file_patterns
from data_pipeline.text import opening, wordpiece
from data_pipeline.vocabularies import byte_ranges, processes
from terminal import progress

LOGGED_EXAMPLES = 20  # as many as the original logs
MOST_TOKENS = 1 << 20  # of a record


def output_files(inputs):
    """The files that --output_file and --num_shards stand for; none is an input."""
    names = [name.strip() for name in FLAGS.output_file.split(",") if name.strip()]
    count = FLAGS.num_shards
    if count > 1:
        names = [f"{n}-{i:05}-of-{count:05}" for n in names for i in range(count)]
    if len(set(names)) != len(names) or not names:
        raise errors.InputError(
            f"--output_file={FLAGS.output_file} names no file, or one file twice"
        )
    if both := file_patterns.among(names, inputs):
        raise errors.InputError(
            f"--output_file={both[0]} is one of --input_file and would be overwritten; "
            "choose another name"
        )
    for name in names:
        atomic_files.check_writable(name)
    return tuple(names)


def prepare():
    pretraining_flags.check_creation()
    if FLAGS.max_seq_length > MOST_TOKENS:
        raise errors.InputError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds {MOST_TOKENS}, more "
            "tokens than any network reads at once; records are padded to it: give the "
            "max_position_embeddings of bert_config.json, or less"
        )
    files = byte_ranges.find_files(FLAGS.input_file)
    tokenizer = opening.open_vocabulary(*vocabulary())
    if FLAGS.objective == metadata.MASKED_LM:
        masking.MaskingVocab.from_tokenizer(tokenizer)
    if FLAGS.check_case and isinstance(tokenizer, wordpiece.BertTokenizer):
        opening.check_case(tokenizer, FLAGS.vocab_file, "")
    settings = metadata.Metadata(
        **pretraining_flags.creation_rule(),
        max_seq_length=FLAGS.max_seq_length,
        do_lower_case=tokenizer.do_lower_case,
        vocab_size=tokenizer.vocab_size,
        vocab_digest=metadata.vocab_digest(tokenizer.definition()),
        random_seed=FLAGS.random_seed,
    )
    if settings.max_predictions_per_seq:
        warn_of_few_predictions()
    return creation_job.Job(
        input_files=tuple(files),
        output_files=output_files(files),
        vocab_file=FLAGS.vocab_file,
        settings=settings,
        gpt_tokenizer=FLAGS.gpt_tokenizer,
    )


def vocabulary():
    """What a tokenizer is opened with."""
    return FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.gpt_tokenizer


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
    warm_up = functools.partial(creation_job.load_tokenizer, *vocabulary())
    with errors.explained(), processes.start(local, warm_up) as executor:
        job = prepare()
        print(
            f"reading {wording.count(len(job.input_files), 'file')}, writing "
            f"{len(job.output_files)}; "
            f"workers: {count if FLAGS.engine == 'local' else 'those of Beam'}",
            flush=True,
        )
        if FLAGS.engine == "beam":
            done = runners.run_beam(job, FLAGS.beam_option)
        else:
            with progress.Progress("writing: task") as report:
                done = runners.run_local(job, executor, local, report)
    seconds = time.monotonic() - started
    for name, number in done.items():
        print(f"  {name} = {number}")
    print(f"  seconds = {seconds:.2f}")
    if logging.level_info():
        for line in tasks.describe(job, LOGGED_EXAMPLES):
            logging.info("%s", line)
    for path in job.output_files:
        print(f"wrote {path}")


if __name__ == "__main__":
    command_line.run(main)
