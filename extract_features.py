r"""Computes the vectors of tokens of texts, or of texts, in the layers of a network.

Takes every flag of google-research/bert's extract_features.py; see docs/features.md for
those that are new.

    python extract_features.py --pretrained=models/minilm \
        --input_file=texts.txt --output_file=vectors.jsonl
"""

import dataclasses
import functools
import time
from typing import Any, NamedTuple

from absl import flags

from cli import command_line, device_flags, model_flags

FLAGS = flags.FLAGS


@command_line.heading("Vectors")
def define_flags():
    model_flags.define(max_seq_length=128, output_dir=False)
    device_flags.define(trains=False)
    _define_files()
    model_flags.define_vectors(layers="-1,-2,-3,-4", pooling="none", others=["none"])
    flags.DEFINE_bool(
        "attention", False, "Attention probabilities instead; of all layers by default."
    )
    flags.DEFINE_list("heads", [], "Wanted heads of --attention, from 0; all if none.")
    flags.DEFINE_bool(
        "carry_states",
        False,
        "Begin each line of ELMo with the states at the end of the one before it, as "
        "its dumps do.",
    )
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
            ["jsonl", "npz", "tfrecord", "hdf5", "png", "svg"],
            "JSON lines as the original writes them, NumPy's .npz, TFRecords, or HDF5 "
            "as ELMo's dumps; of the --attention of one line a picture.",
        )
    flags.mark_flags_as_required(["input_file", "output_file"])


def check():
    for name in ("input_file", "output_file"):
        if not FLAGS[name].value:
            raise errors.InputError(f"--{name} is empty; name a file")
    command_line.check_files("input_file")
    model_flags.check(needs_weights=True)


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, check)

import keras
import tensorflow as tf

from cli import device_setup
from contract import atomic_files, errors, features, wording
from data_pipeline.extraction import attention
from data_pipeline.extraction import lines as input_lines
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.tables import file_patterns
from data_pipeline.text import opening
from modeling import models
from modeling.checkpoints import checkpoint, pretrained
from modeling.configs import config as config_lib
from modeling.elmo import carried_states
from modeling.features import attention_maps, vectors
from terminal import progress
from training import steps
from training.distribution import devices
from training.results import extraction

MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


class ExtractionInput(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: model_flags.ModelFiles
    config: config_lib.BertConfig
    lines: input_lines.TextLines
    size: input_lines.Size
    choice: vectors.VectorSpec | attention_maps.AttentionSpec
    strategy: Any


def choose(config):
    """The vectors or maps that flags ask for, checked against the network."""
    is_picture = FLAGS.output_format in attention.PICTURES
    if FLAGS.attention:
        for name in ("combine", "layer_weights", "pooling", "normalize"):
            if FLAGS[name].present:
                raise errors.InputError(f"--{name} and --attention exclude each other")
        heads = command_line.numbers("heads", int)
        layers = command_line.numbers("layers", int) if FLAGS["layers"].present else ()
        return attention_maps.choose(config, layers, heads)
    for name, is_wrong in (("heads", FLAGS.heads), ("output_format", is_picture)):
        if is_wrong:
            raise errors.InputError(
                f"{FLAGS[name].serialize()} is for --attention; add it"
            )
    asked = model_flags.vector_choice()
    names_layers = FLAGS["layers"].present or FLAGS.combine != "none"
    takes_all = FLAGS.output_format == "hdf5" or config.network == "elmo"
    if takes_all and not names_layers:
        return vectors.choose_all(config, **asked)
    return vectors.choose(config, **asked)


def check_states(config):
    """Raises ValueError where no states can go from line to line."""
    if FLAGS.carry_states and config.network != "elmo":
        raise errors.InputError(
            f"--carry_states is for ELMo, and the network is a {config.kind}, without "
            "states; leave it out"
        )
    if FLAGS.carry_states and device_flags.is_tpu():
        raise errors.InputError(
            "--carry_states does not run on TPU; leave one of them out"
        )


def prepare():
    check()
    strategy = device_setup.set_up(one_host=True)
    if FLAGS.carry_states:
        strategy = tf.distribute.get_strategy()  # on one device, line after line
    files = model_flags.files(pretrained.locate, needs_weights=True)
    tokenizer = opening.open_tokenizer(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, FLAGS.max_seq_length)
    choice = choose(config)
    check_states(config)
    if file_patterns.among([FLAGS.output_file], [FLAGS.input_file]):
        raise errors.InputError(
            f"--output_file={FLAGS.output_file} is --input_file and would be "
            "overwritten; choose another name"
        )
    pools = not FLAGS.attention and FLAGS.pooling != "none"
    lines = input_lines.TextLines(
        *(FLAGS.input_file, tokenizer, FLAGS.max_seq_length), needs_tokens=pools
    )
    size = lines.measure()
    attention.check(FLAGS.output_format, FLAGS.input_file, size.num_lines)
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
    """What leaves the devices: the chosen vectors or maps, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    if isinstance(choice, attention_maps.AttentionSpec):
        values = attention_maps.compute(model.network, outputs, mask, choice)
    else:
        values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def layout_of(choice, size, tokenizer):
    common = {"num_lines": size.num_lines, "num_tokens": size.num_tokens}
    if isinstance(choice, attention_maps.AttentionSpec):
        kind, own = attention.AttentionLayout, dataclasses.asdict(choice)
        own["num_pairs"] = size.num_pairs
    else:
        kind, own = vector_files.VectorLayout, {"layers": choice.names}
        own |= {"width": choice.width, "of_tokens": choice.pooling == "none"}
        own["frame"] = (1, 1) if tokenizer.start_id is not None else (0, 0)
    return kind(spell=tokenizer.ids_to_tokens, **common, **own)


def extract(parts, model):
    choice, size = parts.choice, parts.size
    layout = layout_of(choice, size, parts.lines.tokenizer)
    pad_to = FLAGS.max_seq_length if device_flags.is_tpu() else None
    reader = carried_states.Reader(model.network) if FLAGS.carry_states else model
    predict = steps.predict_function(
        functools.partial(outputs_of, reader, choice),
        parts.strategy,
        jit_compile=device_setup.compiles(parts.strategy, static=bool(pad_to)),
    )
    batches = parts.lines.batches(
        devices.fitting_batch_size(FLAGS.batch_size, parts.strategy),
        max_tokens=MAX_WAITING_VALUES // layout.values_per_token(FLAGS.max_seq_length),
        pad_to=pad_to,
        by_length=not FLAGS.carry_states,
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
            cut=layout.cut,
        ):
            write(lines)


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        parts = prepare()
        size = parts.size
        lines = wording.count(size.num_lines, "line")
        print(
            f"input: {lines} from {FLAGS.input_file}, "
            f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
            f"{size.num_truncated} cut to {FLAGS.max_seq_length}",
            flush=True,
        )
        model = build_model(parts)
        started = time.monotonic()
        extract(parts, model)
        seconds = time.monotonic() - started
        print(f"features: {FLAGS.output_file}, {lines} in {seconds:.1f} s")


if __name__ == "__main__":
    command_line.run(main, unwinds=True)
