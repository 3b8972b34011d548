r"""Labelled tables as prompts: classification without training (GPT-2, section 3).

A template such as "Review: {text}\nSentiment: {label}" is filled for each label; the
label whose words are likeliest is the decision. Filled examples may stand before it.
"""

import collections
import string
from collections.abc import Mapping, Sequence

import numpy as np

from contract import errors
from data_pipeline.classification import labels, tables
from data_pipeline.generation import cases
from data_pipeline.tables import label_files

_FIELDS = ("text", "text_a", "text_b", "label")
_BETWEEN = "\n\n"  # of filled examples


class Template:
    r"""A text with {text} (or {text_a}, {text_b}) and, once, {label}.

    `\n` and `\t` stand for a line feed and a tab. Other fields raise ValueError.
    """

    def __init__(self, text: str):
        text = text.replace("\\n", "\n").replace("\\t", "\t")
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise errors.InputError(
                f"--template={text!r}: {error}; double braces"
            ) from error
        for _, name, form, conversion in parts:
            if form or conversion:
                raise errors.InputError(
                    f"--template={text!r}: {{{name}}} has a format or a conversion; "
                    f"write {{{name}}} alone"
                )
        fields = [name for _, name, *_ in parts if name is not None]
        if unknown := sorted(set(fields) - set(_FIELDS)):
            raise errors.InputError(
                f"--template has {{{unknown[0]}}}; fields are "
                + ", ".join(f"{{{name}}}" for name in _FIELDS)
            )
        if fields.count("label") != 1 or len(fields) < 2:
            raise errors.InputError(
                f"--template={text!r} needs a text and one {{label}}, for example "
                "'Review: {text}\\nSentiment: {label}'"
            )
        self._parts = parts
        self.has_pairs = "text_b" in fields

    def alternative(self, texts: Mapping[str, str], word: str) -> cases.Alternative:
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
        return cases.Alternative(kept, before[len(kept) :] + word + after)


def label_words(spec: Sequence[str], label_set: labels.Labels) -> tuple[str, ...]:
    """The words of each label, in the order of ids: of label=words, or the label."""
    words = dict(zip(label_set.names, label_set.names, strict=True))
    for pair in spec:
        name, equals, word = pair.partition("=")
        if not equals or name not in words or not word.strip():
            hint = label_files.closest(name, label_set.names)
            raise errors.InputError(
                f"--label_words: {pair!r} is no LABEL=WORDS of a label among "
                f"{', '.join(label_set.names)}{hint}"
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
) -> list[cases.Case]:
    """A case of each row, an alternative for each label; `shown` stands before all."""
    ids = (
        label_set.encode(table).tolist() if table.labels else [None] * len(table.lines)
    )
    rows = zip(table.lines, _texts(template, table), ids, strict=True)
    filled_rows = []
    for line, texts, label in rows:
        filled = [template.alternative(texts, word) for word in words]
        filled = [cases.Alternative(shown + a.before, a.scored) for a in filled]
        filled_rows.append(cases.Case(f"{table.path}:{line}", filled, label))
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
            f"{table.path}: has {len(table.lines)} rows, --num_examples={count} asks "
            "for more; give fewer"
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
            f"{table.path}: has no second text, which {{text_b}} of --template asks "
            "for; name its column with --text_b_column"
        )
    second = table.text_b or [""] * len(table.lines)
    return [
        {"text": a, "text_a": a, "text_b": b}
        for a, b in zip(table.text_a, second, strict=True)
    ]


def decisions(
    judged: Sequence[cases.Judged],
) -> tuple[np.ndarray, np.ndarray]:
    """Label ids int32 [N], gold and predicted, of rows with a label."""
    labelled = [each for each in judged if each.case.label is not None]
    gold = np.array([each.case.label for each in labelled], np.int32)
    return gold, np.array([each.choices()["part"] for each in labelled], np.int32)
