"""Rows with the logits of a teacher, which has a tokenizer of another vocabulary."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from contract import errors, features, wording
from data_pipeline import findings, label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels, sources, split
from data_pipeline.tables import labelled

UNLABELLED = "unlabelled"  # a split of rows with the teacher's logits alone
TRAINED = ("train", UNLABELLED)  # the splits that a student learns from


def with_unlabelled(
    data: split.LabelledData,
    source: sources.Source,
    show: findings.Show = findings.hide,
) -> split.LabelledData:
    """Adds the rows of source.unlabelled_file, without labels, as UNLABELLED."""
    path = source.unlabelled_file
    if not path or "train" not in data.splits:
        return data
    layout = dataclasses.replace(source.layout, leaves_out=True)
    opened = labelled.open_table(path, layout, labels_required=False)
    table = opened.read(show)
    if (table.text_b is not None) != data.encode.has_pairs:
        raise errors.InputError(
            f"--unlabelled_file={path} and the training rows: one has pairs of texts "
            "and one has single texts; check --text_b_column"
        )
    table = dataclasses.replace(table, labels=None)
    packed = split.pack(UNLABELLED, table, None, data.encode, data.label_set, show)
    return dataclasses.replace(data, splits={**data.splits, UNLABELLED: packed})


def order_classes(directory: str, theirs: Any, ours: labels.Labels) -> Any:
    """The columns of a teacher's logits in the order of its student's classes."""
    if theirs is None:
        raise errors.InputError(
            f"--teacher={directory}: its classes have no names; put a "
            'label_map.json there, such as {"0": "bad", "1": "good"}'
        )
    kind = getattr(theirs, "problem_type", "tagging")
    if kind != ours.problem_type:
        raise errors.InputError(
            f"--teacher={directory} was trained for {kind} and the student is for "
            f"{ours.problem_type}; set --problem_type, or choose another teacher"
        )
    if theirs.num_sequences > 1:
        raise errors.InputError(
            f"--teacher={directory} reads pairs in both orders; choose another teacher"
        )
    if (names := label_maps.match(ours.names, theirs.names)) is None:
        raise errors.InputError(
            f"--teacher={directory} has the labels {wording.listing(theirs.names)} and "
            f"the student {wording.listing(ours.names)}; give the student --labels="
            + ",".join(theirs.names)
        )
    return [theirs.names.index(name) for name in names] or slice(None)


@dataclasses.dataclass(frozen=True, repr=False)
class _DistillationExamples(batching.Examples):
    """Examples with a target that the first batches compute."""

    teacher_logits: Callable[[], np.ndarray] = lambda: np.zeros(0)

    def batches(self, order: np.ndarray, pad_to: int | None) -> Any:
        targets = {**self.targets, features.TEACHER_LOGITS: self.teacher_logits()}
        return batching.batches(self.packed, order, targets=targets, pad_to=pad_to)


class SoftLabels:
    """The logits of a teacher for the rows of a student, once for the whole run.

    `encode` and `predict` are the teacher's: (batching.Examples, name) -> "logits",
    float32 [N, C]. `identity` differs where its weights do; `columns` are of
    `order_classes`.
    """

    def __init__(
        self,
        data: split.LabelledData,
        encode: encoding.Encoder,
        predict: Callable[..., Mapping[str, np.ndarray]],
        identity: str,
        columns: Any = slice(None),
    ):
        self._data = data
        self._encode = encode
        self._predict, self._identity, self._columns = predict, identity, columns
        self.logits = functools.cache(self._logits)  # of a split, float32 [N, C]

    def _logits(self, name: str) -> np.ndarray:
        rows = self._data.splits[name]
        packed = encoding.featurize(rows.table, self._encode)
        examples = dataclasses.replace(rows.examples(), packed=packed, targets={})
        outputs = self._predict(examples, name=f"teacher, {name} rows: batch")
        return outputs["logits"][:, self._columns]

    def training_examples(
        self, temperature: float, weight: float
    ) -> dict[str, batching.Examples]:
        """The split "train" of a student, with the unlabelled rows; {} without it.

        The digest covers the numbers of its objective.
        """
        splits = self._data.splits
        if "train" not in splits:
            return {}
        trained = [name for name in TRAINED if name in splits]
        packed = packing.concatenate([splits[name].packed for name in trained])
        gold = splits["train"].label_ids
        label_ids = np.zeros((len(packed), *gold.shape[1:]), gold.dtype)
        label_ids[: len(gold)] = gold
        is_labelled = (np.arange(len(packed)) < len(gold)).astype(np.float32)

        def names(indices: np.ndarray) -> list[str]:
            every = [splits[n].names(np.arange(len(splits[n]))) for n in trained]
            joined = list(itertools.chain.from_iterable(every))
            return [joined[i] for i in indices]

        def digest() -> str:
            return (
                f"{len(packed)} examples, digest "
                f"{packing.digest(packed, label_ids, is_labelled)}, teacher "
                f"{self._identity} at temperature {temperature}, weight {weight}"
            )

        return {
            "train": _DistillationExamples(
                packed,
                names,
                digest,
                {features.LABEL_IDS: label_ids, features.IS_LABELLED: is_labelled},
                lambda: np.concatenate([self.logits(name) for name in trained]),
            )
        }
