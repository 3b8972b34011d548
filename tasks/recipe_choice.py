"""Compares ways to train by cross-validation, and chooses one."""

import copy
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names, json_files, wording
from data_pipeline.classification import folds
from modeling.checkpoints import checkpoint
from reports.measures import confidence
from tasks import classifier, recipes
from tasks.settings import fields, fine_tuning, recipe
from training import checkpoints, inference, run_directory, run_plan, train_step
from training.distribution import devices

_FOLDS = 4
_FEWEST_ROWS = 8


class Trainer:
    """Trains one model on several parts of the rows, each time from its first weights.

    Args:
        task, plan: of recipes.make, with all training rows.
    """

    def __init__(self, task: classifier.ClassifierTask, plan: run_plan.Plan):
        keras.utils.clear_session(free_memory=True)
        keras.config.set_dtype_policy(plan.dtype_policy)
        with plan.strategy.scope(), checkpoint.drawing_after():
            keras.utils.set_random_seed(plan.seed)
            self._model = task.make_model()
            self._model.build()
            task.load_weights(
                self._model, plan.init_checkpoint, trains=True, resumes=False
            )
        self._first = [np.array(variable) for variable in self._model.variables]
        make_step: Any = task.make_step
        if isinstance(task, recipes.RegressionTask):
            self._model.classifier.trainable = False
            make_step = lambda *given: task.step_of([], *given)  # noqa: E731
        with plan.strategy.scope():
            self._optimizer = plan.optimizer(**plan.optimizer_arguments)
            self._optimizer.build(self._model.trainable_variables)
        self._steps = make_step(plan, self._model, self._optimizer, task.objective)
        self._predict = inference.predictor(plan, self._model)

    def logits(
        self,
        task: classifier.ClassifierTask,
        plan: run_plan.Plan,
        learned: np.ndarray,
        held_out: np.ndarray,
    ) -> np.ndarray:
        """Logits [M, C] of rows int [M], of the model trained on rows int [N]."""
        for variable, value in zip(self._model.variables, self._first, strict=True):
            variable.assign(value)
        for variable, slots in self._optimizer.named_slots():
            for name, first in self._optimizer.slots_of(variable).items():
                slots[name].assign(tf.fill(slots[name].shape, first))
        whole = task.data["train"]
        own = copy.copy(task)
        own.data = {"train": folds.take(whole, learned)}
        own.splits = {"train": own.examples("train")}
        is_regression = isinstance(own, recipes.RegressionTask)
        if not (is_regression and own.reading.freeze_encoder):
            self._train(own.splits["train"], plan)
        if isinstance(own, recipes.RegressionTask):
            own.fit_head(self._model, plan)
        return self._predict(folds.take(whole, held_out).examples())["logits"]

    def _train(self, examples: Any, plan: run_plan.Plan) -> None:
        assert plan.timetable is not None
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


def choose(
    settings: Any, rows: classifier.Rows, ways: Sequence[recipes.Way]
) -> tuple[list[recipes.Way], dict[str, str]]:
    """The best way, and {name: text} of the record of all, which is printed.

    The first fold of the rows is held out, then the second, and so on. What is known
    of them stands in recipe.json, with which a killed command goes on. Of ways whose
    rows differ by less than a standard error the first is chosen. A fine-tuning, which
    takes long, ends with the fold after which it is behind.

    Raises:
        InputError: there are too few rows, or the directory has another record.
    """
    whole = rows.data.splits["train"]
    errors.refuse(
        (
            len(whole) < _FEWEST_ROWS,
            f"{settings.typed('recipe')} holds out rows, and {whole.path} has "
            f"{len(whole)}; give {_FEWEST_ROWS} or more, or another recipe",
        ),
        (
            devices.has_workers(rows.strategy),
            f"{settings.typed('recipe')} runs on one host; give the recipe",
        ),
    )
    whole = folds.take(whole, np.arange(len(whole)))  # whose labels are arrays
    places = folds.assign(whole.label_ids, _FOLDS, settings.seed)
    record = _Record(settings, rows, whole.digest())
    print(f"recipe: {len(ways)} ways, {_FOLDS} folds of {len(whole)} rows")
    trainers: dict[bool, Trainer] = {}
    outcomes: list[_Outcome] = []
    for way in ways:
        task, plan = recipes.make(settings, rows, way)
        is_long = way.recipe == recipe.FINE_TUNE
        for fold in range(_FOLDS):
            held_out, learned = (np.flatnonzero(places == fold),), places != fold
            if record.find(way.name, fold) is None:
                if is_long not in trainers:
                    trainers.clear()  # and its memory
                    trainers[is_long] = Trainer(task, plan)
                logits = trainers[is_long].logits(
                    task, plan, np.flatnonzero(learned), *held_out
                )
                record.add(way.name, fold, logits)
            outcome = _Outcome(way, task, plan, whole, places, record)
            print(f"recipe: {way.name}, fold {fold + 1}: {outcome.score:.4f}")
            if is_long and any(outcome.behind(other) > 0 for other in outcomes):
                break
        outcomes.append(outcome)
    best = _best(outcomes)
    for line in _table(outcomes, best):
        print(line)
    return [best.way], {file_names.RECIPE: record.write(best.way.name)}


class _Outcome:
    """How the rows that were held out from a way come off."""

    def __init__(self, way, task, plan, whole, places, record):
        self.way, self.metric = way, plan.timetable.best_metric
        known = [f for f in range(_FOLDS) if record.find(way.name, f) is not None]
        each = [np.flatnonzero(places == fold) for fold in known]
        self.rows = np.concatenate(each)
        logits = np.concatenate([record.find(way.name, fold) for fold in known])
        task = copy.copy(task)
        task.data = {"train": folds.take(whole, self.rows)}
        scored = task.score("train", {"logits": np.nan_to_num(logits)}, 1)
        self.score = float(scored.scores[self.metric])
        self._task, self._scored = task, scored
        gold, given = task.data["train"].label_ids, np.asarray(scored.predictions)
        is_number = task.classes.problem_type == "regression"
        good = -np.square(gold - given) if is_number else gold == given
        good = good.reshape(len(gold), -1).mean(axis=1)
        self._good = dict(zip(self.rows.tolist(), good.tolist(), strict=True))

    def behind(self, other: "_Outcome") -> float:
        """By how much its rows are worse than the same ones of another."""
        return float(np.mean(self._differences(other)))

    def is_near(self, other: "_Outcome") -> bool:
        """Whether it is behind by a standard error at most."""
        values = self._differences(other)
        return np.mean(values) <= np.std(values) / np.sqrt(len(values))

    def _differences(self, other):
        common = self._good.keys() & other._good.keys()
        return np.array([other._good[row] - self._good[row] for row in sorted(common)])

    def interval(self) -> str:
        """The middle 95 % of the score over resamples of the rows."""
        shown = self._task.outcomes("train", self._scored)
        keys = [f"{row:09d}" for row in self.rows]
        values = confidence.resample(shown.rescore, keys)[self.metric]
        bounds = confidence.interval(values)
        return "{:.4f} to {:.4f}".format(*bounds) if bounds else ""


def _best(outcomes: Sequence[_Outcome]) -> _Outcome:
    best = outcomes[0]
    whole = [each for each in outcomes if len(each.rows) == len(outcomes[0].rows)]
    for each in whole:
        best = each if best.behind(each) > 0 else best
    return next(each for each in whole if each is best or each.is_near(best))


def _table(outcomes: Sequence[_Outcome], best: _Outcome) -> list[str]:
    """Lines of columns, a row a way."""
    lines = [["way", "rows held out", outcomes[0].metric, "95 %", ""]]
    for each in outcomes:
        own = [each.way.name, str(len(each.rows)), wording.score(each.score)]
        lines.append([*own, each.interval(), "chosen" * (each is best)])
    return ["recipe:", *(f"  {line}" for line in wording.columns(lines))]


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
        directory = str(settings.output_dir)
        self._path = os.path.join(directory, file_names.RECIPE)
        self._ways: dict[str, dict[str, Any]] = {}
        if not settings.overwrite_output_dir and tf.io.gfile.exists(self._path):
            run_directory.check_identity(directory, file_names.RECIPE, self._identity)
            self._ways = dict(json_files.read_object(self._path)["ways"])

    def find(self, name: str, fold: int) -> np.ndarray | None:
        """The logits of a fold, if they are known."""
        values = self._ways.get(name, {}).get(str(fold))
        return None if values is None else np.array(values, np.float32)

    def add(self, name: str, fold: int, logits: np.ndarray) -> None:
        """Stores the logits of a fold."""
        self._ways.setdefault(name, {})[str(fold)] = logits.tolist()
        self.write()

    def write(self, chosen: str = "") -> str:
        """Writes the file; returns its content."""
        values = {"identity": self._identity, "ways": self._ways, "chosen": chosen}
        text = json.dumps(values, indent=1, sort_keys=True) + "\n"
        atomic_files.write_text(self._path, text)
        return text
