"""Writes predicted tags: in the form of the input file, and as spans."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from contract import atomic_files, file_names
from data_pipeline.tables import text_rows
from data_pipeline.tagging import files, schemes

Tags = Sequence[Sequence[str]]  # of each sentence


def write_all(
    directory: str,
    sentences: files.Sentences,
    tags: Tags,
    probabilities: Sequence[Sequence[float]],
    scheme: str,
) -> list[str]:
    """Writes the files of `tag_lines` and `span_lines`, or neither; returns paths."""
    ending, _ = _FORMS[sentences.file_format]
    tags_file = os.path.join(directory, f"{file_names.TEST_TAGS}.{ending}")
    spans_file = os.path.join(directory, file_names.TEST_PREDICTIONS)
    atomic_files.write(
        {
            tags_file: tag_lines(sentences, tags),
            spans_file: span_lines(sentences, tags, probabilities, scheme),
        }
    )
    return [tags_file, spans_file]


def tag_lines(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    """Rereads the file of the sentences, and puts the predicted tags in.

    Rows of columns get them as one more, the last; seq.in becomes a seq.out; JSONL gets
    them as "tags" and keeps those of the file as "given", and where it has spans gets
    the "words" as well. Nothing else changes.
    """
    _, lines = _FORMS[sentences.file_format]
    for line in lines(sentences, tags):
        yield f"{line}\n"


def _with_column(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    tag_of_line = {
        line: tag
        for sentence_lines, sentence_tags in zip(sentences.lines, tags, strict=True)
        for line, tag in zip(sentence_lines, sentence_tags, strict=True)
    }
    for number, line in text_rows.lines(sentences.path):
        line = line.rstrip("\r")
        if number in tag_of_line:
            line = f"{line}{sentences.separator}{tag_of_line[number]}"
        elif files.CONLLU_NO_WORD.match(line):
            line = f"{line}{sentences.separator}_"
        elif number == sentences.header:
            line = f"{line}{sentences.separator}tag"
        yield line


def _lines_of_tags(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    by_line = _by_line(sentences, tags)
    for number, _ in text_rows.lines(sentences.path):
        yield " ".join(by_line.get(number, ()))


def _with_tags(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    by_line = _by_line(sentences, tags)
    words_by_line = _by_line(sentences, sentences.words)
    for number, row in text_rows.file_rows(sentences.path, "jsonl"):
        assert isinstance(row, dict)
        if files.spans_key(row):  # which words have the tags, the row does not hold
            row["words"] = list(words_by_line.get(number, ()))
        if row.get(files.TAGS_KEY) is not None:
            row["given"] = row[files.TAGS_KEY]
        row[files.TAGS_KEY] = list(by_line.get(number, ()))
        yield json.dumps(row, ensure_ascii=False)


def _by_line(sentences: files.Sentences, tags: Tags) -> dict[int, Sequence[str]]:
    first = (lines[0] for lines in sentences.lines)
    return dict(zip(first, tags, strict=True))


# By the format of the input: the ending of the tags' file, and what gives its lines.
_FORMS = {
    "conll": ("conll", _with_column),
    "seq": ("seq.out", _lines_of_tags),
    "jsonl": ("jsonl", _with_tags),
}


def span_lines(
    sentences: files.Sentences,
    tags: Tags,
    probabilities: Sequence[Sequence[float]],
    scheme: str,
) -> Iterator[str]:
    """One JSON object a sentence: its words, their tags, and the spans.

    A span is words[start:end], its probability the product of its words'; "plain" tags
    have none. "given" are the tags of the file, as split.load respells them, "correct"
    is whether all of them are predicted.
    """
    for index, words in enumerate(sentences.words):
        row: dict[str, Any] = {
            "words": words,
            "tags": list(tags[index]),
            "probabilities": [round(float(p), 6) for p in probabilities[index]],
        }
        if scheme != schemes.PLAIN:
            row["spans"] = [
                {
                    "start": span.start,
                    "end": span.end,
                    "type": span.type,
                    "text": " ".join(words[span.start : span.end]),
                    "probability": round(
                        math.prod(probabilities[index][span.start : span.end]), 6
                    ),
                }
                for span in schemes.spans(tags[index], scheme)
            ]
        if sentences.tags is not None:
            row["given"] = sentences.tags[index]
            row["correct"] = list(tags[index]) == sentences.tags[index]
        yield json.dumps(row, ensure_ascii=False) + "\n"
