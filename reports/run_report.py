"""Printed scores of a run, and its report.json, report.html and README.md."""

import json
import os
from collections.abc import Iterable
from typing import Any

from contract import atomic_files, file_names, outcomes, remote_files
from reports import pictures, svg
from reports.measures import class_scores
from reports.pages import model_card, record, run_page, usage

_AS_TABLE = {"confusion"}  # which can be read aloud, and searched
# The runs of seeds, of a grid, and of a grid with seeds.
_BELOW = ("seed-*", "*=*", "*=*/seed-*")


def print_scores(rows: outcomes.Outcomes, kind: str) -> None:
    """Prints the scores of each class of texts, and a warning of the predictions."""
    if rows.decisions is not None and kind == "text-classification":
        chosen = rows.decisions
        named = chosen.class_names, chosen.labels, chosen.predictions
        print(f"classes of the {rows.split} rows:")
        print("\n".join(class_scores.lines(*class_scores.collect(*named))))
    if rows.warning:
        print(f"warning: {rows.split} rows: {rows.warning}")


def write(rows: outcomes.Outcomes | None, directory: str, **facts: Any) -> None:
    """Writes report.json, report.html and, beside weights, README.md.

    Each is whole or absent. An evaluation is not replaced by predictions of other rows
    that came later.

    Args:
        rows: the evaluated rows, or None.
        **facts: see record.build, without pictures.
    """
    if _is_kept(directory, rows, trains=facts["trains"]):
        return
    facts["pictures"] = _draw(rows) if rows is not None else []
    text = record.make_text(record.build(rows, directory=directory, **facts))
    run = json.loads(text)  # as a reader of the file has it
    where = usage.place(directory)
    files: dict[str, Iterable[str]] = {
        record.get_path(directory): [text],
        os.path.join(directory, file_names.REPORT_PAGE): [run_page.page(run, where)],
    }
    if run["has_weights"]:
        files |= model_card.file(run, directory)
    atomic_files.write(files)
    print(f"report: {os.path.join(directory, file_names.REPORT_PAGE)}")


def write_all(directory: str) -> None:
    """Writes report.html of the runs below a directory, of a grid or of seeds."""
    paths = (
        path
        for below in _BELOW
        for path in remote_files.matching(directory, record.get_path(below))
    )
    runs = {place: record.read(place) for place in map(os.path.dirname, sorted(paths))}
    if not runs:
        return
    path = os.path.join(directory, file_names.REPORT_PAGE)
    atomic_files.write_text(path, run_page.page_of_runs(runs, directory))
    print(f"report: {path}, of {len(runs)} runs")


def _is_kept(directory, rows, *, trains):
    if trains or rows is None or rows.split == "dev":
        return False
    try:
        before = record.read(directory)
    except ValueError:  # none, or of an earlier schema
        return False
    return bool(before["evaluation"]) and before["evaluation"]["split"] == "dev"


def _draw(rows):
    return [
        {
            "title": name.replace("_", " ").capitalize(),
            "description": picture.description,
            "svg": svg.element(picture.draw()),
        }
        for name, picture in pictures.choose(rows).items()
        if name not in _AS_TABLE
    ]
