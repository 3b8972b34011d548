"""The records of a pretraining run: to train on and held out, masked where needed."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from contract import errors, wording
from data_pipeline.pretraining import batches, masking
from data_pipeline.pretraining import source as record_checks
from data_pipeline.text import tokenization


@dataclasses.dataclass(frozen=True)
class RecordSets:
    """What a run trains and evaluates on."""

    train: record_checks.RecordSource
    held_out: record_checks.RecordSource  # the same, where there are no others
    mask: batches.Mask | None  # None where all records are masked, or none is

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = batches.ONE_HOST,
    ) -> tf.data.Dataset:
        """As record_batches.training_batches."""
        return batches.training_batches(
            self.train, batch_size, seed, start_step, num_steps, self.mask, context
        )

    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        """As record_batches.batch_names, of the records to train on."""
        return batches.batch_names(self.train, batch_size, seed, step)

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = batches.ONE_HOST,
    ) -> tf.data.Dataset:
        """As record_batches.evaluation_batches, of the records held out."""
        return batches.evaluation_batches(
            self.held_out, batch_size, num_batches, self.mask, context
        )

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        """As record_batches.num_evaluation_batches, of the records held out."""
        return batches.num_evaluation_batches(self.held_out, batch_size, most)

    def digest(self) -> str:
        """Tells training records of one run from those of another."""
        names = [os.path.basename(file) for file in self.train.files]
        text = repr((names, self.train.counts)).encode("utf-8")
        digest = hashlib.sha256(text).hexdigest()[:16]
        return f"{sum(self.train.counts)} records, digest {digest}"

    def summary(self) -> dict[str, dict[str, Any]]:
        """What a report says of the records: where they are, and how many."""
        sources = {"train": self.train}
        if self.held_out is not self.train:
            sources["eval"] = self.held_out
        return {
            name: {
                "path": wording.first_of(source.files),
                "count": sum(source.counts),
                "unit": "records",
                "cut": None,
            }
            for name, source in sources.items()
        }

    def explain(self, error: Exception) -> str | None:
        """Which file made reading fail, if that is what the error says."""
        for source in dict.fromkeys((self.train, self.held_out)):
            if said := batches.explain(error, source):
                return said
        return None


def load(
    specs: Mapping[str, str],
    tokenizer: tokenization.Tokenizer | None,
    rule: masking.Rule | None,
    *,
    max_seq_length: int | None,
    vocab_size: int,
    spare_rows: int,
    masks_are_asked_for: bool,
) -> RecordSets:
    """Opens the records to train on, and those to evaluate on.

    `specs` are {flag: its value}, the records to train on first and those to evaluate
    on second, if they are others. `rule` masks those that are not masked, for which a
    tokenizer is needed; None is for texts that are read as they are. Sizes are those of
    record_checks.open_records.

    Raises:
        ValueError: as there; or masks are needed and there is no vocabulary, or there
            are masks and others are asked for.
    """
    sources = {
        flag: record_checks.open_records(
            record_checks.find(spec, flag),
            max_seq_length=max_seq_length,
            max_predictions_per_seq=rule.max_predictions_per_seq if rule else 0,
            vocab_size=vocab_size,
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
    record_checks.check_sentence_task(sources)
    if train.has_masks and held_out.has_masks:
        if masks_are_asked_for:
            raise errors.InputError(
                "--masking, --masked_lm_prob and --mask_proportions are for records "
                f"not masked yet, but those of {train.files[0]} are; leave the flags "
                "out, or make records with create_pretraining_data.py --masking=none"
            )
        return RecordSets(train, held_out, None)
    if tokenizer is None:
        raise errors.InputError(
            "the records are not masked, and masking them needs the vocabulary; set "
            "--vocab_file to the one they were made with"
        )
    pieces = masking.pieces_of(tokenizer)

    def mask(input_ids, lengths, rows, batch_size, rng):
        draws = masking.draw((batch_size, train.max_seq_length), rule, pieces, rng)
        return masking.mask(input_ids, lengths, rule, pieces, draws.of(rows))

    return RecordSets(train, held_out, mask)
