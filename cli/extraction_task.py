"""The work of extract_features.py: an open network, and the vectors of lines."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import flags

from cli import device_flags, device_setup, model_flags, networks
from contract import features, remote_files
from data_pipeline import shards
from data_pipeline.extraction import lines as input_lines
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import metadata
from data_pipeline.tables import text_rows
from modeling import models
from modeling.checkpoints import checkpoint
from modeling.elmo import carried_states
from modeling.features import vectors
from training import checkpoints, inference
from training.distribution import devices

FLAGS = flags.FLAGS
MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


class Settings(NamedTuple):
    """What decides about the vectors; plain values, for another process as well."""

    input_file: str
    files: networks.ModelFiles
    choice: vectors.VectorSpec
    max_seq_length: int
    batch_size: int
    output_format: str
    dtype_policy: str
    jit_compile: bool
    pads: bool  # every batch to max_seq_length
    carry_states: bool


def settings_of_flags(opened: networks.Opened, strategy: Any) -> Settings:
    """The settings for a network on the devices of this process."""
    pads = device_flags.is_tpu()
    return Settings(
        FLAGS.input_file,
        opened.files,
        choose(opened.config),
        FLAGS.max_seq_length,
        devices.fitting_batch_size(FLAGS.batch_size, strategy),
        FLAGS.output_format,
        device_flags.dtype_policy(),
        device_setup.compiles(strategy, static=pads),
        pads,
        FLAGS.carry_states,
    )


def rule(settings: Settings, tokenizer: Any) -> dict[str, Any]:
    """The settings for the plan of `shards.begin`, files as digests."""
    files, spelling = settings.files, [str(tokenizer.do_lower_case)]
    plain = settings._asdict() | {"choice": dataclasses.asdict(settings.choice)}
    del plain["input_file"], plain["files"]
    return {
        **checkpoints.identity(files.init_checkpoint),
        "config": remote_files.digest(list(filter(None, [files.config_file]))),
        "vocabulary": metadata.vocab_digest([*tokenizer.definition(), *spelling]),
        **plain,
    }


def choose(config):
    """The vectors that the flags name, checked against the network."""
    names_layers = FLAGS["layers"].present or FLAGS.combine != "none"
    takes_all = FLAGS.output_format == "hdf5" or config.network == "elmo"
    if takes_all and not names_layers:
        return vectors.choose_all(config, **model_flags.vector_choice())
    return vectors.choose(config, **model_flags.vector_choice())


def compute(model, choice, batch, training):
    """The chosen vectors of a batch, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def text_lines(
    settings: Settings, tokenizer: Any, part: text_rows.Part = text_rows.WHOLE
) -> input_lines.TextLines:
    """The input file, or a part of it."""
    return input_lines.TextLines(
        settings.input_file,
        tokenizer,
        settings.max_seq_length,
        needs_tokens=settings.choice.pooling != "none",
        part=part,
    )


class Extractor:
    """The encoder with its weights, all of which must be there but the pooler's.

    Attributes:
        report: where the weights came from.
    """

    def __init__(self, opened: networks.Opened, settings: Settings, strategy: Any):
        self._tokenizer, self._settings = opened.tokenizer, settings
        self._strategy = strategy
        keras.config.set_dtype_policy(settings.dtype_policy)
        with strategy.scope():
            model = models.BertModel(opened.config)
            model.build()
        self.report = checkpoint.load(model, opened.files.init_checkpoint)
        carries = settings.carry_states
        reader = carried_states.Reader(model.network) if carries else model
        self._predict = inference.predict_function(
            functools.partial(compute, reader, settings.choice),
            strategy,
            jit_compile=settings.jit_compile,
        )

    def write(
        self,
        path: str,
        lines: input_lines.TextLines,
        size: input_lines.Size,
        report: Callable[..., object],
        *,
        shared: bool = False,
    ) -> None:
        """Writes the vectors of all lines, in their order.

        `report` is called as report(tokens done, lines=lines done); `shared` as in
        `atomic_files.replacing`.
        """
        settings = self._settings
        layout = self._layout(size)
        batches = lines.batches(
            settings.batch_size,
            max_tokens=MAX_WAITING_VALUES // layout.values_per_token,
            pad_to=settings.max_seq_length if settings.pads else None,
            by_length=not settings.carry_states,
        )
        form = settings.output_format
        with vector_files.writer(path, form, layout, shared=shared) as write:
            for written in inference.extract_in_order(
                self._predict,
                batches,
                self._strategy,
                report=report,
                cut=layout.cut,
                first=lines.part.first_line,
            ):
                write(written)

    def write_shard(
        self, shard: shards.Shard, report: Callable[[int], object] = bool
    ) -> int:
        """`write` for a shard; as `shards.run_local` has it."""
        lines = text_lines(self._settings, self._tokenizer, shard.part)
        size = lines.measure()
        self.write(shard.path, lines, size, lambda _, lines: report(lines), shared=True)
        return size.num_lines

    def _layout(self, size):
        """How the vectors lie in a file."""
        choice, tokenizer = self._settings.choice, self._tokenizer
        return vector_files.VectorLayout(
            num_lines=size.num_lines,
            num_tokens=size.num_tokens,
            layers=choice.names,
            width=choice.width,
            of_tokens=choice.pooling == "none",
            frame=(1, 1) if tokenizer.start_id is not None else (0, 0),
            spell=tokenizer.ids_to_tokens,
        )


def write_shard(settings: Settings, shard: shards.Shard) -> None:
    """Writes a shard in a process that has no flags."""
    _open_once(settings).write_shard(shard)


@functools.lru_cache(maxsize=1)
def _open_once(settings):
    opened = networks.open_network(
        settings.files, settings.max_seq_length, checks_case=False, for_tasks=False
    )
    return Extractor(opened, settings, tf.distribute.get_strategy())
