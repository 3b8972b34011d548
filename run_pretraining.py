r"""Pretrains BERT on masked words and next sentences, or a network left to right.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

import dataclasses
import functools
import os

from absl import flags

from training.flags import command_line, device_flags, model_flags, training_flags
from training.flags.tasks import pretraining_flags

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

from data_pipeline.extraction import embedding_graph
from data_pipeline.pretraining import cloze_graph, cloze_table, masking, record_sets
from data_pipeline.text import vocabulary_checks
from modeling import models, pretrainers
from modeling.checkpoints import checkpoint, pretrained
from modeling.inspection import vectors
from modeling.objectives import token_losses
from modeling.operations import joined_weights
from reports import run_report
from serving import export
from serving import pretrained as served
from training import errors, run
from training.flags import run_flags
from training.pretraining import pretraining_run
from training.results import metrics


def prepare():
    """The settings, and the task of --objective."""
    strategy = run_flags.set_up(*ACTIONS)
    pretraining_flags.check()
    files = model_flags.files(pretrained.locate, needs_vocab=FLAGS.do_export)
    tokenizer, vocab_size = None, None
    if files.vocab_file:
        tokenizer = vocabulary_checks.open_tokenizer(
            files, checks_case=FLAGS.check_case
        )
        vocab_size = tokenizer.vocab_size
    config = pretrained.open_config(files, vocab_size, FLAGS.max_seq_length)
    task = TASKS[FLAGS.objective](config, tokenizer, files)
    settings = run_flags.run_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
    )
    return task, pretraining_run.Settings(
        run=settings,
        evaluates=FLAGS.do_eval,
        exports=FLAGS.do_export,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps or None,
        reports=FLAGS.write_report,
        default_flags=command_line.defaults(),
    )


def masked_lm(config, tokenizer, files):
    """Masked words and, where the records have it, the second sentence."""
    if config.network != "bert":
        raise ValueError(
            f"--objective=masked_lm hides words from a BERT, but {files.config_file} "
            "describes a GPT; set --objective=left_to_right"
        )
    records, kind = None, pretrainers.BertPretrainer
    if FLAGS.do_train or FLAGS.do_eval:
        rule = masking.Rule(**pretraining_flags.masking_rule())
        records = load_records(config, tokenizer, rule)
    elif not pretrained.fills_masks(config, run_flags.trained_weights(files)):
        kind = models.BertModel
    if FLAGS.do_export:
        vectors.choose(config, **model_flags.vector_choice())
        if kind is pretrainers.BertPretrainer:
            cloze_graph.check(tokenizer, FLAGS.top_k)
    task = common_task(kind, config, tokenizer, records)
    if not records:
        return dataclasses.replace(task, load_weights=pretrained.load_encoder)
    masks = pretraining_flags.masking_identity(records.mask)
    return dataclasses.replace(
        task,
        objective=token_losses.pretraining(records.train.sentence_task != "none"),
        identity={"data": records.digest(), **masks},
        shown=best_words if tokenizer else None,
        show=functools.partial(blanks, tokenizer),
    )


def left_to_right(config, tokenizer, files):
    """Each token from those before it, by GPT or a BERT with a causal mask."""
    if not config.is_left_to_right:
        raise ValueError(
            f"--objective=left_to_right, but the network of {files.config_file} sees "
            'the tokens that follow; add "attention": "causal" to it, or give the '
            "config of a GPT"
        )
    records = load_records(config, tokenizer, None)
    return dataclasses.replace(
        common_task(pretrainers.LanguageModel, config, tokenizer, records),
        kind="text-generation",
        objective=token_losses.next_token(),
        score=functools.partial(text_scores, records.held_out),
        identity={"data": records.digest(), "objective": FLAGS.objective},
    )


TASKS = {"masked_lm": masked_lm, "left_to_right": left_to_right}


def common_task(kind, config, tokenizer, records):
    """What the tasks share, with the defaults of masked words."""
    return pretraining_run.Task(
        kind="fill-mask",
        model=functools.partial(kind, config, recompute=FLAGS.recompute),
        load_weights=model_flags.weights_loader(pretrained.load_weights),
        store=checkpoint.store,
        records=records,
        export=functools.partial(export_model, tokenizer),
        report=run_report.write,
        files=pretrained.files(config, tokenizer),
    )


def load_records(config, tokenizer, rule):
    """The records of the flags."""
    return record_sets.load(
        pretraining_flags.files(),
        tokenizer,
        rule,
        max_seq_length=FLAGS.max_seq_length,
        vocab_size=config.vocab_size,
        spare_rows=pretrained.SPARE_ROWS,
        masks_are_asked_for=pretraining_flags.masks_are_asked_for(),
    )


def best_words(model, features, training):
    """The likeliest tokens at each masked position, and their probabilities."""
    logits = model(features, training=training)["masked_lm_logits"]
    shares, ids = keras.ops.top_k(keras.ops.softmax(logits), cloze_table.SHOWN)
    return {"ids": ids, "probabilities": shares}


def blanks(tokenizer, features, words):
    """A text of what the model writes into blanks."""
    table = cloze_table.table(features, words, tokenizer.vocab)
    return {"fill_in_the_blank": table}


def text_scores(held_out, scores):
    """Scores with perplexities; `loss` is the mean over all tokens, not batches."""
    loss = scores["next_token_loss"]
    counts = held_out.num_predictions, held_out.num_words, held_out.num_text_bytes
    return {**scores, "loss": loss, **metrics.perplexities(loss, *counts)}


def export_model(tokenizer, model, output_dir):
    """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
    length, filler = FLAGS.max_seq_length, None
    if isinstance(model, pretrainers.BertPretrainer):
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


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        with errors.of_input():
            task, settings = prepare()
        said = task.records.explain if task.records else lambda error: None
        with run.lost_workers_named(settings.run.strategy), errors.named(said):
            pretraining_run.run_task(task, settings)


if __name__ == "__main__":
    command_line.run(main)
