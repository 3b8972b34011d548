r"""Pretrains BERT on masked words and next sentences, evaluates and exports it.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

import functools
import os
import time

from absl import flags

from training.flags import (
    command_line,
    device_flags,
    model_flags,
    pretraining_flags,
    training_flags,
)

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_export")


def define_flags():
    model_flags.define(max_seq_length=128)
    training_flags.define()
    training_flags.define_actions(*ACTIONS)
    training_flags.define_report()
    device_flags.define()
    pretraining_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import keras

from contract import file_names
from data_pipeline.extraction import embedding_graph
from data_pipeline.pretraining import cloze_graph, cloze_table, masking, record_sets
from data_pipeline.text import vocabulary_checks
from modeling import losses, models
from modeling.checkpoints import checkpoint, pretrained
from modeling.inspection import vectors
from modeling.operations import joined_weights
from reports import run_report
from serving import export
from serving import pretrained as served
from training import errors, run, run_directory, steps
from training.distribution import devices
from training.flags import run_flags
from training.results import evaluation, run_facts


def prepare():
    """Settings, config, tokenizer, records, if any, and the kind of model."""
    strategy = run_flags.set_up(*ACTIONS)
    pretraining_flags.check_export()
    files = model_flags.files(pretrained.locate, needs_vocab=FLAGS.do_export)
    tokenizer, vocab_size = None, None
    if files.vocab_file:
        tokenizer = vocabulary_checks.open_tokenizer(
            files, checks_case=FLAGS.check_case
        )
        vocab_size = tokenizer.vocab_size
    config = pretrained.open_config(files, vocab_size, FLAGS.max_seq_length)
    if FLAGS.do_export:
        vectors.choose(config, **model_flags.vector_choice())
    data, kind = None, models.BertPretrainer
    if FLAGS.do_train or FLAGS.do_eval:
        data = load_records(config, tokenizer)
    elif not pretrained.fills_masks(config, run_flags.trained_weights(files)):
        kind = models.BertModel
    if FLAGS.do_export and kind is models.BertPretrainer:
        cloze_graph.check(tokenizer, FLAGS.top_k)
    settings = run_flags.run_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
    )
    return settings, config, tokenizer, data, kind


def load_records(config, tokenizer):
    """The records of the flags."""
    return record_sets.load(
        pretraining_flags.files(),
        tokenizer,
        masking.Rule(**pretraining_flags.masking_rule()),
        max_seq_length=FLAGS.max_seq_length,
        vocab_size=config.vocab_size,
        spare_rows=pretrained.SPARE_ROWS,
        masks_are_asked_for=pretraining_flags.masks_are_asked_for(),
    )


def evaluator(settings, model, objective, tokenizer, data):
    """A function that returns scores of the current weights, and a text to show."""
    strategy, compiled = settings.strategy, settings.jit_compile
    evaluate_batch = steps.evaluate_function(
        model, objective, strategy, jit_compile=compiled
    )
    predict = steps.predict_function(
        functools.partial(best_words, model), strategy, jit_compile=compiled
    )
    size = devices.fitting_batch_size(FLAGS.eval_batch_size, strategy)

    def evaluate():
        batches = functools.partial(data.evaluation_batches, size, FLAGS.max_eval_steps)
        scores = evaluation.objective_scores(
            evaluate_batch, batches, FLAGS.max_eval_steps, strategy
        )
        if tokenizer is None:
            return scores
        features, words = evaluation.first_batch(predict, batches, strategy)
        text = cloze_table.table(features, words, tokenizer.vocab)
        return {**scores, "fill_in_the_blank": text}

    return evaluation.Remembered(evaluate)


def best_words(model, features, training):
    """The likeliest tokens at each masked position, and their probabilities."""
    logits = model(features, training=training)["masked_lm_logits"]
    shares, ids = keras.ops.top_k(keras.ops.softmax(logits), cloze_table.SHOWN)
    return {"ids": ids, "probabilities": shares}


def train(settings, model, origin, objective, evaluate, data):
    """Trains to --num_train_steps; returns the step it reached."""
    order = settings.batch_size, settings.seed

    return run.train(
        settings,
        run.Training(
            model=model,
            store=checkpoint.store(model),
            origin=origin,
            objective=objective,
            batches_from=lambda step: functools.partial(
                data.training_batches, *order, step, FLAGS.num_train_steps
            ),
            evaluate=evaluate,
            keep=evaluate.keep,
            names=lambda step: data.batch_names(*order, step),
        ),
    )


def report(settings, evaluate, global_step):
    """Evaluates, writes eval_results.txt, prints and returns its lines."""
    scores = evaluate.at(global_step)
    results = {k: v for k, v in scores.items() if not isinstance(v, str)}
    results["global_step"] = global_step
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    run_directory.record(settings, global_step, scores, results)
    if settings.writes:
        print(f"evaluation: {settings.output_dir}/{file_names.EVAL_RESULTS}")
    return results


def write_report(settings, model, data, global_step, results, started):
    """Writes the report of a run."""
    ended = global_step, results, time.monotonic() - started
    facts = run_facts.of_run(settings, model, "fill-mask", data.summary(), *ended)
    with errors.of_writing():
        run_report.write(
            *(None, settings.output_dir),
            explanations=[],
            defaults=command_line.defaults(),
            **facts,
        )


def identify(data):
    """What of the records must match to resume a run."""
    return {"data": data.digest(), **pretraining_flags.masking_identity(data.mask)}


def export_model(model, tokenizer, output_dir):
    """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
    length, filler = FLAGS.max_seq_length, None
    if isinstance(model, models.BertPretrainer):
        filler = served.MaskFiller(
            cloze_graph.encoder(tokenizer, length, FLAGS.max_predictions_per_seq),
            functools.partial(model, training=False),
            cloze_graph.chooser(tokenizer.vocab, FLAGS.top_k),
        )
    else:
        print("export: without fill_mask, for the weights have no head of masked words")
    choice = vectors.choose(model.config, **model_flags.vector_choice())
    with joined_weights.joined(model) as variables:
        module = served.PretrainedModel(
            embedding_graph.encoder(tokenizer, length),
            functools.partial(vectors.of_features, model, choice),
            embedding_graph.speller(tokenizer.vocab),
            variables,
            filler,
        )
        export_dir = os.path.join(output_dir, "export")
        return export.save(module, export_dir, {}, FLAGS.export_server_config)


def run_once(settings, config, tokenizer, data, kind):
    """Trains, evaluates and exports, as the flags say."""
    started = time.monotonic()
    load = functools.partial(
        pretrained.load_weights, allows_missing=FLAGS.allow_missing_weights
    )
    model, origin, global_step = run.start(
        settings,
        functools.partial(kind, config, recompute=FLAGS.recompute),
        load if data else pretrained.load_encoder,
        identity=identify(data) if data else {},
        files=pretrained.files(config, tokenizer),
    )
    if data:
        objective = losses.pretraining(data.train.sentence_task != "none")
        evaluate = evaluator(settings, model, objective, tokenizer, data)
        if settings.trains:
            global_step = train(settings, model, origin, objective, evaluate, data)
    results = report(settings, evaluate, global_step) if FLAGS.do_eval else {}
    if FLAGS.do_export and settings.writes:
        with errors.of_writing():
            print(f"exported: {export_model(model, tokenizer, settings.output_dir)}")
    if data and FLAGS.write_report and settings.writes:
        write_report(settings, model, data, global_step, results, started)
    devices.wait_for_all(settings.strategy, "write results and exports")
    print(f"output: {settings.output_dir}")


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        with errors.of_input():
            settings, *parts = prepare()
        said = parts[2].explain if parts[2] else lambda error: None
        with run.lost_workers_named(settings.strategy), errors.named(said):
            run_once(settings, *parts)


if __name__ == "__main__":
    command_line.run(main)
