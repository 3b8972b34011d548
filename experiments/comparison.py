"""The course of a comparison: corpus, short runs, plan, pretraining, tasks, results."""

import dataclasses
import hashlib
import os
import shlex
from collections.abc import Iterable
from typing import Any

from contract import atomic_files, errors, json_files
from data_pipeline.text import base as base_tokenizer
from experiments import (
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
from modeling.configs import config as config_lib

SETTINGS = "settings.json"
# Settings that are flags, too.
NUMBERS = (
    *("minutes", "steps", "num_train_epochs", "vocab_size", "train_batch_size"),
    *("max_seq_length", "learning_rate", "task_learning_rate"),
    *("feature_learning_rate", "layers", "curves"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a comparison is; see the flags of experiments/compare.py."""

    directory: str
    data_dir: str
    bert: config_lib.BertConfig
    systems: list[str]
    tasks: list[str]
    seeds: tuple[int, ...]
    minutes: float | None
    steps: int | None
    num_train_epochs: float
    vocab_size: int
    train_batch_size: int
    max_seq_length: int
    learning_rate: float
    task_learning_rate: float
    feature_learning_rate: float
    layers: bool
    curves: bool
    jobs: int
    threads: int

    def identity(self, corpus: preparation.Corpus) -> dict[str, Any]:
        """What must be as it was, for a comparison to go on."""
        texts = {
            split: [[path, os.path.getsize(path)] for path in paths]
            for split, paths in corpus.texts.items()
        }
        contents = {
            split: [_digest(path) for path in paths]
            for split, paths in corpus.texts.items()
        }
        identity = dataclasses.asdict(self) | {
            "bert": self.bert.to_dict(),
            "seeds": list(self.seeds),
            "texts": texts,
            "contents": contents,
        }
        for name in ("directory", "jobs", "threads"):  # where, and how fast
            del identity[name]
        return identity


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:16]


def check_same(settings: Settings, corpus: preparation.Corpus) -> None:
    """Writes settings.json, or compares it.

    Raises:
        ValueError: the directory has another comparison; the message names what
            differs. Or its plan.json is no plan.
    """
    plans.read(settings.directory)
    path = os.path.join(settings.directory, SETTINGS)
    identity = settings.identity(corpus)
    if not os.path.exists(path):
        atomic_files.write_json(path, identity)
        return
    known = json_files.read_object(path)
    for name, value in identity.items():
        if known.get(name, value) != value:
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
        self, settings: Settings, corpus: preparation.Corpus, runner: stages.Runner
    ) -> None:
        self._settings, self._corpus, self._runner = settings, corpus, runner
        chosen = [systems.SYSTEMS[name] for name in settings.systems]
        self._curved = [
            system
            for system in chosen
            if settings.curves
            and system.name in systems.CURVE_SYSTEMS
            and systems.CURVE_TASK in settings.tasks
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
        """Does what is not done, and reads what came of all.

        Raises:
            stages.Failed: a program did.
            errors.InputError: the minutes are too few.
        """
        corpora = dict.fromkeys(network.corpus for network in self._networks)
        self._do("corpus", self._corpus.stages(list(corpora)), alone=True)
        if preparation.TEXTS in corpora:
            self._corpus.deal()
        lines = self._commands()
        speeds, kinds = self._trials(lines)
        plan = self._plan(speeds, kinds)
        self._pretrain(lines, plan, speeds)
        found, curves = self._train_tasks(lines, plan, kinds)
        return pages.Results(
            found=found,
            curves=curves,
            reports={
                network.name: scores.report(lines.pretrained(network.name))
                for network in self._networks
            },
            weights=self._weights,
            facts=self._facts(),
            plan=dataclasses.asdict(plan),
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
        configs = shapes.of_bert(settings.bert, vocab, num_words)
        self._weights = {
            network.name: (
                shapes.num_weights(configs[network.shape]),
                shapes.table_weights(configs[network.shape]),
            )
            for network in self._networks
        }
        return commands.Commands(
            directory=settings.directory,
            corpus=self._corpus,
            configs=shapes.write(configs, os.path.join(settings.directory, "configs")),
            data_dir=settings.data_dir,
            hidden_size=settings.bert.hidden_size,
            train_batch_size=settings.train_batch_size,
            max_seq_length=settings.max_seq_length,
            learning_rate=settings.learning_rate,
            task_learning_rate=settings.task_learning_rate,
            feature_learning_rate=settings.feature_learning_rate,
            seeds=settings.seeds,
        )

    def _trials(self, lines):
        """Runs every kind of command for a moment.

        Returns ({network: Speed}, {(kind, task's name): Speed}). So what is wrong with
        the input of a late program shows before the long work.
        """
        short = dataclasses.replace(
            lines, directory=os.path.join(self._settings.directory, "trials")
        )
        pretraining = {
            network.name: short.pretraining(network, plans.TRIAL_STEPS, evaluations=1)
            for network in self._networks
        }
        self._do("short runs of pretraining", pretraining.values())
        if "denoising" in pretraining:
            self._do("short runs", [short.encoder_of_pair()])
        trained = {}
        for system, task in self._tried():
            trained[_kind(system), task.name] = short.task(
                system, task, plans.TRIAL_EPOCHS, seeds=self._settings.seeds[:1]
            )
        self._do("short runs of tasks", trained.values())
        speeds = {name: self._speed(stage) for name, stage in pretraining.items()}
        if "elmo" in speeds:  # its tokens are words
            pieces = self._corpus.pieces_per_word()
            read = speeds["elmo"].tokens_per_step * pieces
            speeds["elmo"] = dataclasses.replace(speeds["elmo"], tokens_per_step=read)
        return speeds, {key: self._speed(stage) for key, stage in trained.items()}

    def _tried(self):
        """The first system in all its tasks, each other kind in its first and last."""
        seen: dict[tuple[str, ...], list[tuple[systems.System, tasks.Task]]] = {}
        for system, task in self._runs:
            seen.setdefault(_kind(system), []).append((system, task))
        every, *others = seen.values()
        return [
            *((s, t) for s, t in every if s is every[0][0]),
            *(pair for runs in others for pair in dict.fromkeys((runs[0], runs[-1]))),
        ]

    @staticmethod
    def _speed(stage):
        return plans.speed(stage.directory, stages.seconds_of(stage))

    def _plan(self, speeds, kinds):
        settings = self._settings
        networks = [network.name for network in self._networks]
        plan = plans.read(settings.directory, networks, settings.tasks)
        if plan:
            return plan
        if settings.steps:
            names = settings.tasks
            plan = plans.by_steps(
                settings.steps, settings.num_train_epochs, speeds, names
            )
        else:
            alone = sum(
                stages.seconds_of(s)
                for s in self._corpus.stages([*preparation.CORPORA])
            )
            beside = sum(map(stages.seconds_of, self._stages)) - alone
            runs = [(t.name, self._estimate(kinds, s, t)) for s, t in self._all_runs()]
            plan = plans.by_minutes(
                *(settings.minutes, alone + beside / settings.jobs, speeds, runs),
                shares={name: tasks.TASKS[name].share for name in settings.tasks},
                seeds=len(settings.seeds),
                jobs=settings.jobs,
            )
        plans.write(settings.directory, plan)
        return plan

    def _all_runs(self):
        """Those of the table, and those along the pretraining."""
        task = tasks.TASKS[systems.CURVE_TASK]
        more = [(s, task) for s in self._curved for _ in range(1, commands.CHECKPOINTS)]
        return [*self._runs, *more]

    def _estimate(self, kinds, system, task):
        """The Speed of a system in a task, from those of its kind in others."""
        kind = _kind(system)
        if (kind, task.name) in kinds:
            return kinds[kind, task.name]
        first = next(iter(kinds))[0]
        known = [name for k, name in kinds if k == kind]
        alike = [n for n in known if tasks.TASKS[n].script == task.script] or known
        base, near = kinds[first, task.name], kinds[first, alike[0]]
        found = kinds[kind, alike[0]]
        return dataclasses.replace(
            base,
            step_seconds=base.step_seconds * found.step_seconds / near.step_seconds,
            other_seconds=base.other_seconds + found.other_seconds - near.other_seconds,
        )

    def _pretrain(self, lines, plan, speeds):
        def stage(network):
            steps = plan.steps[network.name]
            seconds = speeds[network.name].seconds(steps)
            return lines.pretraining(network, steps)._replace(weight=seconds)

        minutes = sum(speeds[n].seconds(s) for n, s in plan.steps.items()) / 60
        print(
            f"plan: {plan.tokens:,.0f} tokens for each network, about "
            f"{minutes / self._settings.jobs:.0f} minutes; tasks: "
            + ", ".join(f"{name} {n:g} epochs" for name, n in plan.epochs.items())
        )
        self._do("pretraining", map(stage, self._networks))
        if any(network.name == "denoising" for network in self._networks):
            self._do("pretraining, the rest", [lines.encoder_of_pair()])

    def _train_tasks(self, lines, plan, kinds):
        """Runs all tasks; returns their scores, and those along the pretraining."""
        stages_of, curved = {}, {}
        seeds = len(self._settings.seeds)
        for system, task in self._runs:
            epochs = plan.epochs[task.name]
            speed = self._estimate(kinds, system, task)
            seconds = speed.seconds(epochs * speed.rows / commands.TASK_BATCH, seeds)
            stage = lines.task(system, task, epochs)
            stages_of[system.name, task.name] = stage._replace(weight=seconds)
        task = tasks.TASKS[systems.CURVE_TASK]
        for system in self._curved:
            last = plan.steps[system.network]
            curved[system.name, last] = stages_of[system.name, task.name]
            for part in range(1, commands.CHECKPOINTS):
                step = last // commands.CHECKPOINTS * part
                curved[system.name, step] = lines.task(
                    *(system, task, plan.epochs[task.name]),
                    directory=os.path.join(
                        *(lines.directory, "curves", system.name, str(step))
                    ),
                    checkpoint_step=step,
                )
        runs = dict.fromkeys([*stages_of.values(), *curved.values()])
        self._do("tasks", runs)
        found: dict[str, dict[str, scores.Score]] = {}
        for (name, task_name), stage in stages_of.items():
            score = scores.read(stage.directory, tasks.TASKS[task_name])
            found.setdefault(name, {})[task_name] = score
        along: dict[str, dict[str, scores.Score]] = {}
        for (name, step), stage in curved.items():
            along.setdefault(name, {})[str(step)] = scores.read(stage.directory, task)
        return found, along

    def _facts(self):
        """Lines that say how it was run."""
        settings = self._settings
        seconds = sum(stages.seconds_of(stage) for stage in dict.fromkeys(self._stages))
        environment = scores.report(
            os.path.join(settings.directory, "pretrained", self._networks[0].name)
        )["environment"]
        length = f"--steps={settings.steps}"
        if settings.minutes:
            length = f"--minutes={settings.minutes:g}"
        return [
            f"`python -m experiments.compare {shlex.quote(length)} ...`: "
            f"{seconds / 60 / settings.jobs:.0f} minutes, {settings.jobs} programs at "
            f"once with {settings.threads} thread(s) each.",
            f"Machine: {environment['devices']}; {environment['processor']}; "
            f"TensorFlow {environment['tensorflow']}, Keras {environment['keras']}.",
        ]


def _kind(system: systems.System) -> tuple[str, ...]:
    """What decides how long a system takes for a step of a task."""
    shape = systems.NETWORKS[system.network].shape if system.network else "bert"
    mixes = tuple(f for f in system.flags if not f.startswith("--layer_mix"))
    return shape, *mixes, *system.classifier_flags
