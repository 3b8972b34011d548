"""Names of the classes of a trained head: a classifier's labels or a tagger's tags."""

import os
from collections.abc import Callable, Sequence

from contract import errors, file_names, json_files, remote_files, wording
from data_pipeline.classification import labels
from data_pipeline.tagging import schemes

Classes = labels.Labels | schemes.TagNames


def find(weights: str) -> str:
    """Path of the label_map.json in a directory or beside a checkpoint, or ""."""
    directory = weights if remote_files.is_dir(weights) else os.path.dirname(weights)
    path = os.path.join(directory, file_names.LABEL_MAP)
    return path if weights and remote_files.exists(path) else ""


def find_head(path: str, head: str = "auto") -> str:
    """The head of a network with the label_map.json `path`, where `head` is "auto".

    Without such a file, or with a classifier's, "auto" remains.
    """
    is_tagger = head == "auto" and path and _has_tags(path)
    return "tagger" if is_tagger else head


def _has_tags(path: str) -> bool:
    """Whether a label_map.json is a tagger's; False where it cannot be read."""
    try:
        return "tag_scheme" in json_files.read_object(path)
    except ValueError:
        return False


def read_classes(
    path: str,
    head: str,
    num_classes: int,
    read_config: Callable[[], tuple[str, Sequence[str]]],
) -> Classes | None:
    """The classes of a head, or None where they have placeholders alone.

    Args:
        path: of its label_map.json; "" reads a config of Hugging Face's instead.
        head: "classifier", "tagger" or another head with classes.
        num_classes: of the head.
        read_config: returns problem type and names, () for placeholders.

    Raises:
        FileNotFoundError, ValueError: no such file, or not that of this head.
    """
    if not path:
        problem_type, names = read_config()
        if not names and problem_type != "regression":
            return None
        return named(names, problem_type if head == "classifier" else "")
    classes: Classes
    if _has_tags(path):
        classes = schemes.read_map(path)
        expected = len(classes.names)
    else:
        classes = labels.read_label_map(path)
        expected = classes.num_outputs
    if expected != num_classes:
        raise errors.InputError(
            f"{path}: has {len(classes.names)} labels, but the head has {num_classes} "
            "classes; give the files of one model"
        )
    return classes


def named(names: Sequence[str], problem_type: str) -> Classes:
    """Builds the classes of a head from nothing but their names, in the order of ids.

    Raises:
        ValueError: the names do not suit `problem_type`, which is "" for tags.
    """
    try:
        if problem_type:
            return labels.Labels(tuple(names), problem_type)
        # PAD beside B-place does not count; NOUN beside X is all there is.
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


def text(classes: Classes) -> str:
    """The text of label_map.json."""
    if isinstance(classes, schemes.TagNames):
        return schemes.map_text(classes)
    return labels.label_map_text(classes)
