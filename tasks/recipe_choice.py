"""Compares ways to train by cross-validation, and chooses one."""

import copy
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names, json_files, wording
from data_pipeline.classification import folds
from modeling.checkpoints import checkpoint
from reports.measures import confidence
from tasks import classifier, recipes
from tasks.settings import fields, fine_tuning, recipe
from training import checkpoints, inference, linear_head, run_directory, train_step
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
        self, task: Any, plan: Any, learned: np.ndarray, held_out: np.ndarray
    ) -> np.ndarray:
        """Logits [M, C] of rows int [M], of the model trained on rows int [N]."""
        for variable, value in zip(self._model.variables, self._first, strict=True):
            variable.assign(value)
        for variable, slots in self._optimizer.named_slots():
            for name, first in self._optimizer.slots_of(variable).items():
                slots[name].assign(tf.fill(slots[name].shape, first))
        own, whole = copy.copy(task), task.data["train"]
        own.data = {"train": folds.take(whole, learned)}
        own.splits = {"train": own.examples("train")}
        if own.trains_network:
            self._train(own.splits["train"], plan)
        own.change_head(self._model, plan)
        return self._predict(folds.take(whole, held_out).examples())["logits"]

    def _train(self, examples, plan):
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
        while step < count:
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
    """The best way, the divisor of its logits, and {name: text} of the record."""

    way: recipes.Way
    temperature: float
    files: Mapping[str, str]


def choose(settings: Any, rows: classifier.Rows, ways: Sequence[recipes.Way]) -> Choice:
    """Chooses the best way by rows that were held out in turn; prints all scores.

    What is known stands in recipe.json, with which a killed command goes on. Of ways
    whose rows differ by less than a standard error the first is chosen. A fine-tuning,
    which takes long, ends with the fold after which it is behind; if that is by more
    than a standard error, no other rate is tried.

    Raises:
        InputError: there are too few rows, or the directory has another record.
    """
    whole, given = rows.data.splits["train"], settings.typed("recipe")
    errors.refuse(
        (
            len(whole) < _FEWEST_ROWS,
            f"{given}: {whole.path} has {len(whole)} rows, and some are held out; give "
            f"{_FEWEST_ROWS} or more, or another recipe",
        ),
        (
            devices.has_workers(rows.strategy),
            f"{given} compares ways on one host; give one of them",
        ),
    )
    whole = folds.take(whole, np.arange(len(whole)))  # whose labels are arrays
    places = folds.assign(whole.label_ids, _FOLDS, settings.seed)
    record = _Record(settings, rows, whole.digest())
    print(f"recipe: {len(ways)} ways, {_FOLDS} folds of {len(whole)} rows")
    trainers: dict[bool, Trainer] = {}
    each: list[_HeldOut] = []
    for way in ways:
        task, plan = recipes.make(settings, rows, way)
        is_long = way.recipe == recipe.FINE_TUNE
        if is_long and (reason := _why_hopeless(each)):
            print(f"recipe: {way.name}: not tried, since {reason}", flush=True)
            continue
        for fold in range(_FOLDS):
            if str(fold) not in record.folds(way.name):
                if is_long not in trainers:
                    trainers = {is_long: Trainer(task, plan)}
                learned, left = map(np.flatnonzero, (places != fold, places == fold))
                logits = trainers[is_long].logits(task, plan, learned, left)
                record.folds(way.name)[str(fold)] = logits.tolist()
                record.write()
            held = _HeldOut(way, task, whole, places, record.folds(way.name))
            print(f"recipe: {way.name}, fold {fold + 1}: {held.score:.4f}", flush=True)
            if is_long and any(held.lead(other)[0] < 0 for other in each):
                break
        each.append(held)
    best = _best(each)
    table = [["way", "rows held out", best.metric, "95 %", ""]]
    for held in each:
        cells = [held.way.name, str(len(held.rows)), wording.score(held.score)]
        table.append([*cells, held.interval(), "chosen" * (held is best)])
    print("\n".join(["recipe:", *(f"  {line}" for line in wording.columns(table))]))
    temperature = 1.0
    if settings.calibrate:
        labels = whole.label_ids[best.rows]
        temperature = linear_head.temperature(best.logits, labels, best.kind)
        print(f"temperature: {temperature:.3f}, by the rows held out")
    files = {file_names.RECIPE: record.write(best.way.name)}
    return Choice(best.way, temperature, files)


def _why_hopeless(each: Sequence["_HeldOut"]) -> str:
    """Why no further fine-tuning, which takes long, would be chosen; or ""."""
    if any(held.is_right for held in each):
        return "every row held out is right"
    *others, last = each
    if last.way.recipe == recipe.FINE_TUNE and any(
        sum(last.lead(other)) < 0 for other in others
    ):
        return f"{last.way.name} is behind by more than a standard error"
    return ""


class _HeldOut:
    """The rows that were held out from a way, and how they come off."""

    def __init__(self, way, task, whole, places, known):
        self.way, self.kind = way, task.classes.problem_type
        numbers = sorted(map(int, known))
        self.rows = np.concatenate([np.flatnonzero(places == n) for n in numbers])
        logits = np.concatenate([np.float32(known[str(n)]) for n in numbers])
        self.logits = np.nan_to_num(logits)
        self._task = task = copy.copy(task)
        task.data = {"train": folds.take(whole, self.rows)}
        self._scored = scored = task.score("train", {"logits": self.logits}, 1)
        self.metric = task.settings.best_metric or next(iter(scored.scores))
        self.score = float(scored.scores[self.metric])
        gold, given = task.data["train"].label_ids, np.asarray(scored.predictions)
        good = -np.square(gold - given) if self.kind == "regression" else gold == given
        self._good = np.full(len(whole), np.nan)
        self._good[self.rows] = good.reshape(len(gold), -1).mean(axis=1)

    @property
    def is_right(self) -> bool:
        """Whether all rows were held out, and the label of each is right."""
        return self.kind != "regression" and bool(np.all(self._good == 1))

    def lead(self, other: "_HeldOut") -> tuple[float, float]:
        """By how much rows come off better than those of another; standard error."""
        values = self._good - other._good
        values = values[~np.isnan(values)]  # rows of both
        return float(values.mean()), float(values.std() / np.sqrt(len(values)))

    def interval(self) -> str:
        """The middle 95 % of the score over resamples of the rows."""
        shown = self._task.outcomes("train", self._scored)
        keys = [f"{row:09d}" for row in self.rows]
        values = confidence.resample(shown.rescore, keys).get(self.metric, ())
        bounds = confidence.interval(values)
        return "{:.4f} to {:.4f}".format(*bounds) if bounds else ""


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
        if not settings.overwrite_output_dir and tf.io.gfile.exists(self._path):
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
