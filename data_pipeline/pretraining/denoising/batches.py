"""Unmasked records as batches of sources with noise, and of targets.

BERT's vocabularies have no sentinels. Where one has [unused0] and so on, sentinels are
these, which no text has, from the highest id down; else they are the last entries,
from the last one down, as in T5.
"""

import dataclasses
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.batches import packing
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import source
from data_pipeline.pretraining.denoising import corruptions, noise
from data_pipeline.text import base, wordpiece

_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK)\]")
_TARGET_FEATURES = (features.DECODER_MASK, features.LABELS)
_NAMES = (*features.ENCODER_INPUTS, *_TARGET_FEATURES)


@dataclasses.dataclass(frozen=True)
class Corruptor:
    """Makes sources and targets of records that have at most W tokens of text."""

    rule: corruptions.Rule
    noise_tokens: corruptions.NoiseTokens
    around_source: tuple[int, int]  # the ids of [CLS] and [SEP]
    tokens: features.DecoderTokens
    width: int  # W

    @property
    def source_length(self) -> int:
        """Tokens of the longest source that can be, [CLS] and [SEP] included."""
        longest = corruptions.max_lengths(self.width, self.rule)
        return longest.source + corruptions.AROUND_SOURCE

    @property
    def target_length(self) -> int:
        """Tokens of the longest target that can be, its end included."""
        longest = corruptions.max_lengths(self.width, self.rule)
        return longest.target + corruptions.AFTER_TARGET

    def features(
        self, input_ids: np.ndarray, input_mask: np.ndarray, uniform: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Sources and targets of records, int32 [N, W + 2], whose tokens have mask 1.

        [CLS] and [SEP] are none of a text, not even those between documents: so the end
        of a target is the end of all. A record without a token gives padding alone.
        `uniform` is that of corruptions.draw.

        Returns:
            int32: input_ids, input_mask, segment_ids [N, S]; decoder_mask, labels
            [N, T].
        """
        is_record = input_mask.any(axis=1)
        is_text = ~np.isin(input_ids, self.around_source)
        texts = noise.keep(input_ids, is_text & (input_mask > 0))
        # Records of other programs may hold longer texts.
        texts = noise.Texts(
            texts.ids[:, : self.width], np.minimum(texts.lengths, self.width)
        )
        sources, targets = corruptions.corrupt(
            texts, self.rule, self.noise_tokens, uniform
        )
        source_ids, input_mask = self._framed(
            sources, self.around_source, is_record, self.source_length
        )
        labels, decoder_mask = self._framed(
            targets, (self.tokens.end,), is_record, self.target_length
        )
        arrays = {
            features.INPUT_IDS: source_ids,
            features.INPUT_MASK: input_mask,
            features.SEGMENT_IDS: np.zeros_like(source_ids),
            features.DECODER_MASK: decoder_mask,
            features.LABELS: labels,
        }
        return {name: value.astype(features.INTEGER) for name, value in arrays.items()}

    def _framed(self, texts, around, is_record, length):
        """Ids [N, length] with tokens around those of records, and which are real."""
        *before, after = around
        lengths = np.where(is_record, texts.lengths + len(before) + 1, 0)
        width, first = texts.ids.shape[1], len(before)
        shape = len(lengths), max(length, width + first)
        ids: np.ndarray = np.zeros(shape, features.INTEGER)
        ids[:, :first] = before
        ids[:, first : first + width] = texts.ids
        ids[np.arange(len(lengths)), lengths - 1] = after
        is_real = np.arange(length) < lengths[:, None]
        return np.where(is_real, ids[:, :length], self.tokens.padding), is_real

    def corrupt(
        self,
        dataset: tf.data.Dataset,
        *,
        rows: slice,
        batch_size: int,
        seed: int,
        start_step: int = 0,
    ) -> tf.data.Dataset:
        """`features` of batches of records, and decoder_input_ids int32 [N, T].

        A host has these rows. What is drawn follows from seed, step and row, for which
        it is drawn for all rows of a batch: all hosts together have the batches that
        one would have.
        """

        def corrupt(step, input_ids, input_mask):
            random = np.random.default_rng([seed, int(step)])
            uniform = corruptions.draw(batch_size, self.width, self.rule, random)
            arrays = self.features(input_ids, input_mask, uniform[rows])
            return [arrays[name] for name in _NAMES]

        count = rows.stop - rows.start
        lengths = dict.fromkeys(features.ENCODER_INPUTS, self.source_length)
        lengths |= dict.fromkeys(_TARGET_FEATURES, self.target_length)

        def to_features(step, batch):
            read = [batch[name] for name in (features.INPUT_IDS, features.INPUT_MASK)]
            values = tf.numpy_function(corrupt, [step, *read], [tf.int32] * len(_NAMES))
            batch = {
                name: tf.ensure_shape(value, [count, lengths[name]])
                for name, value in zip(_NAMES, values, strict=True)
            }
            is_real = batch[features.DECODER_MASK] > 0
            read = packing.shift_right(batch[features.LABELS], is_real, self.tokens)
            return {**batch, features.DECODER_INPUT_IDS: read}

        numbered = dataset.enumerate(start_step)
        return numbered.map(to_features, num_parallel_calls=1).prefetch(2)


@dataclasses.dataclass(frozen=True)
class DenoisingSets(record_batches.RecordSets):
    """Records with noise, as batches of Corruptor.corrupt.

    The texts of each epoch have other noise, and held-out ones have always the same.
    """

    train_corruptor: Corruptor
    held_out_corruptor: Corruptor

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        return self.train_corruptor.corrupt(
            super().training_batches(batch_size, seed, start_step, num_steps, context),
            rows=source.rows_of_host(batch_size, context),
            batch_size=batch_size,
            seed=seed,
            start_step=start_step,
        )

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        """Rows that fill the last batch are padding alone."""
        return self.held_out_corruptor.corrupt(
            super().evaluation_batches(batch_size, num_batches, context),
            rows=source.rows_of_host(batch_size, context),
            batch_size=batch_size,
            seed=record_batches.EVALUATION_SEED,
        )

    @property
    def lengths(self) -> tuple[int, int]:
        """The most tokens of a source and of a target: positions of the network."""
        both = self.train_corruptor, self.held_out_corruptor
        return max(c.source_length for c in both), max(c.target_length for c in both)

    def describe(self, tokenizer: base.Tokenizer) -> str:
        """One line on the texts to train on, for the log."""
        train = self.train_corruptor
        line = (
            f"texts: up to {train.width} tokens; sources up to {train.source_length}, "
            f"targets up to {train.target_length}"
        )
        sentinels = train.noise_tokens.sentinels
        if len(sentinels):
            first, last = (tokenizer.vocab[sentinels[i]] for i in (0, -1))
            line += f"; sentinels {first} to {last} ({sentinels[0]} to {sentinels[-1]})"
        return line


def load(
    specs: Mapping[str, str],
    tokenizer: base.Tokenizer | None,
    rule: corruptions.Rule,
    *,
    max_seq_length: int,
    vocab_size: int,
    spare_rows: int,
    tokens: features.DecoderTokens | None = None,
) -> DenoisingSets:
    """Opens the records to train on, and those to evaluate on.

    Args:
        specs: {flag: its value}, the records to train on first and those to evaluate on
            second, if they are others. They may be of any length that fits.
        tokenizer: of the vocabulary that the records were made with.
        rule: how texts are corrupted.
        max_seq_length: the most tokens of a source, and of a target.
        vocab_size: rows of the network's table.
        spare_rows: of them, at most so many beyond the vocabulary.
        tokens: of the decoder; None for those of the tokenizer.

    Raises:
        ValueError: as in source.check_records; the vocabulary is not of word pieces, or
            lacks [MASK] or sentinels; or records are pairs of segments, or too long for
            `max_seq_length`.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        raise errors.InputError(
            "--objective=denoising needs the vocabulary of word pieces that the "
            "records were made with; set --vocab_file to a vocab.txt"
        )
    records = record_batches.load(
        specs,
        tokenizer,
        None,
        max_seq_length=None,
        vocab_size=vocab_size,
        spare_rows=spare_rows,
    )
    corruptors = {}
    for each in dict.fromkeys((records.train, records.held_out)):
        width = _checked_width(each, rule, max_seq_length)
        corruptors[each] = Corruptor(
            rule=rule,
            noise_tokens=noise_tokens(tokenizer, rule, width),
            around_source=(tokenizer.cls_id, tokenizer.sep_id),
            tokens=tokens or features.DecoderTokens.from_tokenizer(tokenizer),
            width=width,
        )
    return DenoisingSets(
        **vars(records),
        train_corruptor=corruptors[records.train],
        held_out_corruptor=corruptors[records.held_out],
    )


def noise_tokens(
    tokenizer: base.Tokenizer, rule: corruptions.Rule, width: int
) -> corruptions.NoiseTokens:
    """The tokens that replace noise in texts of at most `width` tokens.

    Raises:
        ValueError: the vocabulary has no [MASK], or too few sentinels.
    """
    if corruptions.CORRUPTIONS[rule.corruption].has_mask and tokenizer.mask_id is None:
        others = [name for name, c in corruptions.CORRUPTIONS.items() if not c.has_mask]
        raise errors.InputError(
            f"the vocabulary of {tokenizer.vocab_size} tokens lacks "
            f"{wordpiece.MASK}, which --corruption={rule.corruption} writes; give "
            "the vocab.txt of a pretrained model, make one with build_vocab.py, or set "
            f"--corruption to one of {', '.join(others)}"
        )
    needed = corruptions.max_lengths(width, rule).sentinels
    ids = [i for i, t in enumerate(tokenizer.vocab) if _UNUSED.fullmatch(t)]
    if not ids:
        ids = [i for i, t in enumerate(tokenizer.vocab) if not _SPECIAL.fullmatch(t)]
    if len(ids) < needed:
        raise errors.InputError(
            f"--corruption={rule.corruption} needs {needed} sentinels for texts of up "
            f"to {width} tokens, but the vocabulary has {len(ids)} [unused] entries; "
            "set --corruption=random_spans with a longer --mean_noise_span_length or a "
            "lower --noise_density, make records of shorter blocks, or make the "
            "vocabulary with build_vocab.py --num_unused_tokens"
        )
    sentinels = np.array(ids[::-1][:needed], features.INTEGER)
    return corruptions.NoiseTokens(tokenizer.mask_id, sentinels, tokenizer.vocab_size)


def _checked_width(records, rule, max_seq_length):
    """The tokens of text that records have room for."""
    first_file = wording.first_of(records.files, 1)
    if records.sentence_task != "none":
        raise errors.InputError(
            f"the records of {first_file} have two segments (sentence_task="
            f"{records.sentence_task}), and --objective=denoising reads texts; make "
            "them with create_pretraining_data.py --objective=left_to_right"
        )
    width = records.max_seq_length - corruptions.AROUND_SOURCE
    longest = corruptions.longest_text(max_seq_length, rule)
    if not 1 <= width <= longest:
        fitting = longest + corruptions.AROUND_SOURCE
        lengths = corruptions.max_lengths(width, rule)
        least = max(
            lengths.source + corruptions.AROUND_SOURCE,
            lengths.target + corruptions.AFTER_TARGET,
        )
        raise errors.InputError(
            f"the records of {first_file} have max_seq_length="
            f"{records.max_seq_length}, but --max_seq_length={max_seq_length} has room "
            f"for the source and target of {fitting} with "
            f"--corruption={rule.corruption}; make records with "
            f"create_pretraining_data.py --objective=left_to_right --max_seq_length="
            f"{fitting}, or set the flag to {least} or more"
        )
    return width
