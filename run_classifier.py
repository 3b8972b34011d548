r"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes the flags of google-research/bert, and tables of any form: docs/classification.md.

    python run_classifier.py --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/mine
"""

import functools
import json
import os

from absl import flags

from cli import classifier_flags, command_line, fine_tuning_flags
from data_pipeline.classification import tables

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    classifier_flags.define()


def check():
    classifier_flags.look()
    fine_tuning_flags.check_run()
    classifier_flags.check()
    local_tables = fine_tuning_flags.local_tables()
    tables.check_columns(local_tables, classifier_flags.layout())


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, check)

import keras
import numpy as np

from cli import fine_tuning, networks, run_flags
from contract import atomic_files, errors, file_names
from data_pipeline.classification import encoding, predictions, soft_labels
from data_pipeline.classification import split as row_splits
from modeling import losses, models, sequences
from modeling.checkpoints import conversion, pretrained
from modeling.features import attribution
from serving import export, formats
from training import checkpoints, metrics, tensorboard


def prepare():
    """The task and its settings; ValueError for wrong input."""
    check()
    strategy = run_flags.set_up()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    files, tokenizer, config = opened.files, opened.tokenizer, opened.config
    classifier_flags.check_network(config, files.config_file, tokenizer.in_graph)
    source = classifier_flags.source()
    classifier_flags.check_kind(source.kind)
    data = row_splits.load(
        source,
        fine_tuning_flags.wanted_splits(),
        tokenizer,
        FLAGS.max_seq_length,
        head=run_flags.find_head(opened, "classifier"),
        default_metrics=metrics.DEFAULTS,
    )
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, files.config_file)
    data = soft_labels.with_unlabelled(data, source)
    reading = run_flags.reading(files, len(data.encode.text_names))
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=sum(len(data.splits.get(s, ())) for s in soft_labels.TRAINED),
        score_names=(*data.metrics, "loss"),
    )
    soft = open_teacher(data, settings) if FLAGS.teacher else None
    return ClassifierTask(opened, data, reading, soft), settings


def open_teacher(data, settings):
    """The labels that the outputs of --teacher give the rows."""
    teacher, length = networks.open_named("teacher", None, FLAGS.max_seq_length)
    config = teacher.config
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, teacher.files.config_file)
    if (head := teacher.find_head("classifier")) is None:
        raise errors.InputError(
            f"--teacher={FLAGS.teacher}: has no head of a classifier; give the "
            "--output_dir of a run"
        )
    columns = soft_labels.order_classes(FLAGS.teacher, head.classes, data.label_set)
    keras.config.set_dtype_policy(settings.run.dtype_policy)  # as run.start does
    with settings.run.strategy.scope():
        model = conversion.read(
            teacher.path, config, "classifier", teacher.weights
        ).model
    predict, digest = settings.predictor(model), conversion.digest(model)
    encode = encoding.Encoder(teacher.tokenizer, length)
    return soft_labels.SoftLabels(data, encode, predict, digest, columns)


class ClassifierTask(fine_tuning.ScriptTask):
    """Classifies texts, pairs of texts, or answers to choose from.

    Args:
        rows: the LabelledData of the run.
        soft: the SoftLabels of a teacher, or None.
    """

    def __init__(self, opened, rows, reading, soft=None):
        label_set = rows.label_set
        super().__init__(
            opened,
            rows.splits,
            classes=label_set,
            reading=reading,
            identity=label_set.identity,
        )
        self.kind = rows.encode.task
        self.more_facts = {"text_names": rows.encode.text_names}
        self._rows, self._soft = rows, soft
        weights = rows.class_weights(FLAGS.class_weights)
        objective = losses.classifier(rows.problem_type, weights)
        if soft:
            taught = FLAGS.distill_temperature, FLAGS.distill_weight
            self.splits |= soft.training_examples(*taught)
            objective = losses.distillation(rows.problem_type, *taught, weights)
        self.objective = losses.with_next_tokens(objective, FLAGS.lm_loss_weight)
        self._sequences = sequences.choose_kind(rows.problem_type, label_set.pair_input)
        formats.check(FLAGS.export_format, opened.config, reading, self._sequences)

    def make_model(self):
        return models.BertClassifier(
            self.config,
            self.classes.num_outputs,
            self._sequences,
            predicts_tokens=FLAGS.lm_loss_weight > 0,
            reading=self.reading,
            recompute=FLAGS.recompute,
        )

    def score(self, split, outputs, batch_size):
        """Probabilities, decisions and, where labels are known, scores of a split."""
        problem_type, logits = self.classes.problem_type, outputs["logits"]
        label_ids = self.data[split].label_ids
        probabilities, decisions = self._decide(logits)
        scores, each = {}, None
        if label_ids is not None:
            each = losses.classifier_losses(problem_type, logits, label_ids)
            each = np.asarray(each).reshape(len(label_ids), -1).mean(axis=1)
            scores = self._compute(label_ids, decisions)
            scores["loss"] = each.mean()
            if self._soft and split == "dev":
                theirs, heat = self._soft.logits(split), FLAGS.distill_temperature
                soft = losses.soft_losses(problem_type, logits, theirs, heat)
                scores |= {"label_loss": each.mean(), "soft_loss": np.mean(soft)}
            scores["batch_loss"] = metrics.mean_loss(each, batch_size)
        return predictions.Scored(probabilities, decisions, scores, each)

    def _decide(self, logits):
        """Probabilities [B, C], and the labels that they decide on."""
        shares = np.asarray(losses.probabilities(self.classes.problem_type, logits))
        threshold = FLAGS.multi_label_threshold
        return shares, predictions.decide(self.classes, shares, threshold)

    def _compute(self, *label_ids):
        asked = self._rows.asked
        if self.classes.has_one_label:  # F1 is of the second name that was asked for
            places = np.array([asked.index(name) for name in self.classes.names])
            label_ids = tuple(places[ids] for ids in label_ids)
        return metrics.compute(self._rows.metrics, *label_ids)

    def results(self, scored):
        return scored.eval_results()

    def outcomes(self, split, scored):
        return predictions.outcomes(split, self.data[split], scored, self._compute)

    def explain(self, model, rows, settings):
        """Explanations of --explain rows, also in explanations.jsonl.

        Of evaluated rows the wrong ones come first, the worst before the others; of
        rows without labels, the first of "test". All processes take part, one writes.
        """
        if not FLAGS.explain:
            return []
        split = rows.split if rows is not None else "test"
        chosen = np.arange(min(FLAGS.explain, len(self.data[split])))
        if rows is not None:
            order = np.lexsort((-np.asarray(rows.losses), np.asarray(rows.is_correct)))
            chosen = order[: FLAGS.explain]
        ascending = np.sort(chosen)
        weigh = functools.partial(attribution.token_weights, model)
        predictor = settings.predictor(weigh, settings.eval_batch_size)
        outputs = predictor.rows(self.examples(split), ascending)
        places = np.searchsorted(ascending, chosen)
        outputs = {name: value[places] for name, value in outputs.items()}
        vocab, decide = self.tokenizer.vocab, self._decide
        explanations = predictions.explain_rows(
            self._rows, vocab, decide, split, chosen, outputs
        )
        if settings.run.writes:
            path = os.path.join(settings.run.output_dir, file_names.EXPLANATIONS)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in explanations)
            atomic_files.write({path: lines})
            print(f"explanations: {path}")
        return explanations

    def show(self, model, scored, settings):
        """Writes the vectors that the head reads, where a flag is set."""
        if not FLAGS.write_projector:
            return
        pooled = settings.predictor(
            lambda features, training: {"vectors": model.pool(features)},
            settings.eval_batch_size,
        )
        columns = functools.partial(predictions.columns, self.data["dev"], scored)
        tensorboard.write_projector(
            pooled,
            self.examples("dev"),
            columns,
            settings.run.output_dir,
            writes=settings.run.writes,
        )

    def predict(self, scored, current, step):
        """Writes test_results.tsv and test_predictions.jsonl; returns scores."""
        if current.writes:
            predictions.write(
                current.output_dir,
                self.data["test"],
                scored,
                writes_labels=not checkpoints.all_checkpoints(current.output_dir),
            )
        return scored.results("test")

    def write_records(self, directory):
        """Writes train.tf_record and so on, with --write_tf_records."""
        if FLAGS.write_tf_records:
            row_splits.write_records(directory, self._rows, FLAGS.max_seq_length)

    def served(self, model, variables):
        """Raw text in, label and probabilities out."""
        return export.TextClassifier(
            self._rows.encode,
            losses.WithProbabilities(self.classes.problem_type, model),
            variables,
            self.classes.names if self.classes.has_one_label else (),
            model.config,
        )


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
