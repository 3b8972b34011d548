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
from data_pipeline.pretraining import corruptions
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
    def lengths(self) -> tuple[int, int]:
        return _lengths(self.width, self.rule)

    def features(
        self, input_ids: np.ndarray, input_mask: np.ndarray, uniform: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Sources and targets of records, int32 [N, W + 2], whose tokens have mask 1.

        [CLS] and [SEP] are none of a text: so the end of a target is the end of all. A
        record without a token gives padding alone. `uniform` is float [N, 2, W].

        Returns:
            int32: input_ids, input_mask, segment_ids [N, S]; decoder_mask, labels
            [N, T].
        """
        is_record = input_mask.any(axis=1)
        is_text = ~np.isin(input_ids, self.around_source)
        ids, lengths = corruptions.keep(input_ids, is_text & (input_mask > 0))
        # Records of other programs may hold longer texts.
        texts = corruptions.Texts(ids[:, : self.width], np.minimum(lengths, self.width))
        sources, targets = corruptions.corrupt(
            texts, self.rule, self.noise_tokens, uniform
        )
        longest_source, longest_target = self.lengths
        source_ids, input_mask = self._framed(
            sources, self.around_source, is_record, longest_source
        )
        labels, decoder_mask = self._framed(
            targets, (self.tokens.end,), is_record, longest_target
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


@dataclasses.dataclass(frozen=True)
class DenoisingSets(record_batches.RecordSets):
    """Records with noise, as batches of Corruptor.features and decoder_input_ids.

    The texts of each epoch have other noise, and held-out ones have always the same.
    """

    train_corruptor: Corruptor
    held_out_corruptor: Corruptor

    def _with_noise(self, records, batches, rows, batch_size, seed, start_step):
        """Sources and targets; rows that fill the last batch are padding alone.

        Noise follows from seed, step and row, and is drawn for all rows of a batch.
        """
        is_train = records == self.train
        corruptor = self.train_corruptor if is_train else self.held_out_corruptor

        def add_noise(step, input_ids, input_mask):
            random = np.random.default_rng([seed, int(step)])
            uniform = random.random((batch_size, 2, corruptor.width))
            arrays = corruptor.features(input_ids, input_mask, uniform[rows])
            return [arrays[name] for name in _NAMES]

        count = rows.stop - rows.start
        longest_source, longest_target = corruptor.lengths
        lengths = dict.fromkeys(features.ENCODER_INPUTS, longest_source)
        lengths |= dict.fromkeys(_TARGET_FEATURES, longest_target)

        def to_features(step, batch):
            inputs = step, batch[features.INPUT_IDS], batch[features.INPUT_MASK]
            values = tf.numpy_function(add_noise, inputs, [tf.int32] * len(_NAMES))
            batch = {
                name: tf.ensure_shape(value, [count, lengths[name]])
                for name, value in zip(_NAMES, values, strict=True)
            }
            is_real = batch[features.DECODER_MASK] > 0
            read = packing.shift_right(
                batch[features.LABELS], is_real, corruptor.tokens
            )
            return {**batch, features.DECODER_INPUT_IDS: read}

        numbered = batches.enumerate(start_step)
        return numbered.map(to_features, num_parallel_calls=1).prefetch(2)

    def describe(self, tokenizer: base.Tokenizer) -> str:
        """One line on the texts to train on, for the log."""
        train = self.train_corruptor
        longest_source, longest_target = train.lengths
        line = (
            f"texts: up to {train.width} tokens; sources up to {longest_source}, "
            f"targets up to {longest_target}"
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
    """Opens the records to train on, and those to evaluate on; as batches.load.

    Sources and targets have at most `max_seq_length` tokens. `tokens` are those of the
    decoder, None for the tokenizer's.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        raise errors.InputError(
            "--objective=denoising needs word pieces; set --vocab_file to the "
            "vocab.txt that the records were made with"
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
    """The tokens that replace noise in texts of at most `width` tokens."""
    if rule.corruption == corruptions.INFILLING and tokenizer.mask_id is None:
        raise errors.InputError(
            f"the vocabulary of {tokenizer.vocab_size} tokens lacks {wordpiece.MASK}; "
            f"give another --vocab_file, or --corruption={corruptions.RANDOM_SPANS}"
        )
    needed = corruptions.max_lengths(width, rule).sentinels
    ids = [i for i, t in enumerate(tokenizer.vocab) if _UNUSED.fullmatch(t)]
    if not ids:
        ids = [i for i, t in enumerate(tokenizer.vocab) if not _SPECIAL.fullmatch(t)]
    if len(ids) < needed:
        raise errors.InputError(
            f"{width} tokens need {needed} sentinels, and --vocab_file has {len(ids)}; "
            "raise --mean_noise_span_length, or --num_unused_tokens of build_vocab.py"
        )
    sentinels = np.array(ids[::-1][:needed], features.INTEGER)
    return corruptions.NoiseTokens(tokenizer.mask_id, sentinels)


def _checked_width(records, rule, max_seq_length):
    """The tokens of text that records have room for."""
    first_file = wording.first_of(records.files, 1)
    if records.sentence_task != "none":
        raise errors.InputError(
            f"the records of {first_file} are pairs (sentence_task="
            f"{records.sentence_task}); make them again with --objective=left_to_right"
        )
    width = records.max_seq_length - corruptions.AROUND_SOURCE
    longest = corruptions.longest_text(max_seq_length, rule)
    if not 1 <= width <= longest:
        fitting = longest + corruptions.AROUND_SOURCE
        least = max(_lengths(width, rule))
        raise errors.InputError(
            f"the records of {first_file} have max_seq_length={records.max_seq_length},"
            f" too long for --max_seq_length={max_seq_length}; set it to {least}, or "
            f"make records of {fitting}"
        )
    return width


def _lengths(width, rule):
    """Tokens of the longest source and target, with those around them."""
    source, target, _ = corruptions.max_lengths(width, rule)
    return source + corruptions.AROUND_SOURCE, target + corruptions.AFTER_TARGET
