"""Rows of CLUE (Xu et al., COLING 2020), formed as its published baselines form them.

Each reader takes a file in the published form and a list for its findings, and yields
(line, row); C3 numbers its questions. A row has the keys of its task's layout, and
label and id if the file does.
"""

import functools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from contract import errors, json_files, remote_files, wording
from data_pipeline import findings
from data_pipeline.tables import text_rows

_ANSWERS = 4  # of a question of C3, which has 2 to 4
_NO_ANSWER = "无效答案"  # the baseline fills up with it
BLANK = "#idiom#"  # of a passage, which one of the candidates fills
BLANKS = "#idiom[0-9]+#"  # others of the passage
# What the baseline of ChID writes for signs that the Chinese vocabulary lacks.
_SIGNS = {"“": '"', "”": '"', "‘": "'", "’": "'", "——": "--", "—": "-", "―": "-"}
_SIGNS |= {"…": "..."}


_Noticed = list[findings.Finding]
_get = functools.partial(text_rows.field, remedy="give CLUE's published files")


def rows(path: str, file_format: str) -> text_rows.Rows:
    """The rows of a published file, of one of `READERS`."""
    noticed: list[findings.Finding] = []
    return text_rows.Rows(READERS[file_format](path, noticed), noticed)


def _rows(path: str, noticed: _Noticed) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines of JSON as published, with the row's number where it has no id.

    Rows on whose label the annotators do not agree ("-") are left out and counted.
    """
    left_out = []
    for line, row in text_rows.file_rows(path, "jsonl"):
        assert isinstance(row, dict)
        if row.get("label") == "-":
            left_out.append(str(line))
        else:
            yield line, {"id": row.get("index", line - 1), **row}
    if left_out:
        text = f"left out {wording.count(len(left_out), 'row')} with the label '-'"
        text += f", lines {wording.first_of(left_out)}"
        noticed.append(findings.Finding(path, text))


def _keyword_rows(path: str, noticed: _Noticed) -> text_rows.NumberedRows:
    """CSL: keywords with a space between two, and the abstract that may have them."""
    for line, row in _rows(path, noticed):
        keywords = _get(row, "keyword", list, f"{path}:{line}")
        yield line, {**row, "keywords": " ".join(map(str, keywords))}


def _pronoun_rows(path: str, noticed: _Noticed) -> text_rows.NumberedRows:
    """CLUEWSC2020: a text with _ around the noun, and [ ] around the pronoun."""
    for line, row in _rows(path, noticed):
        place = f"{path}:{line}"
        text, target = _get(row, "text", str, place), _get(row, "target", dict, place)
        spans = []
        for name, before, after in (("span1", "_", "_"), ("span2", "[", "]")):
            start = _get(target, f"{name}_index", int, place)
            span = _get(target, f"{name}_text", str, place)
            if text[start : start + len(span)] != span:
                raise errors.InputError(
                    f"{place}: {name} is {span!r:.40}, and the text has "
                    f"{text[start : start + len(span)]!r:.40} at {start}; correct it"
                )
            spans.append((start, start + len(span), before, after))
        for start, end, before, after in sorted(spans, reverse=True):
            text = f"{text[:start]}{before}{text[start:end]}{after}{text[end:]}"
        yield line, {**row, "text": text}


def _document_rows(path: str, noticed: _Noticed) -> text_rows.NumberedRows:
    """C3: a question about a document or a talk; d- and m- files are one split."""
    folder, name = os.path.split(path)
    files = [path]
    if name.startswith("d-"):
        files.append(os.path.join(folder, f"m-{name[2:]}"))
    number = 0
    for file in files:
        documents = json_files.read(file)
        if not isinstance(documents, list):
            raise errors.InputError(f"{file}: is no list; give CLUE's published files")
        for index, document in enumerate(documents):
            place = f"{file}: document {index}"
            if not isinstance(document, list) or len(document) != 3:
                raise errors.InputError(
                    f"{place} is {document!r:.60}; give [texts, questions, id]"
                )
            context = "\n".join(map(str, document[0])).lower()
            for question in document[1]:
                number += 1
                row = {"id": number - 1, "context": context}
                yield number, row | _question(place, question)


def _question(place: str, row: Any) -> dict[str, Any]:
    answers = [str(answer).lower() for answer in _get(row, "choice", list, place)]
    if not 2 <= len(answers) <= _ANSWERS:
        raise errors.InputError(f"{place}: {answers!r:.60} are not 2 to 4 answers")
    choices = [*answers, *[_NO_ANSWER] * (_ANSWERS - len(answers))]
    read = {"question": _get(row, "question", str, place).lower(), "choices": choices}
    if "answer" in row:
        answer = str(row["answer"]).lower()
        if answer not in answers:
            raise errors.InputError(
                f"{place}: {answer!r:.40} is none of {answers!r:.80}; correct it"
            )
        read["label"] = answers.index(answer)
    return read | ({"id": row["id"]} if "id" in row else {})


def _blank_rows(path: str, noticed: _Noticed) -> text_rows.NumberedRows:
    """ChID: a passage for each of its blanks, and the idioms that may fill it.

    Rows of one line choose among the same idioms. The answers are in a file beside.
    """
    answers: Mapping[str, Any] = {}
    beside = f"{path.removesuffix('.json')}_answer.json"
    if remote_files.exists(beside):
        answers = json_files.read_object(beside)
    for line, row in _rows(path, noticed):
        idioms = _get(row, "candidates", list, f"{path}:{line}")
        for passage in map(str, _get(row, "content", list, f"{path}:{line}")):
            for sign, written in _SIGNS.items():
                passage = passage.replace(sign, written)
            for name in re.findall(BLANKS, passage):
                read = {"context": passage.replace(name, BLANK), "choices": idioms}
                if answers:
                    read["label"] = _get(answers, name, int, beside)
                yield line, read | {"id": name}


READERS = {
    "clue": _rows,
    "csl": _keyword_rows,
    "cluewsc": _pronoun_rows,
    "c3": _document_rows,
    "chid": _blank_rows,
}
