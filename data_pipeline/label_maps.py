"""The order of a trained head's classes, and the file that has it."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from contract import errors, file_names, remote_files, wording
from data_pipeline import findings

TAGGING = "tagging"  # the problem type of tags in label_map.json


class Classes(Protocol):
    """A classifier's labels, or a tagger's tags; a dataclass."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the rows; none of a regression."""

    @property
    def num_outputs(self) -> int:
        """The rows of the head."""

    @property
    def settings(self) -> dict[str, Any]:
        """What label_map.json has beside the names."""


Wanted = TypeVar("Wanted", bound=Classes)

# Settings of a run that a label_map.json has, with their types, where no run.json is.
OF_RUN: Mapping[str, type] = {
    "max_seq_length": int,
    "multi_label_threshold": float,
    "num_texts": int,
}


class Head(NamedTuple):
    """A stored head, as the files beside its weights describe it."""

    source: str  # the file that names its classes, or else its weights
    num_outputs: int
    problem_type: str  # as of `kind`; "" where no file states it
    names: tuple[str, ...]  # by row; LABEL_0, LABEL_1, ... where they have no others
    is_named: bool  # whether they have others
    classes: Classes | None  # None where no file has them
    goes_on: bool = False  # whether the run resumes with this head

    @property
    def has_map(self) -> bool:
        return os.path.basename(self.source) == file_names.LABEL_MAP

    def arrange(self, wanted: Classes) -> tuple[str, ...] | None:
        """The names of `wanted` in the order of the rows; None for other classes.

        Rows without names, and names that a config.json or `wanted` only counts, are
        assumed to be in the order of `wanted`.
        """
        is_other = self.problem_type not in ("", kind(wanted))
        if is_other or self.num_outputs != wanted.num_outputs:
            return None
        if kind(wanted) == "choice":  # one row for all answers
            return wanted.names
        counted = tuple(map(str, range(self.num_outputs)))
        is_counted = not self.has_map and counted in (self.names, wanted.names)
        names = match(self.names, wanted.names)
        is_assumed = names is None and (is_counted or not self.is_named)
        return wanted.names if is_assumed else names


def kind(classes: Classes) -> str:
    """The problem type of labels, or TAGGING."""
    return getattr(classes, "problem_type", TAGGING)


def match(theirs: Sequence[str], ours: Sequence[str]) -> tuple[str, ...] | None:
    """`ours` in the order of `theirs`; None where the two are not the same set.

    Names may differ by the case of letters, unless two of one side differ by it alone.
    """
    for spell in (str, str.casefold):
        spelled = {spell(name): name for name in ours}
        if len(spelled) == len(ours) and sorted(spelled) == sorted(map(spell, theirs)):
            return tuple(spelled[spell(name)] for name in theirs)
    return None


def follow(
    head: Head | None,
    wanted: Wanted,
    origin: str,
    *,
    trains: bool,
    show: findings.Show = findings.hide,
) -> Wanted:
    """The classes wanted in the order of the rows of a head, if it has these.

    Shows a note if that is not the order or spelling of `origin`, or is assumed, or if
    the head has other classes: then a new one is trained, or the run refused.

    Differs from google-research/bert: a stored head keeps its classes; there its rows
    are of those of the task, in their order, whatever they were trained for.
    """
    if head is None:
        return wanted
    changed: Any = wanted
    names, is_choice = head.arrange(wanted), kind(wanted) == "choice"
    if is_choice and not trains and head.is_named and names != head.names:
        names = None
    ours, theirs = wording.listing(wanted.names), wording.listing(head.names)
    if names is None and (head.goes_on or not trains):
        raise errors.InputError(
            f"{origin}: {ours} are not the labels that the model was trained with, "
            f"{theirs} ({head.source}); leave the flag out, or set another --output_dir"
        )
    if names is None:
        text = f"a new head for {kind(wanted)} {ours}; that of {head.source} is for "
        text += f"{head.problem_type or 'classes'} {theirs}"
        show([findings.Finding("labels", text)])
        return wanted
    if not trains and kind(wanted) == "regression":
        activation = getattr(head.classes, "activation", "")
        return dataclasses.replace(changed, activation=activation)
    if is_choice or not names or names == wanted.names == head.names:
        return wanted
    note = f"{wording.listing(names)}, in the order of {theirs} of {head.source}"
    if match(head.names, names) is None:
        note = f"{theirs} of {head.source} are assumed to be {ours}, in this order"
    show([findings.Finding("labels", f"{note}; {origin} has {ours}")])
    return dataclasses.replace(changed, names=names)


def find(weights: str, name: str = file_names.LABEL_MAP) -> str:
    """Path of the file `name` in a directory or beside a checkpoint, or ""."""
    directory = weights if remote_files.is_dir(weights) else os.path.dirname(weights)
    path = os.path.join(directory, name)
    return path if weights and remote_files.exists(path) else ""


def written(
    classes: Classes | None, of_run: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments of conversion.write_directory that keep the classes of a head.

    `of_run` has values of OF_RUN, or None: what answers depend on, and only run.json
    had.
    """
    if classes is None:
        return {}
    problem_type = getattr(classes, "problem_type", "")  # tags have none
    files = {file_names.LABEL_MAP: text(classes, of_run)}
    return {"labels": classes.names, "problem_type": problem_type, "files": files}


def text(classes: Classes, of_run: Mapping[str, Any] | None = None) -> str:
    """The text of label_map.json: {"0": "negative", ...}, then the settings."""
    content = {str(index): name for index, name in enumerate(classes.names)}
    content |= classes.settings
    for name in OF_RUN:
        is_meant = name != "multi_label_threshold" or kind(classes) == "multi_label"
        if is_meant and (value := (of_run or {}).get(name)) is not None:
            content[name] = str(value)
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
