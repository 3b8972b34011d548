"""Label names to the numbers that a model learns, and the file that records them."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from contract import errors, features, wording
from data_pipeline.classification import long_texts
from data_pipeline.tables import label_files, labelled, numbers

# The problem types, with the fewest labels of each.
_FEWEST_LABELS = {"classification": 2, "choice": 2, "multi_label": 1, "regression": 0}
PROBLEM_TYPES = tuple(_FEWEST_LABELS)
CHOICE_FORMS = ("separate", "cloze")  # of pair_input


@dataclasses.dataclass(frozen=True)
class Labels:
    """The names of a head's outputs, in the order of their ids; none for regression.

    Those of a choice name the answers by place.
    """

    names: tuple[str, ...]
    problem_type: str = "classification"  # one of PROBLEM_TYPES
    separator: str = ","  # of the labels in a multi-label cell; an empty cell has none
    # How the network reads two texts: "joined", or in "both_orders"; and a choice:
    # "separate" question and answer, or a "cloze" that an answer fills.
    pair_input: str = "joined"
    activation: str = ""  # of a regression, or "sigmoid", as most CrossEncoders have it
    windows: long_texts.Windows | None = None  # of long texts; None: they are cut

    def __post_init__(self) -> None:
        if self.problem_type not in PROBLEM_TYPES:
            raise errors.InputError(
                f"--problem_type={self.problem_type} is none of {list(PROBLEM_TYPES)}"
            )
        fewest = _FEWEST_LABELS[self.problem_type]
        if len(self.names) < fewest:
            raise errors.InputError(
                f"{self.problem_type} needs {fewest} labels or more, not "
                f"{list(self.names)}; name all with --labels"
            )
        if self.problem_type == "regression" and self.names:
            raise errors.InputError(
                f"regression has no {wording.listing(self.names)}; leave --labels out"
            )
        if self.problem_type == "multi_label" and not self.separator:
            raise errors.InputError(
                "multi_label needs a separator between labels; set --label_separator"
            )
        if self.activation not in ("", "sigmoid"):
            raise errors.InputError(f"activation={self.activation!r} is no sigmoid")
        label_files.check_distinct(self.names, "label")

    @property
    def num_outputs(self) -> int:
        """Classes of the head; 1 where it gives each row or answer a number."""
        is_one = self.problem_type in ("regression", "choice")
        return 1 if is_one else len(self.names)

    @property
    def shares_as(self) -> str:
        """The problem type of losses.probabilities: a sigmoid is multi_label's."""
        return "multi_label" if self.activation == "sigmoid" else self.problem_type

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that must match, besides tokens and label ids, to resume a run."""
        order = {} if self.pair_input == "joined" else {"pair_input": self.pair_input}
        windows = {"windows": self.windows.settings()} if self.windows else {}
        return {"labels": list(self.names), **order, **windows}

    @property
    def settings(self) -> dict[str, str]:
        """What label_map.json has beside the names."""
        settings = {"problem_type": self.problem_type}
        if self.pair_input != "joined":
            settings["pair_input"] = self.pair_input
        if self.problem_type == "multi_label":
            settings["label_separator"] = self.separator
        if self.activation:
            settings["activation"] = self.activation
        return settings | (self.windows.settings() if self.windows else {})

    @property
    def window_logits(self) -> str:
        """How the logits of windows are joined; "" where texts are cut."""
        return self.windows.window_logits if self.windows else ""

    @property
    def num_sequences(self) -> int:
        if self.problem_type == "choice":
            return len(self.names)
        return 2 if self.pair_input == "both_orders" else 1

    @property
    def has_one_label(self) -> bool:
        """Whether a row has exactly one of the names."""
        return self.problem_type in features.ONE_OF_SEVERAL

    def ranking_column(self, label: str | None, setting: str = "label") -> int:
        """The output that ranks passages: of `label`, or the last of one or two.

        `setting` is what the user gives the label by, for an error.
        """
        if label is None and self.num_outputs <= 2:
            return -1
        if label not in self.names:
            raise errors.InputError(
                f"passages are ranked by one label of {wording.listing(self.names)}, "
                f"and not by {label!r:.80}; set {setting}"
            )
        return self.names.index(label)

    def encode(self, table: labelled.Table) -> np.ndarray:
        """Labels as ids int32 [N], numbers float32 [N], or multi-hot float32 [N, C]."""
        cells = _label_cells(table)
        if self.problem_type == "regression":
            remedy = "correct the row or --problem_type"
            return numbers.read(table.path, table.lines, cells, remedy)
        if self.has_one_label:
            rows = zip(table.lines, cells, strict=True)
            ids = [self._id(table.path, line, label) for line, label in rows]
            return np.array(ids, np.int32)
        return self.encode_sets(table)[:]

    def encode_sets(self, table: labelled.Table) -> "MultiHot":
        """As `encode` of multi_label, in the memory of the labels that rows have."""
        rows = [
            [self._id(table.path, line, n) for n in split_labels(cell, self.separator)]
            for line, cell in zip(table.lines, _label_cells(table), strict=True)
        ]
        columns = np.array([*itertools.chain(*rows)], np.int32)
        return MultiHot(columns, np.cumsum([0, *map(len, rows)]), len(self.names))

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _id(self, path: str, line: int, label: labelled.Label) -> int:
        if isinstance(label, tuple):
            raise errors.InputError(
                f"{path}:{line}: {list(label)} is a list of labels; pass "
                "--problem_type=multi_label or give the row one label"
            )
        if label in self._ids:
            return self._ids[label]
        raise errors.InputError(
            f"{path}:{line}: label {label!r:.80} is not one of "
            f"{wording.listing(self.names)}{label_files.closest(label, self.names)}; "
            "correct the row or name every label with --labels"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class MultiHot:
    """A float32 matrix [N, C] of zeros and ones, whose rows are made as needed."""

    ids: np.ndarray  # int32, columns of the ones, row by row
    splits: np.ndarray  # int64 [N + 1], where the ids of each row begin and end
    num_columns: int
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.num_columns

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Rows chosen by a slice or int [B]; float32 [B, C]."""
        chosen = np.arange(len(self))[rows]
        hot = np.zeros((len(chosen), self.num_columns), np.float32)
        for row, index in zip(hot, chosen.tolist(), strict=True):
            row[self.ids[self.splits[index] : self.splits[index + 1]]] = 1.0
        return hot


def split_labels(label: labelled.Label, separator: str) -> tuple[str, ...]:
    """The labels of one multi-label cell, without whitespace around each."""
    if isinstance(label, tuple):
        return label
    if not label.strip():
        return ()
    return tuple(part.strip() for part in label.split(separator))


def _label_cells(table: labelled.Table) -> list[labelled.Label]:
    if table.labels is None:
        raise errors.InputError(
            f"{table.path}: has no labels; pass --label_column if a column holds them"
        )
    return table.labels


def find_labels(
    table: labelled.Table, problem_type: str, separator: str = ","
) -> tuple[str, ...]:
    """The labels that occur, sorted, numbers by value."""
    if problem_type == "regression":
        return ()
    is_set = problem_type == "multi_label"
    names: set[str] = set()
    cells = _label_cells(table)
    for label in dict.fromkeys(cells):
        parts = split_labels(label, separator) if is_set else (label,)
        strings = [name for name in parts if isinstance(name, str) and name]
        if len(strings) < len(parts):
            problem = "has an empty name; remove it"
            if not is_set and label:
                problem = "is not one label; correct it, or --problem_type"
            place = f"{table.path}:{table.lines[cells.index(label)]}"
            raise errors.InputError(f"{place}: label {label!r:.80} {problem}")
        names.update(strings)
    if all(map(numbers.is_number, names)):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def choice_names(
    columns: Sequence[str], num_choices: int, labels: Sequence[labelled.Label] | None
) -> tuple[str, ...]:
    """Names of choices: those of their columns if the labels are such, else "0", ..."""
    if len(columns) == num_choices and labels and set(labels) <= set(columns):
        return tuple(columns)
    return tuple(map(str, range(num_choices)))


def class_weights(spec: str, label_ids: np.ndarray, label_set: Labels) -> np.ndarray:
    """The weight of an example of each class in the loss: float32 [C].

    `spec` is "balanced", which is N / (C * examples of the class) as in scikit-learn,
    or one positive number a class, in id order. `label_ids` are int [N].
    """
    if label_set.problem_type != "classification":
        raise errors.InputError(
            f"--class_weights={spec} is not for {label_set.problem_type}; leave it out"
        )
    names = label_set.names
    if spec == "balanced":
        counts = np.bincount(label_ids, minlength=len(names))
        for name, count in zip(names, counts, strict=True):
            if not count:
                raise errors.InputError(
                    f"--class_weights=balanced: no row of class {name!r}; give numbers"
                )
        return (len(label_ids) / (len(names) * counts)).astype(np.float32)
    parts = spec.split(",")
    if len(parts) != len(names):
        raise errors.InputError(
            f"--class_weights={spec} has {wording.count(len(parts), 'number')} for "
            f"{len(names)} classes; give balanced, or one for each of "
            f"{wording.listing(names)}"
        )
    for part in parts:
        # Beyond float32 it would become 0 or infinite.
        if (
            not numbers.is_number(part)
            or not 1 / numbers.LARGEST <= float(part) <= numbers.LARGEST
        ):
            raise errors.InputError(
                f"--class_weights={spec}: {part!r} is no positive float32; correct it"
            )
    return np.array([float(part) for part in parts], np.float32)
