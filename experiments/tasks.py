"""The six tasks: their files, their scripts, and the score that people report."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from contract import errors


class Task(NamedTuple):
    """A published task, below --data_dir."""

    name: str  # also its folder
    title: str
    script: str
    files: tuple[str, ...]  # in the folder, which have to be there
    score: str  # in seeds.json
    resampled: str  # the same in report.json
    score_title: str
    max_seq_length: int
    scale: float = 100.0  # times this it is a figure of 0 to 100
    guessed: float = 0.0  # score of the same answer to each row of the dev split
    flags: tuple[str, ...] = ()

    @property
    def is_classification(self) -> bool:
        """Whether run_classifier.py trains it, with flags that others lack."""
        return self.script == "run_classifier.py"

    def data_flags(self, data_dir: str) -> list[str]:
        """Flags that name the files and the actions."""
        folder = os.path.join(data_dir, self.name)
        train, dev = (os.path.join(folder, name) for name in self.files)
        if self.script == "run_squad.py":
            return [f"--train_file={train}", f"--predict_file={dev}", "--do_predict"]
        if self.is_classification and self.name != "sst2":
            return [f"--data_dir={folder}", "--do_eval"]
        return [f"--train_file={train}", f"--dev_file={dev}", "--do_eval"]


def _classified(
    title: str, score: str, score_title: str, flags: tuple[str, ...] = (), **more
) -> Task:
    flags = flags or (f"--task_name={title}",)
    return Task(
        name=title.lower().replace("-", ""),
        title=title,
        script="run_classifier.py",
        files=("train.tsv", "dev.tsv"),
        score=f"eval_{score}",
        resampled=score,
        score_title=score_title,
        flags=("--nowrite_tf_records", "--eval_batch_size=64", *flags),
        **more,
    )


_TASKS = (
    # By columns: files without a header are about as well, as SST-2's.
    _classified(
        "SST-2",
        "accuracy",
        "accuracy",
        max_seq_length=64,
        flags=("--text_a_column=0", "--label_column=1"),
        guessed=100 * 444 / 872,
    ),
    _classified("CoLA", "mcc", "Matthews", max_seq_length=64),
    _classified("STS-B", "spearman", "Spearman", max_seq_length=96),
    _classified(
        "RTE", "accuracy", "accuracy", max_seq_length=128, guessed=100 * 146 / 277
    ),
    Task(
        name="wnut17",
        title="WNUT-17",
        script="run_tagger.py",
        files=("wnut17train.conll", "emerging.dev.conll"),
        score="eval_f1",
        resampled="f1",
        score_title="entity F1",
        max_seq_length=128,
        flags=("--eval_batch_size=64",),
    ),
    Task(
        name="squad1",
        title="SQuAD 1.1",
        script="run_squad.py",
        files=("train-v1.1.json", "dev-v1.1.json"),
        score="f1",
        resampled="f1",
        score_title="F1",
        scale=1.0,
        max_seq_length=128,
        flags=(
            "--multiple_answers=first",
            "--doc_stride=64",
            "--answer_aligner=words",  # ELMo's, and therefore that of all
            "--predict_batch_size=64",
        ),
    ),
)
TASKS = {task.name: task for task in _TASKS}


def check(names: Sequence[str], data_dir: str) -> None:
    """Raises InputError where a file of a task is missing."""
    for task in (TASKS[name] for name in names):
        for name in task.files:
            path = os.path.join(data_dir, task.name, name)
            if not os.path.isfile(path):
                raise errors.InputError(
                    f"{task.title}: there is no {path}; put it there, or leave the "
                    f"task out of --tasks={','.join(names)}"
                )
