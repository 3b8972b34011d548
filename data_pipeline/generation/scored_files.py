r"""Files that a network scores without training, by the values of --score_as.

Texts have perplexities. Choices, last words and labelled tables become cases: texts
that differ in a part, whose tokens are scored; the likeliest is the decision. See
GPT-2's paper, section 3, and docs/generation.md.

Each function of `KINDS` reads and checks a file, and returns a function of `run`,
windows -> scores, that returns the results by name and a line for each row of the file.
"""

import collections
import functools
import itertools
import json
import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, wording
from data_pipeline.classification import label_checks, labels, tables, tasks
from data_pipeline.generation import perplexity
from data_pipeline.tables import label_files, published

# Words that begin an answer with a capital only where it begins a sentence.
_ARTICLES = {"The", "A", "An", "His", "Her", "Their", "Its", "My", "Our", "Your"}
_PRONOUNS = {"He", "She", "It", "They", "We", "You"}
_FIELDS = ("text", "text_a", "text_b", "label")  # of a template
_BETWEEN = "\n\n"  # of filled examples

Finish = Callable[[perplexity.Run], tuple[dict[str, float], Iterable[str]]]


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
            f"--stride={stride} leaves no token before a window of {context}; lower it"
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
    rows = read_choices(path, settings.layout, settings.labels)
    return _judged(rows, settings, accuracies)


def lambada(path: str, settings: Settings) -> Finish:
    """How often the last word of a passage is the likeliest."""
    return _judged(last_words(path), settings, word_results)


def zero_shot_classification(path: str, settings: Settings) -> Finish:
    """Scores of a labelled table without training."""
    form = Template(settings.template)
    read = functools.partial(tables.read_table, layout=settings.layout)
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
    words = label_words(settings.label_words, label_set)
    before = ""
    if count := settings.num_examples:
        before = examples(form, shown, label_set, words, count, settings.seed)
    rows = fill(form, table, label_set, words, before)

    def results(judged):
        gold, predicted = decisions(judged)
        return settings.metrics(gold, predicted) if len(gold) else {}

    return _judged(rows, settings, results)


KINDS: Mapping[str, Callable[[str, Settings], Finish]] = {
    "texts": texts,
    "document": functools.partial(texts, as_one=True),
    "choices": multiple_choice,
    "last_word": lambada,
    "labels": zero_shot_classification,
}


def _judged(rows, settings, results) -> Finish:
    shortens = {"truncate_left": settings.truncate_left}
    encoded = encode(rows, settings.tokenizer, settings.context, **shortens)

    def finish(run):
        judged = list(judge(rows, encoded, run))
        return {"num_cases": len(judged), **results(judged)}, (e.line() for e in judged)

    return finish


class Alternative(NamedTuple):
    """A text: the beginning, which is only read, and the end, which is scored."""

    before: str
    scored: str


class Case(NamedTuple):
    """Texts to compare."""

    place: str  # for messages, and the name of the case in files
    alternatives: Sequence[Alternative]
    label: int | None = None  # which is right, or None if unknown


def encode(
    cases: Sequence[Case], tokenizer: Any, context: int, *, truncate_left: bool
) -> list[list[perplexity.Window]]:
    """The ids of each alternative, after the token that ends texts, if any.

    Beginning and end are tokenized together; a token with characters of both is scored.
    Nothing to score, or too long a text, raises ValueError.
    """
    start = perplexity.start_ids(tokenizer)
    flat = [choice for case in cases for choice in case.alternatives]
    whole = tokenizer.tokenize([c.before + c.scored for c in flat]).to_list()
    before = tokenizer.tokenize([c.before for c in flat]).to_list()
    ids_of_texts = zip(before, whole, strict=True)
    encoded = []
    for case in cases:
        row = []
        for choice in case.alternatives:
            read, both = next(ids_of_texts)
            pairs = zip(read, both, strict=False)
            common = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
            # Nothing predicts the first token.
            ids, first = start + both, max(len(start) + len(list(common)), 1)
            if first >= len(ids):
                raise errors.InputError(
                    f"{case.place}: {wording.listing([choice.scored])} has no token "
                    "that could be scored; correct the row"
                )
            over = max(len(ids) - context, 0)
            if over and (not truncate_left or first - over < 1):
                raise errors.InputError(
                    f"{case.place}: a text of {len(ids)} tokens exceeds the network's "
                    f"context of {context}; shorten it, or its beginning by --keep_end"
                )
            row.append(perplexity.Window(ids[over:], first - over))
        encoded.append(row)
    return encoded


class Judged(NamedTuple):
    """Likelihoods of the alternatives of a case."""

    case: Case
    whole: list[float]  # nats of each alternative
    part: list[float]  # nats of its scored end
    by_token: list[float]  # the same by token
    is_greedy: list[bool]  # whether each scored token was the likeliest

    def choices(self) -> dict[str, int]:
        """The likeliest alternative by each measure."""
        return {
            name: int(np.argmin(getattr(self, name)))
            for name in ("whole", "part", "by_token")
        }

    def line(self) -> str:
        row: dict[str, Any] = {"place": self.case.place, "label": self.case.label}
        row["texts"] = [a.before + a.scored for a in self.case.alternatives]
        row |= {"choice": self.choices(), "nll_whole": self.whole, "nll": self.part}
        row |= {"nll_by_token": self.by_token, "is_greedy": self.is_greedy}
        return json.dumps(row, ensure_ascii=False) + "\n"


def judge(
    cases: Sequence[Case],
    encoded: Sequence[Sequence[perplexity.Window]],
    run: perplexity.Run,
) -> Iterator[Judged]:
    """Scores all alternatives of all cases."""
    # For the likelihood of the whole text all ids but the first are scored.
    scores = iter(run([window._replace(first=1) for row in encoded for window in row]))
    for case, row in zip(cases, encoded, strict=True):
        whole, part, by_token, is_greedy = [], [], [], []
        for window in row:
            score = next(scores)
            losses = score.losses.astype(np.float64)
            end = slice(window.first - 1, None)
            whole.append(float(losses.sum()))
            part.append(float(losses[end].sum()))
            by_token.append(float(losses[end].mean()))
            is_greedy.append(bool(score.hits[end].all()))
        yield Judged(case, whole, part, by_token, is_greedy)


def accuracies(judged: Sequence[Judged]) -> dict[str, float]:
    """The share of right choices by each measure, of the cases with a label."""
    labelled = [each for each in judged if each.case.label is not None]
    return {
        f"accuracy_{measure}": float(
            np.mean([each.choices()[measure] == each.case.label for each in labelled])
        )
        for measure in (judged[0].choices() if labelled else ())
    }


def last_words(path: str) -> list[Case]:
    """A case of each passage: its last word, after the last space (LAMBADA)."""
    cases = []
    for text, place in perplexity.read(path, as_one=False):
        before, space, word = text.rstrip().rpartition(" ")
        if not before.strip():
            raise errors.InputError(
                f"{place}: {wording.listing([text])} is one word; give a passage"
            )
        cases.append(Case(place, [Alternative(before, space + word)]))
    return cases


def word_results(judged: Sequence[Judged]) -> dict[str, float]:
    """Whether all tokens of the word are the likeliest, and its perplexity."""
    return {
        "accuracy": float(np.mean([each.is_greedy[0] for each in judged])),
        "perplexity": perplexity.exp(
            math.fsum(each.part[0] for each in judged) / len(judged)
        ),
    }


def read_choices(
    path: str, layout: tables.Layout, label_names: Sequence[str] = ()
) -> list[Case]:
    """The cases of a file of choices; ValueError if it is not of the layout.

    `layout` has `choices`, or the `file_format` of a published task of choice.
    `label_names` are the choices as the label column calls them, in their order; by
    default their columns' names or their numbers, from 0.
    """
    if task := tasks.TASKS.get(layout.file_format):
        layout = task.splits["train"].layout
        label_names = label_names or task.labels
    if not layout.choices:
        raise errors.InputError(
            f"{path}: name the columns of the answers with --choice_columns, or a "
            "published layout with --score_format"
        )
    table = tables.read_table(path, layout, labels_required=False)
    assert table.choices is not None
    columns = [str(column) for column in layout.choices]
    count = len(table.choices[0])
    names = label_names or labels.choice_names(columns, count, table.labels)
    ids = _label_ids(labels.Labels(tuple(names), "choice"), table)
    # text_b ends the sentence before the answer: "..., because".
    between = table.text_b or [""] * len(ids)
    rows = zip(table.lines, table.text_a, between, table.choices, ids, strict=True)
    return [
        Case(
            f"{path}:{line}",
            [_continued(context, question, answer) for answer in answers],
            label,
        )
        for line, context, question, answers, label in rows
    ]


def _label_ids(label_set: labels.Labels, table: tables.Table) -> list[int | None]:
    if not table.labels:
        return [None] * len(table.lines)
    return label_set.encode(table).tolist()


def _continued(context: str, question: str, answer: str) -> Alternative:
    """A context and its answer; a connective joins both to one sentence."""
    context, question, answer = context.strip(), question.strip(), answer.strip()
    if question in published.CONNECTIVES.values():
        context = context.rstrip(".")
        answer = _in_sentence(answer)
    before = " ".join(part for part in (context, question) if part)
    return Alternative(before, f" {answer}")


def _in_sentence(text: str) -> str:
    """With a small first letter where the first word is an article or a pronoun.

    Answers of COPA are sentences; their other first words may be names.
    """
    first = text.split(maxsplit=1)[0]
    is_common = first in _ARTICLES | _PRONOUNS
    return text[:1].lower() + text[1:] if is_common else text


class Template:
    r"""A text with {text} (or {text_a}, {text_b}) and, once, {label}.

    `\n` and `\t` stand for a line feed and a tab. Other fields raise ValueError.
    """

    def __init__(self, text: str):
        text = text.replace("\\n", "\n").replace("\\t", "\t")
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise errors.InputError(f"--template: {error}; double braces") from error
        fields = [name for _, name, *_ in parts if name is not None]
        is_plain = not any(form or conversion for _, _, form, conversion in parts)
        is_known = is_plain and {*fields} <= {*_FIELDS}
        if not is_known or fields.count("label") != 1 or len(fields) < 2:
            raise errors.InputError(
                f"--template={text!r} needs {{text}}, or {{text_a}} and {{text_b}}, "
                "and one {label}, and nothing else in braces"
            )
        self._parts = parts
        self.has_pairs = "text_b" in fields

    def alternative(self, texts: Mapping[str, str], word: str) -> Alternative:
        """The filled template, of which the label and what follows is scored."""
        before = after = ""
        for literal, name, *_ in self._parts:
            after += literal
            if name == "label":
                before, after = after, ""
            elif name is not None:
                after += texts[name]
        # The space belongs to the word, as byte-level tokens have it.
        kept = before.rstrip(" ")
        return Alternative(kept, before[len(kept) :] + word + after)


def label_words(spec: Sequence[str], label_set: labels.Labels) -> tuple[str, ...]:
    """The words of each label, in the order of ids: of label=words, or the label."""
    words = dict(zip(label_set.names, label_set.names, strict=True))
    for pair in spec:
        name, equals, word = pair.partition("=")
        if not equals or name not in words or not word.strip():
            hint = label_files.closest(name, label_set.names)
            raise errors.InputError(
                f"--label_words: {pair!r} is no LABEL=WORDS of a label{hint}"
            )
        words[name] = word
    label_files.check_distinct(words.values(), "label")
    return tuple(words.values())


def fill(
    template: Template,
    table: tables.Table,
    label_set: labels.Labels,
    words: Sequence[str],
    shown: str = "",
) -> list[Case]:
    """A case of each row, an alternative for each label; `shown` stands before all."""
    ids = _label_ids(label_set, table)
    rows = zip(table.lines, _texts(template, table), ids, strict=True)
    filled_rows = []
    for line, texts, label in rows:
        filled = [template.alternative(texts, word) for word in words]
        filled = [Alternative(shown + a.before, a.scored) for a in filled]
        filled_rows.append(Case(f"{table.path}:{line}", filled, label))
    return filled_rows


def examples(
    template: Template,
    table: tables.Table,
    label_set: labels.Labels,
    words: Sequence[str],
    count: int,
    seed: int,
) -> str:
    """`count` filled rows to stand before a prompt, of all labels in turn."""
    if count > len(table.lines):
        raise errors.InputError(
            f"{table.path}: has {len(table.lines)} rows; lower --num_examples={count}"
        )
    ids = label_set.encode(table)
    order = np.random.default_rng(seed).permutation(len(ids))
    # The first row of each label, then the second of each, ...
    seen: collections.Counter[int] = collections.Counter()
    rank = np.zeros(len(ids), np.int64)
    for place, label in zip(order, ids[order].tolist(), strict=True):
        rank[place] = seen[label]
        seen[label] += 1
    chosen = order[np.argsort(rank[order], kind="stable")][:count]
    texts = _texts(template, table)
    filled = [template.alternative(texts[i], words[ids[i]]) for i in chosen]
    return "".join(a.before + a.scored + _BETWEEN for a in filled)


def _texts(template, table):
    """{field: text} of each row."""
    if template.has_pairs and table.text_b is None:
        raise errors.InputError(
            f"{table.path}: has no second text for the {{text_b}} of --template; name "
            "its column with --text_b_column"
        )
    second = table.text_b or [""] * len(table.lines)
    return [
        {"text": a, "text_a": a, "text_b": b}
        for a, b in zip(table.text_a, second, strict=True)
    ]


def decisions(judged: Sequence[Judged]) -> tuple[np.ndarray, np.ndarray]:
    """Label ids int32 [N], gold and predicted, of rows with a label."""
    labelled = [each for each in judged if each.case.label is not None]
    gold = np.array([each.case.label for each in labelled], np.int32)
    return gold, np.array([each.choices()["part"] for each in labelled], np.int32)
