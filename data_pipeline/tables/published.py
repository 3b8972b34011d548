"""Rows of published tasks with a choice of answers, each in its own layout.

A row has the keys context, choices, and where the file has them question, label, id.
"""

import os
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from contract import errors, json_files
from data_pipeline.tables import clue, text_rows

# The word before an answer of COPA, by the key `asks-for` of its premise.
CONNECTIVES = {"cause": "because", "effect": "so"}
_STORY_SENTENCES, _STORY_CELLS = 4, 8
_RACE_LABELS = "ABCD"


def _copa_rows(path: str) -> text_rows.NumberedRows:
    """The XML of the publisher or the JSONL of SuperGLUE."""
    for line, row in _copa_items(path):
        for name in ("premise", "choice1", "choice2", "question"):
            if not isinstance(row.get(name), str):
                raise errors.InputError(
                    f"{path}:{line}: {name} is {row.get(name)!r:.40}, no text; give one"
                )
        if row["question"] not in CONNECTIVES:
            raise errors.InputError(
                f"{path}:{line}: asks for {row['question']!r:.40}, which is none of "
                f"{', '.join(CONNECTIVES)}; correct the row"
            )
        item = {
            "context": row["premise"],
            "question": CONNECTIVES[row["question"]],
            "choices": [row["choice1"], row["choice2"]],
            "id": row["id"],
        }
        yield line, item | _labelled(row["label"])


def _labelled(label: Any) -> dict[str, Any]:
    return {} if label is None else {"label": label}


def _copa_items(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows under SuperGLUE's names, with labels from 1 as the publisher counts them."""
    if not path.endswith(".xml"):
        for line, row in text_rows.file_rows(path, "jsonl"):
            assert isinstance(row, dict)
            label = row.get("label")
            label = label + 1 if label in (0, 1) else label
            yield line, {**row, "label": label, "id": row.get("idx", line - 1)}
        return
    text = "\n".join(line for _, line in text_rows.lines(path))
    try:
        items = list(ElementTree.fromstring(text.encode()).iter("item"))
    except ElementTree.ParseError as error:
        raise errors.InputError(
            f"{path}:{error.position[0]}: not XML ({error}); restore the published file"
        ) from error
    starts = (match.start() for match in re.finditer(r"<item\b", text))
    for item, start in zip(items, starts, strict=False):
        line = text.count("\n", 0, start) + 1
        texts = {
            child.tag: " ".join("".join(child.itertext()).split()) for child in item
        }
        names = {"premise": "p", "choice1": "a1", "choice2": "a2"}
        row = {name: texts.get(tag) for name, tag in names.items()}
        row |= {"question": item.get("asks-for"), "id": item.get("id", str(line))}
        yield line, {**row, "label": item.get("most-plausible-alternative")}


def _story_rows(path: str) -> text_rows.NumberedRows:
    """Story Cloze: id, four sentences, two endings, the right one; maybe a header."""
    for line, row in text_rows.file_rows(path, "csv", is_ragged=True):
        if line == 1 and all(str(cell).isidentifier() for cell in row):
            continue  # names of columns; sentences have spaces and full stops
        if len(row) not in (_STORY_CELLS - 1, _STORY_CELLS):
            raise errors.InputError(
                f"{path}:{line}: {len(row)} cells; a story has 8: id, four sentences, "
                "two endings, and 1 or 2 for the right one"
            )
        cells = [str(cell) for cell in row]
        context = " ".join(cells[1 : 1 + _STORY_SENTENCES])
        row = {"id": cells[0], "context": context, "choices": cells[5:7]}
        yield line, {**row, **_labelled(cells[7] if cells[7:] else None)}


def _swag_rows(path: str) -> text_rows.NumberedRows:
    """SWAG: sent1, and sent2 continued by one of ending0 to ending3."""
    rows = text_rows.file_rows(path, "csv")
    line, header = next(rows, (1, []))
    names = [str(name) for name in header]
    for name in ("sent1", "sent2", "ending0", "ending1"):
        if name not in names:
            raise errors.InputError(
                f"{path}:{line}: no column {name}; give SWAG's files as published"
            )
    for line, values in rows:
        cells = dict(zip(names, values, strict=True))
        row = {
            "context": cells["sent1"],
            "question": cells["sent2"],
            "choices": [c for name, c in cells.items() if name.startswith("ending")],
        }
        yield line, {**row, **_labelled(cells.get("label"))}


def _race_rows(path: str) -> text_rows.NumberedRows:
    """RACE: JSON files of an article and its questions; or a directory of such."""
    number = 0
    for file in _race_files(path):
        for row in _race_questions(file):
            number += 1
            yield number, row


def _race_files(path: str) -> list[str]:
    import tensorflow as tf  # the other layouts are read without it

    if not tf.io.gfile.isdir(path):
        return [path]
    files = [
        os.path.join(folder, name)
        for folder, _, names in tf.io.gfile.walk(path)
        for name in names
        if name.endswith((".txt", ".json"))
    ]
    if not files:
        raise errors.InputError(
            f"{path}: no .txt or .json file below it; give a directory of RACE"
        )
    return sorted(files)


def _race_questions(file: str) -> Iterator[dict[str, Any]]:
    text = "\n".join(line for _, line in text_rows.lines(file))
    try:
        article = json_files.parse(text)
        parts = [article[name] for name in ("questions", "options")]
        answers = article.get("answers") or [None] * len(parts[0])
        questions = list(zip(*parts, answers, strict=True))
        name = article.get("id", os.path.basename(file))
        context = article["article"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise errors.InputError(
            f"{file}: not an article of RACE ({type(error).__name__}: {error}); write "
            "an object of article, questions, options, answers"
        ) from error
    for index, (question, options, answer) in enumerate(questions):
        row = {"context": context, "question": question, "choices": options}
        if not isinstance(options, list) or len(options) != len(_RACE_LABELS):
            raise errors.InputError(
                f"{file}: question {index} has {options!r:.60} as options; give "
                f"{len(_RACE_LABELS)} texts"
            )
        yield {**row, **_labelled(answer), "id": f"{name}-{index}"}


# Each yields (line, row) of a file; RACE numbers questions.
LAYOUTS = {
    "copa": _copa_rows,
    "story_cloze": _story_rows,
    "swag": _swag_rows,
    "race": _race_rows,
    **clue.READERS,
}
