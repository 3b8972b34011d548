"""Classes of a trained head, a classifier's labels or a tagger's tags, and its rows."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from contract import errors, file_names, json_files, remote_files, wording
from data_pipeline import findings
from data_pipeline.classification import labels
from data_pipeline.tables import text_rows
from data_pipeline.tagging import schemes

Classes = labels.Labels | schemes.TagNames
Wanted = TypeVar("Wanted", labels.Labels, schemes.TagNames)
TAGGING = schemes.PROBLEM_TYPE


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
        return dataclasses.replace(wanted, activation=activation)  # type: ignore[call-arg]
    if is_choice or not names or names == wanted.names == head.names:
        return wanted
    note = f"{wording.listing(names)}, in the order of {theirs} of {head.source}"
    if match(head.names, names) is None:
        note = f"{theirs} of {head.source} are assumed to be {ours}, in this order"
    show([findings.Finding("labels", f"{note}; {origin} has {ours}")])
    return dataclasses.replace(wanted, names=names)


def find(weights: str, name: str = file_names.LABEL_MAP) -> str:
    """Path of the file `name` in a directory or beside a checkpoint, or ""."""
    directory = weights if remote_files.is_dir(weights) else os.path.dirname(weights)
    path = os.path.join(directory, name)
    return path if weights and remote_files.exists(path) else ""


def find_head(path: str, head: str = "auto") -> str:
    """The head of a network with the label_map.json `path`, where `head` is "auto"."""
    if head == "auto" and path:
        with contextlib.suppress(ValueError):  # a file that cannot be read
            return "tagger" if "tag_scheme" in json_files.read_object(path) else head
    return head


def read_classes(path: str, num_classes: int | None = None) -> Classes:
    """The classes in a label_map.json; `num_classes` is None where it is not known."""
    try:
        content = json_files.parse(text_rows.read_text(path))
        settings = {key: content.pop(key) for key in [*content] if not key.isdecimal()}
        names = tuple(str(content[str(index)]) for index in range(len(content)))
        make = _tags if "tag_scheme" in settings else _labels
        classes: Classes = make(names, **settings)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise errors.InputError(
            f"{path}: not a label map ({type(error).__name__}: {error}); restore it or "
            "train again to write it"
        ) from None
    if num_classes not in (None, classes.num_outputs):
        raise errors.InputError(
            f"{path}: has {len(classes.names)} labels, but the head has "
            f"{num_classes} classes; give the files of one model"
        )
    return classes


def _labels(names, label_separator=",", **settings):
    return labels.Labels(names, separator=label_separator, **settings)


# Files of earlier versions may have a "file_scheme", and IOB1 for BIO.
def _tags(names, tag_scheme, problem_type="", file_scheme=""):
    if problem_type != TAGGING:
        raise errors.InputError(f"its problem_type is {problem_type!r}")
    return schemes.TagNames(names, "BIO" if tag_scheme == "IOB1" else tag_scheme)


def named(names: Sequence[str], problem_type: str) -> Classes:
    """The classes of a head by their names; `problem_type` is "" for tags."""
    try:
        if problem_type:
            return labels.Labels(tuple(names), problem_type)
        # Ignores names of no scheme (PAD), unless no name has one (parts of speech).
        spelled = [name for name in names if not schemes.is_placeholder(name)]
        scheme = schemes.find_scheme([[name] for name in spelled or names])
        if not any("-" in name for name in spelled):
            scheme = schemes.PLAIN
        meant, odd = schemes.odd_tags(dict.fromkeys(names, 1))
        if odd:
            print(f"labels: {wording.listing(odd)} are not of the scheme {meant}")
        return schemes.TagNames(tuple(names), scheme)
    except ValueError as error:
        raise errors.InputError(
            f"the classes are called {wording.listing(names)}: {error}"
        ) from error


def written(classes: Classes | None) -> dict[str, Any]:
    """The arguments of conversion.write_directory that keep the classes of a head."""
    if classes is None:
        return {}
    problem_type = getattr(classes, "problem_type", "")  # tags have none
    files = {file_names.LABEL_MAP: text(classes)}
    return {"labels": classes.names, "problem_type": problem_type, "files": files}


def text(classes: Classes) -> str:
    """The text of label_map.json: {"0": "negative", ...}, then the settings."""
    if isinstance(classes, schemes.TagNames):
        settings = {"problem_type": TAGGING, "tag_scheme": classes.scheme}
    else:
        settings = {"problem_type": classes.problem_type}
        if classes.pair_input != "joined":
            settings["pair_input"] = classes.pair_input
        if classes.problem_type == "multi_label":
            settings["label_separator"] = classes.separator
        if classes.activation:
            settings["activation"] = classes.activation
    content = {str(index): name for index, name in enumerate(classes.names)} | settings
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
