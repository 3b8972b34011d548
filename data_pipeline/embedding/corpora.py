"""Files of a retrieval data set: a corpus of passages, queries, and judgements.

The layout is BEIR's: corpus.jsonl ("_id", "title", "text"), queries.jsonl ("_id",
"text"), and a TSV of judgements (query-id, corpus-id, score). Corpus and queries may
also be TSV of id and text. The names of gzip files end in .gz.
"""

import dataclasses
import json
import math

from contract import errors
from data_pipeline.tables import text_rows


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
    passages, queries = read_texts(corpus_path), read_texts(queries_path)
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
        if (gain := _gain(place, row[-1])) > 0:
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


def read_texts(path: str) -> dict[str, str]:
    """Reads {id: text} of a corpus or of queries; errors are those of `read`."""
    texts: dict[str, str] = {}
    file_format = "jsonl" if text_rows.is_jsonl(path) else "tsv"
    for line, row in text_rows.file_rows(path, file_format):
        text_id, text = _id_and_text(row)
        if not text_id or not text:
            raise errors.InputError(
                f"{path}:{line}: {json.dumps(row, ensure_ascii=False):.60} has no id "
                'or no text; write {"_id": "...", "title": "...", "text": "..."} in '
                "JSONL, or id and text with one tab between"
            )
        if text_id in texts:
            raise errors.InputError(
                f"{path}:{line}: id {text_id!r} is already that of line "
                f"{list(texts).index(text_id) + 1}; give each row another id"
            )
        texts[text_id] = text
    return texts


def _id_and_text(row: text_rows.Row) -> tuple[str, str]:
    """Id and text of a row, "" if it has none."""
    if isinstance(row, list):
        return (row[0], row[1].strip()) if len(row) == 2 else ("", "")
    text_id, parts = row.get("_id", ""), (row.get("title") or "", row.get("text") or "")
    if type(text_id) not in (str, int) or not all(isinstance(p, str) for p in parts):
        return "", ""
    return str(text_id), " ".join(parts).strip()


def _gain(place: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise errors.InputError(
            f"{place}: score {text!r:.40} is not a finite number; correct it, or begin "
            "the file with the line query-id, corpus-id, score"
        )
    return value
