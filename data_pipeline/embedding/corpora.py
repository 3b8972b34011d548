"""Files of texts, and data sets of retrieval: passages, queries and judgements.

The layout is BEIR's: corpus.jsonl ("_id", "title", "text"), queries.jsonl ("_id",
"text"), and a TSV of judgements (query-id, corpus-id, score). Corpus and queries may
also be TSV of id and text. The names of gzip files end in .gz.
"""

import dataclasses
import json
from collections.abc import Iterator
from typing import NamedTuple

from contract import errors
from data_pipeline.classification import tables
from data_pipeline.tables import text_rows


class Text(NamedTuple):
    """A text of a file; without an id of its row, its line is the id."""

    line: int  # from 1
    text_id: str
    text: str


@dataclasses.dataclass(frozen=True)
class RetrievalData:
    """All passages, and the queries that have a relevant one, in the order of files."""

    query_ids: list[str]
    queries: list[str]
    passage_ids: list[str]
    passages: list[str]  # title and text, with a space between
    relevant: list[dict[int, float]]  # of each query, indices of passages to gains > 0


def read(corpus_path: str, queries_path: str, judgements_path: str) -> RetrievalData:
    """Reads a data set; queries without a relevant passage are left out.

    Raises:
        ValueError: a row is not of its layout, an id occurs twice, a text is empty, a
            judgement has an unknown id or a gain that is no number, or no query has a
            relevant passage. The message has file and line.
    """
    passages, queries = _read_by_id(corpus_path), _read_by_id(queries_path)
    indices = {passage_id: index for index, passage_id in enumerate(passages)}
    gains: dict[str, dict[int, float]] = {query_id: {} for query_id in queries}
    for line, row in text_rows.file_rows(judgements_path, "tsv"):
        assert isinstance(row, list)
        place = f"{judgements_path}:{line}"
        if line == 1 and row[-1] == "score":
            continue
        if len(row) not in (3, 4):  # TREC's files have an unused second column
            raise errors.InputError(
                f"{place}: {len(row)} cells, not 3; write query-id, corpus-id and "
                "score with tabs between"
            )
        for known, text_id, path in (
            (queries, row[0], queries_path),
            (indices, row[-2], corpus_path),
        ):
            if text_id not in known:
                raise errors.InputError(
                    f"{place}: id {text_id!r} is not in {path}; correct it, or remove "
                    "the row"
                )
        if not tables.is_number(row[-1]):
            raise errors.InputError(
                f"{place}: score {row[-1]!r:.40} is not a finite number; correct it, or"
                " begin the file with the line query-id, corpus-id, score"
            )
        if (gain := float(row[-1])) > 0:
            gains[row[0]][indices[row[-2]]] = gain
    gains = {query_id: row for query_id, row in gains.items() if row}
    if not gains:
        raise errors.InputError(
            f"{judgements_path}: no query has a passage with a score above 0; give the "
            "judgements of these queries"
        )
    return RetrievalData(
        list(gains),
        [queries[query_id] for query_id in gains],
        list(passages),
        list(passages.values()),
        list(gains.values()),
    )


def read_texts(path: str, *, has_ids: bool = False) -> Iterator[Text]:
    """Yields the rows of a JSONL file, title before text, or the lines of another one.

    A file that `has_ids` has an id and a text in each row, none empty; another file
    than JSONL is then TSV.

    Raises:
        InputError: the file cannot be read, or a row has no text or no id.
    """
    is_jsonl = text_rows.is_jsonl(path)
    if not is_jsonl and not has_ids:
        for line, text in text_rows.lines(path):
            yield Text(line, str(line), text.rstrip("\r"))
        return
    for line, row in text_rows.file_rows(path, "jsonl" if is_jsonl else "tsv"):
        cells = row if isinstance(row, dict) else {}
        if isinstance(row, list) and len(row) == 2:
            cells = {"_id": row[0], "text": row[1]}
        text_id = cells.get("_id", "" if has_ids else line)
        parts = [cells[key] for key in ("title", "text") if cells.get(key) is not None]
        is_right = parts and type(text_id) in (str, int)
        if is_right and all(isinstance(part, str) for part in parts):
            text = " ".join(filter(None, parts))
            if not has_ids or (text_id != "" and text.strip()):
                yield Text(line, str(text_id), text)
                continue
        raise errors.InputError(
            f"{path}:{line}: {json.dumps(row, ensure_ascii=False):.60} has no id or no "
            'text; write {"_id": "...", "title": "...", "text": "..."}'
            + (", or id and text with one tab between" if has_ids else "")
        )


def _read_by_id(path: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for line, text_id, text in read_texts(path, has_ids=True):
        if text_id in texts:
            raise errors.InputError(
                f"{path}:{line}: id {text_id!r} is already that of line "
                f"{list(texts).index(text_id) + 1}; give each row another id"
            )
        texts[text_id] = text.strip()
    return texts
