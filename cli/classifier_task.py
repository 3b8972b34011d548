"""Teachers, scores, predictions and reports of run_classifier.py."""

import functools

import keras
import numpy as np
from absl import flags

from data_pipeline.classification import (
    encoding,
    predictions,
    soft_labels,
    submissions,
)
from modeling import losses
from modeling.checkpoints import conversion, pretrained
from modeling.features import attribution
from reports import run_report
from training import checkpoints, facts, loading, metrics, tensorboard

FLAGS = flags.FLAGS


def open_teacher(data, settings):
    """The labels that the outputs of --teacher give the rows."""
    files, length = pretrained.locate(FLAGS.teacher, "--teacher"), FLAGS.max_seq_length
    _, tokenizer, config = loading.open_network(
        files._replace(
            check_tokenizer=FLAGS.check_tokenizer, check_case=FLAGS.check_case
        ),
        length,
    )
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, files.config_file)
    keras.config.set_dtype_policy(settings.run.dtype_policy)  # as run.start does
    with settings.run.strategy.scope():
        model = conversion.read_teacher(files.init_checkpoint, config)
    stored = files.init_checkpoint, config, "classifier", model.num_classes
    classes = loading.read_head(*stored).classes
    columns = soft_labels.order_classes(FLAGS.teacher, classes, data.label_set)
    predict = settings.predictor(model)
    digest, encode = conversion.digest(model), encoding.Encoder(tokenizer, length)
    return soft_labels.SoftLabels(data, encode, predict, digest, columns)


class Outputs:
    """Scores, predictions and reports from the outputs of a classifier.

    Args:
        data: the LabelledData of the run.
        soft: the SoftLabels of a teacher, or None.
    """

    def __init__(self, data, soft=None):
        self._data = data
        self._soft = soft

    def score(self, split, outputs, batch_size):
        """Probabilities, decisions and, where labels are known, scores of a split."""
        data, logits = self._data, outputs["logits"]
        label_ids = data.splits[split].label_ids
        lines = data.splits[split].table.lines
        probabilities, decisions = self.decide(logits, lines)
        scores, each = {}, None
        if label_ids is not None:
            each = losses.classifier_losses(data.problem_type, logits, label_ids)
            each = np.asarray(each).reshape(len(label_ids), -1).mean(axis=1)
            scores = self._compute(label_ids, decisions)
            scores["loss"] = each.mean()
            if self._soft and split == "dev":
                soft = losses.soft_losses(
                    data.problem_type,
                    logits,
                    self._soft.logits(split),
                    FLAGS.distill_temperature,
                )
                scores |= {"label_loss": each.mean(), "soft_loss": np.mean(soft)}
            scores["batch_loss"] = metrics.mean_loss(each, batch_size)
        return predictions.Scored(probabilities, decisions, scores, each)

    def decide(self, logits, lines=()):
        """Probabilities [B, C], and the labels that they decide on.

        `lines` are those of the rows, if they are whole splits.
        """
        data = self._data
        probabilities = np.asarray(losses.probabilities(data.problem_type, logits))
        threshold = FLAGS.multi_label_threshold
        return probabilities, predictions.decide(
            data.label_set, probabilities, threshold, lines
        )

    def examine(self, split, scored):
        """The outcomes of labelled rows, for reports and pictures."""
        rows = self._data.splits[split]
        return predictions.outcomes(split, rows, scored, self._compute)

    def _compute(self, *label_ids):
        label_set, asked = self._data.label_set, self._data.asked
        if label_set.has_one_label:  # F1 is of the second name that was asked for
            places = np.array([asked.index(name) for name in label_set.names])
            label_ids = tuple(places[ids] for ids in label_ids)
        return metrics.compute(self._data.metrics, *label_ids)

    def report_hook(self, tokenizer):
        """A driver.FineTuningTask's `report`, with explanations where a flag is set."""
        data = self._data
        words = functools.partial(
            predictions.explain_rows, data, tokenizer.vocab, self.decide
        )

        def explain(model, rows, settings):
            weigh = settings.predictor(
                functools.partial(attribution.token_weights, model),
                settings.eval_batch_size,
            )
            return facts.explain_rows(
                weigh, rows, data.examples, words, FLAGS.explain, settings.run
            )

        return facts.report_hook(
            run_report,
            data.encode.task,
            lambda: {split: rows.summary() for split, rows in data.splits.items()},
            explain=explain if FLAGS.explain else None,
            text_names=data.encode.text_names,
        )

    def show(self, model, scored, settings):
        """Writes the vectors that the head reads, where a flag is set."""
        if not FLAGS.write_projector:
            return
        data = self._data
        pooled = settings.predictor(
            lambda features, training: {"vectors": model.pool(features)},
            settings.eval_batch_size,
        )
        columns = functools.partial(predictions.columns, data.splits["dev"], scored)
        tensorboard.write_projector(
            pooled,
            data.examples("dev"),
            columns,
            settings.run.output_dir,
            writes=settings.run.writes,
        )

    def predict(self, scored, settings, _):
        """Writes the predictions, also as a site takes them; returns scores."""
        if settings.writes:
            rows, submission = self._data.splits["test"], self._data.submission
            predictions.write(
                settings.output_dir,
                rows,
                scored,
                writes_labels=not checkpoints.all_checkpoints(settings.output_dir),
                others={submission: submissions.lines(submission, rows, scored)}
                if submission
                else {},
            )
        return scored.results("test")
