"""Published tasks as rows of one table: files, columns, labels, metrics.

GLUE, CLUE and XNLI.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from contract import errors, remote_files, wording
from data_pipeline.tables import labelled, numbers, text_rows


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a task."""

    files: tuple[str, ...]  # below the data directory; the first that exists is read
    layout: labelled.Layout
    prefix: str  # of guids, before "-" and the id, or the row's number from 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A published task."""

    name: str
    splits: Mapping[str, Split]  # by "train", "dev" and "test", as far as published
    labels: tuple[str, ...] = ("0", "1")  # by id; empty for regression
    problem_type: str = "classification"  # or "regression", "choice"
    metrics: tuple[str, ...] = ("accuracy",)  # scores that people report
    # From the files' spellings to those of `labels`.
    label_map: Mapping[Any, labelled.Label] = dataclasses.field(default_factory=dict)
    pair_input: str | None = None  # of labels.Labels, where the task has its own
    # The file that the task's site takes, by the test file; see submission_lines.
    submission: Mapping[str, str] = dataclasses.field(default_factory=dict)


_with_header = functools.partial(
    labelled.Layout, file_format="tsv", has_header=True, is_published=True
)
_SENTENCES = _with_header(text_a="sentence1", text_b="sentence2", label="label")
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


def _glue(
    name: str,
    layout: labelled.Layout,
    test: labelled.Layout | None = None,
    half: str = "",
    *,
    submitted: str,
    **options: Any,
) -> Task:
    """train.tsv, dev.tsv and test.tsv; MNLI has two halves of dev and test rows.

    GLUE's site takes the predictions in a file that is called `submitted`.
    """
    splits = {
        "train": Split(("train.tsv",), layout, "train"),
        "dev": Split((f"dev{half}.tsv",), layout, f"dev{half}"),
        "test": Split((f"test{half}.tsv",), test or layout, "test"),
    }
    submission = {f"test{half}.tsv": submitted}
    return Task(name=name, splits=splits, submission=submission, **options)


def _mnli(name: str, half: str, submitted: str) -> Task:
    # The original's columns, by number, here and below: published headers differ.
    layout = _with_header(text_a=8, text_b=9, label=-1, example_id=0)
    test = dataclasses.replace(layout, label=None)
    return _glue(name, layout, test, half, submitted=submitted, labels=_NLI_LABELS)


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
        # The translated training files spell it one way, the others another.
        label_map={"contradictory": "contradiction"},
    )


_with_keys = functools.partial(
    labelled.Layout, label="label", example_id="id", is_published=True
)


def _clue(
    name: str,
    labels: tuple[str, ...],
    *texts: str,
    file_format: str = "clue",
    train_files: tuple[str, ...] = ("train.json",),
    submitted: str = "",
    **options: Any,
) -> Task:
    """A task of CLUE, whose train, dev and test files tables/clue.py reads.

    The test set of four tasks has two versions, and `submitted` a place for theirs.
    """
    choices = ("choices",) if options.get("problem_type") == "choice" else ()
    text_a, text_b = (*texts, None)[:2]
    layout = _with_keys(
        file_format=file_format, text_a=text_a, text_b=text_b, choices=choices
    )
    # C3's own files are named so, and test files of it have answers.
    other = tuple(f"d-{split}.json" for split in ("train", "dev", "test"))
    other = other if name == "c3" else ()
    tests = {"test.json": "11", "test1.1.json": "11", "test1.0.json": "10"}
    submitted = submitted or f"{name}_predict.json"
    return Task(
        name=name,
        splits={
            "train": Split((*other[:1], *train_files), layout, "train"),
            "dev": Split((*other[1:2], "dev.json"), layout, "dev"),
            "test": Split((*tests, *other[2:]), layout, "test"),
        },
        labels=labels,
        submission={file: submitted.format(version) for file, version in tests.items()},
        **options,
    )


_TNEWS_LABELS = tuple(str(n) for n in range(100, 117) if n not in (105, 111))
_ROWS = (
    _glue(
        "cola",
        _with_header(has_header=False, text_a=3, label=1),
        _with_header(text_a=1),
        submitted="CoLA.tsv",
        metrics=("mcc", "accuracy"),
    ),
    _mnli("mnli", "_matched", "MNLI-m.tsv"),
    _mnli("mnli-mm", "_mismatched", "MNLI-mm.tsv"),
    _glue(
        "mrpc",
        _with_header(text_a=3, text_b=4, label=0),
        _with_header(text_a=3, text_b=4),
        submitted="MRPC.tsv",
        metrics=("accuracy", "f1"),
    ),
    _xnli("zh"),
    _glue(
        "sst-2", _with_header(text_a="sentence", label="label"), submitted="SST-2.tsv"
    ),
    _glue(
        "sts-b",
        dataclasses.replace(_SENTENCES, label="score"),
        submitted="STS-B.tsv",
        labels=(),
        problem_type="regression",
        metrics=("pearson", "spearman"),
    ),
    _glue(
        "qqp",
        _with_header(
            text_a="question1",
            text_b="question2",
            label="is_duplicate",
            # Some published rows are broken in two by a line feed in a question.
            skip_short_rows=True,
        ),
        submitted="QQP.tsv",
        metrics=("accuracy", "f1"),
    ),
    _glue(
        "qnli",
        _with_header(text_a="question", text_b="sentence", label="label"),
        submitted="QNLI.tsv",
        labels=_ENTAILMENT_LABELS,
    ),
    _glue("rte", _SENTENCES, submitted="RTE.tsv", labels=_ENTAILMENT_LABELS),
    _glue("wnli", _SENTENCES, submitted="WNLI.tsv"),
    _clue("afqmc", ("0", "1"), "sentence1", "sentence2"),
    _clue("tnews", _TNEWS_LABELS, "sentence", submitted="tnews{}_predict.json"),
    _clue("iflytek", tuple(map(str, range(119))), "sentence"),
    _clue("cmnli", _NLI_LABELS, "sentence1", "sentence2"),
    _clue(
        "ocnli",
        _NLI_LABELS,
        "sentence1",
        "sentence2",
        train_files=("train.50k.json", "train.json"),
        submitted="ocnli_50k_predict.json",
    ),
    _clue(
        "cluewsc",
        ("true", "false"),
        "text",
        file_format="cluewsc",
        submitted="cluewsc{}_predict.json",
    ),
    _clue("csl", ("0", "1"), "keywords", "abst", file_format="csl"),
    _clue(
        "c3",
        tuple("0123"),
        "context",
        "question",
        file_format="c3",
        problem_type="choice",
        pair_input="separate",
        submitted="c3{}_predict.json",
    ),
    _clue(
        "chid",
        tuple("0123456789"),
        "context",
        file_format="chid",
        problem_type="choice",
        pair_input="cloze",
        submitted="chid{}_predict.json",
    ),
    Task(
        name="clue_diagnostics",
        splits={
            "test": Split(
                ("diagnostics_test.json",),
                _with_keys(file_format="clue", text_a="premise", text_b="hypothesis"),
                "test",
            )
        },
        labels=_NLI_LABELS,
        submission={"diagnostics_test.json": "diagnostics_predict.json"},
    ),
    Task(
        name="ax",
        splits={"test": Split(("diagnostic.tsv", "AX.tsv"), _SENTENCES, "test")},
        labels=_NLI_LABELS,
        submission=dict.fromkeys(("diagnostic.tsv", "AX.tsv"), "AX.tsv"),
    ),
)

TASKS: Mapping[str, Task] = {task.name: task for task in _ROWS}

_OTHER_NAMES = {
    "mnlim": "mnli",
    "mnlimatched": "mnli",
    "mnlimismatched": "mnli-mm",
    "diagnostic": "ax",
    "cluewsc2020": "cluewsc",
}
_TABLES_OF_CHOICES = ("copa", "race", "storycloze", "swag")  # of no task any more


def task_named(name: str, xnli_language: str = "zh") -> Task:
    """Finds a task such as "MRPC", "sst2" or "mnli-mismatched", or ValueError."""

    def squeezed(text: str) -> str:
        return text.lower().replace("-", "").replace("_", "")

    if squeezed(name) in _TABLES_OF_CHOICES:
        raise errors.InputError(
            f"Task not found: {name}; it is a table of choices: name its files and "
            '--choice_columns (docs/classification.md, "A choice of answers")'
        )
    keys = {squeezed(key): key for key in TASKS} | _OTHER_NAMES
    if squeezed(name) not in keys:
        raise errors.InputError(
            f"Task not found: {name}; choose one of {sorted(TASKS)}, or name files "
            "(docs/migration.md)"
        )
    key = keys[squeezed(name)]
    return _xnli(xnli_language) if key == "xnli" else TASKS[key]


def read_split(task: Task, data_dir: str, split: str) -> labelled.Table:
    """Reads one split as the original's processor did, with its guids and empty texts.

    Differs from google-research/bert: a test split without labels has `labels` None;
    there each row got the first label ("0", or "contradiction") as a placeholder.
    """
    if split not in task.splits:
        raise errors.InputError(
            f"task {task.name} has no {split} split; it has {', '.join(task.splits)}"
        )
    row = task.splits[split]
    paths = [os.path.join(data_dir, name) for name in row.files]
    path = next((path for path in paths if remote_files.exists(path)), None)
    if path is None:
        raise FileNotFoundError(f"{' or '.join(paths)}: no such file; see --data_dir")
    has_header = _has_header(task, path, row.layout)
    layout = dataclasses.replace(
        row.layout, has_header=has_header, allow_empty_text=True
    )
    table = labelled.read_table(path, layout, labels_required=split != "test")
    ids = table.example_ids
    if row.layout.example_id is None:
        ids = [str(line - 1) for line in table.lines]
    names = table.labels and [task.label_map.get(name, name) for name in table.labels]
    ids = [f"{row.prefix}-{name}" for name in ids]
    return dataclasses.replace(table, labels=names, example_ids=ids)


def _has_header(task: Task, path: str, layout: labelled.Layout) -> bool | None:
    """Whether line 1 holds names; None for other formats than TSV.

    Differs from google-research/bert: a file without the header that was published is
    refused, and one above CoLA's rows left out with a warning; there the first row was
    skipped, or the header read as an example.
    """
    if layout.has_header is None:
        return None
    first = next(iter(text_rows.file_rows(path, layout)), (1, []))[1]
    values = {*task.labels, *task.label_map}
    is_example = any(numbers.is_number(cell) or cell in values for cell in first)
    line = f"{path}:1: {wording.listing(list(first), 6)}"
    if layout.has_header and is_example:
        raise errors.InputError(
            f"{line} is an example, and the published file of {task.name} begins with "
            "a header; put it above, or leave --task_name out"
        )
    if first and not layout.has_header and not is_example:
        logging.warning(f"{line} is a header, which is left out")
        return True
    return layout.has_header
