"""The records of a run that learns to undo noise: to train on, and held out."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import sets
from data_pipeline.pretraining import source as record_checks
from data_pipeline.pretraining.denoising import batches, corruptions, special_entries
from data_pipeline.text import tokenization

Corruptor = batches.Corruptor


@dataclasses.dataclass(frozen=True)
class DenoisingSets(sets.RecordSets):
    """What a run trains and evaluates on, with noise.

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
        context: tf.distribute.InputContext = record_batches.ONE_HOST,
    ) -> tf.data.Dataset:
        """The records of record_batches.training_batches, with Corruptor.features.

        Noise follows from seed and step, so that a run which resumes at a step has the
        batches that it would have had; and each host has its rows of them.
        """
        order = batch_size, seed, start_step, num_steps
        return batches.corrupted(
            super().training_batches(*order, context),
            self.train_corruptor,
            rows=record_batches.rows_of_host(batch_size, context),
            batch_size=batch_size,
            seed=seed,
            start_step=start_step,
        )

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = record_batches.ONE_HOST,
    ) -> tf.data.Dataset:
        """The held-out records in their order, each once, with Corruptor.features.

        Rows that fill the last batch are padding alone.
        """
        return batches.corrupted(
            super().evaluation_batches(batch_size, num_batches, context),
            self.held_out_corruptor,
            rows=record_batches.rows_of_host(batch_size, context),
            batch_size=batch_size,
            seed=record_batches.EVALUATION_SEED,
        )

    @property
    def lengths(self) -> tuple[int, int]:
        """The most tokens of a source and of a target: positions of the network."""
        both = self.train_corruptor, self.held_out_corruptor
        return max(c.source_length for c in both), max(c.target_length for c in both)

    def describe(self, tokenizer: tokenization.Tokenizer) -> str:
        """One line on the texts to train on, for the log."""
        train = self.train_corruptor
        line = (
            f"texts: up to {train.width} tokens; sources up to {train.source_length}, "
            f"targets up to {train.target_length}"
        )
        sentinels = train.entries.sentinels
        if len(sentinels):
            first, last = (tokenizer.vocab[sentinels[i]] for i in (0, -1))
            line += f"; sentinels {first} to {last} ({sentinels[0]} to {sentinels[-1]})"
        return line


def load(
    specs: Mapping[str, str],
    tokenizer: tokenization.Tokenizer | None,
    rule: corruptions.Rule,
    *,
    max_seq_length: int,
    vocab_size: int,
    spare_rows: int,
    tokens: features.DecoderTokens | None = None,
    pads_to_longest: bool = False,
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
        pads_to_longest: as in denoising_batches.Corruptor; not where batches need one
            shape, as on TPU.

    Raises:
        ValueError: as in record_checks.open_records; the vocabulary is not of word
            pieces, or lacks [MASK] or sentinels; or records are pairs of segments, or
            too long for `max_seq_length`.
    """
    around = special_entries.around_source(tokenizer)
    assert tokenizer is not None
    tokens = tokens or features.DecoderTokens.from_tokenizer(tokenizer)
    records = sets.load(
        *(specs, tokenizer, None),
        max_seq_length=None,
        vocab_size=vocab_size,
        spare_rows=spare_rows,
        masks_are_asked_for=False,
    )
    corruptors = {}
    for source in dict.fromkeys((records.train, records.held_out)):
        width = _checked_width(source, rule, max_seq_length)
        entries = special_entries.entries_of(tokenizer, rule, width)
        corruptors[source] = Corruptor(
            *(rule, entries, around, tokens, width), pads_to_longest
        )
    return DenoisingSets(
        **vars(records),
        train_corruptor=corruptors[records.train],
        held_out_corruptor=corruptors[records.held_out],
    )


def _checked_width(
    source: record_checks.RecordSource, rule: corruptions.Rule, max_seq_length: int
) -> int:
    """The tokens of text that records have room for."""
    named = wording.first_of(source.files, 1)
    if source.sentence_task != "none":
        raise errors.InputError(
            f"the records of {named} have two segments (sentence_task="
            f"{source.sentence_task}), and --objective=denoising reads texts; make "
            "them with create_pretraining_data.py --objective=left_to_right"
        )
    width = source.max_seq_length - batches.AROUND_TEXT
    longest = corruptions.longest_text(max_seq_length, rule)
    if not 1 <= width <= longest:
        fitting = longest + batches.AROUND_TEXT
        raise errors.InputError(
            f"the records of {named} have max_seq_length={source.max_seq_length}, but "
            f"--max_seq_length={max_seq_length} has room for the source and target of "
            f"{fitting} with --corruption={rule.corruption}; make records with "
            f"create_pretraining_data.py --objective=left_to_right --max_seq_length="
            f"{fitting}, or set the flag to {_least(width, rule)} or more"
        )
    return width


def _least(width, rule):
    """The least max_seq_length for texts of so many tokens."""
    found = corruptions.sizes(width, rule)
    return max(
        found.source + corruptions.AROUND_SOURCE,
        found.target + corruptions.AFTER_TARGET,
    )
