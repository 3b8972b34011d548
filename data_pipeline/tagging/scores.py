"""Predicted tags: scored, and written in the form of the input file and as spans.

A span is right if its first word, its last word and its type are; the rule of conlleval
reads spans.
"""

import collections
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import atomic_files, errors, file_names, remote_files
from contract import outcomes as outcomes_lib
from data_pipeline.tables import text_rows
from data_pipeline.tagging import files, schemes, windows

Tags = Sequence[Sequence[str]]  # of each sentence
_NO_TYPE = "_"  # the name of spans whose tags have no type


def decide(
    data: windows.SentenceSplit,
    outputs: Mapping[str, np.ndarray],
    tag_set: schemes.TagNames,
) -> outcomes_lib.Scored:
    """Decides on a tag for each word, and scores them where the right ones are known.

    Results besides are scores of each type of span, such as f1_person. `outputs` are
    "ids" and "probabilities" of the likeliest tag of each token, and "losses" where the
    right ones are known, [N, S] each.
    """
    scheme = tag_set.scheme
    tags = tag_set.decode(data.by_sentence(data.by_word(outputs["ids"])))
    probabilities = data.by_sentence(data.by_word(outputs["probabilities"]))
    losses = data.by_word(outputs["losses"]) if "losses" in outputs else None
    gold = data.sentences.tags
    scores, of_types = {}, {}
    if gold:
        of_types = score_types(gold, tags, scheme)
        scores = score(gold, tags, scheme)
    if gold and data.sentences.texts:
        scores["f1_cluener"] = f1_cluener(data.sentences, tags, scheme)
    return outcomes_lib.Scored(
        predictions=tags,
        probabilities=probabilities,
        scores=scores,
        losses=losses,
        others={
            f"{name}_{span_type}": value
            for span_type, values in of_types.items()
            for name, value in values.items()
        },
    )


def f1_cluener(sentences: files.Sentences, tags: Tags, scheme: str) -> float:
    """The score of CLUENER2020: the mean over types of the F1 of entities, 0..1.

    An entity is a text of a row, which counts once for a type, wherever it stands.
    """

    def entities(tags: Tags) -> Iterator[set[Any]]:
        for text, row in zip(sentences.texts or (), tags, strict=True):
            yield {(name, entity) for name, entity, *_ in _entities(text, row, scheme)}

    by_type = _scores_by_type(entities(sentences.tags or ()), entities(tags))
    return sum(scores["f1"] for scores in by_type.values()) / max(len(by_type), 1)


def _entities(
    text: str, tags: Sequence[str], scheme: str
) -> Iterator[tuple[str, str, int, int]]:
    """Yields type, entity, and its first and last character in a text."""
    places = files.character_places(text)
    for span in schemes.spans(tags, scheme):
        start, end = places[span.start], places[span.end - 1]
        yield span.type, text[start : end + 1], start, end


def _submission(sentences: files.Sentences, tags: Tags, scheme: str) -> Iterator[str]:
    """The lines of cluener_predict.json; rows count from 0."""
    for index, (text, row) in enumerate(zip(sentences.texts or (), tags, strict=True)):
        label: dict[str, dict[str, list[list[int]]]] = {}
        for name, entity, start, end in _entities(text, row, scheme):
            label.setdefault(name, {}).setdefault(entity, []).append([start, end])
        submitted = {"id": index, "label": label}
        yield json.dumps(submitted, ensure_ascii=False) + "\n"


def score_names(scheme: str) -> tuple[str, ...]:
    """The scores by which a checkpoint can be the best, the default first."""
    if scheme == schemes.PLAIN:
        return ("accuracy",)
    return "f1", "precision", "recall", "accuracy"


def score(gold: Tags, predicted: Tags, scheme: str) -> dict[str, float]:
    """f1, precision, recall (micro averages over spans) and accuracy of tags, 0..1.

    Plain tags have accuracy alone. Division by zero gives 0.
    """
    if list(map(len, gold)) != list(map(len, predicted)):
        raise errors.InputError("given and predicted tags differ in number of words")
    counts = _counts(zip(gold, predicted, strict=True), scheme)
    return _scores(counts.sum(axis=0).tolist(), scheme)


def _counts(pairs, scheme) -> np.ndarray:
    """Per sentence: words, right tags, and right, predicted and gold spans; [N, 5]."""
    rows = [(0, 0, 0, 0, 0)]  # for no sentence
    for gold, predicted in pairs:
        expected = set(schemes.spans(gold, scheme))
        proposed = set(schemes.spans(predicted, scheme))
        num_right = sum(map(str.__eq__, gold, predicted))
        spans = len(expected & proposed), len(proposed), len(expected)
        rows.append((len(gold), num_right, *spans))
    return np.array(rows)[1:]


def _scores(counts: Sequence[int], scheme: str) -> dict[str, float]:
    num_words, num_right, *spans = counts
    accuracy = {"accuracy": num_right / max(num_words, 1)}
    return accuracy if scheme == schemes.PLAIN else {**_span_scores(*spans), **accuracy}


def _span_scores(right: int, predicted: int, gold: int) -> dict[str, float]:
    precision, recall = right / max(predicted, 1), right / max(gold, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}


def score_types(gold: Tags, predicted: Tags, scheme: str) -> dict[str, dict[str, Any]]:
    """{type: {f1, precision, recall, support}}, sorted; support counts gold spans."""

    def spans(tags: Sequence[str]) -> set[Any]:
        return {(s.type or _NO_TYPE, s) for s in schemes.spans(tags, scheme)}

    return _scores_by_type(map(spans, gold), map(spans, predicted))


def _scores_by_type(
    gold: Iterable[set[Any]], predicted: Iterable[set[Any]]
) -> dict[str, dict[str, Any]]:
    """As `score_types`, of the sets {(type, thing)} of each sentence."""
    right, proposed, support = (collections.Counter[str]() for _ in range(3))
    for expected, chosen in zip(gold, predicted, strict=True):
        right.update(name for name, _ in expected & chosen)
        proposed.update(name for name, _ in chosen)
        support.update(name for name, _ in expected)
    return {
        name: {
            **_span_scores(right[name], proposed[name], support[name]),
            "support": support[name],
        }
        for name in sorted({*proposed, *support})
    }


def outcomes(
    name: str, data: windows.SentenceSplit, scored: outcomes_lib.Scored, scheme: str
) -> outcomes_lib.Outcomes | None:
    """The outcomes of the split `name`; None where the right tags are unknown.

    Rows are sentences, decisions words. The loss of a sentence is the mean of its
    words'; a tag that the model cannot predict has none.
    """
    words, gold = data.sentences.words, data.sentences.tags
    if gold is None or scored.losses is None:
        return None
    pairs = list(zip(gold, scored.predictions, strict=True))
    shown = [
        _differing(*row) for row in zip(words, gold, scored.predictions, strict=True)
    ]
    counts = _counts(pairs, scheme)
    splits = data.word_splits
    is_correct = np.array([right == predicted for right, predicted in pairs])
    tags = list(itertools.chain.from_iterable(scored.predictions))
    return outcomes_lib.Outcomes(
        split=name,
        texts=[(" ".join(row),) for row in words],
        expected=[expected for expected, _ in shown],
        predicted=[predicted for _, predicted in shown],
        is_correct=is_correct,
        losses=np.add.reduceat(scored.losses, splits[:-1]) / np.diff(splits),
        scores=dict(scored.scores),
        rescore=lambda rows: _scores(counts[rows].sum(axis=0).tolist(), scheme),
        decisions=_decisions(gold, scored),
        warning=outcomes_lib.lone_prediction(
            "word", tags, is_right=bool(is_correct.all())
        ),
    )


def _differing(words: list[str], gold: list[str], tags: list[str]) -> tuple[str, str]:
    """The words with wrong tags, gold and predicted; without any, those with a tag."""
    wrong = [i for i in range(len(words)) if gold[i] != tags[i]]
    tagged = [i for i in range(len(words)) if gold[i] != schemes.OUTSIDE]
    places = wrong or tagged
    return (
        " ".join(f"{words[i]}/{gold[i]}" for i in places),
        " ".join(f"{words[i]}/{tags[i]}" for i in places),
    )


def _decisions(
    gold: list[list[str]], scored: outcomes_lib.Scored
) -> outcomes_lib.Decisions:
    """Each word's tags; "O" is the first of them."""
    expected = list(itertools.chain.from_iterable(gold))
    predicted = list(itertools.chain.from_iterable(scored.predictions))
    outside = schemes.OUTSIDE
    names = sorted({*expected, *predicted}, key=lambda name: (name != outside, name))
    ids = {name: index for index, name in enumerate(names)}
    return outcomes_lib.Decisions(
        class_names=names,
        labels=np.array([ids[name] for name in expected]),
        predictions=np.array([ids[name] for name in predicted]),
        confidences=np.array(list(itertools.chain(*scored.probabilities))),
    )


def write_all(
    directory: str, sentences: files.Sentences, scored: outcomes_lib.Scored, scheme: str
) -> list[str]:
    """Writes the files of `tag_lines` and `span_lines`, or neither; returns paths.

    In the place of the former, CLUENER2020 has the file that its site takes, and a pipe
    has none, since it is read once.
    """
    spans_file = os.path.join(directory, file_names.TEST_PREDICTIONS)
    spans = span_lines(sentences, scored.predictions, scored.probabilities, scheme)
    if not sentences.texts and remote_files.is_pipe(sentences.path):
        name = f"{file_names.TEST_TAGS}.*"
        print(f"warning: no {name}: {sentences.path} is a pipe, which is read once")
        atomic_files.write({spans_file: spans})
        return [spans_file]
    if sentences.texts:
        name = file_names.CLUENER_SUBMISSION
        lines = _submission(sentences, scored.predictions, scheme)
    else:
        name = f"{file_names.TEST_TAGS}.{_FORMS[sentences.file_format][0]}"
        lines = tag_lines(sentences, scored.predictions)
    tags_file = os.path.join(directory, name)
    atomic_files.write({tags_file: lines, spans_file: spans})
    return [tags_file, spans_file]


def tag_lines(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    """Rereads the file of the sentences, and puts the predicted tags in.

    Rows of columns get them as the last one; seq.in becomes a seq.out; JSONL gets them
    as "tags", keeps "given" ones, and has the "words" where it has spans.
    """
    _, lines = _FORMS[sentences.file_format]
    for line in lines(sentences, tags):
        yield f"{line}\n"


def _with_column(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    flat_lines = itertools.chain.from_iterable(sentences.lines)
    flat_tags = itertools.chain.from_iterable(tags)
    tag_of_line = dict(zip(flat_lines, flat_tags, strict=True))
    flat_words = itertools.chain.from_iterable(sentences.words)
    words = dict(zip(tag_of_line, flat_words, strict=True))
    for number, line in text_rows.lines(sentences.path):
        line = line.rstrip("\r")
        if number in tag_of_line:
            _refuse_other(sentences, number, words.pop(number) not in line)
            line = f"{line}{sentences.separator}{tag_of_line[number]}"
        elif files.CONLLU_NO_WORD.match(line):
            line = f"{line}{sentences.separator}_"
        elif number == sentences.header:
            line = f"{line}{sentences.separator}tag"
        yield line
    _refuse_other(sentences, min(words, default=0), words)


def _refuse_other(sentences, number, is_other):
    """Raises InputError where a line is not the one that was read."""
    if is_other:
        raise errors.InputError(
            f"{sentences.path}:{number}: has changed since it was read; predict again"
        )


def _lines_of_tags(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    by_line, words = _by_line(sentences, tags), _by_line(sentences, sentences.words)
    for number, line in text_rows.lines(sentences.path):
        is_other = [*words.pop(number, ())] != files.split_cells(line)
        _refuse_other(sentences, number, is_other)
        yield " ".join(by_line.get(number, ()))
    _refuse_other(sentences, min(words, default=0), words)


def _with_tags(sentences: files.Sentences, tags: Tags) -> Iterator[str]:
    by_line = _by_line(sentences, tags)
    words_by_line = _by_line(sentences, sentences.words)
    for number, row in text_rows.file_rows(sentences.path, "jsonl"):
        assert isinstance(row, dict)
        words = list(words_by_line.pop(number, ()))
        if files.spans_key(row):  # which words have the tags, the row does not hold
            is_other = any(word not in row["text"] for word in words)
            row["words"] = words
        else:
            place = f"{sentences.path}:{number}"
            is_other = bool(words) and files.words_of(place, row)[1] != words
        _refuse_other(sentences, number, is_other)
        if row.get(files.TAGS_KEY) is not None:
            row["given"] = row[files.TAGS_KEY]
        row[files.TAGS_KEY] = list(by_line.get(number, ()))
        yield json.dumps(row, ensure_ascii=False)
    _refuse_other(sentences, min(words_by_line, default=0), words_by_line)


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

    A span is words[start:end], and its probability the product of its words'. "given"
    are the tags of the file, as windows.load respells them.
    """
    for index, words in enumerate(sentences.words):
        shares = probabilities[index]
        row: dict[str, Any] = {
            "words": words,
            "tags": list(tags[index]),
            "probabilities": [round(float(share), 6) for share in shares],
        }
        if scheme != schemes.PLAIN:
            row["spans"] = [
                span._asdict()
                | {
                    "text": " ".join(words[span.start : span.end]),
                    "probability": round(math.prod(shares[span.start : span.end]), 6),
                }
                for span in schemes.spans(tags[index], scheme)
            ]
        if sentences.tags is not None:
            row["given"] = sentences.tags[index]
            row["correct"] = list(tags[index]) == sentences.tags[index]
        yield json.dumps(row, ensure_ascii=False) + "\n"
