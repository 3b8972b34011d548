"""Compares ways to train by cross-validation, and chooses one."""

import copy
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from contract import (
    atomic_files,
    features,
    file_names,
    json_files,
    locks,
    outcomes,
    wording,
)
from data_pipeline.classification import folds, review_tables
from data_pipeline.tables import labelled
from modeling.checkpoints import checkpoint
from reports.measures import selective
from reports.pages import record as records
from tasks import classifier, recipes
from tasks.settings import fields, fine_tuning, recipe
from terminal import progress
from training import checkpoints, inference, run_directory, train_step
from training.distribution import devices

_FOLDS = 4
_FEWEST_ROWS = 8


class Trainer:
    """Trains one model on several parts of the rows, each time from its first weights.

    Args:
        task, plan: of recipes.make, with all training rows.
    """

    def __init__(self, task: Any, plan: Any):
        keras.utils.clear_session(free_memory=True)
        keras.config.set_dtype_policy(plan.dtype_policy)
        with plan.strategy.scope(), checkpoint.drawing_after():
            keras.utils.set_random_seed(plan.seed)
            self._model = model = task.make_model()
            model.build()
            path = plan.init_checkpoint
            task.load_weights(model, path, trains=True, resumes=False)
        self._first = [np.array(variable) for variable in model.variables]
        with plan.strategy.scope(), task.network_alone(model):
            optimizer = plan.optimizer(**plan.optimizer_arguments)
            optimizer.build(model.trainable_variables)
            self._optimizer, stepped = optimizer, (model, optimizer, task.objective)
            self._steps = task.make_step(plan, *stepped)
        self._predict = inference.predictor(plan, model)

    def logits(
        self,
        task: Any,
        plan: Any,
        learned: np.ndarray,
        held_out: np.ndarray,
        name: str = "training",
    ) -> np.ndarray:
        """Logits [M, C] of rows int [M], of the model trained on rows int [N].

        `name` is that of the progress.
        """
        for variable, value in zip(self._model.variables, self._first, strict=True):
            variable.assign(value)
        for variable, slots in self._optimizer.named_slots():
            for slot, first in self._optimizer.slots_of(variable).items():
                slots[slot].assign(tf.fill(slots[slot].shape, first))
        own, whole = copy.copy(task), task.data["train"]
        own.data = {"train": folds.take(whole, learned)}
        own.splits = {"train": own.examples("train")}
        if own.trains_network:
            self._train(own.splits["train"], plan, name)
        own.change_head(self._model, plan)
        return self._predict(folds.take(whole, held_out).examples())["logits"]

    def _train(self, examples, plan, name):
        count = plan.timetable.num_train_steps
        order = examples.training_order(
            batch_size=min(plan.batch_size, len(examples)),
            num_steps=count,
            seed=plan.seed,
            group_by_length=plan.group_by_length,
        )
        batches = examples.batches(order, plan.pad_to)
        iterator = iter(devices.distributed(plan.strategy, batches))
        step, scaling = 0, train_step.Scaling.from_state({})
        with progress.Progress(f"{name}: step") as report:
            while step < count:
                report(step, count)
                rates = plan.timetable.rates(step)
                number = min(len(rates), count - step)
                results, scaling = self._steps(
                    iterator,
                    tf.constant(rates, tf.float32),
                    tf.constant(number, tf.int32),
                    tf.constant(step, tf.int64),
                    scaling,
                )
                if int(results["steps"]) < number:  # a loss was not finite
                    return
                step += number


class Choice(NamedTuple):
    """The best way, the divisor of its logits, files {name: text}, facts of the report.

    The facts are the scores of its rows held out.
    """

    way: recipes.Way
    temperature: float
    files: Mapping[str, str]
    facts: Mapping[str, Any]


def why_not(rows: classifier.Rows) -> str:
    """Why no rows can be held out, and the remedy; or ""."""
    whole = rows.data.splits["train"]
    if len(whole) < _FEWEST_ROWS:
        return (
            f"{whole.path} has {len(whole)} rows, and some are held out; give "
            f"{_FEWEST_ROWS} or more"
        )
    is_one = rows.data.problem_type in features.ONE_OF_SEVERAL
    if is_one and np.bincount(whole.label_ids).max() < 2:
        return (
            f"{whole.path} has one row of each label, and nothing is learned of a "
            "label whose row is held out; give two of each or more"
        )
    if devices.has_workers(rows.strategy):
        return "rows are held out on one host alone; train on one"
    return ""


def choose(settings: Any, rows: classifier.Rows, ways: Sequence[recipes.Way]) -> Choice:
    """Chooses the best way by rows that were held out in turn; prints all scores.

    What is known stands in recipe.json, with which a killed command goes on. Of ways
    whose rows differ by less than a standard error the first is chosen. A fine-tuning,
    which takes long, ends with the fold after which it is behind, and is not tried if
    none could lead.

    Raises:
        InputError: the directory has another record or files that no run wrote, or
            another command writes there.
    """
    directory = str(settings.output_dir)
    with locks.directory(directory, f"--output_dir={directory}"):
        whole = rows.data.splits["train"]
        whole = folds.take(whole, np.arange(len(whole)))  # whose labels are arrays
        record = _Record(settings, rows, whole.digest())
        _check_directory(settings, rows, ways[0])
        each = _hold_out(settings, rows, ways, whole, record)
        best = _best(each)
        table = [["way", "rows held out", best.metric, "95 %", ""]]
        for held in each:
            cells = [held.way.name, str(len(held.rows)), wording.score(held.score)]
            is_chosen = held is best and len(each) > 1
            table.append([*cells, held.interval(), "chosen" * is_chosen])
        print("\n".join(["recipe:", *(f"  {line}" for line in wording.columns(table))]))
        temperature = 1.0
        if settings.calibrate:
            own = best.logits, best.data.label_ids, best.kind
            temperature = recipes.fit_temperature(*own, "the rows held out")
        shows = "dev" not in rows.data.splits
        files, facts = best.describe(temperature, shows=shows)
        files[file_names.RECIPE] = record.write(best.way.name)
        return Choice(best.way, temperature, files, facts)


def _check_directory(settings, rows, way):
    """Raises InputError now for what run.start refuses after all folds."""
    task, plan = recipes.make(settings, rows, way)
    directory, files = plan.output_dir, dict(task.files)
    if rows.data.problem_type != "regression":
        files[file_names.LABEL_ERRORS] = ""
    run_directory.resumes(directory, {}, overwrite=plan.overwrite)
    if tf.io.gfile.exists(os.path.join(directory, file_names.RECIPE)):
        files = {}  # of which a command that was killed may have written some
    run_directory.check(plan, files)


def _hold_out(settings, rows, ways, whole, record):
    """Each way with the rows that are held out from it, in turn."""
    places = folds.assign(whole.label_ids, _FOLDS, settings.seed)
    number = wording.count(len(ways), "way")
    print(f"recipe: {number}, {_FOLDS} folds of {len(whole)} rows", flush=True)
    trainers: dict[bool, Trainer] = {}
    each: list[_HeldOut] = []
    for way in ways:
        task, plan = recipes.make(settings, rows, way)
        is_long = way.recipe == recipe.FINE_TUNE
        if is_long and any(held.is_right for held in each):
            print(f"recipe: {way.name}: not tried, since no row held out is wrong")
            continue
        for fold in range(_FOLDS):
            if str(fold) not in record.folds(way.name):
                if is_long not in trainers:
                    trainers = {is_long: Trainer(task, plan)}
                learned, left = map(np.flatnonzero, (places != fold, places == fold))
                name = f"{way.name}, fold {fold + 1} of {_FOLDS}"
                trainer = trainers[is_long]
                logits = trainer.logits(task, plan, learned, left, name)
                record.folds(way.name)[str(fold)] = logits.tolist()
                record.write()
            held = _HeldOut(way, task, whole, places, record.folds(way.name))
            done = f"the first {fold + 1} of {_FOLDS} folds" if fold else "fold 1"
            print(f"recipe: {way.name}, {done}: {held.score:.4f}", flush=True)
            if is_long and any(held.lead(other)[0] < 0 for other in each):
                break
        each.append(held)
    return each


class _HeldOut:
    """The rows that were held out from a way, and how they come off."""

    def __init__(self, way, task, whole, places, known):
        self.way, self.kind = way, task.classes.problem_type
        is_held = np.isin(places, [*map(int, known)])
        self.rows = np.flatnonzero(is_held)
        logits = np.empty([len(whole), task.classes.num_outputs], np.float32)
        for fold, values in known.items():
            logits[places == int(fold)] = np.float32(values)
        self.logits = np.nan_to_num(logits[is_held])
        self._task = task = copy.copy(task)
        self.data = dataclasses.replace(
            folds.take(whole, self.rows), table=labelled.take(whole.table, is_held)
        )
        task.data = {"train": self.data}
        self._scored = scored = self._score(1.0)
        self.metric = task.settings.best_metric or next(iter(scored.scores))
        self.score = float(scored.scores[self.metric])
        gold, given = self.data.label_ids, np.asarray(scored.predictions)
        good = -np.square(gold - given) if self.kind == "regression" else gold == given
        self._good = np.full(len(whole), np.nan)
        self._good[self.rows] = good.reshape(len(gold), -1).mean(axis=1)

    @property
    def is_right(self) -> bool:
        """Whether all rows were held out, and the label of each is right."""
        return self.kind != "regression" and bool(np.all(self._good == 1))

    def _score(self, temperature: float) -> outcomes.Scored:
        return self._task.score("train", {"logits": self.logits / temperature}, 1)

    def lead(self, other: "_HeldOut") -> tuple[float, float]:
        """By how much rows come off better than those of another; standard error."""
        values = self._good - other._good
        values = values[~np.isnan(values)]  # rows of both
        return float(values.mean()), float(values.std() / np.sqrt(len(values)))

    def interval(self) -> str:
        """The interval of the score, as a report has it."""
        bounds = self._summary(self._scored)["scores"][self.metric]["interval"]
        return "{:.4f} to {:.4f}".format(*bounds) if bounds else ""

    def _summary(self, scored: outcomes.Scored) -> dict[str, Any]:
        shown = self._task.outcomes("train", scored)
        return records.summary(dataclasses.replace(shown, split="held-out"))

    def describe(
        self, temperature: float, *, shows: bool
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Files and facts of a Choice, of the logits divided; prints what they have.

        `shows` is whether that is what can be answered alone, too.
        """
        files, count = {}, len(self.rows)
        scored = self._score(temperature)
        summary = self._summary(scored)
        if self.kind != "regression":
            table = [*review_tables.label_errors(self.data, scored)]
            text = review_tables.text(self.data, table)
            files[file_names.LABEL_ERRORS] = text
            print(
                f"{file_names.LABEL_ERRORS}: {len(table) - 1} of {count} rows have "
                "another label than is predicted for them when held out"
            )
        if shows and summary["answered_alone"]:
            print(f"answered alone, by {count} rows held out:")
            print("\n".join(selective.lines(summary["answered_alone"], count)))
        facts = {"way": self.way.name, "temperature": temperature}
        return files, {"cross_validation": {**summary, **facts}}


def _best(each: Sequence[_HeldOut]) -> _HeldOut:
    best, *others = whole = [e for e in each if len(e.rows) == len(each[0].rows)]
    for other in others:
        best = other if other.lead(best)[0] > 0 else best
    pairs = ((held, best.lead(held)) for held in whole)
    return next(held for held, (lead, error) in pairs if lead <= error)


class _Record:
    """recipe.json: {way: {fold: logits}}, what they depend on, and what is chosen."""

    def __init__(self, settings: Any, rows: classifier.Rows, digest: str):
        values = settings.that_change(fields.WEIGHTS)
        self._identity: Mapping[str, Any] = {
            "config": rows.opened.config.to_dict(),
            **{k: v for k, v in values.items() if k not in fine_tuning.VARYING},
            **checkpoints.identity(rows.opened.path),
            "data": digest,
            "seed": settings.seed,
        }
        directory, name = str(settings.output_dir), file_names.RECIPE
        self._path = os.path.join(directory, name)
        self._ways: dict[str, dict[str, Any]] = {}
        if settings.overwrite_output_dir:
            return
        # What the way decides, or a run has in a form of its own.
        own = {*recipes.WAYS[0].values(1), "data", "init_checkpoint"}
        shared = {k: v for k, v in self._identity.items() if k not in own}
        run_directory.check_identity(directory, file_names.RUN, shared)
        if tf.io.gfile.exists(self._path):
            run_directory.check_identity(directory, name, self._identity)
            self._ways = dict(json_files.read_object(self._path)["ways"])

    def folds(self, name: str) -> dict[str, Any]:
        """{number: logits} of a way, as far as they are known."""
        return self._ways.setdefault(name, {})

    def write(self, chosen: str = "") -> str:
        """Writes the file; returns its content."""
        values = {"identity": self._identity, "ways": self._ways, "chosen": chosen}
        text = json.dumps(values, indent=1, sort_keys=True) + "\n"
        atomic_files.write_text(self._path, text)
        return text
