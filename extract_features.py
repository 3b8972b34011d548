r"""Computes the vectors of tokens of texts, or of texts, in the layers of a network.

Takes every flag of google-research/bert's extract_features.py; docs/embeddings.md
describes those that are new.

    python extract_features.py --pretrained=models/minilm \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

import time

from absl import flags

from cli import command_line, extraction_flags

FLAGS = flags.FLAGS


def define_flags():
    extraction_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, extraction_flags.check)

import tensorflow as tf

from cli import device_setup, extraction_task, networks
from contract import atomic_files, errors, wording
from data_pipeline import engines, shards
from data_pipeline.tables import file_patterns
from terminal import progress


def prepare():
    """Opens the network and checks it against the flags and devices."""
    extraction_flags.check()
    strategy = device_setup.set_up(one_host=True)
    if FLAGS.carry_states:
        strategy = tf.distribute.get_strategy()  # on one device, line after line
    opened = networks.open_for_task(
        FLAGS.max_seq_length, needs_weights=True, for_tasks=False
    )
    extraction_flags.check_network(opened.config)
    settings = extraction_task.settings_of_flags(opened, strategy)
    if file_patterns.among([FLAGS.output_file], [FLAGS.input_file]):
        raise errors.InputError(
            f"--output_file={FLAGS.output_file} is --input_file and would be "
            "overwritten; choose another name"
        )
    return opened, settings, strategy


def open_extractor(*arguments):
    extractor = extraction_task.Extractor(*arguments)
    print(f"weights: {extractor.report}")
    return extractor


def extract(opened, settings, strategy):
    """Writes one file; returns what it is, and a function that begins the work."""
    lines = extraction_task.text_lines(settings, opened.tokenizer)
    size = lines.measure()
    atomic_files.check_writable(FLAGS.output_file)
    count = wording.count(size.num_lines, "line")
    print(
        f"input: {count} from {FLAGS.input_file}, "
        f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
        f"{size.num_truncated} cut to {FLAGS.max_seq_length}",
        flush=True,
    )
    extractor = open_extractor(opened, settings, strategy)
    started = time.monotonic()
    with progress.Progress("extracting: token") as report:
        report(0, size.num_tokens, lines=0)
        extractor.write(
            FLAGS.output_file,
            lines,
            size,
            lambda done, **counts: report(done, size.num_tokens, **counts),
        )
    seconds = time.monotonic() - started
    print(f"features: {FLAGS.output_file}, {count} in {seconds:.1f} s")


def extract_shards(opened, settings, strategy):
    """Writes a file for each shard that is not there yet."""
    each = engines.open_beam(FLAGS.beam_option) if FLAGS.engine == "beam" else None
    extraction_task.text_lines(settings, opened.tokenizer).check()
    job = shards.begin(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.lines_per_shard,
        extraction_task.rule(settings, opened.tokenizer),
    )
    print(job.describe(), flush=True)
    if each:
        shards.run_beam(job, extraction_task.write_shard, settings, each)
    elif job.waiting:
        extractor = open_extractor(opened, settings, strategy)
        shards.run_local(job, extractor.write_shard, "extracting")
    print(f"features: {job.pattern}")


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        prepared = prepare()
        if FLAGS.lines_per_shard:
            extract_shards(*prepared)
        else:
            extract(*prepared)


if __name__ == "__main__":
    command_line.run(main, unwinds=True)
