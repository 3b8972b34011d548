"""Batches of pretraining records: their order, their names, and why reading failed."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.batches import ragged
from data_pipeline.pretraining import files as record_files
from data_pipeline.pretraining import shuffling
from data_pipeline.pretraining import source as record_checks

RecordSource = record_checks.RecordSource
# Hides tokens: input_ids int32 [N, S] and their lengths int32 [N], which are some rows
# of a batch; these rows, the size of the whole batch, and a source of randomness, drawn
# from for all of it -> input_ids and the masked_lm features of these rows.
Mask = Callable[
    [np.ndarray, np.ndarray, slice, int, np.random.Generator], dict[str, np.ndarray]
]
ONE_HOST = tf.distribute.InputContext()
EVALUATION_SEED = 0  # of masks and noise, so that every evaluation has the same
_AGAIN = "copy the file again, or make it again"


def training_batches(
    source: RecordSource,
    batch_size: int,
    seed: int,
    start_step: int,
    num_steps: int,
    mask: Mask | None = None,
    context: tf.distribute.InputContext = ONE_HOST,
) -> tf.data.Dataset:
    """The batches of a run, from a step on, in the order of `shuffling.windows`.

    Batches are full, and may hold the end of one epoch and the start of the next. Equal
    seeds, not negative, give equal batches. Steps count from 0; `num_steps` is the one
    after the last. `mask`, for records that are not masked, draws by seed and step.

    Each host of a `context` gets equally many consecutive rows of every batch, and does
    not parse the others; all hosts together have the batches that one would have.

    Returns:
        Dicts: input_ids, input_mask, segment_ids int32 [B, S]; masked_lm_positions and
        masked_lm_ids int32, masked_lm_weights float32, each [B, P];
        next_sentence_labels int32 [B]. B is `batch_size` divided by the hosts.

    Raises:
        ValueError: the records are not masked, and there is no `mask`; or the hosts do
            not divide `batch_size`.
    """
    read = shuffling.records_of(source.files)
    records = _in_order(read, source, batch_size, seed, start_step)
    records = records.take(max(num_steps - start_step, 0))
    rows = rows_of_host(batch_size, context)
    return _batches(source, records, rows, batch_size, seed, start_step, mask)


def batch_names(
    source: RecordSource, batch_size: int, seed: int, step: int
) -> list[str]:
    """Names the records of one batch, such as "records/part-3:17"; opens no file."""
    read = shuffling.numbers_of(source.counts)
    (batch,) = _in_order(read, source, batch_size, seed, step).take(1)
    begins = ragged.splits(source.counts)
    files = np.searchsorted(begins, batch, side="right") - 1
    numbers = batch.numpy() - begins[files]
    return [
        f"{source.files[file]}:{number}"
        for file, number in zip(files, numbers, strict=True)
    ]


def _in_order(read, source, batch_size, seed, start_step):
    """Batches for ever, from a step on, of what `read` gives of each record."""
    start = start_step * batch_size
    windows = shuffling.windows(read, source.counts, seed, start)
    return windows.rebatch(batch_size, drop_remainder=True)


def evaluation_batches(
    source: RecordSource,
    batch_size: int,
    num_batches: int | None,
    mask: Mask | None = None,
    context: tf.distribute.InputContext = ONE_HOST,
) -> tf.data.Dataset:
    """Full batches in the order of the files, repeated; else as `training_batches`.

    Where `num_batches` is None, each record counts once: further rows of the last batch
    have masked_lm_weights 0 and the label IGNORED. Left to right, no record is ever
    repeated: the last batch is filled up with rows whose input_mask is 0.
    """
    records, rows = (
        tf.data.TFRecordDataset(source.files),
        rows_of_host(batch_size, context),
    )
    if not source.is_masked:
        return _filled_batches(source, records, rows, batch_size).take(
            num_batches or -1
        )
    count = num_batches or num_evaluation_batches(source, batch_size, None)
    records = records.repeat().batch(batch_size, drop_remainder=True).take(count)
    batches = _batches(source, records, rows, batch_size, EVALUATION_SEED, 0, mask)
    if num_batches:
        return batches

    def counted_once(number, batch):
        places = number * batch_size + tf.range(batch_size, dtype=tf.int64)[rows]
        is_new = places < sum(source.counts)
        weights = batch[features.MASKED_LM_WEIGHTS]
        labels = batch[features.NEXT_SENTENCE_LABELS]
        return batch | {
            features.MASKED_LM_WEIGHTS: tf.where(is_new[:, None], weights, 0.0),
            features.NEXT_SENTENCE_LABELS: tf.where(is_new, labels, features.IGNORED),
        }

    return batches.enumerate().map(counted_once, num_parallel_calls=1)


def num_evaluation_batches(
    source: RecordSource, batch_size: int, most: int | None
) -> int:
    """How many batches an evaluation has, at most `most`; None for all records."""
    if source.is_masked and most is not None:
        return most  # for they are repeated
    every = -(-sum(source.counts) // batch_size)
    return every if most is None else min(most, every)


def _filled_batches(source, records, rows, batch_size):
    parse = _parser(source)

    def filled(batch):
        count = tf.size(batch)
        batch = tf.concat([batch, tf.repeat(batch[:1], batch_size - count)], axis=0)
        is_real = tf.cast(tf.range(batch_size) < count, tf.int32)[rows, tf.newaxis]
        found = parse(tf.ensure_shape(batch, [batch_size])[rows])
        masked = {features.INPUT_MASK: found[features.INPUT_MASK] * is_real}
        return found | masked

    return records.batch(batch_size).map(filled, num_parallel_calls=1).prefetch(2)


def rows_of_host(batch_size: int, context: tf.distribute.InputContext) -> slice:
    """Which rows of a batch a host gets; ValueError where hosts do not divide it."""
    hosts = context.num_input_pipelines
    if batch_size % hosts:
        raise errors.InputError(
            f"a batch of {batch_size} records cannot be cut into equal shares of "
            f"{hosts} hosts; choose a multiple of {hosts}"
        )
    count = batch_size // hosts
    first = context.input_pipeline_id * count
    return slice(first, first + count)


def explain(error: Exception, source: RecordSource) -> str | None:
    """One line on which file made reading batches fail; TensorFlow does not say.

    Reads the files again up to the one to blame; None if reading is not to blame.
    """
    if not isinstance(error, tf.errors.OpError | UnicodeDecodeError):
        return None
    if isinstance(error, tf.errors.NotFoundError):
        gone = [file for file in source.files if not tf.io.gfile.exists(file)]
        return f"{gone[0]}: is not there any more; {_AGAIN}" if gone else None
    if not record_files.is_of_a_record(error, _spec(source)):
        return None  # of the network, say
    for file in source.files:
        damage = record_files.find_damage(file, _parser(source))
        if damage:
            return f"{damage}; {_AGAIN}"
    return None


def _spec(source):
    predictions = source.max_predictions_per_seq if source.has_masks else 0
    return record_files.spec(source.max_seq_length, predictions)


def _parser(source):
    """A function string [N] -> dict of features."""
    spec = _spec(source)

    def parse(records):
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in tf.io.parse_example(records, spec).items()
        }

    return parse


def _batches(source, records, rows, batch_size, seed, start_step, mask):
    """These rows of batches of serialized records, parsed and masked."""
    masks = source.is_masked and not source.has_masks
    if masks and mask is None:
        raise errors.InputError(
            f"the records of {wording.first_of(source.files, 1)} hold unmasked text, "
            "which is masked while training; give the --vocab_file they were made with"
        )
    parse = _parser(source)
    dataset = records.map(lambda batch: parse(batch[rows]), num_parallel_calls=1)
    if masks:

        def masked(step, input_ids, lengths):
            rng = np.random.default_rng([seed, int(step)])
            return mask(input_ids, lengths, rows, batch_size, rng)

        dataset = dataset.enumerate(start_step).map(
            lambda step, batch: _mask(source, masked, step, batch), num_parallel_calls=1
        )
    return dataset.prefetch(2)


def _mask(source, mask, step, batch):
    """A batch of unmasked text with its input_ids masked and the masked_lm features."""
    names = (features.INPUT_IDS, *record_files.PREDICTIONS)

    def masked(*arrays):
        found = mask(*arrays)
        return [found[name] for name in names]

    input_ids = batch[features.INPUT_IDS]
    lengths = tf.reduce_sum(batch[features.INPUT_MASK], axis=1)
    dtypes = [tf.int32, tf.int32, tf.int32, tf.float32]
    values = tf.numpy_function(masked, [step, input_ids, lengths], dtypes)
    predictions = [len(input_ids), source.max_predictions_per_seq]
    shapes = [input_ids.shape, predictions, predictions, predictions]
    return batch | {
        name: tf.ensure_shape(value, shape)
        for name, value, shape in zip(names, values, shapes, strict=True)
    }
