"""Records for pretraining, of raw text."""

import functools
import time

from absl import logging

from contract import atomic_files, cores, errors, wording
from data_pipeline import engines
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import runners, sentence_pairs, summary, tasks
from data_pipeline.tables import file_patterns
from data_pipeline.text import opening, wordpiece
from data_pipeline.vocabularies import byte_ranges
from tasks.settings.creation import CreationSettings
from terminal import progress

LOGGED_EXAMPLES = 20  # as many as the original logs


def output_files(settings: CreationSettings, inputs):
    """The files that --output_file and --num_shards stand for; none is an input."""
    names = [name.strip() for name in settings.output_file.split(",") if name.strip()]
    count = settings.num_shards
    if count > 1:
        names = [f"{n}-{i:05}-of-{count:05}" for n in names for i in range(count)]
    if len(set(names)) != len(names) or not names:
        raise errors.InputError(
            f"--output_file={settings.output_file} names no file, or one file twice"
        )
    if both := file_patterns.among(names, inputs):
        raise errors.InputError(
            f"--output_file={both[0]} is one of --input_file and would be overwritten; "
            "choose another name"
        )
    for name in names:
        atomic_files.check_writable(name)
    return tuple(names)


def prepare(settings: CreationSettings):
    """The checked input as a job."""
    files = byte_ranges.find_files(settings.input_file)
    tokenizer = opening.open_vocabulary(
        *vocabulary(settings), checks=settings.check_tokenizer
    )
    if settings.objective == metadata.MASKED_LM:
        masking.MaskingVocab.from_tokenizer(tokenizer)
    if settings.check_case and isinstance(tokenizer, wordpiece.BertTokenizer):
        opening.check_case(tokenizer, settings.vocab_file, "")
    recorded = metadata.Metadata(
        **settings.rule(),
        max_seq_length=settings.max_seq_length,
        do_lower_case=tokenizer.do_lower_case,
        vocab_size=tokenizer.vocab_size,
        vocab_digest=metadata.vocab_digest(tokenizer.definition()),
        random_seed=settings.random_seed,
    )
    settings.warn_of_few_predictions()
    sentence_pairs.check_words(files[0], tokenizer, recorded)
    return creation_job.Job(
        input_files=tuple(files),
        output_files=output_files(settings, files),
        vocab_file=settings.vocab_file,
        settings=recorded,
        split_words=settings.split_words,
        refuses_unknown=settings.check_tokenizer,
    )


def vocabulary(settings: CreationSettings):
    """The arguments that open the tokenizer."""
    return settings.vocab_file, settings.do_lower_case, settings.split_words


def run(settings: CreationSettings) -> None:
    """What create_pretraining_data.py does."""
    started = time.monotonic()
    count = settings.num_workers or cores.usable()
    local = 1 if settings.engine == "beam" else count
    warm_up = functools.partial(creation_job.load_tokenizer, *vocabulary(settings))
    with engines.start_workers(local, warm_up) as executor:
        job = prepare(settings)
        print(
            f"reading {wording.count(len(job.input_files), 'file')}, writing "
            f"{len(job.output_files)}; "
            f"workers: {count if settings.engine == 'local' else 'those of Beam'}",
            flush=True,
        )
        if settings.engine == "beam":
            done = runners.run_beam(job, settings.beam_option)
        else:
            with progress.Progress("writing: task") as report:
                done = runners.run_local(job, executor, local, report)
    seconds = time.monotonic() - started
    if not done:
        creation_job.end(job)  # what this command still wrote into the work directory
        print("another command has written the same records meanwhile")
        return
    for line in summary.describe(job, done):
        print(f"  {line}")
    print(f"  seconds = {seconds:.2f}")
    for line in summary.warnings(job, done):
        logging.warning("%s", line)
    if logging.level_info():
        for line in tasks.describe(job, LOGGED_EXAMPLES):
            logging.info("%s", line)
    for path in job.output_files:
        print(f"wrote {path}")
