"""Rows that learn from a teacher, which tokenizes them for itself."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from contract import errors, features, wording
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, label_sets, sources, tables
from data_pipeline.classification import split as labelled_texts

UNLABELLED = "unlabelled"  # a split of rows that only the teacher says something of
TRAINED = ("train", UNLABELLED)  # those that a student learns from


def with_unlabelled(
    data: labelled_texts.LabelledTexts,
    source: sources.Source,
    max_seq_length: int,
) -> labelled_texts.LabelledTexts:
    """Adds the table source.unlabelled_file to training rows, as the split UNLABELLED.

    Labels in it are not read.

    Raises:
        ValueError: it cannot be read, or has pairs where the others have none.
    """
    path = source.unlabelled_file
    if not path or "train" not in data.packed:
        return data
    table = tables.read_table(
        path,
        source.layout,
        labels_required=False,
        allow_empty_text=source.allow_empty_text,
        other_header=next(iter(data.tables.values())).header,
    )
    if (table.text_b is not None) != data.encode.has_pairs:
        raise errors.InputError(
            f"--unlabelled_file={path} and the training rows: one has pairs of texts "
            "and one has single texts; check --text_b_column"
        )
    table = dataclasses.replace(table, labels=None)
    packed = encoding.featurize(table, data.encode)
    encoding.announce(UNLABELLED, table, packed, max_seq_length)
    return dataclasses.replace(
        data,
        tables={**data.tables, UNLABELLED: table},
        packed={**data.packed, UNLABELLED: packed},
        label_ids={**data.label_ids, UNLABELLED: None},
    )


def check_classes(directory: str, theirs: Any, ours: label_sets.LabelSet) -> None:
    """Raises ValueError unless a teacher's classes are those of its student."""
    if theirs is None:
        raise errors.InputError(
            f"--teacher={directory}: nothing says what its classes are called; put a "
            'label_map.json beside its weights, such as {"0": "bad", "1": "good"}'
        )
    kind = getattr(theirs, "problem_type", "tagging")
    if kind != ours.problem_type:
        raise errors.InputError(
            f"--teacher={directory} was trained for {kind} and the student is for "
            f"{ours.problem_type}; set --problem_type, or choose another teacher"
        )
    if theirs.num_sequences > 1:
        raise errors.InputError(
            f"--teacher={directory} reads pairs in both orders, and a teacher reads "
            "one sequence; choose another teacher"
        )
    if theirs.names != ours.names:
        raise errors.InputError(
            f"--teacher={directory} has the labels {wording.listing(theirs.names)} and "
            f"the student has {wording.listing(ours.names)}; they must be the same in "
            f"the same order: --labels={','.join(theirs.names)} gives the student the "
            "teacher's"
        )


@dataclasses.dataclass(frozen=True)
class _TaughtExamples(batching.Examples):
    """Examples with a target that is computed when the first batches are wanted."""

    teacher_logits: Callable[[], np.ndarray] = lambda: np.zeros(0)

    def batches(self, order: np.ndarray, pad_to: int | None) -> Any:
        """As `batching.batches`."""
        said = {features.TEACHER_LOGITS: self.teacher_logits()}
        targets = {**self.targets, **said}
        return batching.batches(self.packed, order, targets=targets, pad_to=pad_to)


class SoftLabels:
    """What a teacher says of the rows of a student, once for the whole run.

    Args:
        data: the student's rows.
        encode: of the teacher's tokenizer and length.
        predict: of the teacher: batching.Examples, name of the progress -> outputs, of
            which "logits" are float32 [N, C].
        identity: differs where the teacher's weights do.
    """

    def __init__(
        self,
        data: labelled_texts.LabelledTexts,
        encode: encoding.Encoder,
        predict: Callable[..., Mapping[str, np.ndarray]],
        identity: str,
    ):
        self._data = data
        self._encode = encode
        self._predict, self._identity = predict, identity
        # Returns float32 [N, C] for a split; works at the first call.
        self.logits = functools.cache(self._logits)

    def _logits(self, split: str) -> np.ndarray:
        packed = encoding.featurize(self._data.tables[split], self._encode)
        rows = dataclasses.replace(
            self._data.examples(split), packed=packed, targets={}
        )
        name = f"teacher, {split} rows: batch"
        return self._predict(rows, name=name)["logits"]

    def training_examples(
        self, temperature: float, weight: float
    ) -> dict[str, batching.Examples]:
        """The split "train" of a student, with the unlabelled rows; {} without it.

        The numbers are those of its objective, and part of the digest.
        """
        data = self._data
        splits = [split for split in TRAINED if split in data.packed]
        if "train" not in splits:
            return {}
        packed = packing.concatenate([data.packed[split] for split in splits])
        given = data.label_ids["train"]
        assert given is not None
        num_labelled = len(given)
        label_ids = np.zeros((len(packed), *given.shape[1:]), given.dtype)
        label_ids[:num_labelled] = given
        is_labelled = (np.arange(len(packed)) < num_labelled).astype(np.float32)

        def names(indices: np.ndarray) -> list[str]:
            every = [data.names(s, np.arange(len(data.packed[s]))) for s in splits]
            joined = list(itertools.chain.from_iterable(every))
            return [joined[i] for i in indices]

        def digest() -> str:
            found = packing.digest(packed, label_ids, is_labelled)
            return (
                f"{len(packed)} examples, digest {found}, teacher {self._identity} at "
                f"temperature {temperature}, weight {weight}"
            )

        def teacher_logits() -> np.ndarray:
            return np.concatenate([self.logits(split) for split in splits])

        targets = {features.LABEL_IDS: label_ids, features.IS_LABELLED: is_labelled}
        taught = _TaughtExamples(packed, names, digest, targets, teacher_logits)
        return {"train": taught}
