r"""Pretrains BERT on masked words and next sentences, a network left to right, or ELMo.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

import dataclasses
import functools
import os

from absl import flags

from cli import (
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
    command_line.parse(define_flags, pretraining_flags.check)


from cli import run_flags
from contract import errors
from data_pipeline.extraction import graph
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import cloze, masking
from data_pipeline.pretraining.denoising import batches as denoising_batches
from data_pipeline.pretraining.denoising import corruptions
from data_pipeline.pretraining.streams import batches as stream_batches
from data_pipeline.pretraining.streams import files as sentence_files
from data_pipeline.text import opening
from modeling import kernels_tf, losses, models, pretrainers
from modeling.checkpoints import checkpoint, pretrained
from modeling.elmo import objective as both_directions
from modeling.features import vectors
from reports import run_report
from serving import export
from serving import pretrained as served
from training import run
from training.pretraining import pretraining_run
from training.results import metrics


def prepare():
    """The settings, and the task of --objective."""
    pretraining_flags.check()
    strategy = run_flags.set_up()
    files = model_flags.files(pretrained.locate)
    tokenizer, vocab_size = None, None
    if files.vocab_file or FLAGS.do_export:
        tokenizer = opening.open_tokenizer(files, checks_case=FLAGS.check_case)
        vocab_size = tokenizer.vocab_size
    config = pretrained.open_config(
        files, vocab_size, FLAGS.max_seq_length, takes_encoder_decoder=True
    )
    pretraining_flags.check_network(config, files.config_file)
    task = TASKS[FLAGS.objective](config, tokenizer, files)
    settings = run_flags.run_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=task.config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
        of_adagrad=pretraining_flags.of_adagrad(task.config),
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
    records, kind = None, pretrainers.BertPretrainer
    if FLAGS.do_train or FLAGS.do_eval:
        rule = masking.Rule(**pretraining_flags.masking_rule())
        records = load_records(config, tokenizer, rule)
    elif not pretrained.fills_masks(config, run_flags.trained_weights(files)):
        kind = models.BertModel
    if FLAGS.do_export:
        vectors.choose(config, **model_flags.vector_choice())
        if kind is pretrainers.BertPretrainer:
            cloze.check(tokenizer, FLAGS.top_k)
    task = common_task(kind, config, tokenizer, records)
    if not records:
        return dataclasses.replace(task, load_weights=pretrained.load_encoder)
    masks = pretraining_flags.masking_identity(records.mask)
    return dataclasses.replace(
        task,
        objective=losses.pretraining(records.train.sentence_task != "none"),
        identity=masks,
    )


def left_to_right(config, tokenizer, files):
    """Each token from those before it, by GPT or a BERT with a causal mask."""
    if not config.is_left_to_right:
        raise errors.InputError(
            f"--objective=left_to_right, but the network of {files.config_file} sees "
            'the tokens that follow; add "attention": "causal" to it, or give the '
            "config of a GPT"
        )
    records = load_records(config, tokenizer, None)
    return dataclasses.replace(
        common_task(pretrainers.LanguageModel, config, tokenizer, records),
        kind="text-generation",
        objective=losses.next_token(),
        score=functools.partial(metrics.of_tokens, "next_token", records.held_out),
    )


def bidirectional_lm(config, tokenizer, files):
    """Each word from those before it, and apart from that from those after it."""
    words = sentence_files.WordIds(tokenizer)
    config = pretraining_flags.streams_config(config, words.count)
    sentences = stream_batches.load(
        pretraining_flags.files(),
        words,
        steps_per_batch=config.unroll_steps,
        micro_batches=FLAGS.gradient_accumulation_steps,
    )
    print(sentences.describe())
    return dataclasses.replace(
        common_task(both_directions.BidirectionalLM, config, tokenizer, sentences),
        kind="feature-extraction",
        objective=both_directions.objective(),
        score=metrics.of_both_directions,
        identity={"gradient_accumulation_steps": FLAGS.gradient_accumulation_steps},
        states=lambda model: model.states,
    )


def denoising(config, tokenizer, files):
    """What noise has taken from a text, written by an encoder-decoder."""
    rule = corruptions.rule(**pretraining_flags.noise_rule())
    texts = denoising_batches.load(
        *(pretraining_flags.files(), tokenizer, rule),
        tokens=config.decoder_tokens,
        **sizes(config),
    )
    print(texts.describe(tokenizer))
    return dataclasses.replace(
        common_task(pretrainers.HEADS["seq2seq"], config, tokenizer, texts),
        kind="text2text-generation",
        objective=losses.target_token(),
        score=functools.partial(metrics.of_tokens, "target_token", None),
        identity=dataclasses.asdict(rule),
    )


OBJECTIVES = masked_lm, left_to_right, bidirectional_lm, denoising
TASKS = {task.__name__: task for task in OBJECTIVES}


def common_task(kind, config, tokenizer, records):
    """What the tasks share, with the defaults of masked words."""
    return pretraining_run.Task(
        kind="fill-mask",
        config=config,
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
    return record_batches.load(
        *(pretraining_flags.files(), tokenizer, rule),
        has_mask_flags=pretraining_flags.masks_are_asked_for(),
        **sizes(config),
    )


def sizes(config):
    """What records have to fit."""
    return {
        "max_seq_length": FLAGS.max_seq_length,
        "vocab_size": config.vocab_size,
        "spare_rows": pretrained.SPARE_ROWS,
    }


def export_model(tokenizer, model, output_dir):
    """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
    length, filler = FLAGS.max_seq_length, None
    if isinstance(model, pretrainers.BertPretrainer):
        filler = served.MaskFiller(
            cloze.encoder(tokenizer, length, FLAGS.max_predictions_per_seq),
            functools.partial(model, training=False),
            cloze.chooser(tokenizer.vocab, FLAGS.top_k),
        )
    else:
        print("export: without fill_mask, for the weights have no head of masked words")
    choice = vectors.choose(model.config, **model_flags.vector_choice())
    with kernels_tf.joined_projections(model) as variables:
        module = served.PretrainedModel(
            graph.encoder(tokenizer, length),
            functools.partial(vectors.encode, model, choice),
            graph.speller(tokenizer.vocab),
            variables,
            filler,
            model.config,
        )
        export_dir = os.path.join(output_dir, "export")
        return export.save(module, export_dir, {}, FLAGS.export_server_config)


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        task, settings = prepare()
        said = task.records.explain if task.records else lambda error: None
        with run.lost_workers_named(settings.run.strategy), errors.named(said):
            pretraining_run.run_task(task, settings)


if __name__ == "__main__":
    command_line.run(main)
