"""Names of the classes of a trained head: a classifier's labels or a tagger's tags."""

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from contract import errors, file_names, json_files, remote_files, wording
from data_pipeline.classification import label_sets
from data_pipeline.tagging import schemes, tags

Classes = label_sets.LabelSet | tags.TagSet


def find(weights: str) -> str:
    """Path of the label_map.json in a directory or beside a checkpoint, or ""."""
    directory = weights if tf.io.gfile.isdir(weights) else os.path.dirname(weights)
    path = os.path.join(directory, file_names.LABEL_MAP)
    return path if weights and tf.io.gfile.exists(path) else ""


def is_of_tags(path: str) -> bool:
    """Whether a label_map.json is a tagger's; False where it cannot be read."""
    try:
        return "tag_scheme" in json_files.read_object(path)
    except ValueError:
        return False


def read(path: str, num_classes: int) -> Classes:
    """Reads the label_map.json of a head with `num_classes` classes.

    Raises:
        FileNotFoundError, ValueError: no such file, or not that of this head.
    """
    is_tags = is_of_tags(path)
    read_map = tags.read_map if is_tags else label_sets.read_label_map
    classes: Classes = read_map(path, remote_files.open_file)
    expected = len(classes.names)
    if isinstance(classes, label_sets.LabelSet):
        expected = classes.num_outputs
    if expected != num_classes:
        raise errors.InputError(
            f"{path}: has {len(classes.names)} labels, but the head has {num_classes} "
            "classes; give the files of one model"
        )
    return classes


def head(path: str, asked: str = "auto") -> str:
    """The head of a network with this label_map.json; `asked` where it does not say."""
    is_tagger = asked == "auto" and path and is_of_tags(path)
    return "tagger" if is_tagger else asked


def told(head: str, problem_type: str, names: Sequence[str]) -> Classes | None:
    """The classes that a file of Hugging Face's tells, or None for placeholders."""
    if not names and problem_type != "regression":
        return None
    return named(names, problem_type if head == "classifier" else "")


def of_head(
    head: str,
    path: str,
    num_classes: int,
    tell: Callable[[], tuple[str, Sequence[str]]],
) -> Classes | None:
    """The classes in a label_map.json, or, with a path of "", those of `told`.

    `tell` returns its other arguments.
    """
    return read(path, num_classes) if path else told(head, *tell())


def named(names: Sequence[str], problem_type: str) -> Classes:
    """Builds the classes of a head from nothing but their names, in the order of ids.

    Raises:
        ValueError: the names do not suit `problem_type`, which is "" for tags.
    """
    try:
        if problem_type:
            return label_sets.LabelSet(tuple(names), problem_type)
        # PAD beside B-place says nothing of the scheme; NOUN beside X is all there is.
        spelled = [name for name in names if not schemes.is_placeholder(name)]
        scheme = schemes.find_scheme([[name] for name in spelled or names])
        if not any("-" in name for name in spelled):
            scheme = schemes.PLAIN
        return tags.TagSet(tuple(names), scheme)
    except ValueError as error:
        raise errors.InputError(
            f"the classes are called {wording.listing(names)}: {error}"
        ) from error


def text(classes: Classes) -> str:
    """The text of label_map.json."""
    if isinstance(classes, tags.TagSet):
        return tags.map_text(classes)
    return label_sets.label_map_text(classes)
