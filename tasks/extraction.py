"""The work of extract_features.py: an open network, and the vectors of lines."""

import dataclasses
import functools
import gc
import time
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from contract import atomic_files, features, remote_files, wording
from data_pipeline import engines, shards
from data_pipeline.extraction import lines as input_lines
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import metadata
from data_pipeline.tables import file_patterns
from loading import model_directory
from modeling import models
from modeling.checkpoints import checkpoint
from modeling.features import vectors
from tasks import device_setup, networks
from tasks.settings.extraction import ExtractionSettings
from terminal import progress
from training import checkpoints, inference
from training.distribution import devices

_TPU = tf.distribute.TPUStrategy  # needs batches of one shape
MAX_WAITING_VALUES = 1 << 25  # 128 MB that wait for those of earlier lines


class Work(NamedTuple):
    """All that decides about the vectors; plain values, for another process as well."""

    input_file: str
    files: model_directory.ModelFiles
    choice: vectors.VectorSpec
    max_seq_length: int
    batch_size: int
    output_format: str
    dtype_policy: str
    jit_compile: bool


def work_of(
    settings: ExtractionSettings, opened: model_directory.ModelDirectory, strategy: Any
) -> Work:
    """The work for a network on the devices of this process."""
    _open_once.cache_clear()  # other weights may lie in the same place
    return Work(
        files=opened.files,
        choice=choose(settings, opened.config),
        dtype_policy=settings.dtype_policy,
        jit_compile=device_setup.compiles(settings, strategy, static=settings.is_tpu),
        input_file=settings.input_file,
        max_seq_length=settings.max_seq_length,
        batch_size=settings.batch_size,
        output_format=settings.output_format,
    )


def choose(settings: ExtractionSettings, config):
    """The vectors that the settings name, checked against the network."""
    if config.spec.is_recurrent and not settings.names_layers:
        return vectors.choose_all(config, **settings.vector_choice())
    return vectors.choose(config, **settings.vector_choice())


def rule(work: Work, tokenizer: Any) -> dict[str, Any]:
    """The work for the plan of `shards.begin`, files as digests."""
    values = work._asdict() | {"choice": dataclasses.asdict(work.choice)}
    del values["input_file"]
    files, spelling = values.pop("files"), [str(tokenizer.do_lower_case)]
    return values | {
        "carry_states": False,  # of earlier versions, whose plans go on
        **checkpoints.identity(files.init_checkpoint),
        "config": remote_files.digest(list(filter(None, [files.config_file]))),
        "vocabulary": metadata.vocab_digest([*tokenizer.definition(), *spelling]),
    }


def compute(model, choice, batch, training):
    """The chosen vectors of a batch, and whose they are."""
    outputs, mask = model(batch, training=training), batch[features.INPUT_MASK]
    names = (features.UNIQUE_IDS, features.INPUT_IDS, features.INPUT_MASK)
    values = vectors.compute(outputs, mask, choice)
    return {"values": values, **{name: batch[name] for name in names}}


def text_lines(work, opened):
    """The input file as TextLines."""
    return input_lines.TextLines(
        work.input_file,
        opened.tokenizer,
        work.max_seq_length,
        needs_tokens=work.choice.pooling != "none",
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
        self, opened: model_directory.ModelDirectory, work: Work, strategy: Any
    ):
        self.lines = text_lines(work, opened)
        self._work, self._strategy = work, strategy
        keras.config.set_dtype_policy(work.dtype_policy)
        with strategy.scope(), checkpoint.drawing_after():
            model = models.BertModel(opened.config)
            model.build()
            origin = checkpoint.load(model, opened.files.init_checkpoint)
        print(f"weights: {origin}")
        self._predict = inference.predict_function(
            functools.partial(compute, model, work.choice),
            strategy,
            jit_compile=work.jit_compile,
        )
        gc.freeze()  # no collection looks at TensorFlow's million objects again

    def write(self, path, lines, size, report):
        """`compute` into a file, which another process may be writing, too."""
        kind, form = (
            self._work.output_format,
            layout(self._work.choice, size, lines.tokenizer),
        )
        with vector_files.writer(path, kind, form, shared=True) as write:
            self.compute(write, form, lines, size, report)

    def compute(self, write, form, lines, size, report):
        """Writes the vectors of TextLines, in their order; `size` is their Size.

        `write` and its layout `form` are of `vector_files.writer`. `report` is called
        as report(tokens done, lines=lines done).
        """
        work, is_tpu = self._work, isinstance(self._strategy, _TPU)
        batches = lines.batches(
            devices.fitting_batch_size(work.batch_size, self._strategy, size.num_lines),
            max_tokens=MAX_WAITING_VALUES // form.values_per_token,
            pad_to=work.max_seq_length if is_tpu else None,
            chunks=size.chunks,
        )
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

    `worker` is an Extractor, or Work, with which one is opened in this process.
    """
    extractor = worker if isinstance(worker, Extractor) else _open_once(worker)
    lines = dataclasses.replace(extractor.lines, part=shard.part)
    size = lines.measure()
    extractor.write(shard.path, lines, size, lambda _, lines: report(lines))
    return size.num_lines


@functools.lru_cache(maxsize=1)
def _open_once(work):
    files = dataclasses.replace(work.files, check_case=False)
    opened = model_directory.open_files(files, work.max_seq_length, for_tasks=False)
    return Extractor(opened, work, tf.distribute.get_strategy())


def prepare(settings: ExtractionSettings):
    """Opens the network and checks it against the settings and devices."""
    strategy = device_setup.set_up(settings, one_host=True)
    opened = networks.open_for_task(settings, settings.max_seq_length, for_tasks=False)
    work = work_of(settings, opened, strategy)
    file_patterns.refuse_overwriting(
        settings.output_file, input_file=settings.input_file
    )
    return opened, work, strategy


def extract(settings: ExtractionSettings, opened, work, strategy):
    """Writes the vectors of all lines into one file."""
    atomic_files.check_writable(settings.output_file)
    lines = text_lines(work, opened)
    size = lines.measure()
    count = wording.count(size.num_lines, "line")
    print(
        f"input: {count} from {settings.input_file}, "
        f"{size.num_tokens / size.num_lines:.1f} tokens on average, "
        f"{size.num_truncated} cut to {settings.max_seq_length}"
        + opened.tokenizer.describe_unknown(settings.input_file, size.unknown),
        flush=True,
    )
    form = layout(work.choice, size, lines.tokenizer)
    # The file is held from here on: a second command that ended while this one opens
    # the network would lose what it wrote.
    with vector_files.writer(settings.output_file, work.output_format, form) as write:
        extractor = Extractor(opened, work, strategy)
        started = time.monotonic()
        with progress.Progress("extracting: token") as report:
            report(0, size.num_tokens, lines=0)
            report_tokens = functools.partial(report, total=size.num_tokens)
            extractor.compute(write, form, lines, size, report_tokens)
    seconds = time.monotonic() - started
    print(f"features: {settings.output_file}, {count} in {seconds:.1f} s")


def extract_shards(settings: ExtractionSettings, opened, work, strategy):
    """Writes a file for each shard that is not there yet."""
    each = (
        engines.open_beam(settings.beam_option) if settings.engine == "beam" else None
    )
    text_lines(work, opened).check()
    values = rule(work, opened.tokenizer)
    job = shards.begin(
        settings.input_file, settings.output_file, settings.lines_per_shard, values
    )
    worker = work
    if job.waiting and not each:
        worker = Extractor(opened, work, strategy)
    job.run(write_shard, worker, "extracting", each)
    print(f"features: {job.pattern}")


def run(settings: ExtractionSettings) -> None:
    """What extract_features.py does."""
    write = extract_shards if settings.lines_per_shard else extract
    write(settings, *prepare(settings))
