r"""Computes the vectors that BERT's layers give to the tokens of texts, or to texts.

Takes every flag of google-research/bert's extract_features.py; see docs/features.md for
those that are new.

    python extract_features.py --pretrained=models/minilm \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

import functools
import math
import time
from typing import Any, NamedTuple

from absl import flags

from training.flags import command_line, device_flags, model_flags

FLAGS = flags.FLAGS


@command_line.heading("Vectors")
def define_flags():
    model_flags.define(max_seq_length=128, output_dir=False)
    device_flags.define(trains=False)
    _define_files()
    layers = "-1,-2,-3,-4"
    flags.DEFINE_list("layers", layers, "Wanted layers: 0 is the first, -1 the last.")
    flags.DEFINE_enum(
        "combine",
        "none",
        [
            *("none", "embedding", "second_to_last", "last"),
            *("sum_last_4", "concat_last_4", "sum_all"),
        ],
        "Instead of --layers: one vector, made as in Table 7 of BERT's paper.",
    )
    flags.DEFINE_list(
        "layer_weights", [], "Weights of the layers that are summed, the last first."
    )
    flags.DEFINE_enum(
        "pooling",
        "none",
        ["none", "cls", "mean"],
        "Vectors of tokens, of [CLS] alone, or means over the tokens of a line.",
    )
    flags.DEFINE_bool("normalize", False, "Scale every vector to the length 1.")
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "Accepted and ignored: another way to compute the same vectors.",
    )


def _define_files():
    string = flags.DEFINE_string
    with command_line.heading("Data"):
        string("input_file", None, "Texts, one example a line; `A ||| B` is a pair.")
        flags.DEFINE_integer("batch_size", 32, "Lines a batch.", lower_bound=1)
    with command_line.heading("Output"):
        string("output_file", None, "Where the vectors go; replaced if it is there.")
        flags.DEFINE_enum(
            "output_format",
            "jsonl",
            ["jsonl", "npz", "tfrecord"],
            "JSON lines as the original writes them, NumPy's .npz, or TFRecords.",
        )
    flags.mark_flags_as_required(["input_file", "output_file"])


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import keras

from contract import atomic_files, features
from data_pipeline.extraction import input_lines, vector_files
from data_pipeline.files import file_patterns
from data_pipeline.text import vocabulary_checks
from modeling import config as config_lib
from modeling import models, vectors
from modeling.checkpoints import checkpoint, pretrained
from terminal import progress
from training import errors, steps
from training.distribution import devices
from training.flags import device_setup
from training.results import extraction

MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


class ExtractionInput(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: model_flags.ModelFiles
    config: config_lib.BertConfig
    lines: input_lines.TextLines
    size: input_lines.Size
    choice: vectors.Choice
    strategy: Any


def numbers(name, kind):
    try:
        found = [kind(value) for value in FLAGS[name].value]
        if not all(map(math.isfinite, found)):
            raise ValueError(f"they are {found}")
        return found
    except ValueError as error:
        raise ValueError(
            f"--{name}={','.join(FLAGS[name].value)} are not finite numbers ({error}); "
            "separate them by commas"
        ) from error


def prepare():
    for name in ("input_file", "output_file"):
        if not FLAGS[name].value:
            raise ValueError(f"--{name} is empty; name a file")
    strategy = device_setup.set_up(one_host=True)
    files = model_flags.files(pretrained.locate)
    if not files.init_checkpoint:
        raise ValueError(
            "--init_checkpoint is missing; set it, or set --pretrained to the "
            "directory of a model"
        )
    tokenizer = vocabulary_checks.open_tokenizer(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, FLAGS.max_seq_length)
    if FLAGS.combine != vectors.SEPARATE and FLAGS["layers"].present:
        raise ValueError(
            f"--combine={FLAGS.combine} names its layers itself; leave out --layers or "
            "--combine"
        )
    choice = vectors.choose(
        config,
        layers=numbers("layers", int),
        combine=FLAGS.combine,
        weights=numbers("layer_weights", float),
        pooling=FLAGS.pooling,
        normalize=FLAGS.normalize,
    )
    if file_patterns.among([FLAGS.output_file], [FLAGS.input_file]):
        raise ValueError(
            f"--output_file={FLAGS.output_file} is --input_file and would be "
            "overwritten; choose another name"
        )
    lines = input_lines.TextLines(FLAGS.input_file, tokenizer, FLAGS.max_seq_length)
    size = lines.measure()
    atomic_files.check_writable(FLAGS.output_file)
    return ExtractionInput(files, config, lines, size, choice, strategy)


def build_model(parts):
    """The encoder with its weights, all of which must be there but the pooler's."""
    keras.config.set_dtype_policy(device_flags.dtype_policy())
    with parts.strategy.scope():
        model = models.BertModel(parts.config)
        model.build()
    report = checkpoint.load(model, parts.files.init_checkpoint)
    print(f"weights: {report}")
    return model


def outputs_of(model, choice, batch, training):
    """What leaves the devices: the chosen vectors, and whose they are."""
    outputs = model(batch, training=training)
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    values = vectors.compute(outputs, batch[features.INPUT_MASK], choice)
    return {"values": values, **{name: batch[name] for name in names}}


def extract(parts, model):
    choice, size = parts.choice, parts.size
    of_tokens = choice.pooling == "none"
    pad_to = FLAGS.max_seq_length if device_flags.is_tpu() else None
    predict = steps.predict_function(
        functools.partial(outputs_of, model, choice),
        parts.strategy,
        jit_compile=device_setup.compiles(parts.strategy, static=bool(pad_to)),
    )
    batches = parts.lines.batches(
        devices.fitting_batch_size(FLAGS.batch_size, parts.strategy),
        max_tokens=MAX_WAITING_VALUES // (len(choice.names) * choice.width),
        pad_to=pad_to,
    )
    layout = vector_files.VectorLayout(
        num_lines=size.num_lines,
        num_tokens=size.num_tokens,
        layers=choice.names,
        width=choice.width,
        of_tokens=of_tokens,
        vocab=parts.lines.tokenizer.vocab,
    )
    with (
        progress.Progress("extracting: token") as report,
        vector_files.writer(FLAGS.output_file, FLAGS.output_format, layout) as write,
    ):
        report(0, size.num_tokens, lines=0)
        for lines in extraction.in_input_order(
            predict,
            batches,
            parts.strategy,
            report=lambda done, **counts: report(done, size.num_tokens, **counts),
            of_tokens=of_tokens,
        ):
            write(lines)


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        with errors.of_input():
            parts = prepare()
            size = parts.size
            print(
                f"input: {size.num_lines} lines from {FLAGS.input_file}, "
                f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
                f"{size.num_truncated} cut to {FLAGS.max_seq_length}",
                flush=True,
            )
            model = build_model(parts)
        started = time.monotonic()
        with errors.of_writing():
            extract(parts, model)
        seconds = time.monotonic() - started
        print(
            f"features: {FLAGS.output_file}, {size.num_lines / seconds:.1f} lines and "
            f"{size.num_tokens / seconds:.0f} tokens a second"
        )


if __name__ == "__main__":
    command_line.run(main)
