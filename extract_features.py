r"""Computes the vectors of tokens of texts, or of texts, in the layers of a network.

Takes every flag of google-research/bert's extract_features.py; docs/embeddings.md
describes those that are new.

    python extract_features.py --pretrained=models/minilm \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

import functools
import time

from absl import flags

from cli import command_line, device_flags, extraction_flags

FLAGS = flags.FLAGS


def define_flags():
    extraction_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, extraction_flags.check)

import keras
import tensorflow as tf

from cli import device_setup, extraction_task, networks
from contract import atomic_files, errors, wording
from data_pipeline.extraction import lines as input_lines
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.tables import file_patterns
from modeling import models
from modeling.checkpoints import checkpoint
from modeling.elmo import carried_states
from terminal import progress
from training import inference
from training.distribution import devices

MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


def prepare():
    """Everything that is read and checked before the work starts."""
    extraction_flags.check()
    strategy = device_setup.set_up(one_host=True)
    if FLAGS.carry_states:
        strategy = tf.distribute.get_strategy()  # on one device, line after line
    opened = networks.open_for_task(
        FLAGS.max_seq_length, needs_weights=True, for_tasks=False
    )
    extraction_flags.check_network(opened.config)
    choice = extraction_task.choose(opened.config)
    if file_patterns.among([FLAGS.output_file], [FLAGS.input_file]):
        raise errors.InputError(
            f"--output_file={FLAGS.output_file} is --input_file and would be "
            "overwritten; choose another name"
        )
    pools = FLAGS.pooling != "none"
    lines = input_lines.TextLines(
        FLAGS.input_file, opened.tokenizer, FLAGS.max_seq_length, needs_tokens=pools
    )
    size = lines.measure()
    atomic_files.check_writable(FLAGS.output_file)
    return opened, lines, size, choice, strategy


def build_model(opened, strategy):
    """The encoder with its weights, all of which must be there but the pooler's."""
    keras.config.set_dtype_policy(device_flags.dtype_policy())
    with strategy.scope():
        model = models.BertModel(opened.config)
        model.build()
    report = checkpoint.load(model, opened.files.init_checkpoint)
    print(f"weights: {report}")
    return model


def extract(model, lines, size, choice, strategy):
    """Writes the vectors of all lines, in their order."""
    layout = extraction_task.layout(choice, size, lines.tokenizer)
    pad_to = FLAGS.max_seq_length if device_flags.is_tpu() else None
    reader = carried_states.Reader(model.network) if FLAGS.carry_states else model
    predict = inference.predict_function(
        functools.partial(extraction_task.compute, reader, choice),
        strategy,
        jit_compile=device_setup.compiles(strategy, static=bool(pad_to)),
    )
    batches = lines.batches(
        devices.fitting_batch_size(FLAGS.batch_size, strategy),
        max_tokens=MAX_WAITING_VALUES // layout.values_per_token,
        pad_to=pad_to,
        by_length=not FLAGS.carry_states,
    )
    with (
        progress.Progress("extracting: token") as report,
        vector_files.writer(FLAGS.output_file, FLAGS.output_format, layout) as write,
    ):
        report(0, size.num_tokens, lines=0)
        for written in inference.extract_in_order(
            predict,
            batches,
            strategy,
            report=lambda done, **counts: report(done, size.num_tokens, **counts),
            cut=layout.cut,
        ):
            write(written)


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        opened, lines, size, choice, strategy = prepare()
        count = wording.count(size.num_lines, "line")
        print(
            f"input: {count} from {FLAGS.input_file}, "
            f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
            f"{size.num_truncated} cut to {FLAGS.max_seq_length}",
            flush=True,
        )
        model = build_model(opened, strategy)
        started = time.monotonic()
        extract(model, lines, size, choice, strategy)
        seconds = time.monotonic() - started
        print(f"features: {FLAGS.output_file}, {count} in {seconds:.1f} s")


if __name__ == "__main__":
    command_line.run(main, unwinds=True)
