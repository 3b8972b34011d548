"""Pretrains BERT on masked words and next sentences, and evaluates it.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.
"""

import contextlib
import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

import keras
import tensorflow as tf
from absl import app, flags

from contract import file_names, wording
from data_pipeline.pretraining import cloze_table, masking, record_sets
from data_pipeline.text import tokenization, vocabulary_checks
from modeling import config as config_lib
from modeling import losses, models
from modeling.checkpoints import checkpoint, pretrained
from training import errors, loop, run, steps
from training.distribution import devices
from training.flags import device_flags, pretraining_flags, run_flags, shared_flags
from training.results import evaluation

FLAGS = flags.FLAGS
NAMED_EXAMPLES = 8  # of a batch, in a message
# Predictions shown for each blank.
TOP_PREDICTIONS = 5


class Parts(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: shared_flags.ModelFiles
    config: config_lib.BertConfig
    tokenizer: tokenization.BertTokenizer | None
    data: record_sets.RecordSets
    plan: loop.Plan
    strategy: Any

    @property
    def writes(self):
        """Whether this process leaves something behind; of several, one does."""
        return devices.is_chief(self.strategy)


def define_flags():
    shared_flags.define_model_flags(max_seq_length=128)
    shared_flags.define_training_flags()
    device_flags.define()
    shared_flags.define_action_flags("do_train", "do_eval")
    pretraining_flags.define(sorted(masking.GROUP_LENGTHS))


def prepare():
    """Reads and checks all input; a ValueError says what is wrong with it."""
    shared_flags.check_actions("do_train", "do_eval")
    strategy = device_flags.set_up()
    files = shared_flags.model_files(pretrained.locate, needs_vocab=False)
    config = pretrained.read_config(files.config_file)
    tokenizer = None
    if files.vocab_file:
        tokenizer = tokenization.BertTokenizer.from_file(
            files.vocab_file, files.do_lower_case
        )
        if FLAGS.check_case:
            vocabulary_checks.check_case(
                tokenizer, files.vocab_file, files.init_checkpoint
            )
    vocab_size = tokenizer.vocab_size if tokenizer else config.vocab_size
    pretrained.check_sizes(config, vocab_size, files, FLAGS.max_seq_length)
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
    if FLAGS.do_train:
        device_flags.check_batch_size(strategy)
    return Parts(files, config, tokenizer, data, pretraining_flags.plan(), strategy)


def build_model(parts, resumes):
    """The model, where its weights are from, and the step they were trained for."""
    with parts.strategy.scope():
        model = models.BertPretrainer(parts.config, recompute=FLAGS.recompute)
        model.build()
    path = FLAGS.output_dir if resumes else parts.files.init_checkpoint
    return model, *pretrained.load_weights(
        model, path, trains=FLAGS.do_train, resumes=resumes
    )


def evaluator(parts, model, objective):
    """A function that gives scores, and a text, of the current weights."""
    compiled = device_flags.compiles(parts.strategy)
    evaluate_batch = steps.evaluate_function(
        model, objective, parts.strategy, jit_compile=compiled
    )
    predict = steps.predict_function(
        functools.partial(best_words, model), parts.strategy, jit_compile=compiled
    )

    size = devices.fitting_batch_size(FLAGS.eval_batch_size, parts.strategy)

    def evaluate():
        batches = parts.data.evaluation_batches(size, FLAGS.max_eval_steps)
        scores = evaluation.objective_scores(
            evaluate_batch, batches, FLAGS.max_eval_steps, parts.strategy
        )
        if parts.tokenizer is None:
            return scores
        features, words = evaluation.first_batch(predict, batches, parts.strategy)
        text = cloze_table.table(features, words, parts.tokenizer.vocab)
        return {**scores, "fill_in_the_blank": text}

    return evaluate


def best_words(model, features, training):
    """The likeliest tokens at each masked position, and their probabilities."""
    logits = model(features, training=training)["masked_lm_logits"]
    shares, ids = keras.ops.top_k(keras.ops.softmax(logits), TOP_PREDICTIONS)
    return {"ids": ids, "probabilities": shares}


def train(parts, model, objective, evaluate, origin):
    """Trains to --num_train_steps; returns the step that is reached."""

    def batches_from(step):
        return parts.data.training_batches(
            FLAGS.train_batch_size, FLAGS.seed, step, FLAGS.num_train_steps
        )

    def name_batch(step):
        names = parts.data.batch_names(FLAGS.train_batch_size, FLAGS.seed, step)
        return wording.first_of(names, NAMED_EXAMPLES)

    return run_flags.train(
        model,
        objective,
        parts.plan,
        batches_from,
        strategy=parts.strategy,
        evaluate=evaluate,
        name_batch=name_batch,
        store=checkpoint.store(model),
        output_dir=FLAGS.output_dir,
        origin=origin,
        seed=FLAGS.seed,
        length_flag="--num_train_steps",
    )


def report(parts, evaluate, global_step):
    """Evaluates, writes eval_results.txt and prints what it holds."""
    scores = evaluate()
    results = {k: v for k, v in scores.items() if not isinstance(v, str)}
    results["global_step"] = global_step
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    if parts.writes:
        path = run.record(FLAGS.output_dir, global_step, scores, results)
        print(f"evaluation: {path}")


def identify(parts):
    """What another run must share to be continued by this one."""
    return {
        "data": parts.data.digest(),
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "masking": FLAGS.masking if parts.data.mask else "",
        "masked_lm_prob": FLAGS.masked_lm_prob if parts.data.mask else 0.0,
        **run_flags.identity(parts.config.to_dict(), FLAGS.seed),
    }


def files_beside(parts):
    """The files that belong beside the checkpoints of a run."""
    if parts.tokenizer:
        return pretrained.files(parts.config, parts.tokenizer)
    return {file_names.BERT_CONFIG: parts.config.to_json_string()}


@contextlib.contextmanager
def damaged_records_named(parts):
    """Turns an error about a damaged or absent file into one line that names it."""
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if not (said := parts.data.explain(error)):
            raise
        with errors.one_line_errors():
            raise ValueError(said) from error


def run_once(parts):
    """Trains and evaluates, as the flags say."""
    model, origin, global_step = run.start(
        FLAGS.output_dir,
        functools.partial(build_model, parts),
        identity=identify(parts) if FLAGS.do_train else {},
        files=files_beside(parts),
        strategy=parts.strategy,
        **run_flags.start_settings(FLAGS.seed),
    )
    objective = losses.pretraining(parts.data.train.sentence_task != "none")
    evaluate = evaluator(parts, model, objective)
    if FLAGS.do_train:
        global_step = train(parts, model, objective, evaluate, origin)
    if FLAGS.do_eval:
        report(parts, evaluate, global_step)
    devices.wait_for_all(parts.strategy, "write the results")
    print(f"output: {FLAGS.output_dir}")


def main(_):
    shared_flags.quiet_libraries()
    with errors.one_line_errors():
        parts = prepare()
    with run.lost_workers_explained(parts.strategy), damaged_records_named(parts):
        run_once(parts)


if __name__ == "__main__":
    define_flags()
    app.run(main)
