"""The pairs of a run: read, checked, turned into ids and the inputs of a decoder."""

import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, outcomes
from data_pipeline import findings
from data_pipeline.batches import batching, packing
from data_pipeline.seq2seq import graph
from data_pipeline.seq2seq import pairs as text_pairs
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
CHUNK_ROWS = 8192


def append_eos(
    ids: tf.RaggedTensor, tokens: features.DecoderTokens, max_target_length: int
) -> tf.RaggedTensor:
    """Targets [B, (T)] with their end token, int32, cut to `max_target_length`."""
    end = tf.fill([ids.nrows(), 1], tf.cast(tokens.end, ids.dtype))
    return tf.concat([ids[:, : max_target_length - 1], end], axis=1)


def grids(
    with_eos: tf.RaggedTensor, tokens: features.DecoderTokens, length: int | None = None
) -> dict[str, tf.Tensor]:
    """The features of targets [B, (T)] with end tokens, padded to `length` or the most.

    Returns:
        decoder_input_ids, decoder_mask and labels, int32 [B, T]: the start token and
        the target but for its last token; 1 where a target is; and the target.
    """
    labels = with_eos.to_tensor(tokens.padding, shape=[None, length])  # [B, T]
    lengths = tf.cast(with_eos.row_lengths(), tf.int32)[:, tf.newaxis]  # [B, 1]
    is_real = tf.range(tf.shape(labels)[1]) < lengths  # [B, T]
    return {
        features.DECODER_INPUT_IDS: packing.shift_right(labels, is_real, tokens),
        features.DECODER_MASK: tf.cast(is_real, tf.int32),
        features.LABELS: labels,
    }


class Limits(NamedTuple):
    """The most tokens of a source and of a target, special ones included."""

    max_source_length: int
    max_target_length: int


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PairSplit(batching.Split):
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
    columns: str = ""  # that were read, for people
    unit: ClassVar[str] = "pairs"
    before_lengths: ClassVar[str] = "; sources of "

    def target_arrays(self) -> list[Any]:
        special_ids = np.array(self.tokens)
        if self.target_ids is None:
            return [special_ids]
        return [self.target_ids, self.target_splits, special_ids]

    def names(self, indices: np.ndarray) -> list[str]:
        """Such as "train.tsv:17"."""
        return [f"{self.path}:{self.lines[index]}" for index in indices]

    def examples(self, *, is_numbered: bool = False) -> "PairExamples":
        """The pairs as tasks/fine_tuning.py takes them; see PairExamples."""
        return PairExamples(
            self.packed, self.names, self.digest, pairs=self, is_numbered=is_numbered
        )

    def summary(self) -> outcomes.Summary:
        return dataclasses.replace(
            super().summary(),
            length_unit="tokens of a source",
            cut_means="cut to --max_source_length",
            labels={},
            labels_title="Targets",
        )

    def contents(self) -> str:
        unit = self.unit if self.has_targets else "sources"
        return f"{len(self)} {unit} from {self.path} ({self.columns})"

    def announcement(
        self, name: str, tokenizer: Any, cut: str, *, texts: str = "", notes: str = ""
    ) -> findings.Finding:
        """As Split.announcement, of sources; then that of targets, where there are."""
        texts = texts or f"{self.path}, sources"
        of_sources = super().announcement(name, tokenizer, cut, texts=texts)
        if self.target_splits is not None:
            counts = tokenizer.count_unknown(self.target_ids)
            unknown = tokenizer.describe_unknown(f"{self.path}, targets", counts)
            notes += f"; targets of {np.diff(self.target_splits).mean():.1f}, "
            notes += f"{self.num_cut_targets} cut to {self.limits.max_target_length}"
            notes += unknown
        return dataclasses.replace(of_sources, value=of_sources.value + notes)

    @property
    def has_targets(self) -> bool:
        """Whether rows have targets; all do, or none does."""
        return self.target_ids is not None


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PairExamples(batching.Examples):
    """N sources for an encoder with their targets, for tasks/fine_tuning.py."""

    pairs: PairSplit
    # Whether batches have unique_ids, which seed the draws of sampling.
    is_numbered: bool = False

    @property
    def target_lengths(self) -> np.ndarray:
        """int64 [N], tokens of each target; zeros of sources alone."""
        if self.pairs.target_splits is None:
            return np.zeros(len(self), np.int64)
        return np.diff(self.pairs.target_splits)

    def training_order(self, **settings: Any) -> np.ndarray:
        """As batching.training_order; targets order equally long sources."""
        longest = self.target_lengths.max(initial=0) + 1
        keys = self.packed.lengths * longest + self.target_lengths
        return batching.training_order(keys, **settings)

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As batching.batches, with the features of `grids` where there are targets."""
        targets, pairs = None, self.pairs
        if pairs.target_ids is not None:
            row_splits = tf.constant(pairs.target_splits)
            targets = tf.RaggedTensor.from_row_splits(pairs.target_ids, row_splits)
        # Where sources are padded to one length, so are targets.
        length = None if pad_to is None else pairs.limits.max_target_length

        def others(indices):
            batch = {features.UNIQUE_IDS: indices} if self.is_numbered else {}
            if targets is not None:
                batch |= grids(tf.gather(targets, indices), pairs.tokens, length)
            return batch

        return batching.batches(self.packed, order, pad_to=pad_to, others=others)


def load(
    name: str,
    rows: text_pairs.PairRows,
    tokenizer: Any,
    tokens: features.DecoderTokens,
    limits: Limits,
    show: findings.Show = findings.hide,
) -> PairSplit:
    """Reads the rows of "train", "dev" or "test", and shows what was read.

    Only ids of training rows stay. Longer texts are cut and counted. A text without a
    token raises ValueError.
    """
    try:
        pairs = _read(rows, tokenizer, tokens, limits, keeps_texts=name != "train")
    finally:
        show(rows.noticed)
    cut = f"cut to {limits.max_source_length}"
    show([pairs.announcement(name, tokenizer, cut)])
    return pairs


def _read(rows, tokenizer, tokens, limits, *, keeps_texts):
    packed: list[packing.Packed] = []
    lines: list[int] = []
    sources: list[str] = []
    targets: list[str] = []
    spelled: list[str] = []
    target_ids: list[tf.RaggedTensor] = []
    num_cut_targets = 0
    for pairs in _in_chunks(rows):
        packed.append(_encode_sources(rows.path, pairs, tokenizer, limits))
        lines += [pair.line for pair in pairs]
        if keeps_texts:
            sources += [pair.source for pair in pairs]
        if not rows.has_targets:
            continue
        texts = tf.constant([pair.target for pair in pairs], tf.string)
        ids = tokenizer.tokenize(texts)
        lengths = ids.row_lengths().numpy()
        _refuse_empty(rows.path, pairs, lengths, text_pairs.TARGET)
        num_cut_targets += int(np.sum(lengths + 1 > limits.max_target_length))
        ids = append_eos(ids, tokens, limits.max_target_length)
        target_ids.append(ids.with_values(tf.cast(ids.values, features.INTEGER)))
        if keeps_texts:
            targets += [pair.target for pair in pairs if pair.target is not None]
            spelled += [t.decode() for t in graph.spell(tokenizer, texts).numpy()]
    ids = splits = None
    if rows.has_targets:
        with_eos = tf.concat(target_ids, axis=0)
        ids, splits = with_eos.values.numpy(), with_eos.row_splits.numpy()
    return PairSplit(
        path=rows.path,
        lines=np.array(lines, np.int64),
        packed=packing.concatenate(packed),
        target_ids=ids,
        target_splits=splits,
        num_cut_targets=num_cut_targets,
        sources=tuple(sources),
        target_texts=tuple(targets),
        spelled=tuple(spelled),
        tokens=tokens,
        limits=limits,
        columns=rows.columns,
    )


def _in_chunks(rows: text_pairs.PairRows) -> Iterator[list[text_pairs.Pair]]:
    name, done = f"tokenizing {os.path.basename(rows.path)}: row", 0
    with progress.Progress(name) as report:
        report(done, None)
        while pairs := list(itertools.islice(rows.rows, CHUNK_ROWS)):
            yield pairs
            done += len(pairs)
            report(done, None)


def _encode_sources(path, pairs, tokenizer, limits) -> packing.Packed:
    sources = tf.constant([pair.source for pair in pairs], tf.string)
    ids = tokenizer.tokenize(sources)
    _refuse_empty(path, pairs, ids.row_lengths().numpy(), text_pairs.SOURCE)
    return packing.pack_ids(
        ids, None, special=tokenizer, max_seq_length=limits.max_source_length
    )


def _refuse_empty(path, pairs, counts, role):
    """Refuses texts without a token, such as one of format characters alone."""
    if not counts.all():
        pair = pairs[int(np.argmin(counts))]
        raise errors.InputError(
            f"{path}:{pair.line}: the {role} has no token, only characters that the "
            "tokenizer leaves out; correct the row, or remove it"
        )
