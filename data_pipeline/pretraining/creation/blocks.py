"""Blocks of the text of a unit, one after another, for left-to-right models.

The documents of a unit follow one another, each with its end token, and are cut into
blocks of --max_seq_length tokens; the last one is padded. Each token is predicted once:
a block begins with the last token of the one before. Word pieces stand between [CLS]
and [SEP], and [CLS] is what the first of them is predicted from.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from contract import features
from data_pipeline.batches import packing, tf_records
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import instances
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.text import base


def split_documents(text: bytes, document_end: str) -> list[str]:
    """The documents of a range; invalid bytes are ignored.

    Between blank lines a line is a sentence, and a space takes the place of its LF.
    """
    decoded = text.decode("utf-8", "ignore")
    if document_end == metadata.FILE:
        return [decoded] if decoded.strip() else []
    lines = (line.strip() for line in decoded.split("\n"))
    groups = itertools.groupby(lines, key=bool)
    return [" ".join(sentences) for has_text, sentences in groups if has_text]


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The ids around documents and blocks; None for nothing."""

    end_id: int | None  # after each document
    cls_id: int | None = None  # before and after each block
    sep_id: int | None = None

    @property
    def size(self) -> int:
        """Tokens of a block that are none of the text."""
        return 0 if self.cls_id is None else 2

    @classmethod
    def from_tokenizer(cls, tokenizer: base.Tokenizer) -> "SpecialTokens":
        """[SEP] of BERT, <|endoftext|> of GPT-2, or GPT's _start_."""
        if tokenizer.cls_id is not None:
            return cls(tokenizer.sep_id, tokenizer.cls_id, tokenizer.sep_id)
        if tokenizer.document_end_id is None:
            return cls(tokenizer.start_id)
        return cls(tokenizer.document_end_id)

    def stride(self, max_seq_length: int) -> int:
        """Tokens of the text from the beginning of a block to that of the next one."""
        return max_seq_length - (self.size or 1)


@dataclasses.dataclass(frozen=True)
class Blocks(instances.Instances):
    """The text of a unit, cut into blocks in random order."""

    COUNTS = ("documents", "words", "bytes", "tokens", "unknown_tokens")
    IN_METADATA = metadata.TEXT_COUNTS

    tokens: np.ndarray  # int32 [T], the documents with their ends
    numbers: np.ndarray  # int64 [N], of the blocks, as shuffled
    counts: dict[str, int]
    special: SpecialTokens
    max_seq_length: int  # S

    @staticmethod
    def cut(
        job: creation_job.Job, unit: int, chunk: int, texts: Sequence[bytes]
    ) -> dict[str, np.ndarray]:
        """As Instances.cut: documents end to end, each with its end."""
        document_end = job.settings.document_end
        documents = [d for text in texts for d in split_documents(text, document_end)]
        tokens: np.ndarray = np.zeros(0, features.INTEGER)
        lengths = np.zeros(0, np.int64)
        if documents:
            ids = job.tokenizer.tokenize(documents)  # [B, (S)]
            tokens, lengths = ids.values.numpy(), ids.row_lengths().numpy()
        num_unknown = np.sum(tokens == job.tokenizer.unk_id)
        special = SpecialTokens.from_tokenizer(job.tokenizer)
        has_tokens = lengths > 0
        if special.end_id is not None:
            tokens = np.insert(tokens, np.cumsum(lengths[has_tokens]), special.end_id)
        kept = [d for d, is_kept in zip(documents, has_tokens, strict=True) if is_kept]
        num_words = sum(len(document.split()) for document in kept)
        num_bytes = sum(len(document.encode("utf-8")) for document in kept)
        counts = len(kept), num_words, num_bytes, lengths.sum(), num_unknown
        return {
            "tokens": tokens.astype(features.INTEGER, copy=False),
            "counts": np.array(counts, np.int64),  # Blocks.COUNTS
        }

    @classmethod
    def join(
        cls, job: creation_job.Job, unit: int, chunks: Sequence[instances.Arrays]
    ) -> "Blocks":
        special = SpecialTokens.from_tokenizer(job.tokenizer)
        length = job.settings.max_seq_length
        parts = [arrays["tokens"] for arrays in chunks]
        num_predicted = sum(map(len, parts))
        if not special.size and special.end_id is not None:
            # From which the first token of the first document is predicted.
            parts.insert(0, np.array([special.end_id], features.INTEGER))
        elif not special.size:
            num_predicted -= 1
        count = max(-(-num_predicted // special.stride(length)), 0)
        totals = np.sum([arrays["counts"] for arrays in chunks], axis=0).tolist()
        return cls(
            tokens=np.concatenate(parts),
            numbers=np.random.default_rng(job.seed(1, unit)).permutation(count),
            counts=dict(zip(cls.COUNTS, totals, strict=True)),
            special=special,
            max_seq_length=length,
        )

    def __len__(self):
        return len(self.numbers)

    def in_metadata(self, chosen: np.ndarray, first: int) -> tuple[int, ...]:
        """As Instances.in_metadata.

        Words and bytes are dealt out evenly, as a block may begin within a word: only
        their sums over all files of a job are exact.
        """
        predictions = int((self.lengths(self.numbers[chosen]) - 1).sum())
        whole, end = max(len(self), 1), first + len(chosen)
        shares = (
            total * end // whole - total * first // whole
            for total in (self.counts["words"], self.counts["bytes"])
        )
        return predictions, *shares

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """Tokens of blocks, int64 [N]."""
        left = len(self.tokens) - numbers * self.special.stride(self.max_seq_length)
        return np.minimum(left + self.special.size, self.max_seq_length)

    def records(
        self, job: creation_job.Job, chosen: np.ndarray, rng: np.random.Generator
    ) -> tuple[Iterator[bytes], tuple[int, ...]]:
        numbers, special = self.numbers[chosen], self.special
        lengths = self.lengths(numbers)
        starts = numbers * special.stride(self.max_seq_length) - special.size // 2
        splits = packing.row_splits(lengths)
        tokens = np.take(self.tokens, packing.ranges(starts, lengths), mode="clip")
        if special.cls_id is not None and special.sep_id is not None:
            tokens[splits[:-1]] = special.cls_id
            tokens[splits[1:] - 1] = special.sep_id
        packed = packing.Packed(tokens, splits, lengths)
        arrays = packing.grids(packed, self.max_seq_length)
        arrays[features.NEXT_SENTENCE_LABELS] = np.zeros((len(numbers), 1), np.uint8)
        return tf_records.records(arrays), ()
