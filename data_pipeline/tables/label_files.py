"""Names of labels or tags, as flags, lists and label_map.json hold them."""

import collections
import difflib
import os
from collections.abc import Iterable, Sequence

from contract import errors, remote_files
from data_pipeline.tables import text_rows


def read_labels(spec: str) -> tuple[str, ...]:
    """Reads --labels, in the order of ids: names between commas, or a file of lines."""
    is_file = remote_files.is_remote(spec) or os.path.isfile(spec)
    if is_file:
        # Only a line feed ends a line: a label may hold U+2028.
        text = text_rows.read_text(spec).replace("\r\n", "\n").rstrip("\n")
        names = text.split("\n")
    elif "," not in spec and (os.sep in spec or spec.endswith(".txt")):
        raise FileNotFoundError(f"--labels={spec}: no such file; correct the path")
    else:
        names = [part.strip() for part in spec.split(",")]
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        place = f"{spec}:{number}" if is_file else f"--labels={spec}"
        if not name:
            raise errors.InputError(f"{place}: label {number} is empty; remove it")
        if (first := seen.setdefault(name, number)) < number:
            raise errors.InputError(
                f"{place}: label {name!r} is already label {first}; remove one"
            )
    return tuple(names)


def check_distinct(names: Iterable[str], kind: str) -> None:
    """Refuses a name that occurs twice; `kind` is "label" or "tag"."""
    for name, count in collections.Counter(names).most_common(1):
        if count > 1:
            raise errors.InputError(
                f"{kind} {name!r} is named more than once ({count} times); remove one"
            )


def closest(name: str, names: Sequence[str]) -> str:
    """A hint for a message about an unknown name: "; closest: 'positive'", or ""."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; closest: {close[0]!r}" if close else ""
