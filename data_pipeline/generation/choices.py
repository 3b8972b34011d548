"""Choices to cases: tables with a column for each answer, and Winograd schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

from contract import errors
from data_pipeline.classification import labels, tables, tasks
from data_pipeline.generation import cases
from data_pipeline.tables import label_files, published

WINOGRAD = "winograd"  # the layout of WSCollection.csv
_WINOGRAD_COLUMNS = ("txt1", "pron", "txt2", "answer_0", "answer_1")
# Words that begin an answer with a capital only where it begins a sentence.
_ARTICLES = {"The", "A", "An", "His", "Her", "Their", "Its", "My", "Our", "Your"}
_POSSESSIVES = {"his", "her", "its", "their"}


def read(
    path: str, layout: tables.Layout, label_names: Sequence[str] = ()
) -> list[cases.Case]:
    """The cases of a file of choices; ValueError if it is not of the layout.

    `layout` has `choices`, or the `file_format` of a published task of choice, or
    WINOGRAD. `label_names` are the choices as the label column calls them, in their
    order; by default their columns' names or their numbers, from 0.
    """
    if layout.file_format == WINOGRAD:
        return _winograd(path)
    if task := tasks.TASKS.get(layout.file_format):
        layout = task.splits["train"].layout
        label_names = label_names or task.labels
    if not layout.choices:
        raise errors.InputError(
            f"{path}: which columns hold the answers? name them with --choice_columns, "
            "or a published layout with --score_format"
        )
    table = tables.read_table(
        path, layout, labels_required=False, allow_empty_text=False
    )
    assert table.choices is not None
    columns = [str(column) for column in layout.choices]
    count = len(table.choices[0])
    names = label_names or labels.choice_names(columns, count, table.labels)
    label_set = labels.Labels(tuple(names), "choice")
    ids = (
        label_set.encode(table).tolist() if table.labels else [None] * len(table.lines)
    )
    # text_b ends the sentence before the answer: "..., because".
    between = table.text_b or [""] * len(ids)
    rows = zip(table.lines, table.text_a, between, table.choices, ids, strict=True)
    return [
        cases.Case(
            f"{path}:{line}",
            [_continued(context, question, answer) for answer in answers],
            label,
        )
        for line, context, question, answers, label in rows
    ]


def _continued(context: str, question: str, answer: str) -> cases.Alternative:
    """A context and its answer; a connective joins both to one sentence."""
    context, question, answer = context.strip(), question.strip(), answer.strip()
    if question in published.CONNECTIVES.values():
        context = context.rstrip(".")
        answer = _in_sentence(answer)
    before = " ".join(part for part in (context, question) if part)
    return cases.Alternative(before, f" {answer}")


def _in_sentence(text: str) -> str:
    """With a small first letter where the first word is an article or a pronoun.

    Answers of COPA are sentences; their other first words may be names.
    """
    first = text.split(maxsplit=1)[0]
    is_common = first in _ARTICLES or first in {"He", "She", "It", "They", "We", "You"}
    return text[:1].lower() + text[1:] if is_common else text


def _winograd(path: str) -> list[cases.Case]:
    wanted = (
        "the table WSCollection.csv, or --score_format and --choice_columns of your own"
    )
    schemas = [
        _schema(f"{path}:{line}", cells)
        for line, cells in published.csv_cells(path, _WINOGRAD_COLUMNS, wanted)
    ]
    if not schemas:
        raise errors.InputError(
            f"{path}: no rows but the header; give it one per schema"
        )
    return schemas


def _schema(place: str, cells: Mapping[str, Any]) -> cases.Case:
    """The sentence with each answer for its pronoun; what follows is scored."""
    label = cells.get("label", "")
    if label not in ("", "0", "1"):
        hint = label_files.closest(label, ["0", "1"])
        raise errors.InputError(
            f"{place}: label {label!r} is none of 0, 1{hint}; correct it"
        )
    before = " ".join(cells["txt1"].split())
    after = " ".join(cells["txt2"].split())
    if after[:1].isalnum() or after[:1] == '"':
        after = f" {after}"
    return cases.Case(
        place,
        [
            cases.Alternative(f"{before} {_named(cells[name], cells['pron'])}", after)
            for name in ("answer_0", "answer_1")
        ],
        int(label) if label else None,
    )


def _named(answer: str, pronoun: str) -> str:
    """The answer in the place of its pronoun: "The trophy", "it" -> "the trophy"."""
    answer = " ".join(answer.split())
    if pronoun[:1].isupper():
        answer = answer[:1].upper() + answer[1:]
    elif answer.split()[0] in _ARTICLES:
        answer = answer[:1].lower() + answer[1:]
    if pronoun.lower() in _POSSESSIVES:
        answer += "'" if answer.endswith("s") else "'s"
    return answer
