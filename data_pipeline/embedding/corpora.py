"""Files of texts: rows that belong together, corpora, and data sets of retrieval.

The latter have BEIR's layout: corpus.jsonl ("_id", "title", "text"), queries.jsonl
("_id", "text"), or TSV of id and text, and a TSV of judgements (query-id, corpus-id,
score).
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from contract import errors, wording
from data_pipeline import findings
from data_pipeline.tables import labelled, numbers, table_columns, text_rows

# Kinds of rows: an anchor and its positive; these and negatives; two texts and a score;
# a text and its label.
PAIRS, TRIPLETS, SCORED, LABELLED = "pairs", "triplets", "scored", "labelled"
USUAL_TEXTS = (*table_columns.USUAL_TRIPLETS, *table_columns.USUAL_TEXTS)
TEXTS = "texts"  # alone, for a teacher's vectors
_ROW = "id, tab, text"
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")  # whose lines are no texts
# Of a TSV file of ids and texts, such as "query_id<tab>query".
_HEADER = re.compile(
    r"(\w*[_-])?(id|pid|qid|docid)\t(text|query|passage|question)", re.IGNORECASE
)
RETRIEVAL = "retrieval"  # queries and a corpus, which are scored alone


class Text(NamedTuple):
    """A text of a file; without an id of its row, its line is the id."""

    line: int  # from 1
    text_id: str
    text: str


@dataclasses.dataclass(frozen=True, repr=False)
class RetrievalData:
    """All passages, and the queries that have a relevant one, in the order of files."""

    query_ids: list[str]
    queries: list[str]
    passage_ids: list[str]
    passages: list[str]  # title and text, with a space between
    relevant: list[dict[int, float]]  # of each query, indices of passages to gains > 0
    noticed: tuple[findings.Finding, ...] = dataclasses.field(default=(), compare=False)

    def own_passages(self) -> np.ndarray | None:
        """The passages with the ids of queries, int [Q], or -1; None without any.

        Such a query is a passage itself, as in ArguAna and Quora, unless the passage is
        relevant to it: then their ids are equal by chance.
        """
        indices = {name: index for index, name in enumerate(self.passage_ids)}
        own = np.array([indices.get(query_id, -1) for query_id in self.query_ids])
        for query, gains in enumerate(self.relevant):
            if own[query] in gains:
                own[query] = -1
        return own if (own >= 0).any() else None


def read(corpus_path: str, queries_path: str, judgements_path: str) -> RetrievalData:
    """Reads a data set; queries without a relevant passage are left out.

    So are texts without words, and judgements of others than the files have; these are
    noticed. Judgements are between tabs, or spaces as TREC's.
    """
    noticed: list[findings.Finding] = []
    passages = _read_by_id(corpus_path, noticed)
    queries = _read_by_id(queries_path, noticed)
    indices = {passage_id: index for index, passage_id in enumerate(passages)}
    gains: dict[str, dict[int, float]] = {query_id: {} for query_id in queries}
    unknown: list[int] = []
    scored: dict[tuple[str, ...], tuple[str, int]] = {}
    for line, row in text_rows.file_rows(judgements_path, "tsv"):
        assert isinstance(row, list)
        place = f"{judgements_path}:{line}"
        row = row[0].split() if len(row) == 1 else row
        if line == 1 and row[-1:] == ["score"]:
            continue
        if len(row) not in (3, 4):  # TREC's files have an unused second column
            raise errors.InputError(
                f"{place}: {len(row)} cells, not 3: query-id, corpus-id, score"
            )
        if not numbers.is_number(row[-1]):
            raise errors.InputError(
                f"{place}: score {row[-1]!r:.40} is not a finite number; correct it"
            )
        score, first = scored.setdefault((row[0], row[-2]), (row[-1], line))
        if float(score) != float(row[-1]):
            raise errors.InputError(
                f"{place}: the score of {row[0]!r:.40} and {row[-2]!r:.40} is "
                f"{row[-1]}, and in line {first} {score}; keep one"
            )
        if row[0] not in queries or row[-2] not in indices:
            unknown.append(line)
        elif (gain := float(row[-1])) > 0:
            gains[row[0]][indices[row[-2]]] = gain
    which = "of queries or passages that are absent"
    noticed += _left_out(judgements_path, which, unknown)
    gains = {query_id: row for query_id, row in gains.items() if row}
    if not gains:
        raise errors.InputError(
            f"{judgements_path}: no query has a passage with a score above 0; give one"
        )
    return RetrievalData(
        list(gains),
        [queries[query_id] for query_id in gains],
        list(passages),
        list(passages.values()),
        list(gains.values()),
        tuple(noticed),
    )


def read_texts(path: str, *, has_ids: bool = False, prefix: str = "") -> Iterator[Text]:
    """Yields the rows of a JSONL file, title before text, or the lines of another one.

    With `has_ids` each row has an id, `_id` or `id`, and another file than JSONL is
    TSV, perhaps with a header. A row without one has the `prefix` and its line.
    """
    is_jsonl = text_rows.is_jsonl(path)
    if not is_jsonl and not has_ids:
        if path.lower().removesuffix(".gz").endswith(_TABLES):
            raise errors.InputError(
                f"{path} is a table; write its texts to a .txt file, one a line, or to "
                'a .jsonl file as {"text": "..."}'
            )
        for line, text in text_rows.lines(path):
            yield Text(line, f"{prefix}{line}", text.rstrip("\r"))
        return
    for line, row in text_rows.file_rows(path, "jsonl" if is_jsonl else "tsv"):
        cells = row if isinstance(row, dict) else {}
        if isinstance(row, list) and len(row) == 2:
            if line == 1 and _HEADER.fullmatch("\t".join(row)):
                continue
            cells = {"_id": row[0], "text": row[1]}
        usual = "" if has_ids else f"{prefix}{line}"
        own = cells.get("id")
        text_id = cells.get("_id", own if type(own) in (str, int) else usual)
        parts = [cells[key] for key in ("title", "text") if cells.get(key) is not None]
        is_right = parts and type(text_id) in (str, int)
        if is_right and all(isinstance(part, str) for part in parts):
            text = " ".join(filter(None, parts))
            if not has_ids or text_id != "":
                yield Text(line, str(text_id), text)
                continue
        raise errors.InputError(
            f"{path}:{line}: {json.dumps(row, ensure_ascii=False):.60} has no id or no "
            "text; write " + ('{"_id": "...", "text": "..."}' if is_jsonl else _ROW)
        )


def with_own_ids(path: str, rows: Iterable[Text]) -> Iterator[Text]:
    """Yields the rows of a file; InputError for an id that an earlier one has."""
    lines: dict[str, int] = {}
    for row in rows:
        if (first := lines.setdefault(row.text_id, row.line)) != row.line:
            raise errors.InputError(
                f"{path}:{row.line}: id {row.text_id!r:.60} is already that of line "
                f"{first}; give each row another id"
            )
        yield row


def _read_by_id(path: str, noticed: list[findings.Finding]) -> dict[str, str]:
    texts: dict[str, str] = {}
    blank: list[int] = []
    for line, text_id, text in with_own_ids(path, read_texts(path, has_ids=True)):
        texts[text_id] = text.strip()
        if not texts[text_id]:
            blank.append(line)
    noticed += _left_out(path, "without text", blank)
    return {text_id: text for text_id, text in texts.items() if text}


def _left_out(path: str, which: str, lines: Sequence[int]) -> list[findings.Finding]:
    count = wording.count(len(lines), "row")
    text = f"left out {count} {which}, the first in line {lines[0]}" if lines else ""
    return [findings.Finding(path, text)] if lines else []


def open_rows(
    path: str, layout: labelled.Layout, *, tfds: str = "", data_dir: str | None = None
) -> labelled.Open:
    """Opens the table of a file, or of the split `path` of a data set."""
    if tfds:
        return labelled.open_tfds(
            tfds, path, layout, data_dir=data_dir, labels_required=False
        )
    return labelled.open_table(path, layout, labels_required=False)


def kind_of(table: labelled.Table, *, has_teacher: bool = False) -> str:
    """The kind of the rows, by their columns."""
    if table.choices is not None:
        return TRIPLETS
    if table.text_b is not None:
        return PAIRS if table.labels is None else SCORED
    if table.labels is None and has_teacher:
        return TEXTS
    if table.labels is None:
        raise errors.InputError(
            f"{table.path}: rows of one text need a label; pass --label_column, "
            "--text_b_column for pairs, or --teacher"
        )
    return LABELLED
