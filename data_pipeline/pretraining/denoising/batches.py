"""Batches of unmasked records to batches of sources and targets."""

import dataclasses

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.batches import targets
from data_pipeline.pretraining.denoising import corruptions, transforms

# Tokens of a record that are none of its text.
AROUND_TEXT = corruptions.AROUND_SOURCE
_OF_TARGETS = (features.DECODER_MASK, features.LABELS)
_NAMES = (*features.ENCODER_INPUTS, *_OF_TARGETS)


@dataclasses.dataclass(frozen=True)
class Corruptor:
    """Makes sources and targets of records that have at most W tokens of text.

    `pads_to_longest` gives each batch, or a host's share of one, the lengths of its
    longest source and target; else lengths are those below.
    """

    rule: corruptions.Rule
    entries: corruptions.Entries
    around_source: tuple[int, int]  # the ids of [CLS] and [SEP]
    tokens: features.DecoderTokens
    width: int  # W
    pads_to_longest: bool = False

    @property
    def source_length(self) -> int:
        """Tokens of the longest source that can be, [CLS] and [SEP] included."""
        found = corruptions.sizes(self.width, self.rule)
        return found.source + corruptions.AROUND_SOURCE

    @property
    def target_length(self) -> int:
        """Tokens of the longest target that can be, its end included."""
        found = corruptions.sizes(self.width, self.rule)
        return found.target + corruptions.AFTER_TARGET

    def features(
        self, input_ids: np.ndarray, input_mask: np.ndarray, chance: np.ndarray
    ) -> dict[str, np.ndarray]:
        """What becomes of records, int32 [N, W + 2], whose tokens have the mask 1.

        [CLS] and [SEP] are none of a text, not even those between documents: so the end
        of a target is the end of all. A record without a token gives padding alone.
        `chance` is that of corruptions.draw.

        Returns:
            int32: input_ids, input_mask, segment_ids [N, S]; decoder_mask, labels
            [N, T].
        """
        is_record = input_mask.any(axis=1)
        is_text = ~np.isin(input_ids, self.around_source)
        texts = transforms.kept(input_ids, is_text & (input_mask > 0))
        texts = transforms.Texts(  # shorter than this, unless somebody else made them
            texts.ids[:, : self.width], np.minimum(texts.lengths, self.width)
        )
        source, target = corruptions.corrupt(texts, self.rule, self.entries, chance)
        source_ids, input_mask = self._framed(
            source, self.around_source, is_record, self.source_length
        )
        labels, decoder_mask = self._framed(
            target, (self.tokens.end,), is_record, self.target_length
        )
        found = {
            features.INPUT_IDS: source_ids,
            features.INPUT_MASK: input_mask,
            features.SEGMENT_IDS: np.zeros_like(source_ids),
            features.DECODER_MASK: decoder_mask,
            features.LABELS: labels,
        }
        return {name: value.astype(features.INTEGER) for name, value in found.items()}

    def _framed(self, texts, around, is_record, length):
        """Ids [N, length] with tokens around those of records, and which are real."""
        *before, after = around
        lengths = np.where(is_record, texts.lengths + len(before) + 1, 0)
        if self.pads_to_longest:
            length = max(int(lengths.max(initial=0)), 1)  # no network takes 0 columns
        width, first = texts.ids.shape[1], len(before)
        shape = len(lengths), max(length, width + first)
        ids: np.ndarray = np.zeros(shape, features.INTEGER)
        ids[:, :first] = before
        ids[:, first : first + width] = texts.ids
        ids[np.arange(len(lengths)), lengths - 1] = after
        is_real = np.arange(length) < lengths[:, None]
        return np.where(is_real, ids[:, :length], self.tokens.padding), is_real


def corrupted(
    dataset: tf.data.Dataset,
    corruptor: Corruptor,
    *,
    rows: slice,
    batch_size: int,
    seed: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Features of batches of records, of which a host has these rows.

    They are those of Corruptor.features, and decoder_input_ids int32 [N, T].

    What is drawn follows from seed, step and row, for which it is drawn for all rows of
    a batch: all hosts together have the batches that one would have.
    """

    def corrupt(step, input_ids, input_mask):
        random = np.random.default_rng([seed, int(step)])
        chance = corruptions.draw(batch_size, corruptor.width, corruptor.rule, random)
        found = corruptor.features(input_ids, input_mask, chance[rows])
        return [found[name] for name in _NAMES]

    count = rows.stop - rows.start
    lengths = dict.fromkeys(features.ENCODER_INPUTS, corruptor.source_length)
    lengths |= dict.fromkeys(_OF_TARGETS, corruptor.target_length)

    def to_features(step, batch):
        read = [batch[name] for name in (features.INPUT_IDS, features.INPUT_MASK)]
        values = tf.numpy_function(corrupt, [step, *read], [tf.int32] * len(_NAMES))
        found = {
            name: tf.ensure_shape(
                value, [count, None if corruptor.pads_to_longest else lengths[name]]
            )
            for name, value in zip(_NAMES, values, strict=True)
        }
        is_real = found[features.DECODER_MASK] > 0
        read = targets.shifted(found[features.LABELS], is_real, corruptor.tokens)
        return {**found, features.DECODER_INPUT_IDS: read}

    numbered = dataset.enumerate(start_step)
    return numbered.map(to_features, num_parallel_calls=1).prefetch(2)
