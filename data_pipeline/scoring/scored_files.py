"""What is scored in a file: read and checked first, then asked of the network.

Each function here reads a file and returns one that takes `run`, windows -> scores, and
gives the results by name, and a line for each row of the file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_pipeline.classification import label_sets, tables
from data_pipeline.scoring import cases, choices, perplexity, templates, windows

Run = Callable[[list[windows.Window]], list[windows.Scores]]
Outcome = tuple[dict[str, float], Iterable[str]]


class Reader(NamedTuple):
    """How texts become ids.

    Attributes:
        tokenizer: of the network.
        context: most ids of a window.
        keeps_end: whether a longer text loses its beginning, or is refused.
    """

    tokenizer: Any
    context: int
    keeps_end: bool = False

    def encode(self, found: Sequence[cases.Case]) -> list[list[cases.Encoded]]:
        """The ids of cases; see cases.encode."""
        rest = self.tokenizer, self.context
        return cases.encode(found, *rest, keeps_end=self.keeps_end)


def texts(
    path: str, reader: Reader, stride: int, *, as_one: bool
) -> Callable[[Run], Outcome]:
    """Perplexities of texts, of which the results are those of all together."""
    stride = stride or max(reader.context // 2, 1)
    if stride >= reader.context:
        raise ValueError(
            f"--stride={stride} leaves no token before a window of {reader.context}; "
            f"give {reader.context - 1} or less"
        )
    found = perplexity.encode(perplexity.read(path, as_one=as_one), reader.tokenizer)

    def finish(run):
        scored = list(perplexity.score(found, run, reader.context, stride))
        total = sum((each for _, _, each in scored), perplexity.NOTHING)
        results = {"num_texts": len(scored), **total.results()}
        return results, (perplexity.line(*each) for each in scored)

    return finish


def choice_of(
    path: str, reader: Reader, layout: tables.Layout, labels: Sequence[str]
) -> Callable[[Run], Outcome]:
    """How often the right answer is the likeliest."""
    found = choices.read(path, layout, labels)
    encoded = reader.encode(found)

    def finish(run):
        judged = list(cases.judge(found, encoded, run))
        results = {"num_cases": len(judged), **cases.accuracies(judged)}
        return results, (each.line() for each in judged)

    return finish


def last_word(path: str, reader: Reader) -> Callable[[Run], Outcome]:
    """How often the last word of a passage is what the network would write."""
    found = cases.last_words(path)
    encoded = reader.encode(found)

    def finish(run):
        judged = list(cases.judge(found, encoded, run))
        results = {"num_cases": len(judged), **cases.word_results(judged)}
        return results, (each.line() for each in judged)

    return finish


def labels_of(
    path: str,
    reader: Reader,
    layout: tables.Layout,
    *,
    template: str,
    labels: Sequence[str],
    label_words: Sequence[str],
    examples_file: str | None,
    num_examples: int,
    seed: int,
    metrics: Callable[[np.ndarray, np.ndarray], Mapping[str, float]],
) -> Callable[[Run], Outcome]:
    """Scores of a labelled table of which no row is trained on.

    `metrics` takes the ids of labels, given and decided.
    """
    form = templates.Template(template)
    rules = {"allow_empty_text": False}
    table = tables.read_table(path, layout, labels_required=not labels, **rules)
    shown = table
    if examples_file:
        shown = tables.read_table(examples_file, layout, labels_required=True, **rules)
    names = tuple(labels) or label_sets.find_labels(shown, "classification")
    label_set = label_sets.LabelSet(names)
    words = templates.label_words(label_words, label_set)
    before = ""
    if num_examples:
        before = templates.examples(form, shown, label_set, words, num_examples, seed)
    found = templates.fill(form, table, label_set, words, before)
    encoded = reader.encode(found)

    def finish(run):
        judged = list(cases.judge(found, encoded, run))
        results = {"num_cases": len(judged)}
        given, decided = templates.decisions(judged)
        if len(given):
            results |= metrics(given, decided)
        return results, (each.line() for each in judged)

    return finish
