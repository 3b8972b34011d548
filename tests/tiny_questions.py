"""Questions in SQuAD's layout that a tiny model can learn to answer.

A context is a row of words of tests/tiny.py with one sign in it, the answer. Where
there is none, the question has no answer.
"""

import json
import pathlib

from tests import tiny

SIGNS = sorted(tiny.SIGNS.values())


def context(number, *, has_answer=True):
    """(text, start of the sign in it): 8 to 27 words, by the number."""
    words = [tiny.FILLERS[(number * 7 + j * 3) % 10] for j in range(8 + number % 20)]
    place = (number * 5) % len(words)
    if has_answer:
        words[place] = SIGNS[number % 3]
    return " ".join(words), len(" ".join([*words[:place], ""])) if place else 0


def question(number, **changes):
    """One paragraph with one question."""
    has_answer = changes.pop("has_answer", True)
    text, start = context(number, has_answer=has_answer)
    answers = [{"text": SIGNS[number % 3], "answer_start": start}] if has_answer else []
    record = {"id": f"q{number}", "question": "was it", "answers": answers, **changes}
    return {"context": text, "qas": [record]}


def write(path, paragraphs):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": "1", "data": [{"paragraphs": list(paragraphs)}]})
    path.write_text(text, encoding="utf-8")
    return path


def version_1(path, count, start=0):
    """`count` questions, each with an answer."""
    return write(path, map(question, range(start, start + count)))


def version_2(path, count, start=0):
    numbers = range(start, start + count)
    return write(
        path,
        [question(n, has_answer=n % 3 > 0, is_impossible=n % 3 == 0) for n in numbers],
    )
