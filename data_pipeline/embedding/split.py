"""Rows of texts that belong together, as the network reads them."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from contract import errors, features
from data_pipeline import findings
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, label_checks
from data_pipeline.embedding import corpora
from data_pipeline.tables import labelled, numbers
from data_pipeline.text import base

_LOOKED_AT = 4  # waiting rows that a batch may look at, for each of its own


@dataclasses.dataclass(frozen=True, repr=False)
class DistinctExamples(batching.Examples):
    """Examples of which no batch has a text twice, by the ids in their `targets`."""

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`, not by length; rows without a place wait.

        Prints how many wait for their first batch after an epoch or more.
        """
        size, steps = settings["batch_size"], settings["num_steps"]
        # Negatives may come twice: the loss compares no texts of equal ids.
        ids = self.targets[features.TEXT_IDS][:, :2]
        order = without_repeats(self._stream(settings), ids, size, steps)
        unused = len(self) - len(np.unique(order))
        if unused and order.size >= len(self):
            print(
                f"batches: {unused} of {len(self)} rows are in none, since a batch has "
                "no text twice; train longer, or lower --train_batch_size"
            )
        return order

    def _stream(self, settings: dict[str, Any]) -> Iterator[int]:
        """Rows without end: the order of fewer steps begins that of more."""
        count, begun = 2 * settings["num_steps"] + 1, 0
        while True:
            changed = {"num_steps": count, "group_by_length": False}
            rows = batching.training_order(self.packed.lengths, **settings | changed)
            yield from rows.ravel()[begun:].tolist()
            begun, count = rows.size, 2 * count


def without_repeats(
    stream: Iterable[int], text_ids: np.ndarray, batch_size: int, num_steps: int
) -> np.ndarray:
    """Batches int32 [num_steps, batch_size] of rows of a stream, in its order.

    Their texts are all different, by `text_ids` int32 [N, G].
    """
    rows = iter(stream)
    ids = [frozenset(row) for row in text_ids.tolist()]
    waiting: collections.deque[int] = collections.deque()
    # More rows of a frequent text would only wait; they come again with the next epoch.
    most_waiting = (2 * num_steps + 1) * batch_size
    batches = np.zeros((num_steps, batch_size), np.int32)
    for batch in batches:
        taken: set[int] = set()
        seen: set[int] = set()  # what is not taken then does not fit later, either
        count, most = 0, min(len(waiting), _LOOKED_AT * batch_size)
        looked_at = iter([waiting.popleft() for _ in range(most)])
        candidates = itertools.chain(looked_at, rows)
        while count < batch_size:
            if len(seen) == len(ids) or (row := next(candidates, -1)) < 0:
                raise errors.InputError(
                    f"a batch has {count} rows, and all {len(ids) - count} others have "
                    f"one of its texts; lower --train_batch_size={batch_size}"
                )
            seen.add(row)
            if not taken.isdisjoint(ids[row]):
                if len(waiting) < most_waiting:
                    waiting.append(row)
                continue
            taken |= ids[row]
            batch[count] = row
            count += 1
        waiting.extend(looked_at)
    return batches


@dataclasses.dataclass(frozen=True, repr=False)
class GroupedExamples(batching.Examples):
    """Examples whose `targets` have labels, `rows_per_label` next to another.

    A label with fewer rows has all of them together, and the last group takes the rest.
    """

    rows_per_label: int = 2

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`, not by length; an epoch has whole batches."""
        size, steps = settings["batch_size"], settings["num_steps"]
        if len(self) < size:
            return super().training_order(**settings)
        epochs: list[np.ndarray] = []
        while len(epochs) * (len(self) // size) < steps:
            rng = np.random.default_rng([*np.ravel(settings["seed"]), len(epochs)])
            rows = self._grouped(rng)
            epochs.append(rows[: len(rows) // size * size].reshape(-1, size))
        return np.concatenate(epochs)[:steps].astype(np.int32)

    def _grouped(self, rng: np.random.Generator) -> np.ndarray:
        """All rows, int [N]: those of a label in groups, and groups by chance."""
        rows = rng.permutation(len(self))
        labels = np.asarray(self.targets[features.LABEL_IDS])[rows]
        rows, labels = rows[order := np.argsort(labels, kind="stable")], labels[order]
        _, starts, label, counts = np.unique(labels, True, True, True)
        places = np.arange(len(rows)) - starts[label]
        # The last group of a label has the rows that fill no other one.
        last = np.maximum(counts // self.rows_per_label - 1, 0)[label]
        group = np.minimum(places // self.rows_per_label, last)
        is_first = np.diff(group, prepend=-1) + np.diff(label, prepend=-1) != 0
        number = np.cumsum(is_first) - 1
        return rows[np.argsort(rng.permutation(number[-1] + 1)[number], kind="stable")]


_PROBLEM_TYPES = {corpora.SCORED: "regression", corpora.LABELLED: "classification"}


@dataclasses.dataclass(frozen=True, repr=False)
class TextSplit(batching.Split):
    """The rows of a split, each of G texts."""

    table: labelled.Table
    kind: str
    text_ids: np.ndarray  # int32 [N, G], equal where texts are
    labels: np.ndarray | None  # float32 [N] scores, or int32 [N] numbers of labels
    label_names: tuple[str, ...] = ()
    teacher_vectors: np.ndarray | None = None  # float32 [N, G, W], or [N, W]
    rows_per_label: int = 0  # that a batch has next to one another, or 0 for any
    unit: ClassVar[str] = "rows"
    length_unit: ClassVar[str] = "tokens of the longest text of a row"

    @property
    def is_binary(self) -> bool:
        """Whether these are pairs with the scores 0 and 1."""
        scores = np.unique(np.asarray(self.labels))
        return self.kind == corpora.SCORED and {*scores} == {0, 1}

    @property
    def averaged_lengths(self) -> np.ndarray:
        return self.packed.sequence_lengths  # of texts

    def contents(self) -> str:
        count = np.unique(self.text_ids).size
        return f"{len(self)} {self.kind} from {self.path}, {count} different texts"

    def targets(self) -> dict[str, Any]:
        targets = {
            features.TEXT_IDS: self.text_ids,
            features.LABEL_IDS: self.labels,
            features.TEACHER_VECTORS: self.teacher_vectors,
        }
        return {name: value for name, value in targets.items() if value is not None}

    def names(self, indices: np.ndarray) -> list[str]:
        return [f"{self.path}:{self.table.lines[index]}" for index in indices]

    def examples(self) -> batching.Examples:
        """As `Split.examples`; no batch of pairs or triplets has a text twice."""
        values = self.packed, self.names, self.digest, self.targets()
        if self.kind in (corpora.PAIRS, corpora.TRIPLETS):
            return DistinctExamples(*values)
        if self.rows_per_label:
            return GroupedExamples(*values, self.rows_per_label)
        return batching.Examples(*values)


@dataclasses.dataclass(frozen=True, repr=False)
class RetrievalSplit(batching.Split):
    """Queries, then the passages among which they look for those that answer them."""

    data: corpora.RetrievalData
    kind: ClassVar[str] = corpora.RETRIEVAL
    is_binary: ClassVar[bool] = False
    unit: ClassVar[str] = "texts"
    length_unit: ClassVar[str] = "tokens of the longest text of a row"

    def contents(self) -> str:
        numbers = f"{len(self.data.queries)} queries and {len(self.data.passages)}"
        return f"{numbers} passages from {self.path}"

    def targets(self) -> dict[str, Any]:
        return {}

    def names(self, indices: np.ndarray) -> list[str]:
        names = [f"query {name}" for name in self.data.query_ids]
        names += [f"passage {name}" for name in self.data.passage_ids]
        return [names[index] for index in indices]


def load_retrieval(
    name: str,
    paths: Sequence[str],
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    prompts: tuple[str, str] = ("", ""),
    show: findings.Show = findings.hide,
) -> RetrievalSplit:
    """As `load`, of the files of corpora.read; prompts are for queries and passages."""
    data = corpora.read(*paths)
    show(data.noticed)
    texts = [prompts[0] + text for text in data.queries]
    texts += [prompts[1] + text for text in data.passages]
    if (own := data.own_passages()) is not None:
        text = f"{np.count_nonzero(own >= 0)} queries have the id of a passage, "
        text += "which is left out of their ranking, as BEIR does"
        show([findings.Finding(name, text)])
    packed = _pack(name, texts, 1, tokenizer, max_seq_length)
    split = RetrievalSplit(paths[0], packed, data)
    cut = f"cut to {max_seq_length}"
    show([split.announcement(name, tokenizer, cut, texts=name)])
    return split


def load(
    name: str,
    table: labelled.Table,
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    prompts: tuple[str, str] = ("", ""),
    label_names: tuple[str, ...] = (),
    has_teacher: bool = False,
    show: findings.Show = findings.hide,
) -> TextSplit:
    """Checks and packs the rows of the split `name`, and shows how many there are.

    `prompts` stand before the first text of a row, and before the others. `label_names`
    are those of a split before. With `has_teacher` rows may be texts alone.
    """
    kind = corpora.kind_of(table, has_teacher=has_teacher)
    table = label_checks.one_label_each(table, "")
    if name != "test":
        table, left_out = label_checks.with_labels(table, _PROBLEM_TYPES.get(kind, ""))
        show(left_out)
    each = table.texts()
    size = len(each[0])
    if kind == corpora.LABELLED and len(each) < 2:
        raise errors.InputError(
            f"{table.path}: rows are compared, and there is one; give two or more"
        )
    before = prompts[:1] + prompts[1:] * (size - 1)
    texts = [p + text for row in each for p, text in zip(before, row, strict=True)]
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(text, len(numbers)) for text in texts]
    packed = _pack(name, texts, size, tokenizer, max_seq_length)
    text_ids = np.array(ids, np.int32).reshape(-1, size)
    split = TextSplit(table.path, packed, table, kind, text_ids, None)
    cut = f"cut to {max_seq_length}"
    show([split.announcement(name, tokenizer, cut, texts=name)])
    has_token = packed.sequence_lengths > (0 if tokenizer.start_id is None else 2)
    if not has_token.all():  # such as of format characters alone
        raise errors.InputError(
            f"{table.path}:{table.lines[int(np.argmin(has_token)) // size]}: a text "
            "has no token; remove the row"
        )
    labels: np.ndarray | None = None
    if kind == corpora.SCORED:
        labels = _scores(table)
    elif kind == corpora.LABELLED:
        names = [str(label) for label in table.labels or ()]
        label_names = (*label_names, *sorted({*names} - {*label_names}))
        places = {label: place for place, label in enumerate(label_names)}
        labels = np.array([places[label] for label in names], np.int32)
    return dataclasses.replace(split, labels=labels, label_names=label_names)


def oddities(
    splits: Mapping[str, TextSplit | RetrievalSplit],
) -> list[findings.Finding]:
    """What is odd in the labels and texts of a run."""
    read = {n: each.table for n, each in splits.items() if isinstance(each, TextSplit)}
    if {each.kind for each in splits.values()} == {corpora.LABELLED}:
        odd = label_checks.inspect(read, "classification")
        return [each.as_warning() for each in odd]  # which stop no comparison
    scored = {name for name in read if splits[name].kind == corpora.SCORED}
    numbers = label_checks.equal_numbers({name: read[name] for name in scored})
    return [*label_checks.of_texts(read), *numbers]


def _pack(name, texts, size, tokenizer, max_seq_length) -> packing.Packed:
    encode = encoding.Encoder(tokenizer, max_seq_length)
    packed = encoding.pack(f"tokenizing {name}: text", encode, texts)
    return dataclasses.replace(packed, num_sequences=size)


def _scores(table: labelled.Table) -> np.ndarray:
    remedy = "correct it, or --label_column, which may be empty for pairs alone"
    return numbers.read(table.path, table.lines, table.labels or (), remedy)
