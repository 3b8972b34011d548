r"""Pretrains BERT on masked words and next sentences, and evaluates it.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

import contextlib
import functools
import os

from absl import flags

from training.flags import (
    command_line,
    device_flags,
    model_flags,
    pretraining_flags,
    training_flags,
)

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval")


def define_flags():
    model_flags.define(max_seq_length=128)
    training_flags.define()
    training_flags.define_actions(*ACTIONS)
    device_flags.define()
    pretraining_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import keras
import tensorflow as tf

from contract import file_names
from data_pipeline.pretraining import cloze_table, masking, record_sets
from data_pipeline.text import vocabulary_checks
from modeling import losses, models
from modeling.checkpoints import checkpoint, pretrained
from training import errors, run, run_directory, steps
from training.distribution import devices
from training.flags import run_flags
from training.results import evaluation

# Predictions shown for each blank.
TOP_PREDICTIONS = 5


def prepare():
    """Settings, config, tokenizer and records; a ValueError names what is wrong."""
    strategy = run_flags.set_up(*ACTIONS)
    files = model_flags.files(pretrained.locate, needs_vocab=False)
    tokenizer, vocab_size = None, None
    if files.vocab_file:
        tokenizer = vocabulary_checks.open_tokenizer(
            files, checks_case=FLAGS.check_case
        )
        vocab_size = tokenizer.vocab_size
    config = pretrained.open_config(files, vocab_size, FLAGS.max_seq_length)
    rule = masking.Rule(
        FLAGS.masking, FLAGS.masked_lm_prob, FLAGS.max_predictions_per_seq
    )
    data = record_sets.load(
        pretraining_flags.files(),
        tokenizer,
        rule,
        max_seq_length=FLAGS.max_seq_length,
        vocab_size=config.vocab_size,
        spare_rows=pretrained.SPARE_ROWS,
        masks_are_asked_for=pretraining_flags.masks_are_asked_for(),
    )
    settings = run_flags.run_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
    )
    return settings, config, tokenizer, data


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
    shares, ids = keras.ops.top_k(keras.ops.softmax(logits), TOP_PREDICTIONS)
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
    """Evaluates, writes eval_results.txt and prints its lines."""
    scores = evaluate.at(global_step)
    results = {k: v for k, v in scores.items() if not isinstance(v, str)}
    results["global_step"] = global_step
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    run_directory.record(settings, global_step, scores, results)
    if settings.writes:
        path = os.path.join(settings.output_dir, file_names.EVAL_RESULTS)
        print(f"evaluation: {path}")


def identify(data):
    """What of the records must match to resume a run."""
    return {
        "data": data.digest(),
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "masking": FLAGS.masking if data.mask else "",
        "masked_lm_prob": FLAGS.masked_lm_prob if data.mask else 0.0,
    }


def files_beside(config, tokenizer):
    """The files that belong beside the checkpoints of a run."""
    if tokenizer:
        return pretrained.files(config, tokenizer)
    return {file_names.BERT_CONFIG: config.to_json_string()}


@contextlib.contextmanager
def damaged_records_named(data):
    """Turns an error about a damaged or missing file into one line that names it."""
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if not (said := data.explain(error)):
            raise
        raise errors.InputError(said) from error


def run_once(settings, config, tokenizer, data):
    """Trains and evaluates, as the flags say."""
    model, origin, global_step = run.start(
        settings,
        functools.partial(models.BertPretrainer, config, recompute=FLAGS.recompute),
        functools.partial(
            pretrained.load_weights, allows_missing=FLAGS.allow_missing_weights
        ),
        identity=identify(data),
        files=files_beside(config, tokenizer),
    )
    objective = losses.pretraining(data.train.sentence_task != "none")
    evaluate = evaluator(settings, model, objective, tokenizer, data)
    if settings.trains:
        global_step = train(settings, model, origin, objective, evaluate, data)
    if FLAGS.do_eval:
        report(settings, evaluate, global_step)
    devices.wait_for_all(settings.strategy, "write the results")
    print(f"output: {settings.output_dir}")


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        with errors.of_input():
            settings, config, tokenizer, data = prepare()
        with run.lost_workers_named(settings.strategy), damaged_records_named(data):
            run_once(settings, config, tokenizer, data)


if __name__ == "__main__":
    command_line.run(main)
