"""Reads questions about contexts: SQuAD 1.1 and 2.0 (arXiv 1606.05250, 1806.03822).

The layout is data[].paragraphs[].{context, qas[].{id, question, is_impossible,
answers[].{text, answer_start}}}; answer_start counts Unicode characters. Or a row a
question, as of the library `datasets`: {id, context, question, answers: {text: [],
answer_start: []}}, in lines of JSON, in a list, or in `data`.
"""

import bisect
import dataclasses
import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from contract import errors, json_files, wording
from data_pipeline import findings
from data_pipeline.tables import other_programs, text_rows
from data_pipeline.text import normalization

_WORD = re.compile(f"[^{normalization.CONTEXT_WHITESPACE}]+")
# An ideograph, or a run of other characters between two; tokens are the same.
_IDEOGRAPH = re.sub(
    r"\\x\{(\w+)\}", lambda each: chr(int(each[1], 16)), normalization.CJK
)
_PART = re.compile(
    rf"[{_IDEOGRAPH}]|[^{_IDEOGRAPH}{normalization.CONTEXT_WHITESPACE}]+"
)
_MOST_EARLIER = 100  # of so many answers, one stands earlier in its words, too
_MOST_SHIFT = 3  # characters that an answer_start of CMRC2018 may be too large
_SHUFFLE_SEED = 12345  # of the original
_ANSWER_KEYS = ("text", "answer_start")
_get = functools.partial(
    text_rows.field,
    remedy="give paragraphs[].{context, qas[]}, or rows {id, context, question, "
    "answers}",
)


def split_words(context: str, *, at_ideographs: bool = False) -> list[str]:
    """The original's `doc_tokens`: split at space, tab, CR, LF and U+202F alone.

    Where it is split `at_ideographs`, each of these is a word.
    """
    return (_PART if at_ideographs else _WORD).findall(context)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Questions:
    """The Q questions of a file, in its order, and the distinct contexts they share."""

    path: str  # for messages
    contexts: list[str]
    ids: list[str]  # Q; they repeat only where a question is trained with each answer
    texts: list[str]  # Q questions
    context_index: np.ndarray  # int32 [Q]
    answer_texts: list[list[str]]  # Q lists of the annotated answers
    answer_starts: list[list[int]]  # in characters of the context, from 0
    is_impossible: list[bool]  # whether the context has no answer
    is_version_2: bool  # whether any question has `is_impossible`, as in SQuAD 2.0
    # int32 [Q, 2], first and last of `split_words` in training; -1 where is_impossible
    answer_words: np.ndarray | None = None
    at_ideographs: bool = False  # how contexts are split; see split_words
    noticed: tuple[findings.Finding, ...] = ()

    def __len__(self):
        return len(self.ids)


def read_for_prediction(
    path: str, *, version_2_with_negative: bool, at_ideographs: bool = False
) -> Questions:
    """Reads questions to be answered, with any annotated answers.

    Answers that all begin at -1 hold the places of secret ones, and are left out.
    Warns where the file's version and `version_2_with_negative` disagree.

    Differs from google-research/bert: an id that stands there twice is refused, and so
    are a context without words and, in training, an empty answer.
    """
    questions = _read(path, at_ideographs)
    _compare_versions(questions, version_2_with_negative)
    starts = {*itertools.chain(*questions.answer_starts)}
    if starts == {-1}:
        none: list[list[Any]] = [[] for _ in questions.ids]
        note = findings.Finding(path, "answers begin at -1, so they are read as secret")
        noticed = (*questions.noticed, note)
        return dataclasses.replace(
            questions, answer_texts=none, answer_starts=none, noticed=noticed
        )
    return questions


def read_for_training(
    path: str,
    *,
    version_2_with_negative: bool,
    multiple_answers: str = "",
    at_ideographs: bool = False,
) -> Questions:
    """Reads questions with the one answer that each is trained with.

    As in the original, questions whose answer is not at its `answer_start` are left
    out, with one warning. Of several answers, `multiple_answers` "first" takes one,
    "all" makes a question of each, and "" refuses them, as the original does. Where
    contexts are split `at_ideographs`, an answer may begin up to 3 characters before
    its `answer_start`, as some of CMRC2018 do.
    """
    questions = _read(path, at_ideographs)
    examples: list[tuple[int, tuple[str, int] | None, tuple[int, int]]] = []
    misplaced, moved, earlier = [], 0, 0
    for row, is_impossible in enumerate(questions.is_impossible):
        if is_impossible and version_2_with_negative:
            examples.append((row, None, (-1, -1)))
            continue
        context = questions.contexts[questions.context_index[row]]
        for answer in _training_answers(questions, row, multiple_answers):
            if at_ideographs:
                stated, answer = answer, _moved(context, *answer)
                moved += answer != stated
            if words := _locate(context, *answer, at_ideographs):
                examples.append((row, answer, words))
                if not at_ideographs:
                    earlier += _is_earlier(context, answer, words)
            else:
                misplaced.append(questions.ids[row])
    text = f"{wording.count(moved, 'answer')} moved by up to 3 characters"
    notes = [findings.Finding(path, text)] if moved else []
    if earlier * _MOST_EARLIER > len(examples):
        logging.warning(
            f"{path}: {earlier} of {len(examples)} answers also stand earlier in their "
            "words, which are cut at whitespace, and are trained there, as in "
            "google-research/bert; for Chinese set --task_name=drcd"
        )
    if misplaced:
        logging.warning(
            f"{path}: left out {len(misplaced)} of {len(misplaced) + len(examples)} "
            f"answers, not at their answer_start; the first is of {misplaced[0]!r}"
        )
    if not examples:
        raise errors.InputError(
            f"{path}: none of {len(questions)} questions is left; correct answer_start"
        )
    _compare_versions(questions, version_2_with_negative)
    rows, answers, answer_words = zip(*examples, strict=True)
    return dataclasses.replace(
        _take(questions, rows),
        answer_texts=[[answer[0]] if answer else [] for answer in answers],
        answer_starts=[[answer[1]] if answer else [] for answer in answers],
        is_impossible=[answer is None for answer in answers],
        answer_words=np.array(answer_words, np.int32),
        noticed=(*questions.noticed, *notes),
    )


def shuffled(questions: Questions) -> Questions:
    """Shuffles questions before train.tf_record is written, as the original does."""
    order = list(range(len(questions)))
    random.Random(_SHUFFLE_SEED).shuffle(order)
    words = np.asarray(questions.answer_words)[order]
    return dataclasses.replace(_take(questions, order), answer_words=words)


def _take(questions: Questions, rows: Sequence[int]) -> Questions:
    names = ("ids", "texts", "answer_texts", "answer_starts", "is_impossible")
    columns: dict[str, Any] = {
        name: [getattr(questions, name)[row] for row in rows] for name in names
    }
    context_index = questions.context_index[list(rows)]
    return dataclasses.replace(questions, context_index=context_index, **columns)


def _training_answers(
    questions: Questions, row: int, multiple_answers: str
) -> list[tuple[str, int]]:
    texts, starts = questions.answer_texts[row], questions.answer_starts[row]
    if len(texts) == 1 or (texts and multiple_answers):
        if "" in (text.strip() for text in texts):
            raise errors.InputError(
                f"{questions.path}: question {questions.ids[row]!r} has an empty "
                'answer; write "answers": [] and set --version_2_with_negative'
            )
        answers = list(dict.fromkeys(zip(texts, starts, strict=True)))
        return answers[:1] if multiple_answers == "first" else answers
    remedy = 'mark it "is_impossible" and set --version_2_with_negative'
    if texts:
        remedy = "set --multiple_answers=first or --multiple_answers=all"
    raise errors.InputError(
        f"{questions.path}: question {questions.ids[row]!r} has {len(texts)} answers, "
        f"not 1; {remedy}"
    )


def _moved(context: str, text: str, start: int) -> tuple[str, int]:
    """The answer, up to 3 characters to the left if it stands there and not here."""
    places = range(start, max(start - _MOST_SHIFT, 0) - 1, -1)
    return text, next((i for i in places if context.startswith(text, i)), start)


def _is_earlier(context: str, answer: tuple[str, int], words: tuple[int, int]) -> bool:
    """Whether the words of an answer have its text before it."""
    text, start = answer
    begin = _words_and_starts(context, False)[1][words[0]]
    return 0 <= context.find(text, begin) < start


def _locate(
    context: str, text: str, start: int, at_ideographs: bool
) -> tuple[int, int] | None:
    """First and last word of an answer, runs of whitespace as one space, or None."""
    end = start + len(text)
    if start < 0 or end > len(context):
        return None
    words, starts = _words_and_starts(context, at_ideographs)
    # -1 before the first word, and then a Python index from the end.
    first = bisect.bisect_right(starts, start) - 1
    last = bisect.bisect_right(starts, end - 1) - 1
    space = "" if at_ideographs else " "
    if space.join(text.split()) not in space.join(words[first : last + 1]):
        return None
    return first % len(words), last % len(words)


@functools.lru_cache(maxsize=1)  # questions about one context follow each other
def _words_and_starts(context: str, at_ideographs: bool) -> tuple[list[str], list[int]]:
    matches = list((_PART if at_ideographs else _WORD).finditer(context))
    return [match.group() for match in matches], [match.start() for match in matches]


def _compare_versions(questions: Questions, version_2_with_negative: bool) -> None:
    count, version = sum(questions.is_impossible), ""
    if version_2_with_negative and not questions.is_version_2:
        version = "1.1"
    if count and not version_2_with_negative:
        version = "2.0"
    if version:
        logging.warning(
            f"{questions.path}: this is SQuAD {version}, {count} of {len(questions)} "
            "is_impossible; without --version_2_with_negative all get an answer"
        )


def _read(path: str, at_ideographs: bool) -> Questions:
    contexts: dict[str, int] = {}
    rows: dict[str, tuple] = {}
    noticed: list[findings.Finding] = []
    for context, place, record in _records(path, noticed):
        name = record.get("id")
        name = str(name) if isinstance(name, int) else _get(record, "id", str, place)
        place = f"{path}: question {name!r}"
        if name in rows:
            raise errors.InputError(f"{place} stands there twice; give each its own id")
        if context not in contexts and not split_words(context):
            raise errors.InputError(f"{place} has an empty context; remove it")
        answers = _get(record, "answers", list, place) if "answers" in record else []
        rows[name] = (
            _get(record, "question", str, place),
            contexts.setdefault(context, len(contexts)),
            [_get(answer, "text", str, place) for answer in answers],
            [_get(answer, "answer_start", int, place) for answer in answers],
            "is_impossible" in record and _get(record, "is_impossible", bool, place),
            "is_impossible" in record,
        )
    if not rows:
        raise errors.InputError(f"{path}: there is no question in it; give it one")
    columns = map(list, zip(*rows.values(), strict=True))
    texts, index, answer_texts, answer_starts, is_impossible, has_flag = columns
    return Questions(
        path=path,
        contexts=list(contexts),
        ids=list(rows),
        texts=texts,
        context_index=np.array(index, np.int32),
        answer_texts=answer_texts,
        answer_starts=answer_starts,
        is_impossible=is_impossible,
        is_version_2=any(has_flag),
        at_ideographs=at_ideographs,
        noticed=tuple(noticed),
    )


def _records(
    path: str, noticed: list[findings.Finding]
) -> Iterator[tuple[str, str, dict]]:
    """Yields the context, the place in the file and the record of each question."""
    rows = []  # without paragraphs
    for place, entry in _entries(path, noticed):
        if isinstance(entry, dict) and {"context", "question"} <= entry.keys():
            context = _get(entry, "context", str, place)
            rows.append((context, place, entry | _answers_of_row(entry, place)))
            continue
        for j, paragraph in enumerate(_get(entry, "paragraphs", list, place)):
            inner = f"{place}.paragraphs[{j}]"
            context = _get(paragraph, "context", str, inner)
            for k, question in enumerate(_get(paragraph, "qas", list, inner)):
                record = question if isinstance(question, dict) else {}  # lacks its id
                yield context, f"{inner}.qas[{k}]", record
    unanswered = [row for _, _, row in rows if row.get("answers") == []]
    # Rows have no is_impossible. Where none has an answer, they are to be answered.
    if any(row.get("answers") for _, _, row in rows):
        for row in unanswered:
            row.setdefault("is_impossible", True)
        text = f"{len(rows)} rows, {len(unanswered)} have no answer"
        noticed.append(findings.Finding(path, text))
    yield from rows


def _answers_of_row(row: dict, place: str) -> dict:
    """{"answers": as in paragraphs} of a row with columns or a list of answers."""
    columns = row.get("answers")
    if not isinstance(columns, dict):
        return {}
    texts, starts = (_get(columns, key, list, place) for key in _ANSWER_KEYS)
    if len(texts) != len(starts):
        raise errors.InputError(
            f"{place}: {len(texts)} texts and {len(starts)} answer_start; give each one"
        )
    pairs = zip(texts, starts, strict=True)
    return {"answers": [dict(zip(_ANSWER_KEYS, pair, strict=True)) for pair in pairs]}


def _entries(path: str, noticed: list[findings.Finding]) -> Iterator[tuple[str, Any]]:
    """Yields place and value of each entry of `data`, of a list, or of each line."""
    content = _load(path)
    if content is None:
        rows = [*text_rows.file_rows(path, "jsonl")]
        marks = other_programs.marks((), rows)
        for number, row in other_programs.accepted(path, rows, marks, noticed):
            yield f"{path}:{number}", row
        return
    if isinstance(content, dict) and "question" in content:
        content = [content]  # a file of one line
    name = "" if isinstance(content, list) else "data"
    entries = content if not name else _get(content, "data", list, path)
    for i, entry in enumerate(entries):
        yield f"{path}: {name}[{i}]", entry


def _load(path: str) -> Any:
    """The value of a file; None where it has several, in lines."""
    try:
        return json_files.read(
            path, json_files.distinct, remedy="give a file of SQuAD's layout"
        )
    except errors.InputError as error:
        if getattr(error.__cause__, "msg", "") == "Extra data":  # of JSONDecodeError
            return None
        raise
