"""Where labelled rows come from, and their labels."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contract import errors
from data_pipeline import findings, label_maps
from data_pipeline.classification import labels, long_texts, tasks
from data_pipeline.tables import label_files, labelled


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Where the splits of a run come from: a task, files, or a TFDS data set."""

    task_name: str = ""  # in tasks.TASKS; "" for own files
    data_dir: str = ""  # of the task or the TFDS data set
    xnli_language: str = "zh"
    # by "train", "dev" and "test"; for TFDS, names of splits; or the rows themselves
    files: dict[str, Any] = dataclasses.field(default_factory=dict)
    tfds_name: str = ""
    layout: labelled.Layout = dataclasses.field(default_factory=labelled.Layout)
    label_spec: str | Sequence[str] = ""  # of --labels, or the names themselves
    problem_type: str = "classification"  # of own files; a task has one
    separator: str = ","  # of labels of one row, for multi_label
    unlabelled_file: str = ""  # of rows with the logits of a teacher alone
    pair_input: str = "joined"  # of own files, as in labels.Labels
    windows: long_texts.Windows | None = None  # of long texts, as in labels.Labels
    follows_windows: bool = True  # whether a trained head decides this, if not trained
    dev_share: float = 0.0  # of the training rows of own files, to be the dev rows
    # Rows by split that `check` has opened, and `read` goes on with.
    opened: dict[str, labelled.Open] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    _parts: dict[str, labelled.Table] = dataclasses.field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def task(self) -> tasks.Task | None:
        name = self.task_name
        return tasks.task_named(name, self.xnli_language) if name else None

    @property
    def form(self) -> str:
        """The pair_input of labels.Labels; some tasks have their own."""
        own = self.task.pair_input if self.task else None
        if own and self.pair_input not in ("joined", own):
            raise errors.InputError(
                f"--pair_input={self.pair_input}: --task_name={self.task_name} has "
                f"{own}; leave the flag out"
            )
        return own or self.pair_input

    @property
    def has_pairs(self) -> bool:
        splits = self.task.splits.values() if self.task else ()
        layouts = [self.layout, *(split.layout for split in splits)]
        return any(layout.text_b is not None for layout in layouts)

    def read(self, split: str, show: findings.Show = findings.hide) -> labelled.Table:
        """Reads "train", "dev" or "test", which needs no labels.

        `show` gets what is noticed of a file, once, also where reading fails.
        """
        if self.task:
            if not self.data_dir:
                raise errors.InputError(
                    f"--task_name={self.task_name} needs --data_dir; set it, too"
                )
            table = tasks.read_split(self.task, self.data_dir, split)
            show(table.noticed)
            return table
        if not self.dev_share or split == "test":
            return self._open(split).read(show)
        if not self._parts:
            table = self._open("train").read(show)
            is_dev = self._held_out(table)
            self._parts["train"] = labelled.take(table, ~is_dev)
            self._parts["dev"] = labelled.take(table, is_dev)
        return self._parts[split]

    def check(self, splits: Iterable[str]) -> None:
        """Opens the rows of splits; InputError where a column is absent."""
        for split in splits:
            self.opened[split] = self._open(split)

    def _held_out(self, table: labelled.Table) -> np.ndarray:
        """Which training rows are dev rows, bool [N]: a share of each class, not all.

        All seeds have the same. Rows of equal texts are in one part: as dev rows they
        would score what was learned by heart.
        """
        gold = table.labels if self.kind == "classification" else None
        texts = table.texts()
        groups: dict[Any, list[int]] = collections.defaultdict(list)
        for row in np.random.default_rng(0).permutation(len(table.lines)):
            groups[texts[row]].append(row)
        classes: dict[Any, list[list[int]]] = collections.defaultdict(list)
        for rows in groups.values():
            classes[frozenset(gold[row] if gold else None for row in rows)].append(rows)
        is_dev = np.zeros(len(table.lines), bool)
        for parts in classes.values():
            size, taken = sum(map(len, parts)), 0
            count = int(self.dev_share * size + 0.5)
            for rows in parts:
                if taken + len(rows) / 2 <= count and taken + len(rows) < size:
                    is_dev[rows], taken = True, taken + len(rows)
        if not is_dev.any():
            raise errors.InputError(
                f"--dev_share={self.dev_share:g} of {len(table.lines)} rows "
                f"({table.path}), equal texts together, is not one row; raise it, or "
                "give a --dev_file"
            )
        return is_dev

    def _open(self, split: str) -> labelled.Open:
        if split in self.opened:
            return self.opened.pop(split)
        path = self.files.get(split)
        if path is None or (isinstance(path, str) and not path):
            flag = f"tfds_{split}_split" if self.tfds_name else f"{split}_file"
            hint = ", --dev_share=0.2" if flag == "dev_file" else ""
            raise errors.InputError(
                f"the {split} rows are needed and --{flag} is not set; set it{hint} or "
                "--task_name"
            )
        # Predictions have the order and number of the test rows, without those of
        # empty cells.
        leaves_out = split != "test" and not self.layout.allow_empty_text
        layout = dataclasses.replace(self.layout, leaves_out=leaves_out)
        needs = {"labels_required": split != "test"}
        if self.tfds_name:
            folder = self.data_dir or None
            return labelled.open_tfds(
                self.tfds_name, path, layout, data_dir=folder, **needs
            )
        if not isinstance(path, str):
            return labelled.open_memory(f'files["{split}"]', path, layout, **needs)
        return labelled.open_table(path, layout, **needs)

    def label_set(
        self,
        train: labelled.Table | None,
        head: label_maps.Head | None,
        show: findings.Show = findings.hide,
    ) -> tuple[labels.Labels, tuple[str, ...]]:
        """The labels in the order of the head's rows, and their names as asked for.

        They are those of the task, of --labels, of the training rows, or of the head.
        """
        origin, names = "", None
        if self.task:
            origin, names = f"--task_name={self.task_name}", self.task.labels
        elif self.stated_names:
            origin, names = "--labels", self.stated_names
        elif train is not None:
            origin, names = train.path, self._names_in(train)
        elif self.kind == "regression":
            origin, names = "--problem_type=regression", ()
        has_classes = head and head.classes and (head.problem_type or head.names)
        if train is None and head and has_classes:
            wanted = self._trained(head, names)
        elif names is not None:
            wanted = labels.Labels(
                names, self.kind, self.separator, self.form, windows=self.windows
            )
        else:
            raise errors.InputError(
                "the labels have no names and no label_map.json stands beside the "
                "weights; name them with --labels, or train first (--do_train)"
            )
        trains = train is not None
        cuts = trains and self.follows_windows and not self.windows
        if head and cuts and (stored := getattr(head.classes, "windows", None)):
            value = "its head was trained on windows, and this run cuts long texts"
            given = f"add {stored.typed()} to read them whole"
            show([findings.Finding(head.source, value, given)])
        followed = label_maps.follow(head, wanted, origin, trains=trains, show=show)
        return followed, wanted.names

    @property
    def stated_names(self) -> tuple[str, ...]:
        spec = self.label_spec
        if isinstance(spec, str) and spec:
            return label_files.read_labels(spec)
        return tuple(spec)

    @property
    def kind(self) -> str:
        if self.task:
            return self.task.problem_type
        if self.layout.label_columns:
            return "multi_label"
        return "choice" if self.layout.choices else self.problem_type

    def _trained(
        self, head: label_maps.Head, names: tuple[str, ...] | None
    ) -> labels.Labels:
        kind, path = head.problem_type or self.kind, head.source
        is_fixed = self.task or "choice" in (kind, self.kind) or kind == "tagging"
        if kind != self.kind and (is_fixed or self.kind != "classification"):
            raise errors.InputError(
                f"the model was trained for {kind} ({path}) and the rows are for "
                f"{self.kind}; correct --problem_type or --choice_columns"
            )
        stored: Any = head.classes if head.has_map else self
        if stored.pair_input != self.form:
            raise errors.InputError(
                f"--pair_input={self.form}: the model was trained with "
                f"--pair_input={stored.pair_input} ({path}); give that"
            )
        if not self.follows_windows and stored.windows != self.windows:
            given = self.windows.typed() if self.windows else "--long_texts=truncate"
            trained = stored.windows.typed() if stored.windows else "the beginning"
            raise errors.InputError(
                f"{given}: the model reads {trained} of long texts ({path}); leave "
                "these flags out"
            )
        names = head.names if names is None else names
        form, windows = self.form, stored.windows
        return labels.Labels(names, kind, stored.separator, form, windows=windows)

    def _names_in(self, train: labelled.Table) -> tuple[str, ...]:
        if not train.choices:
            names = train.label_names
            return names or labels.find_labels(train, self.kind, self.separator)
        columns = [str(column) for column in self.layout.choices]
        return labels.choice_names(columns, len(train.choices[0]), train.labels)
