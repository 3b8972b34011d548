r"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes the flags of google-research/bert, and tables of any form: docs/classification.md.

    python run_classifier.py --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/mine
"""

import functools

from absl import flags

from cli import classifier_flags, command_line, fine_tuning_flags
from data_pipeline import label_maps
from data_pipeline.classification import tables

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    classifier_flags.define()


def check():
    classifier_flags.check()
    local_tables = fine_tuning_flags.local_tables()
    tables.check_columns(local_tables, classifier_flags.layout())


if __name__ == "__main__":  # before the imports that take seconds
    checks = classifier_flags.look, fine_tuning_flags.check_run, check
    command_line.parse(define_flags, *checks)

from cli import classifier_task, networks, run_flags, training_flags
from contract import file_names
from data_pipeline.classification import predictions, soft_labels
from data_pipeline.classification import split as row_splits
from modeling import losses, models, sequences
from modeling.checkpoints import checkpoint, pretrained
from reports import pictures
from serving import export, formats
from training import driver, metrics


def prepare():
    """The task and its settings; ValueError for wrong input."""
    classifier_flags.look()
    strategy = run_flags.set_up()
    classifier_flags.check()
    files, tokenizer, config = networks.open_for_task(FLAGS.max_seq_length)
    classifier_flags.check_network(config, files.config_file, tokenizer.in_graph)
    source = classifier_flags.source()
    classifier_flags.check_kind(source.kind)
    data = row_splits.load(
        source,
        fine_tuning_flags.wanted_splits(),
        tokenizer,
        FLAGS.max_seq_length,
        head=run_flags.find_head(files, config, "classifier"),
        default_metrics=metrics.DEFAULTS,
    )
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, files.config_file)
    data = soft_labels.with_unlabelled(data, source)
    reading = run_flags.reading(files, len(data.encode.text_names))
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=sum(len(data.splits.get(s, ())) for s in soft_labels.TRAINED),
        score_names=(*data.metrics, "loss"),
    )
    soft = classifier_task.open_teacher(data, settings) if FLAGS.teacher else None
    return make_task(config, tokenizer, data, soft, reading), settings


def make_task(config, tokenizer, data, soft, reading):
    """The driver.FineTuningTask of classifying texts."""
    label_set, weights = data.label_set, data.class_weights(FLAGS.class_weights)
    splits = {split: data.examples(split) for split in data.splits}
    objective = losses.classifier(data.problem_type, weights)
    if soft:
        taught = FLAGS.distill_temperature, FLAGS.distill_weight
        splits |= soft.training_examples(*taught)
        objective = losses.distillation(data.problem_type, *taught, weights)
    objective = losses.with_next_tokens(objective, FLAGS.lm_loss_weight)
    label_map = {file_names.LABEL_MAP: label_maps.text(label_set)}
    kind = sequences.choose_kind(data.problem_type, label_set.pair_input)
    formats.check(FLAGS.export_format, config, reading, kind)
    training_flags.check_packing(config.network, reads_plainly=not reading.chosen())
    outputs = classifier_task.Outputs(data, soft)
    return driver.FineTuningTask(
        splits=splits,
        model=functools.partial(
            models.BertClassifier,
            config,
            label_set.num_outputs,
            kind,
            predicts_tokens=FLAGS.lm_loss_weight > 0,
            reading=reading,
            recompute=FLAGS.recompute,
        ),
        load_weights=networks.weights_loader(label_set),
        store=checkpoint.store,
        objective=objective,
        score=outputs.score,
        evaluate=predictions.Scored.eval_results,
        examine=outputs.examine,
        pictures=pictures.summaries,
        show=outputs.show,
        report=outputs.report_hook(tokenizer),
        predict=outputs.predict,
        export=functools.partial(export_model, data, label_map),
        reopen=formats.open_network,
        write_records=functools.partial(write_records, data),
        files=pretrained.files(config, tokenizer) | label_map | reading.files(),
        identity={**label_set.identity, "reading": reading.chosen()},
    )


def write_records(data, output_dir):
    """Writes train.tf_record and so on, with --write_tf_records."""
    if FLAGS.write_tf_records:
        row_splits.write_records(output_dir, data, FLAGS.max_seq_length)


def export_model(data, label_map, model, output_dir):
    """Writes output_dir/export/<n>: raw text in, label and probabilities out."""

    def make(variables):
        return export.TextClassifier(
            data.encode,
            losses.WithProbabilities(data.problem_type, model),
            variables,
            data.label_set.names if data.label_set.has_one_label else (),
            model.config,
        )

    return run_flags.export(model, make, output_dir, label_map)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
