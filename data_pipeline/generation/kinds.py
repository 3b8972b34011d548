"""What is scored in a file: read and checked first, then asked of the network.

Each function here reads a file and returns one that takes `run`, windows -> scores, and
gives the results by name, and a line for each row of the file.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors
from data_pipeline.classification import labels, tables
from data_pipeline.generation import cases, choices, perplexity, templates, windows

Run = Callable[[list[windows.Window]], list[windows.Scores]]
Outcome = tuple[dict[str, float], Iterable[str]]
# Ids of labels, given and decided -> scores by name.
Metrics = Callable[[np.ndarray, np.ndarray], Mapping[str, float]]


class Settings(NamedTuple):
    """What is asked of a file, as the flags of run_generation.py call it."""

    layout: tables.Layout
    stride: int = 0  # tokens from one window of a long text to the next
    labels: Sequence[str] = ()
    template: str = ""
    label_words: Sequence[str] = ()
    examples_file: str | None = None
    num_examples: int = 0
    seed: int = 0


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
    path: str, reader: Reader, settings: Settings, _: Metrics, *, as_one: bool = False
) -> Callable[[Run], Outcome]:
    """Perplexities of texts, of which the results are those of all together."""
    stride = settings.stride or max(reader.context // 2, 1)
    if stride >= reader.context:
        raise errors.InputError(
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
    path: str, reader: Reader, settings: Settings, _: Metrics
) -> Callable[[Run], Outcome]:
    """How often the right answer is the likeliest."""
    found = choices.read(path, settings.layout, settings.labels)
    return _judged(found, reader, cases.accuracies)


def last_word(
    path: str, reader: Reader, settings: Settings, _: Metrics
) -> Callable[[Run], Outcome]:
    """How often the last word of a passage is what the network would write."""
    return _judged(cases.last_words(path), reader, cases.word_results)


def labels_of(
    path: str, reader: Reader, settings: Settings, metrics: Metrics
) -> Callable[[Run], Outcome]:
    """Scores of a labelled table of which no row is trained on."""
    form = templates.Template(settings.template)
    read = functools.partial(
        tables.read_table, layout=settings.layout, allow_empty_text=False
    )
    table = read(path, labels_required=not settings.labels)
    shown = table
    if settings.examples_file:
        shown = read(settings.examples_file, labels_required=True)
    names = tuple(settings.labels) or labels.find_labels(shown, "classification")
    label_set = labels.Labels(names)
    words = templates.label_words(settings.label_words, label_set)
    before = ""
    if count := settings.num_examples:
        asked = count, settings.seed
        before = templates.examples(form, shown, label_set, words, *asked)
    found = templates.fill(form, table, label_set, words, before)

    def results(judged):
        given, decided = templates.decisions(judged)
        return metrics(given, decided) if len(given) else {}

    return _judged(found, reader, results)


def _judged(found, reader, results):
    """What judges cases and says `results` of them."""
    encoded = reader.encode(found)

    def finish(run):
        judged = list(cases.judge(found, encoded, run))
        return {"num_cases": len(judged), **results(judged)}, (e.line() for e in judged)

    return finish


KINDS: Mapping[str, Callable[..., Callable[[Run], Outcome]]] = {
    "texts": texts,
    "document": functools.partial(texts, as_one=True),
    "choices": choice_of,
    "last_word": last_word,
    "labels": labels_of,
}
