r"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes the flags of google-research/bert, and tables of any form: docs/classification.md.

    python run_classifier.py --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/mine
"""

import functools

from absl import flags

from cli import classifier_flags, command_line, fine_tuning_flags, model_flags
from data_pipeline.classification import tables

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    classifier_flags.define()


def check():
    classifier_flags.check()
    layout = tables.Layout(**classifier_flags.layout())
    tables.check_columns(fine_tuning_flags.local_tables(), layout)


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run, check)

import keras
import numpy as np

from cli import run_flags
from contract import file_names
from data_pipeline import label_maps
from data_pipeline.classification import (
    encoding,
    explanations,
    labels,
    predictions,
    soft_labels,
    sources,
)
from data_pipeline.classification import split as row_splits
from data_pipeline.text import opening
from modeling import kernels_tf, losses, models, sequences
from modeling.checkpoints import checkpoint, conversion, hugging_face, pretrained
from modeling.features import attribution, head_config
from reports import pictures, run_report
from serving import export, formats
from training import checkpoints, fine_tuning
from training.results import evaluation, explaining, metrics, projector, run_facts


def prepare():
    """The task and its settings; a ValueError says what is wrong with the input."""
    strategy = run_flags.set_up()
    classifier_flags.check()
    files = model_flags.files(pretrained.locate)
    tokenizer = opening.open_for_tasks(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, FLAGS.max_seq_length)
    classifier_flags.check_network(config, files.config_file, tokenizer.in_graph)
    layout = tables.Layout(**classifier_flags.layout())
    source = sources.Source(layout=layout, **classifier_flags.source())
    classifier_flags.check_kind(source.kind)
    data = row_splits.load(
        source,
        fine_tuning_flags.wanted_splits(),
        tokenizer,
        FLAGS.max_seq_length,
        label_map=label_maps.find(run_flags.trained_weights(files)),
        default_metrics=metrics.DEFAULTS,
    )
    data = soft_labels.with_unlabelled(data, source)
    reading = run_flags.reading(head_config.choose, files, len(data.encode.text_names))
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=sum(len(data.splits.get(s, ())) for s in soft_labels.TRAINED),
        score_names=(*data.metrics, "loss"),
    )
    soft = open_teacher(data, settings) if FLAGS.teacher else None
    return make_task(config, tokenizer, data, soft, reading), settings


def open_teacher(data, settings):
    """What --teacher says of the rows, a soft_labels.SoftLabels."""
    found = pretrained.locate(FLAGS.teacher, "--teacher")
    files, length = model_flags.files_found(found), FLAGS.max_seq_length
    tokenizer = opening.open_for_tasks(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, length)
    keras.config.set_dtype_policy(settings.run.dtype_policy)  # as run.start does
    with settings.run.strategy.scope():
        model = conversion.read_teacher(found.checkpoint, config)
    stated = functools.partial(hugging_face.read_labels, config, model.num_classes)
    label_map = label_maps.find(found.checkpoint)
    classes = label_maps.read_classes(
        label_map, "classifier", model.num_classes, stated
    )
    soft_labels.check_classes(FLAGS.teacher, classes, data.label_set)
    predict = fine_tuning.predictor(model, settings)
    digest, encode = conversion.digest(model), encoding.Encoder(tokenizer, length)
    return soft_labels.SoftLabels(data, encode, predict, digest)


def make_task(config, tokenizer, data, soft, reading):
    """The fine_tuning.Task of classifying texts."""
    label_set, weights = data.label_set, data.class_weights(FLAGS.class_weights)
    splits = {split: data.examples(split) for split in data.splits}
    objective = losses.classifier(data.problem_type, weights)
    if soft:
        taught = FLAGS.distill_temperature, FLAGS.distill_weight
        splits |= soft.training_examples(*taught)
        objective = losses.distillation(data.problem_type, *taught, weights)
    objective = losses.with_next_tokens(objective, FLAGS.lm_loss_weight)
    label_map = {file_names.LABEL_MAP: labels.label_map_text(label_set)}
    lstms = head_config.name_lstms(config, reading)
    return fine_tuning.Task(
        splits=splits,
        model=functools.partial(
            models.BertClassifier,
            *(config, label_set.num_outputs),
            sequences.choose_kind(data.problem_type, label_set.pair_input),
            predicts_tokens=FLAGS.lm_loss_weight > 0,
            reading=reading,
            recompute=FLAGS.recompute,
        ),
        load_weights=model_flags.weights_loader(pretrained.load_weights),
        store=checkpoint.store,
        objective=objective,
        score=functools.partial(score, data, soft),
        evaluate=predictions.Scored.eval_results,
        examine=functools.partial(examine, data),
        pictures=pictures.summaries,
        show=functools.partial(show, data),
        report=report_hook(tokenizer, data),
        predict=functools.partial(predict, data),
        export=functools.partial(export_model, data, label_map),
        reopen=formats.network_opener(FLAGS.export_format, lstms),
        write_records=classifier_flags.records_writer(row_splits.write_records, data),
        files=pretrained.files(config, tokenizer) | label_map | reading.files(),
        identity={**label_set.identity, "reading": reading.chosen()},
    )


def score(data, soft, split, outputs, batch_size):
    """Probabilities, decisions and, where labels are known, scores of a split."""
    logits, label_ids = outputs["logits"], data.splits[split].label_ids
    probabilities, decisions = decide(data, logits)
    scores, each = {}, None
    if label_ids is not None:
        each = losses.classifier_losses(data.problem_type, logits, label_ids)
        each = np.asarray(each).reshape(len(label_ids), -1).mean(axis=1)
        scores = metrics.compute(data.metrics, label_ids, decisions)
        scores["loss"] = each.mean()
        if soft and split == "dev":
            told = logits, soft.logits(split), FLAGS.distill_temperature
            further = losses.soft_losses(data.problem_type, *told)
            scores |= {"label_loss": each.mean(), "soft_loss": np.mean(further)}
        scores["batch_loss"] = evaluation.mean_loss(each, batch_size)
    return predictions.Scored(probabilities, decisions, scores, each)


def decide(data, logits):
    """Probabilities and what they decide."""
    probabilities = np.asarray(losses.probabilities(data.problem_type, logits))
    threshold = FLAGS.multi_label_threshold
    return probabilities, predictions.decide(data.label_set, probabilities, threshold)


def examine(data, split, scored):
    """What reports/ shows of labelled rows."""
    compute = functools.partial(metrics.compute, data.metrics)
    return predictions.outcomes(split, data.splits[split], scored, compute)


def report_hook(tokenizer, data):
    """What writes the report of a run, with explanations if asked to."""
    told = data, tokenizer.vocab, functools.partial(decide, data)
    words = functools.partial(explanations.explain_rows, *told)

    def explain(model, rows, settings):
        weigh = functools.partial(attribution.token_weights, model)
        weigh = fine_tuning.compiled(weigh, settings)
        rest = words, FLAGS.explain, settings
        return explaining.explain(weigh, rows, data.examples, *rest)

    return run_facts.hook(
        *(run_report, data.encode.task),
        lambda: {split: rows.summary() for split, rows in data.splits.items()},
        explain=explain if FLAGS.explain else None,
        text_names=data.encode.text_names,
    )


def show(data, model, scored, settings):
    """Writes the vectors that the head reads, with labels and texts, if asked to."""
    if FLAGS.write_projector:
        pooled = fine_tuning.compiled(
            lambda features, training: {"vectors": model.pool(features)}, settings
        )
        columns = functools.partial(predictions.columns, data.splits["dev"], scored)
        projector.write(pooled, data.examples("dev"), columns, settings)


def predict(data, scored, settings, _):
    """Writes test_results.tsv and test_predictions.jsonl; returns scores, if any."""
    if settings.writes:
        predictions.write(
            *(settings.output_dir, data.splits["test"], scored),
            writes_labels=not checkpoints.all_checkpoints(settings.output_dir),
        )
    return scored.results("test")


def export_model(data, label_map, model, output_dir):
    """Writes output_dir/export/<n>: raw text in, label and probabilities out."""
    with kernels_tf.joined_projections(model) as variables:
        module = export.TextClassifier(
            data.encode.served,
            losses.with_probabilities(data.problem_type, model),
            variables,
            data.label_set.names if data.label_set.has_one_label else (),
            data.encode.text_names,
            data.encode.ids_shape,
            model.config,
        )
        chosen = fine_tuning_flags.export_settings()
        return formats.save(module, output_dir, label_map, **chosen)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
