"""Classes of a head, a classifier's labels or a tagger's tags, from files and names."""

from collections.abc import Sequence

from contract import errors, json_files, wording
from data_pipeline import label_maps
from data_pipeline.classification import labels, long_texts
from data_pipeline.tables import text_rows
from data_pipeline.tagging import schemes


def read(path: str, num_classes: int | None = None) -> label_maps.Classes:
    """The classes in a label_map.json; `num_classes` is None where it is not known."""
    try:
        content = json_files.parse(text_rows.read_text(path), json_files.distinct)
        settings = {key: content.pop(key) for key in [*content] if not key.isdecimal()}
        for name, number in label_maps.OF_RUN.items():
            number(settings.pop(name, 0))  # which model_directory.read_run returns
        names = tuple(str(content[str(index)]) for index in range(len(content)))
        make = _tags if "tag_scheme" in settings else _labels
        classes: label_maps.Classes = make(names, **settings)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise errors.InputError(
            f"{path}: not a label map ({type(error).__name__}: {error}); restore it or "
            "train again to write it"
        ) from None
    check_count(path, classes, num_classes)
    return classes


def check_count(path: str, classes: label_maps.Classes, num_classes: int | None):
    """Refuses the classes of a file for a head with another number of them."""
    if num_classes not in (None, classes.num_outputs):
        raise errors.InputError(
            f"{path}: has {len(classes.names)} labels, but the head has "
            f"{num_classes} classes; give the files of one model"
        )


def _labels(names, label_separator=",", **settings):
    windows = long_texts.read_settings(settings)
    return labels.Labels(names, separator=label_separator, windows=windows, **settings)


# Files of earlier versions may have a "file_scheme", and IOB1 for BIO.
def _tags(names, tag_scheme, problem_type="", file_scheme=""):
    if problem_type != label_maps.TAGGING:
        raise errors.InputError(f"its problem_type is {problem_type!r}")
    return schemes.TagNames(names, "BIO" if tag_scheme == "IOB1" else tag_scheme)


def named(names: Sequence[str], problem_type: str) -> label_maps.Classes:
    """The classes of a head by their names; `problem_type` is "" for tags."""
    try:
        if problem_type:
            return labels.Labels(tuple(names), problem_type)
        return schemes.named(names)
    except ValueError as error:
        raise errors.InputError(
            f"the classes are called {wording.listing(names)}: {error}"
        ) from error
