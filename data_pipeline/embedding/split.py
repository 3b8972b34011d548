"""Rows of texts that belong together, as the network reads them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from contract import errors, features, outcomes
from data_pipeline.batches import batching, packing, splits
from data_pipeline.classification import encoding, tables
from data_pipeline.embedding import corpora, distinct, rows
from data_pipeline.text import base
from terminal import progress

_CHUNK_TEXTS = 8192  # tokenized at a time: enough to keep the operations busy


@dataclasses.dataclass(frozen=True)
class TextSplit(splits.Split):
    """The rows of a split, each of G texts."""

    table: tables.Table
    kind: str
    text_ids: np.ndarray  # int32 [N, G], equal where texts are
    labels: np.ndarray | None  # float32 [N] scores, or int32 [N] numbers of labels
    label_names: tuple[str, ...] = ()
    teacher_vectors: np.ndarray | None = None  # float32 [N, G, W], or [N, W]
    unit: ClassVar[str] = "rows"

    def targets(self) -> dict[str, Any]:
        targets = {features.TEXT_IDS: self.text_ids}
        if self.labels is not None:
            targets[features.LABEL_IDS] = self.labels
        if self.teacher_vectors is not None:
            targets[features.TEACHER_VECTORS] = self.teacher_vectors
        return targets

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] rows by file and line, such as "train.tsv:17"."""
        return [f"{self.path}:{self.table.lines[index]}" for index in indices]

    def texts(self) -> list[tuple[str, ...]]:
        """The texts of each row."""
        return rows.texts_of(self.table)

    def examples(self) -> batching.Examples:
        """The rows as training/driver.py takes them; no batch has a text twice."""
        kept = self.packed, self.names, self.digest, self.targets()
        if self.kind in (rows.PAIRS, rows.TRIPLETS):
            return distinct.DistinctExamples(*kept)
        return batching.Examples(*kept)

    def summary(self) -> outcomes.Summary:
        return _summary(self)


def _summary(split) -> outcomes.Summary:
    return outcomes.Summary(
        path=split.path,
        count=len(split),
        unit=split.unit,
        lengths=split.packed.lengths,
        length_unit="tokens of the longest text of a row",
        cut=split.packed.num_truncated,
        cut_means="cut to --max_seq_length",
        labels={},
        labels_title="Labels",
    )


@dataclasses.dataclass(frozen=True)
class RetrievalSplit(splits.Split):
    """Queries, then the passages among which they look for those that answer them."""

    data: corpora.RetrievalData
    kind: ClassVar[str] = rows.RETRIEVAL
    unit: ClassVar[str] = "texts"

    def targets(self) -> dict[str, Any]:
        return {}

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] texts, such as "query 17"."""
        names = [f"query {name}" for name in self.data.query_ids]
        names += [f"passage {name}" for name in self.data.passage_ids]
        return [names[index] for index in indices]

    def summary(self) -> outcomes.Summary:
        return _summary(self)


def load_retrieval(
    name: str,
    paths: Sequence[str],
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    prompts: tuple[str, str] = ("", ""),
) -> RetrievalSplit:
    """The RetrievalSplit of files of corpus, queries and judgements, as corpora.read.

    Arguments are those of `load`, and the two prompts are for queries and passages.
    """
    data = corpora.read(*paths)
    texts = [prompts[0] + text for text in data.queries]
    texts += [prompts[1] + text for text in data.passages]
    packed = _pack(name, texts, 1, tokenizer, max_seq_length)
    print(
        f"{name}: {len(data.queries)} queries and {len(data.passages)} passages from "
        f"{paths[0]}, {packed.sequence_lengths.mean():.1f} tokens on average, "
        f"{packed.num_truncated} cut to {max_seq_length}"
    )
    return RetrievalSplit(paths[0], packed, data)


def load(
    name: str,
    table: tables.Table,
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    prompts: tuple[str, str] = ("", ""),
    label_names: tuple[str, ...] = (),
    has_teacher: bool = False,
) -> TextSplit:
    """Checks and packs the rows of a split, and prints how many there are.

    Args:
        name: of the split, for messages.
        prompts: put before the first text of a row, and before the others.
        label_names: of labelled rows, where a split before had some.
        has_teacher: whether rows may be texts alone.

    Raises:
        ValueError: a score is no number, or a text has no token.
    """
    kind = rows.kind_of(table, has_teacher=has_teacher)
    each = rows.texts_of(table)
    size = len(each[0])
    before = prompts[:1] + prompts[1:] * (size - 1)
    texts = [p + text for row in each for p, text in zip(before, row, strict=True)]
    packed = _pack(name, texts, size, tokenizer, max_seq_length)
    _check_tokens(table, packed, tokenizer)
    labels: np.ndarray | None = None
    if kind == rows.SCORED:
        labels = _scores(table)
    elif kind == rows.LABELLED:
        labels, label_names = _label_ids(table, label_names)
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(text, len(numbers)) for text in texts]
    print(
        f"{name}: {len(each)} {kind} from {table.path}, {len(numbers)} different "
        f"texts, {packed.sequence_lengths.mean():.1f} tokens on average, "
        f"{packed.num_truncated} cut to {max_seq_length}"
    )
    return TextSplit(
        table.path,
        packed,
        table,
        kind,
        np.array(ids, np.int32).reshape(-1, size),
        labels,
        label_names,
    )


def _pack(name, texts, size, tokenizer, max_seq_length) -> packing.Packed:
    encode, chunks = encoding.Encoder(tokenizer, max_seq_length), []
    for part in progress.slices(len(texts), _CHUNK_TEXTS, f"tokenizing {name}: text"):
        tokens, lengths, counts = encode(tf.constant(texts[part], tf.string))
        cut = int(np.sum(counts.numpy() > max_seq_length))
        chunk = packing.unpad(tokens, lengths)
        chunks.append(dataclasses.replace(chunk, num_truncated=cut))
    return dataclasses.replace(packing.concatenate(chunks), num_sequences=size)


def _check_tokens(table, packed, tokenizer):
    """Refuses texts without a token, such as one of format characters alone."""
    frame = 0 if tokenizer.start_id is None else 2
    if not (packed.sequence_lengths > frame).all():
        row = int(np.argmin(packed.sequence_lengths)) // packed.num_sequences
        raise errors.InputError(
            f"{table.path}:{table.lines[row]}: a text has no token, only characters "
            "that the tokenizer leaves out; correct the row, or remove it"
        )


def _scores(table: tables.Table) -> np.ndarray:
    values = []
    for line, label in zip(table.lines, table.labels or (), strict=True):
        try:
            value = float(str(label))
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise errors.InputError(
                f"{table.path}:{line}: score {label!r:.40} is not a finite number; "
                "correct it, name the column with --label_column, or pass "
                "--label_column= for pairs that belong together and have no scores"
            )
        values.append(value)
    return np.array(values, np.float32)


def _label_ids(
    table: tables.Table, known: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = [str(label) for label in table.labels or ()]
    names = (*known, *sorted(set(labels) - set(known)))
    places: Mapping[str, int] = {name: place for place, name in enumerate(names)}
    return np.array([places[label] for label in labels], np.int32), names
