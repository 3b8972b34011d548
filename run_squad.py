"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py, for SQuAD 1.1 and 2.0: see
docs/squad.md.
"""

import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

from absl import app, flags, logging

from contract import file_names, wording
from data_pipeline.examples import batching
from data_pipeline.squad import (
    answer_choice,
    answering_graph,
    question_sets,
    squad_files,
)
from data_pipeline.text import tokenization, vocabulary_checks
from modeling import config as config_lib
from modeling import losses, models
from modeling.checkpoints import checkpoint, pretrained
from serving import export, question_answering
from training import errors, loop, run, seeds, steps
from training.distribution import devices
from training.flags import device_flags, run_flags, shared_flags, squad_flags
from training.results import evaluation, reporting

FLAGS = flags.FLAGS
NAMED_EXAMPLES = 8  # of a batch, in a message
ACTIONS = ("do_train", "do_predict", "do_export")


class Parts(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: shared_flags.ModelFiles
    config: config_lib.BertConfig
    tokenizer: tokenization.BertTokenizer
    settings: answer_choice.Settings
    train: question_sets.QuestionSet | None
    dev: question_sets.QuestionSet | None
    plan: loop.Plan | None
    strategy: Any
    pad_to: int | None

    @property
    def writes(self):
        """Whether this process leaves something behind; of several, one does."""
        return devices.is_chief(self.strategy)


def define_flags():
    shared_flags.define_model_flags(max_seq_length=384)
    shared_flags.define_training_flags()
    shared_flags.define_fine_tuning_flags()
    device_flags.define()
    shared_flags.define_action_flags(*ACTIONS)
    squad_flags.define(answer_choice.ALIGNERS)


def prepare():
    """Reads and checks all input; a ValueError says what is wrong with it."""
    shared_flags.check_actions(*ACTIONS)
    shared_flags.check_fine_tuning()
    strategy = device_flags.set_up()
    squad_flags.check_files()
    files = shared_flags.model_files(pretrained.locate)
    config = pretrained.read_config(files.config_file)
    tokenizer = tokenization.BertTokenizer.from_file(
        files.vocab_file, files.do_lower_case
    )
    pretrained.check_sizes(config, tokenizer.vocab_size, files, FLAGS.max_seq_length)
    if FLAGS.check_case:
        vocabulary_checks.check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    settings = answer_choice.Settings(
        do_lower_case=tokenizer.do_lower_case, **squad_flags.answer_settings()
    )
    evaluates = FLAGS.do_train and FLAGS.evaluate_steps
    train = read("train", tokenizer) if FLAGS.do_train else None
    dev = read("predict", tokenizer) if FLAGS.do_predict or evaluates else None
    names = question_sets.score_names(dev, settings) if evaluates else ()
    plan = run_flags.plan(len(train.questions), names) if train else None
    if FLAGS.do_train:
        device_flags.check_batch_size(strategy)
    pad_to = FLAGS.max_seq_length if device_flags.has_static_shapes() else None
    return Parts(
        *(files, config, tokenizer, settings, train, dev, plan, strategy, pad_to)
    )


def read(name, tokenizer):
    """The questions of --train_file or --predict_file, as windows."""
    version = {"version_2_with_negative": FLAGS.version_2_with_negative}
    if name == "train":
        multiple = FLAGS.multiple_answers
        questions = squad_files.shuffled(
            squad_files.read_for_training(
                FLAGS.train_file, multiple_answers=multiple, **version
            )
        )
    else:
        questions = squad_files.read_for_prediction(FLAGS.predict_file, **version)
    report = reporting.Meter(f"{name}: windows", "question")
    limits = squad_flags.limits()
    return question_sets.load(name, questions, tokenizer, report=report, **limits)


def build_model(parts, output_dir, resumes):
    """The model, where its weights are from, and the step they were trained for."""
    with parts.strategy.scope():
        model = models.BertSpanPredictor(parts.config, recompute=FLAGS.recompute)
        model.build()
    path = output_dir if resumes else parts.files.init_checkpoint
    return model, *pretrained.load_weights(
        model, path, trains=FLAGS.do_train, resumes=resumes
    )


def answerer(parts, model):
    """A function batch_size -> answers to all questions and their scores."""
    predict = steps.predict_function(
        model, parts.strategy, jit_compile=device_flags.compiles(parts.strategy)
    )

    def answer(batch_size):
        size = devices.fitting_batch_size(batch_size, parts.strategy)
        order = batching.evaluation_order(parts.dev.windows.packed.lengths, size)
        batches = parts.dev.batches(order, parts.pad_to)
        logits = evaluation.predict(predict, batches, order, parts.strategy)
        answers = question_sets.answer(
            parts.dev, logits, parts.tokenizer.vocab, parts.settings, parts.pad_to
        )
        return answers, question_sets.score(parts.dev, answers)

    return answer


def train(parts, model, answer, run_seed, output_dir, origin):
    """Trains; leaves the last, or with --evaluate_steps the best, weights in place."""
    lengths = parts.train.windows.packed.lengths
    order = batching.training_order(
        lengths, **run_flags.order_settings(parts.plan, run_seed)
    )
    return run_flags.train(
        model,
        losses.span(),
        parts.plan,
        lambda step: parts.train.batches(order[step:], parts.pad_to),
        strategy=parts.strategy,
        evaluate=lambda: answer(FLAGS.eval_batch_size)[1],
        name_batch=lambda step: wording.first_of(
            parts.train.names(order[step]), NAMED_EXAMPLES
        ),
        store=checkpoint.store(model),
        output_dir=output_dir,
        origin=origin,
        seed=run_seed,
    )


def predict(parts, answer, output_dir, global_step):
    """Writes predictions.json and the files beside it; returns scores, if any."""
    answers, scores = answer(FLAGS.predict_batch_size)
    if parts.writes:
        with errors.one_line_errors():
            answer_choice.write(output_dir, answers)
        path = os.path.join(output_dir, file_names.SQUAD_PREDICTIONS)
        print(f"predictions: {path}")
    if not scores:
        print(f"{FLAGS.predict_file} has no right answers, so nothing is scored")
        return {}
    results = {**scores, "global_step": global_step}
    if parts.writes:
        run.record(output_dir, global_step, scores, results)
    return results


def export_model(parts, model, output_dir):
    """Writes output_dir/export/<n>: question and context in, answer out."""
    module = question_answering.QuestionAnswerer(
        answering_graph.encoder(parts.tokenizer, **squad_flags.limits()),
        functools.partial(model, training=False),
        answering_graph.chooser(parts.settings),
        [variable.value for variable in model.variables],
    )
    print(f"exported: {export.save(module, os.path.join(output_dir, 'export'), {})}")


def run_once(parts, run_seed, output_dir):
    """One run with one seed in one directory; returns its scores."""
    model, origin, global_step = run.start(
        output_dir,
        functools.partial(build_model, parts, output_dir),
        identity=identify(parts, run_seed) if FLAGS.do_train else {},
        files=pretrained.files(parts.config, parts.tokenizer),
        strategy=parts.strategy,
        **run_flags.start_settings(run_seed),
    )
    for data in filter(None, (parts.train, parts.dev)) if parts.writes else ():
        question_sets.write_records(output_dir, data, FLAGS.max_seq_length)
    answer = answerer(parts, model)
    results = {}
    if FLAGS.do_train:
        global_step = train(parts, model, answer, run_seed, output_dir, origin)
    if FLAGS.do_predict:
        results = predict(parts, answer, output_dir, global_step)
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    if FLAGS.do_export and parts.writes:
        export_model(parts, model, output_dir)
    devices.wait_for_all(parts.strategy, "write results and exports")
    return results


def identify(parts, run_seed):
    """What another run must share to be continued by this one."""
    return {
        "data": parts.train.digest(),
        **run_flags.identity(parts.config.to_dict(), run_seed),
    }


def main(_):
    shared_flags.quiet_libraries()
    if FLAGS.verbose_logging:
        logging.set_verbosity(logging.DEBUG)
    with errors.one_line_errors():
        parts = prepare()
    one_run = functools.partial(run_once, parts)
    values = shared_flags.seeds()
    with run.lost_workers_explained(parts.strategy):
        seeds.run(one_run, FLAGS.seed, values, FLAGS.output_dir, parts.writes)


if __name__ == "__main__":
    define_flags()
    app.run(main)
