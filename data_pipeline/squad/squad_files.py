"""Reads questions about texts: SQuAD 1.1 and 2.0 (arXiv 1606.05250, 1806.03822).

The layout is data[].paragraphs[].{context, qas[].{id, question, is_impossible,
answers[].{text, answer_start}}}; answer_start counts Unicode characters.
"""

import bisect
import dataclasses
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from data_pipeline.text import normalization

_WORD = re.compile(f"[^{normalization.CONTEXT_WHITESPACE}]+")
_SHUFFLE_SEED = 12345  # of the original
_KINDS: dict[type, str] = {
    bool: "true or false",
    list: "a list",
    str: "text",
    int: "a whole number",
}

# Row of a question, its answer (text, start) if any, and first and last word of that.
_Example = tuple[int, tuple[str, int] | None, tuple[int, int]]


def split_words(context: str) -> list[str]:
    """Splits a context at its white space: what an answer is made of.

    White space is a blank, tab, carriage return, line feed or U+202F.
    """
    return _WORD.findall(context)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Questions:
    """The Q questions of a file, in its order, and the C contexts they are about.

    Attributes:
        path: where they come from, for messages.
        contexts: C texts, each once.
        ids: Q ids; they repeat only where a question is trained with each answer.
        texts: Q questions.
        context_index: int32 [Q], the context of each question.
        answer_texts: Q lists of answers as annotated; none for a question without.
        answer_starts: where each of them begins in its context, in characters from 0.
        is_impossible: Q marks of questions that the context does not answer; False
            where the file has no marks.
        has_marks: whether the file has such marks, and so is SQuAD 2.0.
        answer_words: int32 [Q, 2], first and last word of the one answer, counted in
            `split_words` of the context, -1 where `is_impossible`; None for prediction.
    """

    path: str
    contexts: list[str]
    ids: list[str]
    texts: list[str]
    context_index: np.ndarray
    answer_texts: list[list[str]]
    answer_starts: list[list[int]]
    is_impossible: list[bool]
    has_marks: bool
    answer_words: np.ndarray | None = None

    def __len__(self):
        return len(self.ids)

    def words(self, question: int) -> list[str]:
        """The words of a question's context."""
        return split_words(self.contexts[self.context_index[question]])


def read_for_prediction(path: str, *, version_2_with_negative: bool) -> Questions:
    """Reads questions to be answered, with the answers that the file happens to have.

    Differs from google-research/bert: an id that stands there twice is refused, and so
    are a context without words and, in training, an empty answer.

    Args:
        path: anything that `tf.io.gfile` opens; JSON in UTF-8.
        version_2_with_negative: whether a question may be left without an answer. A
            file of the other kind brings a warning.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it cannot be read, is not JSON or not of the layout, has no
            question, a context without words, or an id twice.
    """
    questions = _read(path)
    _compare_versions(questions, version_2_with_negative)
    return questions


def read_for_training(
    path: str, *, version_2_with_negative: bool, multiple_answers: str = ""
) -> Questions:
    """Reads questions with the one answer that each is trained with.

    A question whose answer does not stand at its `answer_start` is left out, as in the
    original, with one warning for all of them.

    Args:
        path: anything that `tf.io.gfile` opens; JSON in UTF-8.
        version_2_with_negative: whether `is_impossible` is looked at.
        multiple_answers: what becomes of a question with several answers: "first"
            takes the first; "all" makes a question of each that differs from those
            before it; "" refuses it, as the original does.

    Raises:
        FileNotFoundError: no such file.
        ValueError: see `read_for_prediction`; or a question has no answer, an empty
            one, or several of them; or none is left.
    """
    questions = _read(path)
    examples: list[_Example] = []
    not_found = []
    locate = _locator(questions)
    for row, mark in enumerate(questions.is_impossible):
        if mark and version_2_with_negative:
            examples.append((row, None, (-1, -1)))
            continue
        for answer in _choose(questions, row, multiple_answers):
            if words := locate(row, *answer):
                examples.append((row, answer, words))
            else:
                not_found.append(questions.ids[row])
    if not_found:
        logging.warning(
            "%s: %d of %d answers are left out, because the context does not hold them "
            "at their answer_start; the first is that of question %r",
            *(path, len(not_found), len(not_found) + len(examples), not_found[0]),
        )
    if not examples:
        raise ValueError(
            f"{path}: none of {len(questions)} questions is left for training; correct "
            "answer_start, which counts characters of the context from 0"
        )
    _compare_versions(questions, version_2_with_negative)
    return _training_rows(questions, examples)


def shuffled(questions: Questions) -> Questions:
    """Questions for training in the order that the original gives them, always one.

    Its reason: its buffer of 100 shuffles too little. The order shows in
    train.tf_record.
    """
    order = list(range(len(questions)))
    random.Random(_SHUFFLE_SEED).shuffle(order)

    def taken(values):
        return [values[row] for row in order]

    return dataclasses.replace(
        questions,
        ids=taken(questions.ids),
        texts=taken(questions.texts),
        context_index=questions.context_index[order],
        answer_texts=taken(questions.answer_texts),
        answer_starts=taken(questions.answer_starts),
        is_impossible=taken(questions.is_impossible),
        answer_words=np.asarray(questions.answer_words)[order],
    )


def _training_rows(questions: Questions, examples: list[_Example]) -> Questions:
    """The questions of these examples, in this order."""
    rows, answers, words = zip(*examples, strict=True)
    return dataclasses.replace(
        questions,
        ids=[questions.ids[row] for row in rows],
        texts=[questions.texts[row] for row in rows],
        context_index=questions.context_index[list(rows)],
        answer_texts=[[answer[0]] if answer else [] for answer in answers],
        answer_starts=[[answer[1]] if answer else [] for answer in answers],
        is_impossible=[answer is None for answer in answers],
        answer_words=np.array(words, np.int32),
    )


def _choose(questions: Questions, row: int, multiple: str) -> list[tuple[str, int]]:
    """The answers that a question is trained with, each a text and its start."""
    texts, starts = questions.answer_texts[row], questions.answer_starts[row]
    if len(texts) == 1 or (texts and multiple):
        if "" in (text.strip() for text in texts):
            raise ValueError(
                f"{questions.path}: question {questions.ids[row]!r} has an empty "
                'answer; write "answers": [] and "is_impossible": true, and set '
                "--version_2_with_negative"
            )
        found = list(dict.fromkeys(zip(texts, starts, strict=True)))
        return {"": found, "first": found[:1], "all": found}[multiple]
    if texts:
        remedy = "set --multiple_answers=first or --multiple_answers=all"
    elif questions.is_impossible[row]:
        remedy = "the file is SQuAD 2.0, so set --version_2_with_negative"
    else:
        remedy = 'give it one, or in SQuAD 2.0 "is_impossible": true'
    raise ValueError(
        f"{questions.path}: question {questions.ids[row]!r} has {len(texts)} answers, "
        f"and training takes exactly 1; {remedy}"
    )


def _locator(
    questions: Questions,
) -> Callable[[int, str, int], tuple[int, int] | None]:
    """A function of a question and its answer to the answer's first and last word.

    It returns None where those words do not contain the text. White space of any kind
    and number in the text counts as one blank.
    """
    current = -1
    words: list[str] = []
    starts: list[int] = []

    def locate(row: int, text: str, start: int) -> tuple[int, int] | None:
        nonlocal current, words, starts
        if current != questions.context_index[row]:  # questions on one text are in line
            current = questions.context_index[row]
            found = list(_WORD.finditer(questions.contexts[current]))
            words = [match.group() for match in found]
            starts = [match.start() for match in found]
        end = start + len(text)
        if start < 0 or end > len(questions.contexts[current]):
            return None
        # -1 before the first word, and then a Python index from the end.
        first = bisect.bisect_right(starts, start) - 1
        last = bisect.bisect_right(starts, end - 1) - 1
        if " ".join(text.split()) not in " ".join(words[first : last + 1]):
            return None
        return first % len(words), last % len(words)

    return locate


def _compare_versions(questions: Questions, version_2_with_negative: bool) -> None:
    """Warns of SQuAD 1.1 with the flag of SQuAD 2.0, and of the reverse."""
    if version_2_with_negative and not questions.has_marks:
        logging.warning(
            "%s: no question has is_impossible, so this is SQuAD 1.1; without "
            "--version_2_with_negative every question gets an answer",
            questions.path,
        )
    count = sum(questions.is_impossible)
    if count and not version_2_with_negative:
        logging.warning(
            "%s: %d of %d questions are marked is_impossible, so this is SQuAD 2.0; "
            "without --version_2_with_negative every question gets an answer",
            *(questions.path, count, len(questions)),
        )


def _read(path: str) -> Questions:
    """All questions of a file, with all their answers."""
    contexts: dict[str, int] = {}
    index: list[int] = []
    ids: dict[str, None] = {}
    texts: list[str] = []
    answers: list[list[dict]] = []
    marks: list[bool | None] = []
    for context, place, question in _records(path):
        name = question.get("id")
        name = str(name) if isinstance(name, int) else _get(question, "id", str, place)
        place = f"{path}: question {name!r}"
        if name in ids:
            raise ValueError(f"{place} stands there twice; give each its own id")
        ids[name] = None
        texts.append(_encodable(_get(question, "question", str, place), place))
        found = _get(question, "answers", list, place) if "answers" in question else []
        for answer in found:
            _get(answer, "text", str, place)
            _get(answer, "answer_start", int, place)
        answers.append(found)
        has_mark = "is_impossible" in question
        marks.append(_get(question, "is_impossible", bool, place) if has_mark else None)
        if context not in contexts and not split_words(_encodable(context, place)):
            raise ValueError(f"{place} has an empty context; give one or remove it")
        index.append(contexts.setdefault(context, len(contexts)))
    if not ids:
        raise ValueError(f"{path}: there is no question in it; give it at least one")
    return Questions(
        path=path,
        contexts=list(contexts),
        ids=list(ids),
        texts=texts,
        context_index=np.array(index, np.int32),
        answer_texts=[[answer["text"] for answer in found] for found in answers],
        answer_starts=[
            [answer["answer_start"] for answer in found] for found in answers
        ],
        is_impossible=[bool(mark) for mark in marks],
        has_marks=any(mark is not None for mark in marks),
    )


def _records(path: str) -> Iterator[tuple[str, str, dict]]:
    """Yields context, place in the file and record of each question."""
    for i, entry in enumerate(_get(_load(path), "data", list, path)):
        place = f"{path}: data[{i}]"
        for j, paragraph in enumerate(_get(entry, "paragraphs", list, place)):
            inner = f"{place}.paragraphs[{j}]"
            context = _get(paragraph, "context", str, inner)
            for k, question in enumerate(_get(paragraph, "qas", list, inner)):
                if not isinstance(question, dict):
                    question = {}  # which lacks its id
                yield context, f"{inner}.qas[{k}]", question


def _load(path: str) -> Any:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return json.loads(file.read())
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; check the path") from error
    except tf.errors.OpError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.message}); check that it is a file"
        ) from error
    except ValueError as error:  # of JSON or of UTF-8
        raise ValueError(
            f"{path}: is not JSON in UTF-8 ({error}); give a file of SQuAD's layout"
        ) from error


def _get(record: Any, key: str, kind: type, place: str) -> Any:
    """The value of a key that must be there and be of a kind."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        lack = "is missing" if value is None else f"is {value!r:.40}"
        raise ValueError(
            f"{place}: {key!r} {lack}, and must be {_KINDS[kind]}; SQuAD's layout is "
            "data[].paragraphs[].{context, qas[].{id, question, answers[].{text, "
            "answer_start}}}"
        )
    return value


def _encodable(text: str, place: str) -> str:
    """Returns a text that has no half of a surrogate pair, which is no character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place}: its text has {text[error.start]!a}, which is half a character, "
            f"at {error.start}; remove it"
        ) from None
    return text
