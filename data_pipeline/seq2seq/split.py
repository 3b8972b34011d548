"""The pairs of a run: read, checked, turned into ids."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, outcomes
from data_pipeline.batches import packing, splits
from data_pipeline.seq2seq import decoder_features, graph
from data_pipeline.seq2seq import pairs as text_pairs
from data_pipeline.text import base
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
CHUNK_ROWS = 8192
TRAINING = "train"


class Limits(NamedTuple):
    """The most tokens of a source and of a target, special ones included."""

    max_source_length: int
    max_target_length: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairSplit(splits.Split):
    """The N pairs of a split as ids, `packed` being [CLS] source [SEP], and as texts.

    Texts are () for training rows, which may be many; those of targets without them.
    """

    lines: np.ndarray  # int64 [N], where each row begins, from 1
    target_ids: np.ndarray | None  # int32, targets with end tokens, end to end
    target_splits: np.ndarray | None  # int64 [N + 1], where they begin and end
    num_cut_targets: int
    sources: tuple[str, ...]
    target_texts: tuple[str, ...]
    spelled: tuple[str, ...]  # the targets as graph.spell writes them
    tokens: features.DecoderTokens
    limits: Limits
    unit: ClassVar[str] = "pairs"

    def target_arrays(self) -> list[Any]:
        special_ids = np.array(self.tokens)
        if self.target_ids is None:
            return [special_ids]
        return [self.target_ids, self.target_splits, special_ids]

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] pairs by file and line, such as "train.tsv:17"."""
        return [f"{self.path}:{self.lines[index]}" for index in indices]

    def examples(self, *, is_numbered: bool = False) -> decoder_features.PairExamples:
        """The pairs as training/driver.py takes them; see PairExamples."""
        return decoder_features.PairExamples(
            self.packed,
            self.names,
            self.digest,
            target_ids=self.target_ids,
            target_splits=self.target_splits,
            tokens=self.tokens,
            max_target_length=self.limits.max_target_length,
            is_numbered=is_numbered,
        )

    def summary(self) -> outcomes.Summary:
        return outcomes.Summary(
            path=self.path,
            count=len(self),
            unit=self.unit,
            lengths=self.packed.lengths,
            length_unit="tokens of a source",
            cut=self.packed.num_truncated,
            cut_means="cut to --max_source_length",
            labels={},
            labels_title="Targets",
        )

    def announcement(self, split: str, columns: str, tokenizer: base.Tokenizer) -> str:
        """A line on what was read: how much, how long, and what was cut or unknown."""
        sources, targets = (
            tokenizer.describe_unknown(
                f"{self.path}, {name}", tokenizer.count_unknown(ids)
            )
            for name, ids in (
                ("sources", self.packed.tokens),
                ("targets", () if self.target_ids is None else self.target_ids),
            )
        )
        parts = [
            f"{split}: {len(self)} {'pairs' if self.has_targets else 'sources'} from "
            f"{self.path} ({columns}); sources of {self.packed.lengths.mean():.1f} "
            f"tokens on average, {self.packed.num_truncated} cut to "
            f"{self.limits.max_source_length}{sources}"
        ]
        if self.target_splits is not None:
            parts.append(
                f"targets of {np.diff(self.target_splits).mean():.1f}, "
                f"{self.num_cut_targets} cut to {self.limits.max_target_length}"
                f"{targets}"
            )
        return "; ".join(parts)

    @property
    def has_targets(self) -> bool:
        """Whether rows have targets; all do, or none does."""
        return self.target_ids is not None


def load(
    paths: Mapping[str, str],
    layout: text_pairs.Layout,
    tokenizer: Any,
    tokens: features.DecoderTokens,
    limits: Limits,
) -> dict[str, PairSplit]:
    """Reads the files of "train", "dev" and "test", and prints what was read.

    Only ids of training rows stay. Longer texts are cut and counted. "test" needs no
    targets. A text without a token raises ValueError.
    """
    splits_read = {}
    for name, path in paths.items():
        rows = text_pairs.open_rows(path, layout, targets_required=name != "test")
        pairs = _read(rows, tokenizer, tokens, limits, keeps_texts=name != TRAINING)
        print(pairs.announcement(name, rows.columns, tokenizer))
        splits_read[name] = pairs
    return splits_read


class _Chunk(NamedTuple):
    """Some rows as ids."""

    packed: packing.Packed
    targets: tf.RaggedTensor | None  # with end tokens, int32 [B, (T)]
    num_cut: int
    spelled: list[str]


def _read(rows, tokenizer, tokens, limits, *, keeps_texts):
    chunks: list[_Chunk] = []
    lines: list[int] = []
    sources: list[str] = []
    targets: list[str] = []
    for pairs in _in_chunks(rows):
        chunks.append(
            _encode(rows, pairs, tokenizer, tokens, limits, spells=keeps_texts)
        )
        lines += [pair.line for pair in pairs]
        if keeps_texts:
            sources += [pair.source for pair in pairs]
            targets += [pair.target for pair in pairs if pair.target is not None]
    ids = splits = None
    if rows.has_targets:
        with_eos = tf.concat([chunk.targets for chunk in chunks], axis=0)
        ids, splits = with_eos.values.numpy(), with_eos.row_splits.numpy()
    return PairSplit(
        path=rows.path,
        lines=np.array(lines, np.int64),
        packed=packing.concatenate([chunk.packed for chunk in chunks]),
        target_ids=ids,
        target_splits=splits,
        num_cut_targets=sum(chunk.num_cut for chunk in chunks),
        sources=tuple(sources),
        target_texts=tuple(targets),
        spelled=tuple(itertools.chain.from_iterable(c.spelled for c in chunks)),
        tokens=tokens,
        limits=limits,
    )


def _in_chunks(rows: text_pairs.PairRows) -> Iterator[list[text_pairs.Pair]]:
    name, done = f"tokenizing {os.path.basename(rows.path)}: row", 0
    with progress.Progress(name) as report:
        report(done, None)
        while pairs := list(itertools.islice(rows.rows, CHUNK_ROWS)):
            yield pairs
            done += len(pairs)
            report(done, None)


def _encode(rows, pairs, tokenizer, tokens, limits, *, spells) -> _Chunk:
    sources = tf.constant([pair.source for pair in pairs], tf.string)
    ids = tokenizer.tokenize(sources)
    _refuse_empty(rows.path, pairs, ids.row_lengths().numpy(), text_pairs.SOURCE)
    packed = packing.pack_ids(
        ids, None, special=tokenizer, max_seq_length=limits.max_source_length
    )
    if not rows.has_targets:
        return _Chunk(packed, None, 0, [])
    texts = tf.constant([pair.target for pair in pairs], tf.string)
    ids = tokenizer.tokenize(texts)
    counts = ids.row_lengths().numpy()
    _refuse_empty(rows.path, pairs, counts, text_pairs.TARGET)
    with_eos = decoder_features.append_eos(ids, tokens, limits.max_target_length)
    spelled = graph.spell(tokenizer, texts).numpy() if spells else ()
    return _Chunk(
        packed,
        with_eos.with_values(tf.cast(with_eos.values, features.INTEGER)),
        int(np.sum(counts + 1 > limits.max_target_length)),
        [text.decode("utf-8") for text in spelled],
    )


def _refuse_empty(path, pairs, counts, role):
    """Refuses texts without a token, such as one of format characters alone."""
    if not counts.all():
        pair = pairs[int(np.argmin(counts))]
        raise errors.InputError(
            f"{path}:{pair.line}: the {role} has no token, only characters that the "
            "tokenizer leaves out; correct the row, or remove it"
        )
