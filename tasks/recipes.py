"""Ways to train a classifier on few labelled rows, for --recipe."""

import contextlib
import copy
import math
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, file_names
from data_pipeline.classification import review_tables, soft_labels
from data_pipeline.embedding import split as text_rows
from modeling import contrastive
from modeling.checkpoints import google, sentence_transformers
from modeling.features import text_vectors
from reports.measures import selective
from reports.pages import record
from tasks import classifier, device_setup
from tasks.settings import recipe
from tasks.settings.classifier import ClassifierSettings
from training import checkpoints, contrastive_step, inference, linear_head, run_plan

_SCALE = 20.0  # of cosines, as in run_embedding.py
_ROWS_PER_LABEL = 2  # that a batch has next to one another
_CHANGED = "head_changed"  # in the state of a checkpoint after it
_OWN_ROWS = (
    "--calibrate: the dev rows have chosen the temperature, so that their loss and "
    "calibration error are a little too low"
)
_BY_FOLDS = "calibrate", "label_errors"  # settings for which rows are held out


class Way(NamedTuple):
    """A recipe and its numbers; a run has at least so many steps, or so many passes."""

    name: str
    recipe: str
    batch_size: int
    steps: int
    passes: int
    most_steps: float = math.inf
    learning_rate: float = 5e-5
    corrects_bias: bool = True

    def values(self, num_rows: int) -> dict[str, Any]:
        """{setting: value} for so many training rows."""
        size = min(self.batch_size, num_rows)
        steps = max(self.steps, -(-self.passes * num_rows // size))
        return {
            "train_batch_size": size,
            "num_train_epochs": (min(steps, self.most_steps) + 0.5) * size / num_rows,
            "learning_rate": self.learning_rate,
            "adam_bias_correction": self.corrects_bias,
        }


# Of equal scores the first is chosen.
WAYS = (
    Way("contrastive", recipe.CONTRASTIVE, 24, 20, 10, 200, corrects_bias=False),
    Way("vectors", recipe.VECTORS, 1, 1, 0),
    Way("fine_tune at 2e-4", recipe.FINE_TUNE, 8, 300, 3, learning_rate=2e-4),
    Way("fine_tune at 5e-5", recipe.FINE_TUNE, 8, 300, 3),
)


def prepare(
    settings: ClassifierSettings,
) -> tuple[classifier.ClassifierTask, run_plan.Plan]:
    """The task of a recipe, and how to do it; InputError for wrong input."""
    if settings.unlabelled_file:
        own = os.path.join(str(settings.output_dir), file_names.TO_LABEL)
        review_tables.refuse_filled(own)
    rows, given = classifier.read(settings), settings.typed("recipe")
    is_usual = settings.recipe == recipe.FINE_TUNE  # and --calibrate is set
    wrong = "" if is_usual else _why_not_vectors(rows)
    problem = _why_not_contrastive(rows)
    is_contrastive = settings.recipe == recipe.CONTRASTIVE
    other = f"{problem}; give --recipe={recipe.VECTORS}"
    errors.refuse(
        (wrong, f"{given}: {wrong}"),
        (problem and is_contrastive, f"{given}: {other}"),
        *(
            (
                getattr(settings, name) and rows.data.problem_type == "regression",
                f"{settings.typed(name)} is for probabilities, and these rows have "
                "numbers; leave it out",
            )
            for name in (*_BY_FOLDS, "unlabelled_file")
        ),
    )
    if is_usual:
        return classifier.make(settings, rows, CalibratedTask)
    ways = [way for way in WAYS if way.recipe == settings.recipe]
    if settings.recipe == recipe.AUTO:
        ways = [w for w in WAYS if not (problem and w.recipe == recipe.CONTRASTIVE)]
        if problem:
            print(f"recipe: not contrastive: {problem}")
    wanting = [settings.typed(n) for n in _BY_FOLDS if getattr(settings, n)]
    wanting += [given] * (settings.recipe == recipe.AUTO)
    if not wanting and "dev" in rows.data.splits:
        return make(settings, rows, ways[0])
    from tasks import recipe_choice  # which nobody else needs

    if reason := recipe_choice.why_not(rows):
        errors.refuse((wanting, f"{', '.join(wanting)}: {reason}, or leave it out"))
        print(f"recipe: no row is held out for a score: {reason}")
        return make(settings, rows, ways[0])
    choice = recipe_choice.choose(settings, rows, ways)
    task, plan = make(settings, rows, choice.way)
    task.temperature = choice.temperature
    task.files |= choice.files
    task.more_facts = {**task.more_facts, **choice.facts}
    return task, plan


def _why_not_vectors(rows: classifier.Rows) -> str:
    config, labels = rows.opened.config, rows.data.label_set
    if not config.spec.text_vectors:
        return f"{config.kind} has no vectors of texts; choose another model"
    if labels.problem_type == "choice":
        return "a choice of answers has no labels of texts; leave it out"
    return "numbers with an activation have none; leave it out" * bool(
        labels.activation
    )


def _why_not_contrastive(rows: classifier.Rows) -> str:
    labels = rows.data.label_set
    if labels.problem_type != "classification" or labels.num_sequences > 1:
        return "it is for texts with one label each, in one sequence"
    counts = np.bincount(rows.data.splits["train"].label_ids)
    return "" if counts.max() > 1 else "no two rows have one label"


def make(
    settings: ClassifierSettings, rows: classifier.Rows, way: Way
) -> tuple["RecipeTask", run_plan.Plan]:
    """The task of a way, and how to do it."""
    own = settings.with_values(**way.values(len(rows.data.splits["train"])))
    device_setup.check_batch_size(own, rows.strategy)
    if way.recipe == recipe.FINE_TUNE:
        return classifier.make(own, rows, RecipeTask)
    path = rows.opened.path
    stored = sentence_transformers.read(path) if path else None
    vectors = stored.text_vectors if stored else text_vectors.TextVectors()
    compares = stored.similarity if stored else text_vectors.COSINE
    return classifier.make(
        own,
        rows,
        RegressionTask,
        freeze_encoder=way.recipe == recipe.VECTORS,
        pooling=vectors.pooling,
        is_normalized=compares != text_vectors.DOT,
    )


class RecipeTask(classifier.ClassifierTask):
    """A classifier whose head is changed after the last step of its network.

    Attributes:
        temperature: divisor of the logits (Guo et al., 2017), which the head keeps.
    """

    temperature = 1.0

    @property
    def trains_network(self) -> bool:
        """Whether there are steps before the change."""
        return not (self.reading and self.reading.freeze_encoder)

    def network_alone(self, model: Any) -> Any:
        """Within it the head is not trained, if it is not meant to be."""
        return contextlib.nullcontext()

    def change_head(self, model: Any, plan: run_plan.Plan) -> None:
        """Gives the head its last weights."""
        for variable in model.classifier.logits.variables:
            variable.assign(variable / self.temperature)

    def finish(self, model, plan, evaluation, step):
        outcome = super().finish(model, plan, evaluation, step)
        if soft_labels.UNLABELLED in self.splits:
            self._choose_texts(model, plan)
        return outcome

    def _choose_texts(self, model, plan):
        """Writes to_label.csv, with what the model predicts for these texts."""

        def read(features, training):
            vectors = model.pool(features)
            return {**model(features, training=training), "vectors": vectors}

        def pool(features, training):
            return {"vectors": model.pool(features)}

        size, name = plan.predict_batch_size, soft_labels.UNLABELLED
        texts = inference.predictor(plan, read, size)(self.splits[name])
        known = inference.predictor(plan, pool, size)(self.splits["train"])["vectors"]
        scored = self.score(name, texts, size)
        margin = review_tables.margins(
            scored.probabilities,
            has_one_label=self.classes.has_one_label,
            threshold=self.settings.multi_label_threshold,
        )
        places = review_tables.choose(1 - margin, texts["vectors"], known)
        if plan.writes:
            rows = self.data[name]
            table = review_tables.to_label(rows, scored, places, margin)
            path = os.path.join(plan.output_dir, file_names.TO_LABEL)
            path = review_tables.unfilled(path)  # somebody may have filled it meanwhile
            atomic_files.write_text(path, review_tables.text(rows, table))
            line = f"to label next: {path}, {len(places)} of {len(rows)} rows"
            if not self.classes.has_one_label:
                line += "; remove those that you leave empty, which means no label"
            print(line)

    def write_report(self, model, plan, outcome, step, seconds):
        if rows := outcome.rows:
            alone, count = record.answered_alone(rows), len(rows.is_correct)
            if alone:
                print(f"answered alone, by {count} {rows.split} rows:")
                print("\n".join(selective.lines(alone, count)))
            self.more_facts = {**self.more_facts, "alone": alone}
        super().write_report(model, plan, outcome, step, seconds)

    def train(self, model, plan, origin, evaluation):
        """Trains the network, if it is not frozen; the head's change is a step, too."""
        made, last = [], 0
        make_step = self.make_step

        def noting(plan, model, optimizer, *others, **more):
            made.append(optimizer)
            return make_step(plan, model, optimizer, *others, **more)

        if self.trains_network:
            _refuse_more_steps(plan)
            own, last = copy.copy(self), plan.timetable.num_train_steps
            own.make_step = noting
            with self.network_alone(model):
                train = super(RecipeTask, own).train
                step = train(model, plan, origin, evaluation)
            if step > last:  # the head is restored as well
                return step
        saved = checkpoints.RunCheckpoints(
            plan.output_dir,
            google.variables(model),
            made[0] if made else None,
            max_to_keep=plan.max_to_keep,
            writes=plan.writes,
        )
        if not made and (restored := saved.restore()):
            return restored[0]
        if not made:
            print(f"weights: {origin}")
        self.change_head(model, plan)
        saved.save(last + 1, {_CHANGED: 1})
        return last + 1


def _refuse_more_steps(plan):
    """Raises InputError where a run would go on behind the change of its head."""
    for prefix in checkpoints.all_checkpoints(plan.output_dir)[-1:]:
        step, state = checkpoints.step_of(prefix), {}
        with contextlib.suppress(tf.errors.OpError):  # damaged; the one before is read
            state = checkpoints.read_state(f"{prefix}.json")
        is_changed = _CHANGED in state
        if is_changed and step <= plan.timetable.num_train_steps:
            raise errors.InputError(
                f"--output_dir={plan.output_dir} holds a run whose head was changed "
                f"after {step - 1} steps, its last: it cannot go on to "
                f"{plan.timetable.num_train_steps}; choose another directory, or add "
                "--overwrite_output_dir"
            )


class CalibratedTask(RecipeTask):
    """A fine-tuned classifier whose logits are divided as its dev rows need it."""

    trains_network = True  # or a head alone, by steps as well

    def __init__(self, settings, opened, rows, reading, soft=None):
        super().__init__(settings, opened, rows, reading, soft)
        warnings = (*self.more_facts["findings"], _OWN_ROWS)
        self.more_facts = {**self.more_facts, "findings": warnings}

    def change_head(self, model, plan):
        predictor = inference.predictor(plan, model, plan.eval_batch_size)
        logits = predictor(self.splits["dev"])["logits"]
        labels = np.asarray(self.data["dev"].label_ids)
        kind = self.classes.problem_type
        self.temperature = fit_temperature(logits, labels, kind, "the dev rows")
        super().change_head(model, plan)


def fit_temperature(
    logits: np.ndarray, labels: np.ndarray, problem_type: str, rows: str
) -> float:
    """As linear_head.temperature; prints it, and a warning where it is a bound.

    `rows` is what they are called.
    """
    number = linear_head.temperature(logits, labels, problem_type)
    print(f"temperature: {number:.3f}, by {rows}")
    if labels.ndim > 1:
        is_right = (logits > 0) == (labels > 0)
    else:
        is_right = logits.argmax(axis=1) == labels
    reason = ""
    if is_right.all():
        reason = f"{rows} are all right, so any lower one is, too"
    elif number > 0.99 * linear_head.MOST_TEMPERATURE:
        reason = f"{rows} are hardly better predicted than by chance"
    if reason:
        print(
            f"warning: --calibrate: the temperature {number:.3f} is a bound: {reason}; "
            "give more rows, or leave it out"
        )
    return number


class RegressionTask(RecipeTask):
    """A classifier whose linear head is a regression on the vectors of texts.

    Where the network is not frozen, texts of one label are brought near each other
    first (Tunstall et al., 2022, with the loss of Khosla et al., 2020).
    """

    def __init__(self, settings, opened, rows, reading, soft=None):
        super().__init__(settings, opened, rows, reading, soft)
        self._class_weights = rows.class_weights(settings.class_weights)
        scope = contrastive_step.scope()
        self.objective = contrastive.labelled_texts(_SCALE, scope=scope)

    def examples(self, split):
        rows = super().examples(split)
        if split != "train" or not self.trains_network:
            return rows
        values = rows.packed, rows.names, rows.digest, rows.targets
        return text_rows.GroupedExamples(*values, _ROWS_PER_LABEL)

    @staticmethod
    def make_step(plan, model, *others, **more):
        """A step on what the head reads, instead of its logits."""
        vectors = _Vectors(model)
        return contrastive_step.ContrastiveTrainStep(plan, vectors, *others, **more)

    @contextlib.contextmanager
    def network_alone(self, model):
        model.classifier.trainable = False
        yield
        model.classifier.trainable = True

    def change_head(self, model, plan):
        """Gives the head the weights of a regression."""

        def pool(features, training):
            return {"vectors": model.pool(features)}

        vectors = inference.predictor(plan, pool)(self.splits["train"])["vectors"]
        kernel, bias = linear_head.fit(
            vectors,
            np.asarray(self.data["train"].label_ids),
            self.classes.problem_type,
            self.classes.num_outputs,
            self._class_weights,
        )
        logits = model.classifier.logits
        logits.kernel.assign(kernel.T if logits.is_gpt else kernel)
        logits.bias.assign(bias)
        super().change_head(model, plan)


class _Vectors:
    """A classifier as a model of what its head reads, {"vectors": [B, W]}."""

    def __init__(self, model: Any):
        self._model, self.trainable_variables = model, model.trainable_variables

    def __call__(self, features, training=False, seed=None):
        return {"vectors": self._model.pool(features, seed)}
