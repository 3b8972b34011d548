"""Batches of pretraining records: their order, their names, and why reading failed."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.batches import packing
from data_pipeline.pretraining import masking, metadata, source
from data_pipeline.text import base

# Blocks read at the same time; the original's number of parallel readers.
GROUP_BLOCKS = 4
# Records that are shuffled together: some megabytes.
WINDOW_RECORDS = 4096
# Read from each of these blocks at once; object stores take long to answer.
_READ_BYTES = 1 << 22


def records_of(files, blocks):
    """For `windows`: the serialized records of each of source.Blocks, strings."""
    files, numbers, counts = map(tf.constant, (files, blocks.files, blocks.counts))
    begins = tf.constant(blocks.begins)
    sizes = tf.constant(np.minimum(blocks.sizes, _READ_BYTES))

    def read(index):
        # tf.data.TFRecordDataset has no argument for the first byte.
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=files[numbers[index]],
            compression_type="",
            buffer_size=sizes[index],
            byte_offsets=begins[index],
        )
        spec = tf.TensorSpec([], tf.string)
        return tf.data.experimental.from_variant(records, spec).take(counts[index])

    return read


def numbers_of(counts):
    """For `windows`: record numbers from 0, int64, across files; opens none of them."""
    begins = tf.constant(packing.row_splits(counts))

    def number(index):
        return tf.data.Dataset.range(begins[index], begins[index + 1])

    return number


def windows(read, counts, seed, start):
    """Windows of records, for ever, from a position on; epoch after epoch.

    In each epoch the blocks are shuffled and read in groups of four, one record of each
    after another; of this stream, each window of 4,096 records is shuffled. An epoch
    has every record once, and its last window ends with it. `read` is `records_of` or
    `numbers_of` the blocks; `counts` are the records in each. A file that this project
    wrote is a block, because its records are shuffled; another may have the order of
    its texts, so 256 records of it are.

    Returns:
        tf.data.Dataset of [WINDOW_RECORDS] values, fewer where an epoch begins or ends.

    Differs from google-research/bert: training records are shuffled within windows of
    4,096 instead of a buffer of 100, and in an order that follows from the seed, so
    that a resumed run goes on with the records it would have seen.
    """
    counts = np.asarray(counts)
    epoch, position = divmod(start, int(counts.sum()))
    later = tf.data.Dataset.range(epoch + 1, np.iinfo(np.int64).max)
    return _epoch(read, counts, seed, epoch, position).concatenate(
        later.flat_map(lambda number: _epoch(read, counts, seed, number, 0))
    )


def _epoch(read, counts, seed, epoch, position):
    """Windows of an epoch, an int or a graph's int64, from an int position on."""
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    with tf.device("CPU"):
        order = _shuffled(tf.range(len(counts)), epoch_seed)
    window = position // WINDOW_RECORDS
    passed = surplus = 0
    if window:
        before = window * WINDOW_RECORDS
        passed, surplus = _passed_groups(counts[order.numpy()], before)
    groups = tf.data.Dataset.from_tensor_slices(order).batch(GROUP_BLOCKS).skip(passed)
    records = groups.flat_map(lambda group: _in_turn(read, group)).skip(surplus)

    def shuffle(number, records):
        number_seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
        shuffled = _shuffled(records, number_seed)
        return shuffled[tf.maximum(position - number * WINDOW_RECORDS, 0) :]

    return records.batch(WINDOW_RECORDS).enumerate(window).map(shuffle)


def _shuffled(values, seed):
    # The algorithm is named because the default one depends on the device.
    return tf.random.experimental.stateless_shuffle(values, seed, alg="philox")


def _passed_groups(counts, position):
    """How many groups end at or before a position, and how far after them it is."""
    ends = np.cumsum(np.add.reduceat(counts, np.arange(0, len(counts), GROUP_BLOCKS)))
    passed = int(np.searchsorted(ends, position, side="right"))
    return passed, position - (int(ends[passed - 1]) if passed else 0)


def _in_turn(read, group):
    """One record of each block after another; longer blocks go on alone."""
    # Without parallel calls, which take three times as long for records that small.
    blocks = tf.data.Dataset.from_tensor_slices(group)
    return blocks.interleave(read, cycle_length=GROUP_BLOCKS)


# Hides tokens: input_ids int32 [N, S] and their lengths int32 [N], which are some rows
# of a batch; these rows, the size of the whole batch, and a source of randomness, drawn
# from for all of it -> input_ids and the masked_lm features of these rows.
Mask = Callable[
    [np.ndarray, np.ndarray, slice, int, np.random.Generator], dict[str, np.ndarray]
]
EVALUATION_SEED = 0  # of masks and noise, so that every evaluation has the same


@dataclasses.dataclass(frozen=True)
class RecordSets(source.PretrainingData):
    """Records, masked where needed.

    Batches are dicts: input_ids, input_mask, segment_ids int32 [B, S];
    masked_lm_positions and masked_lm_ids int32, masked_lm_weights float32, each [B, P];
    next_sentence_labels int32 [B]; generator_draws float32 [B, P] where `has_draws`. B
    is `batch_size` divided by the hosts, which parse their own rows alone.
    """

    train: source.RecordSource
    held_out: source.RecordSource
    mask: Mask | None  # None where all records are masked, or none is
    has_draws: bool = dataclasses.field(default=False, kw_only=True)

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        """The batches of a run, in the order of `windows`, across ends of epochs."""
        read = records_of(self.train.files, self.train.blocks)
        records = _in_order(read, self.train, batch_size, seed, start_step)
        records = records.take(max(num_steps - start_step, 0))
        rows = source.rows_of_host(batch_size, context)
        return self._parsed(self.train, records, rows, batch_size, seed, start_step)

    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        read = numbers_of(self.train.blocks.counts)
        (batch,) = _in_order(read, self.train, batch_size, seed, step).take(1)
        begins = packing.row_splits(self.train.counts)
        files = np.searchsorted(begins, batch, side="right") - 1
        numbers = batch.numpy() - begins[files]
        return [
            f"{self.train.files[file]}:{number}"
            for file, number in zip(files, numbers, strict=True)
        ]

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        if self.held_out.is_masked and most is not None:
            return most  # for they are repeated
        every = -(-self.held_out.count // batch_size)
        return every if most is None else min(most, every)

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        """Full batches in the order of the files, repeated.

        Where `num_batches` is None, each record counts once: further rows of the last
        batch have input_mask and masked_lm_weights 0, and the label IGNORED. Left to
        right, no record is repeated, and rows of input_mask 0 fill the last batch.
        """
        records = tf.data.TFRecordDataset(self.held_out.files)
        rows = source.rows_of_host(batch_size, context)
        if not self.held_out.is_masked:
            filled = _filled_batches(self.held_out, records, rows, batch_size)
            seed = EVALUATION_SEED
            noisy = self._with_noise(self.held_out, filled, rows, batch_size, seed, 0)
            return noisy.take(num_batches or -1)
        count = num_batches or self.num_evaluation_batches(batch_size, None)
        records = records.repeat().batch(batch_size, drop_remainder=True).take(count)
        batches = self._parsed(
            self.held_out, records, rows, batch_size, EVALUATION_SEED, 0
        )
        if num_batches:
            return batches

        def count_once(number, batch):
            places = number * batch_size + tf.range(batch_size, dtype=tf.int64)[rows]
            is_new = places < self.held_out.count
            weights = batch[features.MASKED_LM_WEIGHTS]
            labels = batch[features.NEXT_SENTENCE_LABELS]
            is_real = tf.cast(is_new[:, None], tf.int32)
            return batch | {
                features.INPUT_MASK: batch[features.INPUT_MASK] * is_real,
                features.MASKED_LM_WEIGHTS: tf.where(is_new[:, None], weights, 0.0),
                features.NEXT_SENTENCE_LABELS: tf.where(
                    is_new, labels, features.IGNORED
                ),
            }

        return batches.enumerate().map(count_once, num_parallel_calls=1)

    def explain(self, error: Exception) -> str | None:
        """Names the damaged file, which TensorFlow does not; reads the files again."""
        both = dict.fromkeys((self.train, self.held_out))
        return next(filter(None, (records.explain(error) for records in both)), None)

    def _parsed(self, records, dataset, rows, batch_size, seed, start_step):
        """These rows of batches of serialized records, parsed and masked."""
        hide = self.mask
        masks = records.is_masked and not records.has_masks
        if masks and hide is None:
            raise errors.InputError(
                f"the records of {wording.first_of(records.files, 1)} hold unmasked "
                "text, which is masked while training; give their --vocab_file"
            )
        parse = records.parse_checked
        dataset = dataset.map(lambda batch: parse(batch[rows]), num_parallel_calls=1)
        if masks and hide:

            def mask(step, input_ids, lengths):
                rng = np.random.default_rng([seed, int(step)])
                return hide(input_ids, lengths, rows, batch_size, rng)

            dataset = dataset.enumerate(start_step).map(
                lambda step, batch: _mask(records, mask, step, batch),
                num_parallel_calls=1,
            )
        if self.has_draws:
            shape = batch_size, records.max_predictions_per_seq

            def draw(step, batch):
                # For the whole batch, so that rows do not depend on hosts and devices.
                draws = tf.random.stateless_uniform(shape, [seed, step], alg="philox")
                return batch | {features.GENERATOR_DRAWS: draws[rows]}

            dataset = dataset.enumerate(start_step).map(draw, num_parallel_calls=1)
        dataset = dataset.prefetch(2)
        return self._with_noise(records, dataset, rows, batch_size, seed, start_step)

    def _with_noise(self, records, batches, rows, batch_size, seed, start_step):
        """These rows of batches of the records: for subclasses, here without noise."""
        return batches


def _in_order(read, records, batch_size, seed, start_step):
    """Batches for ever, from a step on, of what `read` gives of each record."""
    start = start_step * batch_size
    records_in_order = windows(read, records.blocks.counts, seed, start)
    return records_in_order.rebatch(batch_size, drop_remainder=True)


def _filled_batches(records, dataset, rows, batch_size):
    parse = records.parse_checked

    def fill(batch):
        count = tf.size(batch)
        batch = tf.concat([batch, tf.repeat(batch[:1], batch_size - count)], axis=0)
        is_real = tf.cast(tf.range(batch_size) < count, tf.int32)[rows, tf.newaxis]
        parsed = parse(tf.ensure_shape(batch, [batch_size])[rows])
        return parsed | {features.INPUT_MASK: parsed[features.INPUT_MASK] * is_real}

    return dataset.batch(batch_size).map(fill, num_parallel_calls=1).prefetch(2)


def _mask(records, mask, step, batch):
    """A batch of unmasked text with its input_ids masked and the masked_lm features."""
    names = (features.INPUT_IDS, *metadata.PREDICTIONS)

    def mask_arrays(*arrays):
        masked = mask(*arrays)
        return [masked[name] for name in names]

    input_ids = batch[features.INPUT_IDS]
    lengths = tf.reduce_sum(batch[features.INPUT_MASK], axis=1)
    dtypes = [tf.int32, tf.int32, tf.int32, tf.float32]
    values = tf.numpy_function(mask_arrays, [step, input_ids, lengths], dtypes)
    predictions = [len(input_ids), records.max_predictions_per_seq]
    shapes = [input_ids.shape, predictions, predictions, predictions]
    return batch | {
        name: tf.ensure_shape(value, shape)
        for name, value, shape in zip(names, values, shapes, strict=True)
    }


def load(
    specs: Mapping[str, str],
    tokenizer: base.Tokenizer | None,
    rule: masking.Rule | None,
    *,
    max_seq_length: int | None,
    vocab_size: int,
    spare_rows: int,
    type_vocab_size: int = 0,
    has_mask_flags: bool = False,
) -> RecordSets:
    """Opens the records to train on, and those to evaluate on.

    `specs` are {flag: its value}, the records to train on first, and others to evaluate
    on second. `rule` masks those that are not masked, by the tokenizer; None reads them
    as they are. Sizes are those of source.check_records. Flags that name masks
    (`has_mask_flags`) are for unmasked records.
    """
    sources = {
        flag: source.check_records(
            source.find(spec, flag),
            max_seq_length=max_seq_length,
            max_predictions_per_seq=rule.max_predictions_per_seq if rule else 0,
            vocab_size=vocab_size,
            type_vocab_size=type_vocab_size,
            spare_rows=spare_rows,
            vocab=tokenizer.definition() if tokenizer else None,
            do_lower_case=tokenizer.do_lower_case if tokenizer else None,
            flag=flag,
            is_masked=rule is not None,
        )
        for flag, spec in specs.items()
    }
    opened = list(sources.values())
    train, held_out = opened[0], opened[-1]
    if rule is None:
        return RecordSets(train, held_out, None)
    source.check_sentence_task(sources)
    if train.has_masks and held_out.has_masks:
        if has_mask_flags:
            raise errors.InputError(
                f"the records of {train.files[0]} are masked already; leave out "
                "--masking, --masked_lm_prob and --mask_proportions"
            )
        return RecordSets(train, held_out, None)
    if tokenizer is None:
        raise errors.InputError(
            "the records are not masked yet; set --vocab_file to theirs to mask them"
        )
    vocab = masking.MaskingVocab.from_tokenizer(tokenizer)
    if rule.kind == "whole_word":
        ids = _sample(held_out if train.has_masks else train)
        masking.warn_of_characters(ids, tokenizer)

    def mask(input_ids, lengths, rows, batch_size, rng):
        draws = masking.draw((batch_size, train.max_seq_length), rule, vocab, rng)
        return masking.mask(input_ids, lengths, rule, vocab, draws.take(rows))

    return RecordSets(train, held_out, mask)


def _sample(records):
    """The tokens of the first 100 records, int32 [T]."""
    rows = tf.data.TFRecordDataset(records.files).batch(100)
    with contextlib.suppress(tf.errors.OpError):  # which `explain` names later
        batch = next(iter(rows.map(records.parse_checked)))
        return batch[features.INPUT_IDS][batch[features.INPUT_MASK] > 0].numpy()
    return np.zeros(0, features.INTEGER)
