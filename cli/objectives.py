"""The objectives of run_pretraining.py, each a driver.PretrainingTask."""

import dataclasses
import functools

from absl import flags

from cli import model_flags, networks, pretraining_flags, run_flags
from contract import errors
from data_pipeline.batches import packing
from data_pipeline.extraction import lines
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import (
    cloze,
    denoising_batches,
    masking,
    word_streams,
)
from modeling import losses, models, pretrainers, replaced
from modeling.checkpoints import checkpoint, pretrained
from modeling.elmo import objective as both_directions
from modeling.features import vectors
from reports import run_report
from serving import pretrained as served
from training import driver, metrics

FLAGS = flags.FLAGS


def masked_lm(config, tokenizer, files, kind=pretrainers.BertPretrainer):
    """Masked words and, where records and network have it, the second sentence."""
    records = None
    trains = FLAGS.do_train
    path = files.init_checkpoint if trains else run_flags.first_weights(files)
    if config.kind == "ELECTRA" and pretrained.is_there(path):
        is_alone = FLAGS.objective == "masked_lm"
        size = None if is_alone else FLAGS.generator_size
        pretrained.check_generator(config, path, size)
    if trains or FLAGS.do_eval:
        rule = masking.Rule(**pretraining_flags.masking_rule())
        records = load_records(config, tokenizer, files, rule)
    elif not pretrained.fills_masks(config, path):
        kind = models.BertModel
    if FLAGS.do_export:
        vectors.choose(config, **model_flags.vector_choice())
        if kind is not models.BertModel:
            cloze.check(tokenizer, FLAGS.top_k)
    task = common_task(kind, config, tokenizer, records)
    if not records:
        return dataclasses.replace(task, load_weights=pretrained.load_encoder)
    masks = pretraining_flags.masking_identity(records.mask)
    has_sentences = config.has_next_sentence and records.train.sentence_task != "none"
    return dataclasses.replace(
        task, objective=losses.pretraining(has_sentences), identity=masks
    )


def replaced_tokens(config, tokenizer, files):
    """Masked words by a generator, and by a discriminator what it has replaced."""
    size = FLAGS.generator_size
    config.generator(size)  # refuses a size before long work
    kind = functools.partial(replaced.ReplacedTokenDetector, generator_size=size)
    task = masked_lm(config, tokenizer, files, kind)
    if not task.records:
        return task
    return dataclasses.replace(
        task,
        records=dataclasses.replace(task.records, has_draws=True),
        objective=replaced.objective(FLAGS.discriminator_loss_weight),
    )


def left_to_right(config, tokenizer, files):
    """Each token from those before it, by GPT or a BERT with a causal mask."""
    if not config.is_left_to_right:
        raise errors.InputError(
            f"--objective=left_to_right, but the network of {files.config_file} sees "
            'the tokens that follow; add "attention": "causal" to that of a BERT, or '
            "give the config of a GPT"
        )
    records = load_records(config, tokenizer, files)
    return dataclasses.replace(
        common_task(pretrainers.LanguageModel, config, tokenizer, records),
        kind="text-generation",
        objective=losses.next_token(),
        score=functools.partial(metrics.score_tokens, "next_token", records.held_out),
    )


def bidirectional_lm(config, tokenizer, files):
    """Each word from those before it, and apart from that from those after it."""
    words = word_streams.WordIds(tokenizer)
    config = pretraining_flags.streams_config(config, words.count)
    sentences = word_streams.load(
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
        score=metrics.score_both_directions,
        identity={
            "gradient_accumulation_steps": FLAGS.gradient_accumulation_steps,
            "words": words.digest(),
        },
        states=lambda model: model.states,
    )


def denoising(config, tokenizer, files):
    """A text without its noise to what the noise replaced, by an encoder-decoder."""
    rule = denoising_batches.rule(**pretraining_flags.noise_rule())
    texts = denoising_batches.load(
        pretraining_flags.files(),
        tokenizer,
        rule,
        tokens=config.decoder_tokens,
        **sizes(config, tokenizer),
    )
    print(texts.describe(tokenizer))
    return dataclasses.replace(
        common_task(pretrainers.HEADS["seq2seq"], config, tokenizer, texts),
        kind="text2text-generation",
        objective=losses.target_token(),
        score=functools.partial(metrics.score_tokens, "target_token", None),
        identity=dataclasses.asdict(rule),
    )


OBJECTIVES = masked_lm, replaced_tokens, left_to_right, bidirectional_lm, denoising
TASKS = {task.__name__: task for task in OBJECTIVES}


def common_task(kind, config, tokenizer, records):
    """Fields that the tasks share, with the defaults of masked words."""
    return driver.PretrainingTask(
        kind="fill-mask",
        config=config,
        model=functools.partial(kind, config, recompute=FLAGS.recompute),
        load_weights=networks.weights_loader(),
        store=checkpoint.store,
        records=records,
        export=functools.partial(export_model, tokenizer),
        report=run_report.write,
        files=pretrained.files(config, tokenizer),
    )


def load_records(config, tokenizer, files, rule=None):
    """The records of the flags."""
    records = record_batches.load(
        pretraining_flags.files(),
        tokenizer,
        rule,
        type_vocab_size=config.type_vocab_size,
        has_mask_flags=pretraining_flags.masks_are_asked_for(),
        **sizes(config, tokenizer),
    )
    return records


def sizes(config, tokenizer):
    """Sizes that records have to fit."""
    spare_rows = config.vocab_size - tokenizer.vocab_size if tokenizer else 0
    return {
        "max_seq_length": FLAGS.max_seq_length,
        "vocab_size": config.vocab_size,
        "spare_rows": max(spare_rows, pretrained.SPARE_ROWS),
    }


def export_model(tokenizer, model, output_dir):
    """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
    length, filler = FLAGS.max_seq_length, None
    generator = getattr(model, "generator", model)
    fills_masks = isinstance(generator, pretrainers.BertPretrainer)
    if fills_masks:
        filler = served.MaskFiller(
            cloze.encoder(tokenizer, length, FLAGS.max_predictions_per_seq),
            functools.partial(generator, training=False),
            cloze.chooser(tokenizer, FLAGS.top_k),
        )
    else:
        print("export: without fill_mask, for the weights have no head of masked words")
    choice = vectors.choose(model.config, **model_flags.vector_choice())

    def make(variables):
        return served.PretrainedModel(
            functools.partial(packing.encode, tokenizer, max_seq_length=length),
            functools.partial(vectors.encode, model, choice),
            lines.speller(tokenizer.vocab),
            variables,
            filler,
            model.config,
        )

    return run_flags.export(model, make, output_dir)
