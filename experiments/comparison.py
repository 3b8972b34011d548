"""The course of a comparison: corpus, short runs, pretraining, tasks, results."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable
from typing import Any

from contract import atomic_files, errors, json_files
from data_pipeline.text import base as base_tokenizer
from experiments import (
    claims,
    commands,
    pages,
    plans,
    preparation,
    scores,
    shapes,
    stages,
    systems,
    tasks,
)

SETTINGS = "settings.json"


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]


def identity(settings: commands.Settings, corpus: preparation.Corpus) -> dict[str, Any]:
    """What must be unchanged for a comparison to go on."""
    values = dataclasses.asdict(settings) | {
        "bert": settings.bert.to_dict(),
        "seeds": list(settings.seeds),
        "contents": {
            split: [[path, _digest(path)] for path in paths]
            for split, paths in corpus.texts.items()
        },
    }
    for name in ("directory", "jobs", "threads"):  # where, and how fast
        del values[name]
    return values


def check_same(settings: commands.Settings, corpus: preparation.Corpus) -> None:
    """Writes settings.json, or compares it.

    Raises:
        ValueError: the directory has another comparison; the message names what
            differs.
    """
    path = os.path.join(settings.directory, SETTINGS)
    values = identity(settings, corpus)
    if not os.path.exists(path):
        atomic_files.write_json(path, values)
        return
    known = json_files.read_object(path)
    for name, value in values.items():
        if known.get(name) != value:
            raise errors.InputError(
                f"{settings.directory} has a comparison with {name}={known.get(name)}, "
                f"but this one has {name}={value}; name another --output_dir, or the "
                "same value"
            )


class Comparison:
    """Everything that one command runs.

    Args:
        settings: checked.
        runner: runs programs.
    """

    def __init__(
        self,
        settings: commands.Settings,
        corpus: preparation.Corpus,
        runner: stages.Runner,
    ) -> None:
        self._settings, self._corpus, self._runner = settings, corpus, runner
        chosen = [systems.SYSTEMS[name] for name in settings.systems]
        has_curves = settings.curves and systems.CURVE_TASK in settings.tasks
        self._curved = [
            s for s in chosen if has_curves and s.name in systems.CURVE_SYSTEMS
        ]
        if settings.layers and "bert_features" in settings.systems:
            chosen += systems.layer_systems(settings.bert.num_hidden_layers)
        self._runs = [
            (system, tasks.TASKS[name])
            for system in chosen
            for name in settings.tasks
            if system.tasks is None or name in system.tasks
        ]
        wanted = {system.network for system, _ in self._runs}
        self._networks = [n for n in systems.NETWORKS.values() if n.name in wanted]
        self._stages: list[stages.Stage] = []

    def run(self) -> pages.Results:
        """Does what is not done, and reads the results of all.

        Raises:
            stages.Failed: a program did.
        """
        corpora = dict.fromkeys(network.corpus for network in self._networks)
        self._do("corpus", self._corpus.stages(list(corpora)), alone=True)
        if preparation.TEXTS in corpora:
            self._corpus.deal()
        lines = self._commands()
        steps = self._try(lines)
        pretraining = [lines.pretraining(n, steps[n.name]) for n in self._networks]
        self._do("pretraining", pretraining)
        if "denoising" in steps:
            self._do("encoder of the denoising pair", [lines.encoder_of_pair()])
        scored, curves = self._train_tasks(lines, steps)
        return pages.Results(
            scored=scored,
            curves=curves,
            reports={
                network.name: scores.report(lines.pretrained(network.name))
                for network in self._networks
            },
            weights=self._weights,
            facts=self._facts(lines),
            steps=steps,
        )

    def _do(self, name: str, part: Iterable[stages.Stage], **options: bool) -> None:
        part = list(part)
        self._stages += part
        self._runner.run(name, part, **options)

    def _commands(self) -> commands.Commands:
        settings, num_words = self._settings, 0
        if any(network.shape == "elmo" for network in self._networks):
            with open(self._corpus.words_file, encoding="utf-8") as file:
                num_words = sum(1 for _ in file)
        vocab = base_tokenizer.read_vocab(self._corpus.vocab_file)
        configs = shapes.equal_sized(settings.bert, vocab, num_words)
        self._weights = {
            network.name: (
                shapes.num_weights(configs[network.shape]),
                shapes.table_weights(configs[network.shape]),
            )
            for network in self._networks
        }
        paths = shapes.write(configs, os.path.join(settings.directory, "configs"))
        return commands.Commands(settings, self._corpus, paths)

    def _try(self, lines: commands.Commands) -> dict[str, int]:
        """Runs every kind of command for a moment; returns the steps of each network.

        Wrong input of a late program shows before the long work.
        """
        settings = self._settings
        short = dataclasses.replace(
            lines,
            settings=dataclasses.replace(
                settings,
                directory=os.path.join(settings.directory, "trials"),
                seeds=settings.seeds[:1],
                num_train_epochs=plans.TRIAL_EPOCHS,
            ),
        )
        pretraining = {
            network.name: short.pretraining(network, plans.TRIAL_STEPS, evaluations=1)
            for network in self._networks
        }
        self._do("short runs of pretraining", pretraining.values())
        if "denoising" in pretraining:
            self._do("short runs", [short.encoder_of_pair()])
        # The first system in all its tasks, each other kind in its first and last.
        kinds: dict[tuple[str, ...], list[tuple[systems.System, tasks.Task]]] = {}
        for system, task in self._runs:
            kinds.setdefault(system.kind, []).append((system, task))
        first, *others = kinds.values()
        tried = [run for run in first if run[0] is first[0][0]]
        tried += [r for runs in others for r in dict.fromkeys((runs[0], runs[-1]))]
        trials = [short.task(*run) for run in tried]
        self._do("short runs of tasks", trials)
        tokens = {
            name: plans.tokens_per_step(stage.directory)
            for name, stage in pretraining.items()
        }
        if "elmo" in tokens:  # its tokens are words
            tokens["elmo"] *= self._corpus.pieces_per_word()
        return plans.equal_steps(settings.steps, tokens)

    def _train_tasks(
        self, lines: commands.Commands, steps: dict[str, int]
    ) -> tuple[claims.SystemScores, claims.SystemScores]:
        """Runs all tasks; returns their scores, and those along the pretraining."""
        runs = {
            (system.name, task.name): lines.task(system, task)
            for system, task in self._runs
        }
        task = tasks.TASKS[systems.CURVE_TASK]
        curves = {}
        for system in self._curved:
            last = steps[system.network or ""]
            curves[system.name, str(last)] = runs[system.name, task.name]
            for part in range(1, commands.CHECKPOINTS):
                step = last // commands.CHECKPOINTS * part
                stage = lines.task(system, task, checkpoint_step=step)
                curves[system.name, str(step)] = stage
        self._do("tasks", dict.fromkeys([*runs.values(), *curves.values()]))
        scored: dict[str, dict[str, scores.Score]] = {}
        for (name, task_name), stage in runs.items():
            score = scores.read(stage.directory, tasks.TASKS[task_name])
            scored.setdefault(name, {})[task_name] = score
        along: dict[str, dict[str, scores.Score]] = {}
        for (name, at_step), stage in curves.items():
            along.setdefault(name, {})[at_step] = scores.read(stage.directory, task)
        return scored, along

    def _facts(self, lines: commands.Commands) -> list[str]:
        """Lines about the command, its time and the machine."""
        settings = self._settings
        seconds = sum(stages.seconds_of(stage) for stage in dict.fromkeys(self._stages))
        report = scores.report(lines.pretrained(self._networks[0].name))
        environment = report["environment"]
        return [
            f"`python -m experiments.compare --steps={settings.steps} ...`: "
            f"{seconds / 60 / settings.jobs:.0f} minutes, {settings.jobs} programs at "
            f"once with {settings.threads} thread(s) each.",
            f"Machine: {environment['devices']}; {environment['processor']}; "
            f"TensorFlow {environment['tensorflow']}, Keras {environment['keras']}.",
        ]
