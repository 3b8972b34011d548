"""Fine-tunes BERT to tag words, evaluates, predicts with and exports the tagger.

Slot filling, entities, parts of speech (BERT section 5.3): see docs/tagging.md.
"""

import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

import tensorflow as tf
from absl import app, flags

from contract import file_names, wording
from data_pipeline import label_maps
from data_pipeline.examples import batching
from data_pipeline.files import label_files
from data_pipeline.tagging import (
    sentence_sets,
    tag_predictions,
    tag_schemes,
    tag_sets,
    tagged_files,
    tagging_graph,
)
from data_pipeline.text import tokenization, vocabulary_checks
from modeling import config as config_lib
from modeling import losses, models
from modeling.checkpoints import checkpoint, pretrained
from serving import export, tagging
from training import errors, loop, run, seeds, steps
from training.distribution import devices
from training.flags import device_flags, run_flags, shared_flags, tagger_flags
from training.results import evaluation

FLAGS = flags.FLAGS
NAMED_EXAMPLES = 8  # of a batch, in a message
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


class Parts(NamedTuple):
    """Everything that is read and checked before the work starts."""

    files: shared_flags.ModelFiles
    config: config_lib.BertConfig
    tokenizer: tokenization.BertTokenizer
    tag_set: tag_sets.TagSet
    data: dict[str, sentence_sets.SentenceSet]
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
    shared_flags.define_action_flags(*ACTIONS)
    tagger_flags.define(tagged_files.FORMATS, tag_schemes.SCHEMES)


def prepare():
    """Reads and checks all input; a ValueError says what is wrong with it."""
    shared_flags.check_actions(*ACTIONS)
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
    layout = tagged_files.Layout(**tagger_flags.layout())
    splits = sentence_sets.read(tagger_flags.paths(), layout)
    names = (
        label_files.read_labels(FLAGS.labels, tf.io.gfile.GFile) if FLAGS.labels else ()
    )
    tag_set = sentence_sets.find_tag_set(
        splits.get("train"),
        names=names,
        scheme=tagger_flags.tag_scheme(),
        known=label_maps.find(FLAGS.output_dir, files.init_checkpoint),
        open_file=tf.io.gfile.GFile,
    )
    data = sentence_sets.load(
        splits,
        tag_set,
        tokenizer,
        accepts_unknown=FLAGS.accept_unknown_tags,
        document_context=FLAGS.document_context,
        **tagger_flags.limits(),
    )
    plan = None
    if FLAGS.do_train:
        device_flags.check_batch_size(strategy)
        num_windows = len(data["train"].windows)
        plan = run_flags.plan(num_windows, sentence_sets.score_names(tag_set))
    pad_to = FLAGS.max_seq_length if device_flags.has_static_shapes() else None
    return Parts(files, config, tokenizer, tag_set, data, plan, strategy, pad_to)


def build_model(parts, output_dir, resumes):
    """The model, where its weights are from, and the step they were trained for."""
    with parts.strategy.scope():
        num_tags = len(parts.tag_set.names)
        model = models.BertTagger(parts.config, num_tags, recompute=FLAGS.recompute)
        model.build()
    path = output_dir if resumes else parts.files.init_checkpoint
    found = pretrained.load_weights(model, path, trains=FLAGS.do_train, resumes=resumes)
    return model, *found


def tagger(parts, model):
    """A function split, batch_size -> sentence_sets.Tagged."""

    def best_tags(features, training):
        return tagging_graph.best_tags(model(features, training=training)["logits"])

    compiled = device_flags.compiles(parts.strategy)
    predict = steps.predict_function(best_tags, parts.strategy, jit_compile=compiled)

    def tag(split, batch_size):
        data = parts.data[split]
        size = devices.fitting_batch_size(batch_size, parts.strategy)
        order = batching.evaluation_order(data.windows.packed.lengths, size)
        batches = data.batches(order, parts.pad_to)
        outputs = evaluation.predict(predict, batches, order, parts.strategy)
        return sentence_sets.decide(data, outputs, parts.tag_set)

    return tag


def train(parts, model, tag, run_seed, output_dir, origin):
    """Trains; leaves the last, or with --evaluate_steps the best, weights in place."""
    data = parts.data["train"]
    order = batching.training_order(
        data.windows.packed.lengths, **run_flags.order_settings(parts.plan, run_seed)
    )
    return run_flags.train(
        model,
        losses.tagger(),
        parts.plan,
        lambda step: data.batches(order[step:], parts.pad_to),
        strategy=parts.strategy,
        evaluate=lambda: tag("dev", FLAGS.eval_batch_size).scores,
        name_batch=lambda step: wording.first_of(
            data.names(order[step]), NAMED_EXAMPLES
        ),
        store=checkpoint.store(model),
        output_dir=output_dir,
        origin=origin,
        seed=run_seed,
    )


def evaluate(parts, tag, output_dir, global_step):
    """Writes eval_results.txt; returns what it holds."""
    tagged = tag("dev", FLAGS.eval_batch_size)
    results = {**tagged.results("eval"), "global_step": global_step}
    if parts.writes:
        run.record(output_dir, global_step, tagged.scores, results)
    return results


def predict(parts, tag, output_dir):
    """Writes predictions in both forms; returns scores, if any."""
    tagged = tag("test", FLAGS.predict_batch_size)
    sentences = parts.data["test"].sentences
    predicted = tagged.tags, tagged.probabilities, parts.tag_set.scheme
    if parts.writes:
        with errors.one_line_errors():
            paths = tag_predictions.write_all(output_dir, sentences, *predicted)
        print("\n".join(f"predictions: {path}" for path in paths))
    return tagged.results("test")


def export_model(parts, model, files, output_dir):
    """Writes output_dir/export/<n>: text or words in, tags out."""
    module = tagging.WordTagger(
        tagging_graph.split_words,
        tagging_graph.encoder(parts.tokenizer, **tagger_flags.limits()),
        functools.partial(model, training=False),
        tagging_graph.chooser(parts.tag_set),
        [variable.value for variable in model.variables],
    )
    print(f"exported: {export.save(module, os.path.join(output_dir, 'export'), files)}")


def run_once(parts, run_seed, output_dir):
    """One run with one seed in one directory; returns its scores."""
    label_map = {file_names.LABEL_MAP: tag_sets.map_text(parts.tag_set)}
    model, origin, global_step = run.start(
        output_dir,
        functools.partial(build_model, parts, output_dir),
        identity=identify(parts, run_seed) if FLAGS.do_train else {},
        files=pretrained.files(parts.config, parts.tokenizer) | label_map,
        strategy=parts.strategy,
        **run_flags.start_settings(run_seed),
    )
    tag = tagger(parts, model)
    results = {}
    if FLAGS.do_train:
        global_step = train(parts, model, tag, run_seed, output_dir, origin)
    if FLAGS.do_eval:
        results.update(evaluate(parts, tag, output_dir, global_step))
    if FLAGS.do_predict:
        results.update(predict(parts, tag, output_dir))
    for name in sorted(results):
        print(f"  {name} = {results[name]!s}")
    if FLAGS.do_export and parts.writes:
        export_model(parts, model, label_map, output_dir)
    devices.wait_for_all(parts.strategy, "write results and exports")
    return results


def identify(parts, run_seed):
    """What another run must share to be continued by this one."""
    return {
        "data": parts.data["train"].digest(),
        "labels": list(parts.tag_set.names),
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
