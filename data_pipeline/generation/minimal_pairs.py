"""Minimal pairs of sentences, the right one and a wrong one."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from contract import errors, wording
from data_pipeline.tables import text_rows

# BLiMP (Warstadt et al., 2020) has objects with both sentences and a UID; Zorro of
# Huebner et al. (2021) two lines a pair, the wrong one first.
BLIMP, ZORRO, GOOD_FIRST = FORMS = ("blimp", "zorro", "good_first")


class Pair(NamedTuple):
    """Two sentences; the paradigm is a UID, or the name of the file."""

    paradigm: str
    good: str
    bad: str
    place: str


def read(files: Sequence[str], form: str) -> list[Pair]:
    """The pairs of files in one of FORMS; InputError for what is none."""
    pairs = [pair for path in files for pair in _read(path, form)]
    if not pairs:
        raise errors.InputError(f"{wording.listing(files)}: no pair; give other files")
    return pairs


def _read(path: str, form: str) -> Iterator[Pair]:
    name, _, _ = os.path.basename(path).partition(".")
    if form == BLIMP:
        _, line = next(iter(text_rows.lines(path)), (1, ""))
        if line.strip() and line.lstrip()[0] not in "{[":
            raise errors.InputError(
                f"{path}:1: {line:.40} is no object with sentence_good and "
                f"sentence_bad; for two lines a pair give --pairs={ZORRO}, or "
                f"{GOOD_FIRST} where the right one is the first"
            )
        for number, row in text_rows.file_rows(path, "jsonl"):
            place, remedy = f"{path}:{number}", "give each object both sentences"
            good, bad = (
                text_rows.field(row, key, str, place, remedy)
                for key in ("sentence_good", "sentence_bad")
            )
            paradigm = text_rows.cell(row, "UID")
            yield Pair(str(paradigm or name), good, bad, place)
        return
    if text_rows.is_jsonl(path):
        raise errors.InputError(
            f"{path}: has objects, and --pairs={form} is for two lines a pair; give "
            f"--pairs={BLIMP}"
        )
    lines = list(text_rows.texts(path, ()))
    for text, place in lines:
        if not text.strip():
            raise errors.InputError(f"{place}: is empty; pairs are two lines each")
    if len(lines) % 2:
        raise errors.InputError(
            f"{path}: has {len(lines)} lines, and a pair has two; add the other one"
        )
    for (first, place), (second, _) in zip(lines[::2], lines[1::2], strict=True):
        good, bad = (first, second) if form == GOOD_FIRST else (second, first)
        yield Pair(name, good, bad, place)


def accuracies(results: Iterable[tuple[str, bool]]) -> dict[str, tuple[float, int]]:
    """{paradigm: (share of pairs that are right, number of pairs)}, sorted."""
    outcomes: dict[str, list[bool]] = {}
    for paradigm, is_right in results:
        outcomes.setdefault(paradigm, []).append(is_right)
    return {
        name: (sum(each) / len(each), len(each))
        for name, each in sorted(outcomes.items())
    }
