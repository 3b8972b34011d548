"""Classifies texts, pairs of texts, or answers to choose from."""

import dataclasses
import functools
import json
import os
from typing import Any, NamedTuple

import keras
import numpy as np

from contract import atomic_files, errors, file_names, outcomes
from data_pipeline import findings
from data_pipeline.classification import (
    encoding,
    prediction_table,
    predictions,
    soft_labels,
)
from data_pipeline.classification import split as row_splits
from loading import model_directory
from modeling import losses, models, sequences
from modeling.checkpoints import checkpoint, conversion
from modeling.configs import config_limits
from modeling.features import attribution
from serving import classifiers
from tasks import fine_tuning, networks, run_plans
from tasks.settings import long_texts, recipe
from tasks.settings.classifier import ClassifierSettings
from training import checkpoints, inference, metrics, run_plan, tensorboard


def prepare(
    settings: ClassifierSettings,
) -> tuple["ClassifierTask", run_plan.Plan]:
    """The task, and how to do it; InputError for wrong input."""
    if settings.recipe != recipe.FINE_TUNE or settings.calibrate:
        from tasks import recipes  # which has classes below this one

        return recipes.prepare(settings)
    task, plan = make(settings, read(settings))
    if plan.timetable and not settings.teacher:
        num_rows, steps = len(task.splits["train"]), plan.timetable.num_train_steps
        line = recipe.hint(num_rows, steps)
        if line and not task.classes.windows:  # which recipes do not read
            print(line)
    return task, plan


class Rows(NamedTuple):
    """What a run begins with: devices, the network, and the LabelledData."""

    strategy: Any
    opened: model_directory.ModelDirectory
    data: row_splits.LabelledData


def read(settings: ClassifierSettings) -> Rows:
    """Opens the network and reads the rows; InputError for wrong input."""
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, settings.max_seq_length)
    files, tokenizer, config = opened.files, opened.tokenizer, opened.config
    settings.check_network(config, files.config_file)
    rows_source = settings.source()
    settings.check_kind(rows_source.kind)
    head = run_plans.first_head(settings, opened, "classifier")
    if head and not settings.do_train and getattr(head.classes, "windows", None):
        errors.refuse(*long_texts.refusals(settings, f"the model of {head.source}"))
    data = row_splits.load(
        rows_source,
        settings.wanted_splits,
        tokenizer,
        settings.max_seq_length,
        head=head,
        default_metrics=metrics.DEFAULTS,
        num_texts=None if settings.do_train else run_plans.num_texts(settings, opened),
        show=findings.show,
    )
    if len(data.encode.text_names) > 1:
        config_limits.check_segments(config, files.config_file)
    data = soft_labels.with_unlabelled(data, rows_source, findings.show)
    return Rows(strategy, opened, data)


def make(
    settings: ClassifierSettings, rows: Rows, kind: Any = None, **reading: Any
) -> tuple[Any, run_plan.Plan]:
    """The task, of ClassifierTask or a class below it, and how to do it.

    `reading` are values of the HeadConfig that no flag has.
    """
    strategy, opened, data = rows
    files, num_texts = opened.files, len(data.encode.text_names)
    chosen = run_plans.reading(settings, files, num_texts)
    chosen = dataclasses.replace(chosen, **reading)
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=sum(
            len(data.splits.get(s, ()))
            for s in (soft_labels.TRAINED if settings.teacher else ["train"])
        ),
        score_names=(*data.metrics, "loss"),
    )
    soft = open_teacher(settings, data, plan) if settings.teacher else None
    make_task = kind or ClassifierTask
    return make_task(settings, opened, data, chosen, soft), plan


def open_teacher(settings: ClassifierSettings, data, plan):
    """The labels that the outputs of --teacher give the rows."""
    teacher, length = networks.open_named(
        settings, "teacher", None, settings.max_seq_length
    )
    config = teacher.config
    if len(data.encode.text_names) > 1:
        config_limits.check_segments(config, teacher.files.config_file)
    if (head := teacher.stored_head("classifier")) is None:
        raise errors.InputError(
            f"--teacher={settings.teacher}: has no head of a classifier; give the "
            "--output_dir of a run"
        )
    columns = soft_labels.order_classes(
        str(settings.teacher), head.classes, data.label_set
    )
    keras.config.set_dtype_policy(plan.dtype_policy)  # as run.start does
    with plan.strategy.scope():
        built = teacher.read("classifier")
    model: Any = built.model
    theirs: Any = None
    checkpoint.check_trained(model, built.report, "give the --output_dir of a run")
    predict, digest = inference.predictor(plan, model), conversion.digest(model)
    if windows := getattr(head.classes, "windows", None):  # of its own length
        length, theirs = teacher.run.flags.get("max_seq_length", length), head.classes
        digest += f" {windows.typed()} of {length}"
    encode = encoding.Encoder(teacher.tokenizer, length, theirs)
    return soft_labels.SoftLabels(data, encode, predict, digest, columns)


class ClassifierTask(fine_tuning.FineTuningTask):
    """Classifies texts, pairs of texts, or answers to choose from.

    Args:
        rows: the LabelledData of the run.
        soft: the SoftLabels of a teacher, or None.
    """

    def __init__(self, settings, opened, rows, reading, soft=None):
        label_set = rows.label_set
        self._sequences = sequences.choose_kind(
            rows.problem_type, label_set.pair_input, label_set.window_logits
        )
        super().__init__(
            settings,
            opened,
            rows.splits,
            classes=label_set,
            reading=reading,
            sequences=self._sequences,
            identity={
                **label_set.identity,
                "num_texts": len(rows.encode.text_names),
            },
        )
        self.kind = rows.encode.task
        self.more_facts = {
            "text_names": rows.encode.text_names,
            "findings": rows.findings,
        }
        self._rows, self._soft = rows, soft
        weights = rows.class_weights(settings.class_weights)
        smoothing = settings.label_smoothing
        objective = losses.classifier(rows.problem_type, weights, smoothing)
        if soft:
            taught = settings.distill_temperature, settings.distill_weight
            self.splits |= soft.training_examples(*taught)
            objective = losses.distillation(rows.problem_type, *taught, weights)
        self.objective = losses.with_next_tokens(objective, settings.lm_loss_weight)

    def make_model(self):
        return models.BertClassifier(
            self.config,
            self.classes.num_outputs,
            self._sequences,
            predicts_tokens=self.settings.lm_loss_weight > 0,
            reading=self.reading,
            recompute=self.settings.recompute,
        )

    def score(self, split, outputs, batch_size):
        """Probabilities, decisions and, where labels are known, scores of a split."""
        problem_type, logits = self.classes.problem_type, outputs["logits"]
        label_ids = self.data[split].label_ids
        lines = self.data[split].table.lines
        probabilities, decisions = self._decide(logits, lines)
        if problem_type == "regression":
            logits = probabilities  # of a CrossEncoder not the same
        scores, each = {}, None
        if label_ids is not None:
            each = losses.classifier_losses(problem_type, logits, label_ids)
            each = np.asarray(each).reshape(len(label_ids), -1).mean(axis=1)
            scores = self._compute(label_ids, decisions)
            scores["loss"] = each.mean()
            if self._soft and split == "dev":
                theirs, temperature = (
                    self._soft.logits(split),
                    self.settings.distill_temperature,
                )
                soft = losses.soft_losses(problem_type, logits, theirs, temperature)
                scores |= {"label_loss": each.mean(), "soft_loss": np.mean(soft)}
            scores["batch_loss"] = metrics.mean_loss(each, batch_size)
        return outcomes.Scored(
            predictions=decisions,
            probabilities=probabilities,
            scores=scores,
            losses=each,
        )

    def _decide(self, logits, lines=()):
        """Probabilities [B, C], and the labels that they decide on.

        `lines` are those of the rows, if they are whole splits.
        """
        shares = np.asarray(losses.probabilities(self.classes.shares_as, logits))
        threshold = self.settings.multi_label_threshold
        how = threshold, lines, np.asarray(logits)
        return shares, predictions.decide(self.classes, shares, *how)

    def _compute(self, *label_ids):
        asked = self._rows.asked
        if self.classes.has_one_label:  # F1 is of the second name that was asked for
            places = np.array([asked.index(name) for name in self.classes.names])
            label_ids = tuple(places[ids] for ids in label_ids)
        return metrics.compute(self._rows.metrics, *label_ids)

    def results(self, scored):
        results = scored.results("eval")
        # What an Estimator calls so.
        results["loss"] = results.pop("eval_batch_loss")
        return results

    def outcomes(self, split, scored):
        return predictions.outcomes(split, self.data[split], scored, self._compute)

    def explain(self, model, rows, plan):
        """Explanations of --explain rows, also in explanations.jsonl.

        Of evaluated rows the wrong ones come first, the worst before the others; of
        rows without labels, the first of "test". All processes take part, one writes.
        """
        if not self.settings.explain:
            return []
        split = rows.split if rows is not None else "test"
        chosen = np.arange(min(self.settings.explain, len(self.data[split])))
        if rows is not None:
            order = np.lexsort((-np.asarray(rows.losses), np.asarray(rows.is_correct)))
            chosen = order[: self.settings.explain]
        ascending = np.sort(chosen)
        weigh = functools.partial(attribution.token_weights, model)
        predictor = inference.predictor(plan, weigh, plan.eval_batch_size)
        outputs = predictor.rows(self.examples(split), ascending)
        places = np.searchsorted(ascending, chosen)
        outputs = {name: value[places] for name, value in outputs.items()}
        vocab, decide = self.tokenizer.vocab, self._decide
        explanations = predictions.explain_rows(
            self._rows, vocab, decide, split, chosen, outputs
        )
        if plan.writes:
            path = os.path.join(plan.output_dir, file_names.EXPLANATIONS)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in explanations)
            atomic_files.write({path: lines})
            print(f"explanations: {path}")
        return explanations

    def show(self, model, scored, plan):
        """Writes the vectors that the head reads, where a setting asks for it."""
        if not self.settings.write_projector:
            return
        pooled = inference.predictor(
            plan,
            lambda features, training: {"vectors": model.pool(features)},
            plan.eval_batch_size,
        )
        columns = functools.partial(predictions.columns, self.data["dev"], scored)
        tensorboard.write_projector(
            pooled,
            self.examples("dev"),
            columns,
            plan.output_dir,
            writes=plan.writes,
        )

    def predict(self, scored, plan, step):
        """Writes the predictions, also as a site takes them; returns scores."""
        if plan.writes:
            rows, name = self.data["test"], self._rows.submission
            others = dict(prediction_table.files(rows, scored))
            if name:
                others[name] = predictions.submission_lines(name, rows, scored)
            predictions.write(
                plan.output_dir,
                rows,
                scored,
                writes_labels=not checkpoints.all_checkpoints(plan.output_dir),
                others=others,
            )
        return scored.results("test")

    def write_records(self, directory):
        """Writes train.tf_record and so on, with --write_tf_records; not of windows."""
        if self.settings.write_tf_records and not self.classes.windows:
            row_splits.write_records(
                directory, self._rows, self.settings.max_seq_length
            )

    def served(self, model, variables):
        """Raw text in, label and probabilities out."""
        return classifiers.served(self._rows.encode, self.classes, model, variables)

    def open_export(self, path):
        """As FineTuningTask's, for examples of several windows."""
        network = super().open_export(path)
        if network is None or not self.classes.windows:
            return network
        return sequences.joining(network, self._sequences)


def run(settings: ClassifierSettings) -> None:
    """What run_classifier.py does."""
    run_plans.fine_tune(prepare, settings)
