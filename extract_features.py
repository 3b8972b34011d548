r"""Computes the vectors of tokens of texts, or of texts, in the layers of a network.

Takes every flag of google-research/bert's extract_features.py; docs/embeddings.md
describes those that are new.

    python extract_features.py --pretrained=DIR \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

import functools
import time

from absl import flags

from cli import command_line, extraction_flags

FLAGS = flags.FLAGS


def define_flags():
    extraction_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, extraction_flags.check)

from cli import device_setup, extraction_task, networks
from contract import atomic_files, errors, wording
from data_pipeline import engines, shards
from data_pipeline.tables import file_patterns
from terminal import progress


def prepare():
    """Opens the network and checks it against the flags and devices."""
    extraction_flags.check()
    strategy = device_setup.set_up(one_host=True)
    opened = networks.open_for_task(
        FLAGS.max_seq_length, needs_weights=True, for_tasks=False
    )
    settings = extraction_task.settings_of_flags(opened, strategy)
    if file_patterns.among([FLAGS.output_file], [FLAGS.input_file]):
        raise errors.InputError(
            f"--output_file={FLAGS.output_file} is --input_file and would be "
            "overwritten; choose another name"
        )
    return opened, settings, strategy


def extract(opened, settings, strategy):
    """Writes the vectors of all lines into one file."""
    lines = extraction_task.text_lines(settings, opened)
    size = lines.measure()
    atomic_files.check_writable(FLAGS.output_file)
    count = wording.count(size.num_lines, "line")
    print(
        f"input: {count} from {FLAGS.input_file}, "
        f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
        f"{size.num_truncated} cut to {FLAGS.max_seq_length}"
        + opened.tokenizer.describe_unknown(FLAGS.input_file, size.unknown),
        flush=True,
    )
    extractor = extraction_task.Extractor(opened, settings, strategy)
    started = time.monotonic()
    with progress.Progress("extracting: token") as report:
        report(0, size.num_tokens, lines=0)
        report_tokens = functools.partial(report, total=size.num_tokens)
        extractor.write(FLAGS.output_file, lines, size, report_tokens)
    seconds = time.monotonic() - started
    print(f"features: {FLAGS.output_file}, {count} in {seconds:.1f} s")


def extract_shards(opened, settings, strategy):
    """Writes a file for each shard that is not there yet."""
    each = engines.open_beam(FLAGS.beam_option) if FLAGS.engine == "beam" else None
    extraction_task.text_lines(settings, opened).check()
    rule = extraction_task.rule(settings, opened.tokenizer)
    job = shards.begin(FLAGS.input_file, FLAGS.output_file, FLAGS.lines_per_shard, rule)
    worker = settings
    if job.waiting and not each:
        worker = extraction_task.Extractor(opened, settings, strategy)
    job.run(extraction_task.write_shard, worker, "extracting", each)
    print(f"features: {job.pattern}")


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        write = extract_shards if FLAGS.lines_per_shard else extract
        write(*prepare())


if __name__ == "__main__":
    command_line.run(main, unwinds=True)
