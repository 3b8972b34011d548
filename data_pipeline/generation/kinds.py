"""The kinds of --score_as: files to score with a network, and their results.

Each function here reads and checks a file, and returns a function of `run`, windows ->
scores, that returns the results by name and a line for each row of the file.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors
from data_pipeline.classification import label_checks, labels, tables
from data_pipeline.generation import cases, choices, perplexity, templates, windows

Run = Callable[[list[windows.Window]], list[windows.Scores]]
Finish = Callable[[Run], tuple[dict[str, float], Iterable[str]]]


class Settings(NamedTuple):
    """How a file is scored; most fields are flags of run_generation.py."""

    tokenizer: Any
    context: int  # most ids of a window
    layout: tables.Layout = tables.Layout()
    # Ids of labels, gold and predicted -> scores by name.
    metrics: Callable[[np.ndarray, np.ndarray], Mapping[str, float]] = lambda *_: {}
    truncate_left: bool = False  # whether a longer text loses its beginning
    stride: int = 0  # tokens from one window of a long text to the next
    labels: Sequence[str] = ()
    template: str = ""
    label_words: Sequence[str] = ()
    examples_file: str | None = None
    num_examples: int = 0
    seed: int = 0


def texts(path: str, settings: Settings, *, as_one: bool = False) -> Finish:
    """Perplexities of texts; the results are those of all together."""
    context = settings.context
    stride = settings.stride or max(context // 2, 1)
    if stride >= context:
        raise errors.InputError(
            f"--stride={stride} leaves no token before a window of {context}; "
            f"give {context - 1} or less"
        )
    rows = perplexity.read(path, as_one=as_one)
    ids = perplexity.encode(rows, settings.tokenizer)

    def finish(run):
        scored = list(perplexity.score(ids, run, context, stride))
        total = sum((each for _, _, each in scored), perplexity.ZERO)
        results = {"num_texts": len(scored), **total.results()}
        return results, (perplexity.line(*each) for each in scored)

    return finish


def multiple_choice(path: str, settings: Settings) -> Finish:
    """How often the right answer is the likeliest."""
    rows = choices.read(path, settings.layout, settings.labels)
    return _judged(rows, settings, cases.accuracies)


def lambada(path: str, settings: Settings) -> Finish:
    """How often the last word of a passage is the likeliest."""
    return _judged(cases.last_words(path), settings, cases.word_results)


def zero_shot_classification(path: str, settings: Settings) -> Finish:
    """Scores of a labelled table without training."""
    form = templates.Template(settings.template)
    read = functools.partial(
        tables.read_table, layout=settings.layout, allow_empty_text=False
    )
    kind, names = "classification", tuple(settings.labels)
    table = read(path, labels_required=not names)
    shown = table = label_checks.labelled(table, kind, names)
    if settings.examples_file:
        shown = read(settings.examples_file, labels_required=True)
        shown = label_checks.labelled(shown, kind, names)
    if not names:
        label_checks.report(label_checks.inspect({"train": shown}, kind))
        names = labels.find_labels(shown, kind)
    label_set = labels.Labels(names)
    words = templates.label_words(settings.label_words, label_set)
    before = ""
    if count := settings.num_examples:
        before = templates.examples(form, shown, label_set, words, count, settings.seed)
    rows = templates.fill(form, table, label_set, words, before)

    def results(judged):
        gold, predicted = templates.decisions(judged)
        return settings.metrics(gold, predicted) if len(gold) else {}

    return _judged(rows, settings, results)


def _judged(rows, settings, results) -> Finish:
    encoded = cases.encode(
        rows,
        settings.tokenizer,
        settings.context,
        truncate_left=settings.truncate_left,
    )

    def finish(run):
        judged = list(cases.judge(rows, encoded, run))
        return {"num_cases": len(judged), **results(judged)}, (e.line() for e in judged)

    return finish


KINDS: Mapping[str, Callable[[str, Settings], Finish]] = {
    "texts": texts,
    "document": functools.partial(texts, as_one=True),
    "choices": multiple_choice,
    "last_word": lambada,
    "labels": zero_shot_classification,
}
