"""The work of extract_features.py: an open network, and the vectors of lines."""

import dataclasses
import functools
import gc
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import flags

from cli import device_flags, device_setup, model_flags
from contract import features, remote_files
from data_pipeline.extraction import lines as input_lines
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import metadata
from modeling import models
from modeling.checkpoints import checkpoint, pretrained
from modeling.features import vectors
from training import checkpoints, inference, model_directory
from training.distribution import devices

FLAGS = flags.FLAGS
_TPU = tf.distribute.TPUStrategy  # needs batches of one shape
MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


class Settings(NamedTuple):
    """All that decides about the vectors; plain values, for another process as well."""

    input_file: str
    files: pretrained.ModelFiles
    choice: vectors.VectorSpec
    max_seq_length: int
    batch_size: int
    output_format: str
    dtype_policy: str
    jit_compile: bool


def settings_of_flags(
    opened: model_directory.ModelDirectory, strategy: Any
) -> Settings:
    """The settings for a network on the devices of this process."""
    _open_once.cache_clear()  # other weights may lie in the same place
    return Settings(
        files=opened.files,
        choice=choose(opened.config),
        dtype_policy=device_flags.dtype_policy(),
        jit_compile=device_setup.compiles(strategy, static=device_flags.is_tpu()),
        input_file=FLAGS.input_file,
        max_seq_length=FLAGS.max_seq_length,
        batch_size=FLAGS.batch_size,
        output_format=FLAGS.output_format,
    )


def rule(settings: Settings, tokenizer: Any) -> dict[str, Any]:
    """The settings for the plan of `shards.begin`, files as digests."""
    values = settings._asdict() | {"choice": dataclasses.asdict(settings.choice)}
    del values["input_file"]
    files, spelling = values.pop("files"), [str(tokenizer.do_lower_case)]
    return values | {
        "carry_states": False,  # of earlier versions, whose plans go on
        **checkpoints.identity(files.init_checkpoint),
        "config": remote_files.digest(list(filter(None, [files.config_file]))),
        "vocabulary": metadata.vocab_digest([*tokenizer.definition(), *spelling]),
    }


def choose(config):
    """The vectors that the flags name, checked against the network."""
    names_layers = FLAGS["layers"].present or FLAGS.combine != "none"
    if config.network == "elmo" and not names_layers:
        return vectors.choose_all(config, **model_flags.vector_choice())
    return vectors.choose(config, **model_flags.vector_choice())


def compute(model, choice, batch, training):
    """The chosen vectors of a batch, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def text_lines(settings, opened):
    """The input file as TextLines."""
    return input_lines.TextLines(
        settings.input_file,
        opened.tokenizer,
        settings.max_seq_length,
        needs_tokens=settings.choice.pooling != "none",
        takes_pairs=opened.config.type_vocab_size != 1,
    )


def layout(choice, size, tokenizer):
    """How the vectors of the choice lie in a file."""
    return vector_files.VectorLayout(
        num_lines=size.num_lines,
        num_tokens=size.num_tokens,
        layers=choice.names,
        width=choice.width,
        of_tokens=choice.pooling == "none",
        spell=tokenizer.ids_to_tokens,
    )


class Extractor:
    """The encoder with its weights, all of which must be there but the pooler's."""

    def __init__(
        self, opened: model_directory.ModelDirectory, settings: Settings, strategy: Any
    ):
        self.lines = text_lines(settings, opened)
        self._settings, self._strategy = settings, strategy
        keras.config.set_dtype_policy(settings.dtype_policy)
        with strategy.scope(), checkpoint.drawing_after():
            model = models.BertModel(opened.config)
            model.build()
            origin = checkpoint.load(model, opened.files.init_checkpoint)
        print(f"weights: {origin}")
        self._predict = inference.predict_function(
            functools.partial(compute, model, settings.choice),
            strategy,
            jit_compile=settings.jit_compile,
        )
        gc.freeze()  # no collection looks at TensorFlow's million objects again

    def write(self, path, lines, size, report, shared=False):
        """Writes the vectors of TextLines, in their order; `size` is their Size.

        `report` is called as report(tokens done, lines=lines done); `shared` is as in
        `atomic_files.replacing`.
        """
        settings, is_tpu = self._settings, isinstance(self._strategy, _TPU)
        kind = settings.output_format
        form = layout(settings.choice, size, lines.tokenizer)
        batches = lines.batches(
            devices.fitting_batch_size(
                settings.batch_size, self._strategy, size.num_lines
            ),
            max_tokens=MAX_WAITING_VALUES // form.values_per_token,
            pad_to=settings.max_seq_length if is_tpu else None,
            chunks=size.chunks,
        )
        with vector_files.writer(path, kind, form, shared=shared) as write:
            for written in inference.extract_in_order(
                self._predict,
                batches,
                self._strategy,
                report=report,
                cut=form.cut,
                first=lines.part.first_line,
            ):
                write(written)


def write_shard(worker, shard, report=bool):
    """Writes a shard, as Job.run has it; returns the number of its lines.

    `worker` is an Extractor, or Settings, with which one is opened in this process.
    """
    extractor = worker if isinstance(worker, Extractor) else _open_once(worker)
    lines = dataclasses.replace(extractor.lines, part=shard.part)
    size = lines.measure()
    extractor.write(shard.path, lines, size, lambda _, lines: report(lines), True)
    return size.num_lines


@functools.lru_cache(maxsize=1)
def _open_once(settings):
    files = settings.files._replace(check_case=False)
    opened = model_directory.open_files(files, settings.max_seq_length, for_tasks=False)
    return Extractor(opened, settings, tf.distribute.get_strategy())
