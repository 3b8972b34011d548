"""Published tasks as rows of one table: files, columns, labels, metrics.

GLUE, XNLI, and four with a choice of answers.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping

import tensorflow as tf

from contract import errors
from data_pipeline.classification import tables


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a task.

    The ids of examples are `prefix`, as the original's guid has it, "-" and the id
    column, or else the row's number, a header being row 0.
    """

    # paths below the data directory; the first that exists is read
    files: tuple[str, ...]
    layout: tables.Layout
    prefix: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A published task."""

    name: str
    splits: Mapping[str, Split]  # by "train", "dev" and "test", as far as published
    labels: tuple[str, ...] = ("0", "1")  # by id; empty for regression
    problem_type: str = "classification"  # or "regression", "choice"
    metrics: tuple[str, ...] = ("accuracy",)  # scores that people report
    # from the files' spellings to those of `labels`
    label_map: Mapping[tables.Label, tables.Label] = dataclasses.field(
        default_factory=dict
    )


_with_header = functools.partial(tables.Layout, file_format="tsv", has_header=True)

# The original's columns, by number: published headers differ in spelling.
_COLA = tables.Layout(file_format="tsv", text_a=3, label=1)
_COLA_TEST = _with_header(text_a=1)
_MRPC = _with_header(text_a=3, text_b=4, label=0)
_MRPC_TEST = _with_header(text_a=3, text_b=4)
_MNLI = _with_header(text_a=8, text_b=9, label=-1, example_id=0)
_MNLI_TEST = _with_header(text_a=8, text_b=9, example_id=0)
_AX = _with_header(text_a="sentence1", text_b="sentence2", label="label")
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


def _splits(layout: tables.Layout, test: tables.Layout) -> dict[str, Split]:
    layouts = {"train": layout, "dev": layout, "test": test}
    return {name: Split((f"{name}.tsv",), layouts[name], name) for name in layouts}


def _mnli(half: str) -> dict[str, Split]:
    """MNLI's splits with the matched or the mismatched half to evaluate on."""
    return {
        "train": Split(("train.tsv",), _MNLI, "train"),
        "dev": Split((f"dev_{half}.tsv",), _MNLI, f"dev_{half}"),
        "test": Split((f"test_{half}.tsv",), _MNLI_TEST, "test"),
    }


def _named(
    text_a: str,
    text_b: str | None = None,
    label: str = "label",
    *,
    skip_short_rows: bool = False,
) -> dict[str, Split]:
    layout = _with_header(
        text_a=text_a, text_b=text_b, label=label, skip_short_rows=skip_short_rows
    )
    return _splits(layout, layout)


def _xnli(language: str) -> Task:
    """XNLI in one of its languages.

    Differs from google-research/bert: any language, not only Chinese, and the
    labelled test split besides the two that `XnliProcessor` reads.
    """
    train = _with_header(text_a=0, text_b=1, label=2)
    dev = _with_header(text_a=6, text_b=7, label=1, keep_rows=(0, language))
    train_file = f"multinli/multinli.train.{language}.tsv"
    return Task(
        name="xnli",
        splits={
            "train": Split((train_file,), train, "train"),
            "dev": Split(("xnli.dev.tsv",), dev, "dev"),
            "test": Split(("xnli.test.tsv",), dev, "test"),
        },
        labels=_NLI_LABELS,
        # The translated training files say it one way, the others another.
        label_map={"contradictory": "contradiction"},
    )


def _choice(
    name: str,
    labels: tuple[str, ...],
    *,
    has_question: bool,
    **files: tuple[str, ...],
) -> Task:
    """A task of choice, whose rows published.py reads; `files` by split."""
    layout = tables.Layout(
        file_format=name,
        text_a="context",
        text_b="question" if has_question else None,
        choices=("choices",),
        label="label",
        example_id=None if name == "swag" else "id",
    )
    return Task(
        name=name,
        splits={split: Split(paths, layout, split) for split, paths in files.items()},
        labels=labels,
        problem_type="choice",
    )


_CHOICES = (
    _choice(
        "copa",
        ("1", "2"),
        has_question=True,
        # SuperGLUE's files; or the publisher's, 500 rows to develop on, 500 to test.
        train=("train.jsonl", "copa-dev.xml"),
        dev=("val.jsonl", "copa-test.xml"),
        test=("test.jsonl", "copa-test.xml"),
    ),
    _choice(
        "story_cloze",
        ("1", "2"),
        has_question=False,
        train=("train.csv", "cloze_test_val__spring2016 - cloze_test_ALL_val.csv"),
        dev=("dev.csv", "cloze_test_test__spring2016 - cloze_test_ALL_test.csv"),
        test=("test.csv", "cloze_test_test__spring2016 - cloze_test_ALL_test.csv"),
    ),
    _choice(
        "swag",
        ("0", "1", "2", "3"),
        has_question=True,
        train=("train.csv",),
        dev=("val.csv",),
        test=("test.csv",),
    ),
    _choice(
        "race",
        ("A", "B", "C", "D"),
        has_question=True,
        train=("train",),
        dev=("dev",),
        test=("test",),
    ),
)

_ROWS = (
    *_CHOICES,
    Task(
        name="cola",
        splits=_splits(_COLA, _COLA_TEST),
        metrics=("mcc", "accuracy"),
    ),
    Task(name="mnli", splits=_mnli("matched"), labels=_NLI_LABELS),
    Task(name="mnli-mm", splits=_mnli("mismatched"), labels=_NLI_LABELS),
    Task(
        name="mrpc",
        splits=_splits(_MRPC, _MRPC_TEST),
        metrics=("accuracy", "f1"),
    ),
    _xnli("zh"),
    Task(name="sst-2", splits=_named("sentence")),
    Task(
        name="sts-b",
        splits=_named("sentence1", "sentence2", "score"),
        labels=(),
        problem_type="regression",
        metrics=("pearson", "spearman"),
    ),
    Task(
        name="qqp",
        # A few published rows are broken in two by a line feed inside a question.
        splits=_named("question1", "question2", "is_duplicate", skip_short_rows=True),
        metrics=("accuracy", "f1"),
    ),
    Task(name="qnli", splits=_named("question", "sentence"), labels=_ENTAILMENT_LABELS),
    Task(
        name="rte", splits=_named("sentence1", "sentence2"), labels=_ENTAILMENT_LABELS
    ),
    Task(name="wnli", splits=_named("sentence1", "sentence2")),
    Task(
        name="ax",
        splits={"test": Split(("diagnostic.tsv", "AX.tsv"), _AX, "test")},
        labels=_NLI_LABELS,
    ),
)

TASKS: Mapping[str, Task] = {task.name: task for task in _ROWS}

_OTHER_NAMES = {
    "mnlim": "mnli",
    "mnlimatched": "mnli",
    "mnlimismatched": "mnli-mm",
    "diagnostic": "ax",
}


def task_named(name: str, xnli_language: str = "zh") -> Task:
    """Finds a task such as "MRPC", "sst2" or "mnli-mismatched".

    Raises:
        ValueError: no task has that name.
    """

    def squeezed(text: str) -> str:
        return text.lower().replace("-", "").replace("_", "")

    keys = {squeezed(key): key for key in TASKS} | _OTHER_NAMES
    if squeezed(name) not in keys:
        raise errors.InputError(
            f"Task not found: {name}; choose one of {sorted(TASKS)}, or leave the task "
            "out and name files and columns"
        )
    key = keys[squeezed(name)]
    return _xnli(xnli_language) if key == "xnli" else TASKS[key]


def read_split(task: Task, data_dir: str, split: str) -> tables.Table:
    """Reads one split as the original's processor did, with its guids and empty texts.

    Differs from google-research/bert: a test split without labels has `labels` None;
    there each row got the first label ("0", or "contradiction") as a placeholder.

    Raises:
        FileNotFoundError: the split's file is not in `data_dir`.
        ValueError: there is no such split, or `tables.read_table` refuses the file.
    """
    if split not in task.splits:
        raise errors.InputError(
            f"task {task.name} has no {split} split; it has {', '.join(task.splits)}"
        )
    row = task.splits[split]
    paths = [os.path.join(data_dir, name) for name in row.files]
    path = next((path for path in paths if tf.io.gfile.exists(path)), None)
    if path is None:
        raise FileNotFoundError(
            f"{' or '.join(paths)}: no such file; put the {split} file of {task.name} "
            "there or correct --data_dir"
        )
    table = tables.read_table(
        path, row.layout, labels_required=split != "test", allow_empty_text=True
    )
    ids = table.example_ids
    if row.layout.example_id is None:
        ids = [str(line - 1) for line in table.lines]
    return dataclasses.replace(
        table,
        labels=table.labels
        and [task.label_map.get(label, label) for label in table.labels],
        example_ids=[f"{row.prefix}-{name}" for name in ids],
    )
