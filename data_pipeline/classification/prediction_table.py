"""test_predictions.csv: the rows of the input in all columns, and the predictions."""

import json
from collections.abc import Iterator
from typing import Any

from contract import errors, file_names, outcomes, remote_files
from data_pipeline.classification import predictions, split
from data_pipeline.tables import labelled, spreadsheets


def files(
    data: split.LabelledSplit, scored: outcomes.Scored
) -> dict[str, Iterator[str]]:
    """{file's name: its lines}; {} for rows in memory.

    {} with a warning, too, where the input has changed since it was read.
    """
    if data.table.origin is None:
        return {}
    try:
        if remote_files.is_pipe(data.table.path):
            raise errors.InputError(f"{data.table.path} is a pipe, which is read once")
        names = _input_names(data.table)
    except (errors.InputError, FileNotFoundError) as error:
        print(f"warning: no {file_names.TEST_TABLE}: {error}")
        return {}
    return {file_names.TEST_TABLE: _lines(names, data, scored)}


def _input_names(table: labelled.Table) -> list[str]:
    """The names of all columns; one without a name gets its role, or its number."""
    names = list(table.header)
    keys: dict[str, None] = {}
    width = 0
    for row in table.input_rows():
        width = max(width, len(row))
        if isinstance(row, dict):
            keys |= dict.fromkeys(row)
    if keys:
        return list(keys)
    roles = table.origin.keys if table.origin else {}
    by_place = {
        key % width: str(role) for role, key in roles.items() if isinstance(key, int)
    }
    names += [by_place.get(i, f"column {i}") for i in range(len(names), width)]
    return names


def _lines(
    names: list[str], data: split.LabelledSplit, scored: outcomes.Scored
) -> Iterator[str]:
    """The header and a line a row."""
    label_set, is_correct = data.label_set, predictions.all_right(data, scored)
    origin = data.table.origin
    writer = spreadsheets.Writer(origin.delimiter if origin else None)
    line, number = writer.line, writer.number
    added = _added_names(data, has_correct=is_correct is not None)
    suffix, count = "", 1
    while any(f"{name}{suffix}" in names for name in added):
        count += 1
        suffix = f"_{count}"
    yield spreadsheets.MARK + line(names + [name + suffix for name in added])
    for i, row in enumerate(data.table.input_rows()):
        if isinstance(row, dict):
            cells = [_cell(row.get(name)) for name in names]
        else:
            cells = row + [""] * (len(names) - len(row))
        decision = scored.predictions[i]
        described = predictions.described(label_set, scored.probabilities[i], decision)
        shares = described.get("probabilities", {})
        if "score" in described:
            cells.append(number(decision))
        elif "labels" in described:
            cells.append(label_set.separator.join(described["labels"]))
            cells += map(number, shares.values())
        else:
            cells += described["label"], number(shares[described["label"]])
        if data.table.choices:
            cells.append(data.table.choices[i][int(decision)])
        if is_correct is not None:
            cells.append(str(bool(is_correct[i])).upper())
        yield line(cells)


def _added_names(data: split.LabelledSplit, *, has_correct: bool) -> list[str]:
    problem_type = data.label_set.problem_type
    names = ["predicted_label", "predicted_probability"]
    if problem_type == "regression":
        names = ["predicted_score"]
    elif problem_type == "multi_label":
        names = ["predicted_labels"]
        names += [f"probability {name}" for name in data.label_set.names]
    if data.table.choices:
        names.append("predicted_text")
    return names + ["predicted_correctly"] * has_correct


def _cell(value: Any) -> str:
    """A value of JSON as a cell: strings as they stand, nothing for null."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
