"""The course of a comparison: corpus, short runs, pretraining, tasks, results."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from contract import atomic_files, errors, json_files
from data_pipeline.text import base as base_tokenizer
from experiments import (
    claims,
    commands,
    pages,
    preparation,
    scores,
    shapes,
    stages,
    systems,
    tasks,
)

SETTINGS = "settings.json"
TRIAL_STEPS, TRIAL_EPOCHS = 24, 0.2


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]


def check_same(settings: commands.Settings, corpus: preparation.Corpus) -> None:
    """Writes settings.json, or compares it: what must not change in a comparison.

    Raises:
        InputError: the directory has another comparison; the message has the
            difference.
    """
    values = dataclasses.asdict(settings) | {
        "bert": settings.bert.to_dict(),
        "seeds": list(settings.seeds),
        "contents": {
            split: [[path, _digest(path)] for path in paths]
            for split, paths in corpus.texts.items()
        },
    }
    for name in ("directory", "jobs", "threads"):  # they change no number
        del values[name]
    path = os.path.join(settings.directory, SETTINGS)
    if not os.path.exists(path):
        atomic_files.write_json(path, values)
        return
    before = json_files.read_object(path)
    for name, value in values.items():
        if before.get(name) != value:
            raise errors.InputError(
                f"{settings.directory} has a comparison with {name}="
                f"{before.get(name)}, but this one has {name}={value}; choose "
                "another --output_dir, or the same value"
            )


def tokens_per_step(directory: str) -> float:
    """Tokens that a step of a short run read, the same on any machine."""
    report = scores.report(directory)
    curves, batch = report["curves"], report["flags"]["train_batch_size"]
    examples = curves["train/examples_per_second"]
    tokens = curves["train/tokens_per_second"]
    total, last = 0, 0
    for (step, example_rate), (_, token_rate) in zip(examples, tokens, strict=True):
        # A whole number, whatever the digits of a speed on this machine.
        total += round(batch * (step - last) * token_rate / example_rate)
        last = step
    return total / last


def equal_steps(steps: int, networks: Mapping[str, float]) -> dict[str, int]:
    """{network: steps} that read as many tokens as so many steps of the first.

    Args:
        networks: {network: tokens of a step}. Steps are multiples of EVALUATIONS.
    """
    tokens = steps * next(iter(networks.values()))
    each = commands.EVALUATIONS
    return {
        name: max(each, round(tokens / per_step / each) * each)
        for name, per_step in networks.items()
    }


class Comparison:
    """Everything that one command runs."""

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
        self._stages: dict[stages.Stage, None] = {}

    def run(self) -> pages.Results:
        """Runs what is not done, and reads the results of all.

        Raises:
            stages.Failed: a program failed.
        """
        corpora = dict.fromkeys(network.corpus for network in self._networks)
        self._do("corpus", self._corpus.stages(list(corpora)), alone=True)
        if preparation.TEXTS in corpora:
            self._corpus.deal()
        configs = self._configs()
        paths = shapes.write(configs, os.path.join(self._settings.directory, "configs"))
        lines = commands.Commands(self._settings, self._corpus, paths)
        steps = self._try(lines)
        pretraining = [lines.pretraining(n, steps[n.name]) for n in self._networks]
        self._do("pretraining", pretraining)
        if "denoising" in steps:
            self._do("encoder of the denoising pair", [lines.encoder_of_pair()])
        scored, curves = self._train_tasks(lines, steps)
        reports = {
            n.name: scores.report(lines.pretrained(n.name)) for n in self._networks
        }
        weights = {
            network.name: (
                shapes.num_weights(configs[network.shape]),
                shapes.table_weights(configs[network.shape]),
            )
            for network in self._networks
        }
        facts = self._facts(next(iter(reports.values())))
        return pages.Results(scored, curves, reports, weights, facts, steps)

    def _do(self, name: str, part: Iterable[stages.Stage], **options: bool) -> None:
        part = list(part)
        self._stages |= dict.fromkeys(part)
        self._runner.run(name, part, **options)

    def _configs(self) -> dict[str, Any]:
        num_words = 0
        if any(network.shape == "elmo" for network in self._networks):
            with open(self._corpus.words_file, encoding="utf-8") as file:
                num_words = sum(1 for _ in file)
        vocab = base_tokenizer.read_vocab(self._corpus.vocab_file)
        return shapes.equal_sized(self._settings.bert, vocab, num_words)

    def _try(self, lines: commands.Commands) -> dict[str, int]:
        """Runs every kind of command for a moment; returns the steps of each network.

        Wrong input of a late program shows before the long work.
        """
        trial = dataclasses.replace(
            self._settings,
            directory=os.path.join(self._settings.directory, "trials"),
            seeds=self._settings.seeds[:1],
            num_train_epochs=TRIAL_EPOCHS,
        )
        short = dataclasses.replace(lines, settings=trial)
        pretraining = {
            network.name: short.pretraining(network, TRIAL_STEPS, evaluations=1)
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
        self._do("short runs of tasks", [short.task(*run) for run in tried])
        tokens = {n: tokens_per_step(s.directory) for n, s in pretraining.items()}
        if "elmo" in tokens:  # its tokens are words
            tokens["elmo"] *= self._corpus.pieces_per_word()
        return equal_steps(self._settings.steps, tokens)

    def _train_tasks(
        self, lines: commands.Commands, steps: dict[str, int]
    ) -> tuple[claims.SystemScores, claims.SystemScores]:
        """Runs all tasks; returns their scores, and those along the pretraining."""
        runs = {
            (system.name, task.name): lines.task(system, task)
            for system, task in self._runs
        }
        curve_task = tasks.TASKS[systems.CURVE_TASK]
        curves = {}
        for system in self._curved:
            last = steps[system.network or ""]
            curves[system.name, str(last)] = runs[system.name, curve_task.name]
            for part in range(1, commands.CHECKPOINTS):
                at = last // commands.CHECKPOINTS * part
                stage = lines.task(system, curve_task, checkpoint_step=at)
                curves[system.name, str(at)] = stage
        self._do("tasks", dict.fromkeys([*runs.values(), *curves.values()]))
        scored: dict[str, dict[str, scores.Score]] = {}
        for (name, task), stage in runs.items():
            score = scores.read(stage.directory, tasks.TASKS[task])
            scored.setdefault(name, {})[task] = score
        along: dict[str, dict[str, scores.Score]] = {}
        for (name, step), stage in curves.items():
            along.setdefault(name, {})[step] = scores.read(stage.directory, curve_task)
        return scored, along

    def _facts(self, report: Mapping[str, Any]) -> list[str]:
        """Lines about the command, its time and the machine."""
        settings, environment = self._settings, report["environment"]
        seconds = sum(map(stages.seconds_of, self._stages))
        return [
            f"`python -m experiments.compare --steps={settings.steps} ...`: "
            f"{seconds / 60 / settings.jobs:.0f} minutes, {settings.jobs} programs at "
            f"once with {settings.threads} thread(s) each.",
            f"Machine: {environment['devices']}; {environment['processor']}; "
            f"TensorFlow {environment['tensorflow']}, Keras {environment['keras']}.",
        ]
