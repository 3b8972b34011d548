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
    scale: float  # times this it is a figure of 0 to 100
    max_seq_length: int
    guessed: float = 0.0  # by the same answer to each row of the published dev split
    share: float = 1.0  # of the time that --minutes leaves a task, beside the others'
    flags: tuple[str, ...] = ()

    @property
    def is_classification(self) -> bool:
        """Whether run_classifier.py does it, whose flags others have not."""
        return self.script == "run_classifier.py"

    def data_flags(self, data_dir: str) -> list[str]:
        """Which files the script reads, and what it does with them."""
        folder = os.path.join(data_dir, self.name)
        train, dev = (os.path.join(folder, name) for name in self.files)
        if self.script == "run_squad.py":
            return [f"--train_file={train}", f"--predict_file={dev}", "--do_predict"]
        if self.is_classification and self.name != "sst2":
            return [f"--data_dir={folder}", "--do_eval"]
        return [f"--train_file={train}", f"--dev_file={dev}", "--do_eval"]


_GLUE_FILES = ("train.tsv", "dev.tsv")


def _classified(
    name, title, score, score_title, max_seq_length, *flags, guessed=0.0, share=1.0
):
    return Task(
        name=name,
        title=title,
        script="run_classifier.py",
        files=_GLUE_FILES,
        score=f"eval_{score}",
        resampled=score,
        score_title=score_title,
        scale=100.0,
        max_seq_length=max_seq_length,
        guessed=guessed,
        share=share,
        flags=("--nowrite_tf_records", "--eval_batch_size=64", *flags),
    )


# Entities want the most updates before any is found; what minutes teach a network is
# not enough for CoLA and RTE.
_LONG, _SHORT = 2.0, 0.5
TASKS = {
    task.name: task
    for task in (
        # By columns: files without a header are about as well, as SST-2's.
        _classified(
            *("sst2", "SST-2", "accuracy", "accuracy", 64),
            *("--text_a_column=0", "--label_column=1"),
            guessed=100 * 444 / 872,
        ),
        _classified(
            *("cola", "CoLA", "mcc", "Matthews", 64, "--task_name=CoLA"), share=_SHORT
        ),
        _classified("stsb", "STS-B", "spearman", "Spearman", 96, "--task_name=STS-B"),
        _classified(
            *("rte", "RTE", "accuracy", "accuracy", 128, "--task_name=RTE"),
            guessed=100 * 146 / 277,
            share=_SHORT,
        ),
        Task(
            name="wnut17",
            title="WNUT-17",
            script="run_tagger.py",
            files=("wnut17train.conll", "emerging.dev.conll"),
            score="eval_f1",
            resampled="f1",
            score_title="entity F1",
            scale=100.0,
            max_seq_length=128,
            share=_LONG,
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
                *("--multiple_answers=first", "--doc_stride=64"),
                "--answer_aligner=words",  # ELMo's, and so that of all
                "--predict_batch_size=64",
            ),
        ),
    )
}


def check(names: Sequence[str], data_dir: str) -> None:
    """Raises ValueError where a file of a task is missing, with its path."""
    for task in (TASKS[name] for name in names):
        for name in task.files:
            path = os.path.join(data_dir, task.name, name)
            if not os.path.isfile(path):
                raise errors.InputError(
                    f"{task.title}: there is no {path}; put it there, or leave the "
                    f"task out of --tasks={','.join(names)}"
                )
