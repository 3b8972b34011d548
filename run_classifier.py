"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes every flag of google-research/bert's run_classifier.py, and tables of one's own:
see docs/classification.md.
"""

import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

import numpy as np
from absl import app, flags

from contract import features, file_names, wording
from data_pipeline import label_maps
from data_pipeline.classification import label_sets, labelled_texts, predictions, tables
from data_pipeline.examples import batching, packing
from data_pipeline.text import tokenization, vocabulary_checks
from modeling import config as config_lib
from modeling import heads, losses, models
from modeling.checkpoints import checkpoint, pretrained
from serving import export
from training import errors, loop, run, seeds, steps
from training.distribution import devices
from training.flags import device_flags, run_flags, shared_flags, table_flags
from training.results import evaluation, metrics

FLAGS = flags.FLAGS
NAMED_EXAMPLES = 8  # of a batch, in a message


class Parts(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: shared_flags.ModelFiles
    config: config_lib.BertConfig
    tokenizer: tokenization.BertTokenizer
    data: labelled_texts.LabelledTexts
    class_weights: np.ndarray | None
    plan: loop.Plan | None
    strategy: Any
    pad_to: int | None

    @property
    def writes(self):
        """Whether this process leaves something behind; of several, one does."""
        return devices.is_chief(self.strategy)


def define_flags():
    shared_flags.define_model_flags(max_seq_length=128)
    shared_flags.define_training_flags()
    shared_flags.define_fine_tuning_flags()
    device_flags.define()
    table_flags.define(label_sets.PROBLEM_TYPES)
    shared_flags.define_action_flags("do_train", "do_eval", "do_predict", "do_export")
    flags.DEFINE_bool("write_tf_records", True, "Write features as the original does.")


def prepare():
    """Reads and checks all input; a ValueError says what is wrong with it."""
    shared_flags.check_actions("do_train", "do_eval", "do_predict", "do_export")
    shared_flags.check_fine_tuning()
    strategy = device_flags.set_up()
    files = shared_flags.model_files(pretrained.locate)
    config = pretrained.read_config(files.config_file)
    tokenizer = tokenization.BertTokenizer.from_file(
        files.vocab_file, files.do_lower_case
    )
    pretrained.check_sizes(config, tokenizer.vocab_size, files, FLAGS.max_seq_length)
    if FLAGS.check_case:
        vocabulary_checks.check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    evaluates = FLAGS.do_eval or (FLAGS.do_train and FLAGS.evaluate_steps)
    wanted = {"train": FLAGS.do_train, "dev": evaluates, "test": FLAGS.do_predict}
    layout = tables.Layout(**table_flags.layout())
    data = labelled_texts.load(
        labelled_texts.Source(layout=layout, **table_flags.source()),
        [split for split, is_wanted in wanted.items() if is_wanted],
        tokenizer,
        FLAGS.max_seq_length,
        label_map=label_maps.find(FLAGS.output_dir, files.init_checkpoint),
        default_metrics=metrics.DEFAULTS,
    )
    weights, plan = None, None
    if FLAGS.do_train:
        device_flags.check_batch_size(strategy)
        scores = (*data.metrics, "loss")
        plan = run_flags.plan(len(data.packed["train"]), scores)
        weights = FLAGS.class_weights and label_sets.class_weights(
            FLAGS.class_weights, data.label_ids["train"], data.label_set
        )
    pad_to = FLAGS.max_seq_length if device_flags.has_static_shapes() else None
    return Parts(files, config, tokenizer, data, weights, plan, strategy, pad_to)


def build_model(parts, output_dir, resumes):
    """The model, where its weights are from, and the step they were trained for."""
    with parts.strategy.scope():
        model = models.BertClassifier(
            parts.config,
            parts.data.label_set.num_outputs,
            recompute=FLAGS.recompute,
        )
        model.build()
    path = output_dir if resumes else parts.files.init_checkpoint
    return model, *pretrained.load_weights(
        model, path, trains=FLAGS.do_train, resumes=resumes
    )


def scorer(parts, model):
    """A function split, batch_size -> predictions.Scored, with the current weights."""
    data = parts.data
    predict = steps.predict_function(
        model, parts.strategy, jit_compile=device_flags.compiles(parts.strategy)
    )

    def score(split, batch_size):
        packed, label_ids = data.packed[split], data.label_ids[split]
        size = devices.fitting_batch_size(batch_size, parts.strategy)
        order = batching.evaluation_order(packed.lengths, size)
        batches = batching.batches(packed, order, pad_to=parts.pad_to)
        logits = evaluation.predict(predict, batches, order, parts.strategy)["logits"]
        probabilities = np.asarray(heads.probabilities(data.problem_type, logits))
        decisions = predictions.decide(
            data.label_set, probabilities, FLAGS.multi_label_threshold
        )
        scores = {}
        if label_ids is not None:
            each = losses.classifier_losses(data.problem_type, logits, label_ids)
            each = np.asarray(each).reshape(len(packed), -1).mean(axis=1)
            scores = metrics.compute(data.metrics, label_ids, decisions)
            scores["loss"] = each.mean()
            scores["batch_loss"] = evaluation.mean_loss(each, batch_size)
        return predictions.Scored(probabilities, decisions, scores)

    return score


def train(parts, model, score, run_seed, output_dir, origin):
    """Trains; leaves the last, or with --evaluate_steps the best, weights in place."""
    packed, label_ids = parts.data.packed["train"], parts.data.label_ids["train"]
    order = batching.training_order(
        packed.lengths, **run_flags.order_settings(parts.plan, run_seed)
    )

    def batches_from(step):
        targets = {features.LABEL_IDS: label_ids}
        return batching.batches(
            packed, order[step:], targets=targets, pad_to=parts.pad_to
        )

    return run_flags.train(
        model,
        losses.classifier(parts.data.problem_type, parts.class_weights),
        parts.plan,
        batches_from,
        strategy=parts.strategy,
        evaluate=lambda: score("dev", FLAGS.eval_batch_size).scores,
        name_batch=lambda step: wording.first_of(
            parts.data.names("train", order[step])
        ),
        store=checkpoint.store(model),
        output_dir=output_dir,
        origin=origin,
        seed=run_seed,
    )


def export_model(parts, model, output_dir):
    """Writes output_dir/export/<n>: raw text in, label and probabilities out."""
    label_set = parts.data.label_set

    def encode(*texts):
        return packing.pad(*parts.data.encode(*texts)[:2])

    def forward(features):
        logits = model(features, training=False)["logits"]
        return heads.probabilities(parts.data.problem_type, logits)

    module = export.TextClassifier(
        encode,
        forward,
        [variable.value for variable in model.variables],
        label_set.names if parts.data.problem_type == "classification" else (),
        2 if parts.data.has_pairs else 1,
    )
    files = {file_names.LABEL_MAP: label_sets.label_map_text(label_set)}
    path = export.save(module, os.path.join(output_dir, "export"), files)
    print(f"exported: {path}")


def evaluate(parts, score, output_dir, global_step):
    """Writes eval_results.txt; returns what it holds."""
    scored = score("dev", FLAGS.eval_batch_size)
    results = scored.results("eval")
    results["loss"] = results.pop("eval_batch_loss")
    results["global_step"] = global_step
    if parts.writes:
        run.record(output_dir, global_step, scored.scores, results)
    return results


def predict(parts, score, output_dir):
    """Writes test_results.tsv and test_predictions.jsonl; returns scores, if any."""
    scored = score("test", FLAGS.predict_batch_size)
    if parts.writes:
        table, label_set = parts.data.tables["test"], parts.data.label_set
        with errors.one_line_errors():
            predictions.write(output_dir, table, label_set, scored)
    return scored.results("test")


def run_once(parts, run_seed, output_dir):
    """One run with one seed in one directory; returns its scores."""
    model, origin, global_step = run.start(
        output_dir,
        functools.partial(build_model, parts, output_dir),
        identity=identify(parts, run_seed) if FLAGS.do_train else {},
        files={
            **pretrained.files(parts.config, parts.tokenizer),
            file_names.LABEL_MAP: label_sets.label_map_text(parts.data.label_set),
        },
        strategy=parts.strategy,
        **run_flags.start_settings(run_seed),
    )
    results = {}
    if FLAGS.write_tf_records and parts.writes:
        labelled_texts.write_records(output_dir, parts.data, FLAGS.max_seq_length)
    score = scorer(parts, model)
    if FLAGS.do_train:
        global_step = train(parts, model, score, run_seed, output_dir, origin)
    if FLAGS.do_eval:
        results.update(evaluate(parts, score, output_dir, global_step))
    if FLAGS.do_predict:
        results.update(predict(parts, score, output_dir))
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    if FLAGS.do_export and parts.writes:
        export_model(parts, model, output_dir)
    devices.wait_for_all(parts.strategy, "write results and exports")
    return results


def identify(parts, run_seed):
    """What another run must share to be continued by this one."""
    return {
        "data": parts.data.digest("train"),
        "labels": list(parts.data.label_set.names),
        **run_flags.identity(parts.config.to_dict(), run_seed),
    }


def main(_):
    shared_flags.quiet_libraries()
    with errors.one_line_errors():
        parts = prepare()
    one_run = functools.partial(run_once, parts)
    values = shared_flags.seeds()
    with run.lost_workers_explained(parts.strategy):
        seeds.run(one_run, FLAGS.seed, values, FLAGS.output_dir, parts.writes)


if __name__ == "__main__":
    define_flags()
    app.run(main)
