"""The pairs of a run: read, checked, turned into ids; and what was written scored."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import packing, padding
from data_pipeline.seq2seq import decoder_features, graph
from data_pipeline.seq2seq import pairs as text_pairs
from data_pipeline.seq2seq import scores as text_scores
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_ROWS = 8192
TRAINING = "train"


class Limits(NamedTuple):
    """The most tokens of a source and of a target, special ones included."""

    max_source_length: int
    max_target_length: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairSet:
    """The N pairs of a split as ids, and as texts where these are looked at again.

    Attributes:
        path: the file.
        lines: int64 [N], where each row begins, from 1.
        packed: [CLS] source [SEP].
        target_ids: int32, targets with their end tokens, end to end; None without them.
        target_splits: int64 [N + 1], where each begins and the last one ends.
        num_cut_targets: that lost tokens to max_target_length.
        num_unknown: tokens of targets that the vocabulary cannot spell.
        sources: as the file has them; () of training rows, which may be many.
        targets: likewise; () without targets, too.
        spelled: the targets as text_graph.spell writes them.
        tokens: of the decoder.
        limits: to which rows were cut.
    """

    path: str
    lines: np.ndarray
    packed: packing.Packed
    target_ids: np.ndarray | None
    target_splits: np.ndarray | None
    num_cut_targets: int
    num_unknown: int
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    spelled: tuple[str, ...]
    tokens: features.DecoderTokens
    limits: Limits

    def __len__(self) -> int:
        return len(self.packed)

    def digest(self) -> str:
        """A short text that differs where sources, targets or special ids differ."""
        targets = (
            () if self.target_ids is None else (self.target_ids, self.target_splits)
        )
        digest = packing.digest(self.packed, *targets, np.array(self.tokens))
        return f"{len(self)} pairs, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] pairs by file and line, such as "train.tsv:17"."""
        return [f"{self.path}:{self.lines[index]}" for index in indices]

    def examples(self, *, is_numbered: bool = False) -> decoder_features.PairExamples:
        """The pairs as training/fine_tuning.py takes them; see PairExamples."""
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

    def summary(self) -> dict[str, Any]:
        """What a report says of the pairs: how many and how long."""
        return {
            "path": self.path,
            "count": len(self),
            "unit": "pairs",
            "lengths": self.packed.lengths,
            "length_unit": "tokens of a source",
            "cut": self.packed.num_truncated,
            "cut_means": "cut to --max_source_length",
            "labels": {},
            "labels_title": "Targets",
        }

    def announcement(self, split: str, columns: str) -> str:
        """A line on what was read: how much, how long, and what was cut."""
        parts = [
            f"{split}: {len(self)} {'pairs' if self.has_targets else 'sources'} from "
            f"{self.path} ({columns}); sources of {self.packed.lengths.mean():.1f} "
            f"tokens on average, {self.packed.num_truncated} cut to "
            f"{self.limits.max_source_length}"
        ]
        if self.target_splits is not None:
            parts.append(
                f"targets of {np.diff(self.target_splits).mean():.1f}, "
                f"{self.num_cut_targets} cut to {self.limits.max_target_length}"
            )
        if self.num_unknown:
            parts.append(
                f"{self.num_unknown} tokens of targets are [UNK], which the vocabulary "
                "cannot spell"
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
) -> dict[str, PairSet]:
    """Reads the files of "train", "dev" and "test", and prints what was read.

    Rows are turned into ids in chunks; of training rows only ids stay. Longer texts are
    cut and counted. "test" needs no targets.

    Raises:
        FileNotFoundError, ValueError: as in text_pairs; or a text has no token.
    """
    found = {}
    for split, path in paths.items():
        rows = text_pairs.open_rows(path, layout, targets_required=split != "test")
        found[split] = _read(
            rows, tokenizer, tokens, limits, keeps_texts=split != TRAINING
        )
        print(found[split].announcement(split, rows.columns))
    return found


class _Chunk(NamedTuple):
    """What becomes of some rows."""

    packed: packing.Packed
    targets: tf.RaggedTensor | None  # closed, int32 [B, (T)]
    num_cut: int
    num_unknown: int
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
    closed = [chunk.targets for chunk in chunks if chunk.targets is not None]
    ids = splits = None
    if closed:
        ids = np.concatenate([part.values.numpy() for part in closed])
        lengths = np.concatenate([part.row_lengths().numpy() for part in closed])
        splits = padding.row_splits(lengths)
    return PairSet(
        path=rows.path,
        lines=np.array(lines, np.int64),
        packed=packing.concatenate([chunk.packed for chunk in chunks]),
        target_ids=ids,
        target_splits=splits,
        num_cut_targets=sum(chunk.num_cut for chunk in chunks),
        num_unknown=sum(chunk.num_unknown for chunk in chunks),
        sources=tuple(sources),
        targets=tuple(targets),
        spelled=tuple(itertools.chain.from_iterable(c.spelled for c in chunks)),
        tokens=tokens,
        limits=limits,
    )


def _in_chunks(rows: text_pairs.PairRows) -> Iterator[list[text_pairs.Pair]]:
    name, done = f"tokenizing {os.path.basename(rows.path)}: row", 0
    with progress.Progress(name) as report:
        report(done, None)
        while pairs := list(itertools.islice(rows.rows, _CHUNK_ROWS)):
            yield pairs
            done += len(pairs)
            report(done, None)


def _encode(rows, pairs, tokenizer, tokens, limits, *, spells) -> _Chunk:
    sources = tf.constant([pair.source for pair in pairs], tf.string)
    sequences, lengths, counts = graph.pack(
        tokenizer, sources, limits.max_source_length
    )
    _refuse_empty(rows.path, pairs, counts.numpy() - 2, text_pairs.SOURCE)
    cut = int(np.sum(counts.numpy() > limits.max_source_length))
    packed = dataclasses.replace(packing.unpad(sequences, lengths), num_truncated=cut)
    if not rows.has_targets:
        return _Chunk(packed, None, 0, 0, [])
    texts = tf.constant([pair.target for pair in pairs], tf.string)
    ids = tokenizer.tokenize(texts)
    counts = ids.row_lengths().numpy()
    _refuse_empty(rows.path, pairs, counts, text_pairs.TARGET)
    closed = decoder_features.close(ids, tokens, limits.max_target_length)
    unknown = 0
    if tokenizer.unk_id is not None:
        unknown = int(np.count_nonzero(ids.values.numpy() == tokenizer.unk_id))
    spelled = graph.spell(tokenizer, texts).numpy() if spells else ()
    return _Chunk(
        packed,
        closed.with_values(tf.cast(closed.values, features.INTEGER)),
        int(np.sum(counts + 1 > limits.max_target_length)),
        unknown,
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


@dataclasses.dataclass(frozen=True)
class Written:
    """What a network wrote for the sources of a split, and how good it is.

    Attributes:
        texts: one for each source.
        num_tokens: int [N], of each, the end token not counted.
        rows: counts for scores; None where targets are unknown, as the next two.
        losses: float [N], the mean of -log p over the tokens of a target.
        scores: of text_scores.NAMES; {} where targets are unknown.
    """

    texts: list[str]
    num_tokens: np.ndarray
    rows: text_scores.RowScores | None = None
    losses: np.ndarray | None = None
    loss: float | None = None  # the mean over all tokens of targets
    scores: dict[str, float] = dataclasses.field(default_factory=dict)

    def results(self, prefix: str) -> dict[str, float]:
        """The scores and the loss under names such as eval_exact_match."""
        values = dict(self.scores)
        if self.loss is not None:
            values["loss"] = self.loss
        return {f"{prefix}_{name}": value for name, value in values.items()}


def decide(
    data: PairSet,
    outputs: Mapping[str, np.ndarray],
    decode: Callable[[tf.Tensor], tf.Tensor],
) -> Written:
    """Texts of what was written, scored where targets are known.

    `outputs` holds "ids", int [N, T], which text_graph.decode, as `decode`, makes texts
    of; and "losses", float [N], of the targets, where they are known.
    """
    ids = outputs["ids"]
    texts: list[str] = []
    for start in range(0, len(ids), _CHUNK_ROWS):
        part = decode(tf.constant(ids[start : start + _CHUNK_ROWS], tf.int32))
        texts += [text.decode("utf-8") for text in part.numpy()]
    is_over = np.cumsum((ids == data.tokens.end) | (ids < 0), axis=1) > 0
    num_tokens = np.sum(~is_over, axis=1)
    if data.target_splits is None:
        return Written(texts, num_tokens)
    rows = text_scores.count(data.spelled, texts)
    scores = text_scores.score(data.spelled, texts, rows)
    losses = np.asarray(outputs["losses"], np.float64)
    loss = float(np.average(losses, weights=np.diff(data.target_splits)))
    return Written(texts, num_tokens, rows, losses, loss, scores)
