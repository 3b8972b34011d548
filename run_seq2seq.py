r"""Trains an encoder-decoder to write a text for each text, scores, predicts, exports.

    python run_seq2seq.py --bert_config_file=sample_data/dates/config.json \
        --vocab_file=sample_data/dates/vocab.txt --do_train --do_eval \
        --train_file=sample_data/dates/train.tsv --dev_file=sample_data/dates/dev.tsv \
        --max_source_length=16 --max_target_length=12 --learning_rate=1e-3 \
        --num_train_epochs=10 --output_dir=output/dates

Summaries, translations, anything written for something read: see docs/seq2seq.md.
"""

import functools

from absl import flags

from cli import command_line, fine_tuning_flags, model_flags, seq2seq_flags
from data_pipeline.seq2seq import pairs as text_pairs

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=None)
    seq2seq_flags.define()


def check():
    seq2seq_flags.check()
    layout = text_pairs.Layout(**seq2seq_flags.layout())
    for split, path in fine_tuning_flags.local_tables().items():
        text_pairs.open_rows(path, layout, targets_required=split != "test")


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run, check)

import tensorflow as tf

from cli import run_flags
from contract import errors, features
from data_pipeline.seq2seq import graph, results
from data_pipeline.seq2seq import split as pair_rows
from data_pipeline.text import opening
from modeling import kernels_tf, losses
from modeling.checkpoints import checkpoint, pretrained, warm_start
from modeling.encoder_decoder import config as encoder_decoder_config
from modeling.encoder_decoder import decoding as sequence_to_sequence
from modeling.generation import beam_search, decoding, sampling
from reports import pictures, run_report
from serving import formats, generation
from training import fine_tuning
from training.results import run_facts

_ROWS = 2**32  # a draw's seed holds --seed and the number of the row


def prepare():
    """The task and its settings; a ValueError says what is wrong with the input."""
    strategy = run_flags.set_up()
    seq2seq_flags.check()
    files = model_flags.files(pretrained.locate)
    tokenizer = opening.open_for_tasks(files, checks_case=FLAGS.check_case)
    opening.check_exports(tokenizer, FLAGS.do_export)
    config, load_weights = open_network(files, tokenizer)
    seq2seq_flags.check_network(
        files.config_file,
        config.encoder.max_position_embeddings,
        config.decoder.max_position_embeddings,
        tokenizer.vocab_size,
    )
    data = pair_rows.load(
        seq2seq_flags.paths(fine_tuning_flags.wanted_splits()),
        text_pairs.Layout(**seq2seq_flags.layout()),
        *(tokenizer, config.decoder_tokens),
        pair_rows.Limits(*seq2seq_flags.limits()),
    )
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(data["train"]) if "train" in data else 0,
        score_names=results.NAMES,
    )
    return make_task(config, tokenizer, data, load_weights), settings


def open_network(files, tokenizer):
    """The config, and what loads weights; from one BERT both sides are filled."""
    config = pretrained.open_config(
        files, tokenizer.vocab_size, 0, takes_encoder_decoder=True
    )
    load = model_flags.weights_loader(pretrained.load_weights)
    if config.network == "encoder_decoder":
        return config, load
    if config.network != "bert":
        raise errors.InputError(
            f"{files.config_file}: describes a network of {config.kind}, and a text is "
            "read by one BERT and written by another; give the config.json of an "
            "encoder-decoder, or a BERT for both sides"
        )
    config = encoder_decoder_config.EncoderDecoderConfig.from_berts(
        *(config, config),
        decoder_start_token_id=tokenizer.start_id,
        eos_token_id=tokenizer.end_id,
    )

    def load_both(model, path, *, trains, resumes, **more):
        if trains and path and not resumes:
            return str(warm_start.load(model, path)), 0
        return load(model, path, trains=trains, resumes=resumes, **more)

    return config, load_both


def make_task(config, tokenizer, data, load_weights):
    """The fine_tuning.Task of writing a text for each text."""
    decode = functools.partial(graph.decode, tokenizer, config.decoder_tokens)
    return fine_tuning.Task(
        splits={
            split: pairs.examples(is_numbered=split != "train")
            for split, pairs in data.items()
        },
        model=functools.partial(
            sequence_to_sequence.SequenceToSequence, config, recompute=FLAGS.recompute
        ),
        load_weights=load_weights,
        store=checkpoint.store,
        objective=losses.target_token(),
        outputs=functools.partial(written_and_losses, tokenizer),
        score=lambda split, outputs, _: results.decide(data[split], outputs, decode),
        examine=lambda split, scored: results.outcomes(split, data[split], scored),
        pictures=pictures.summaries,
        report=run_facts.hook(
            *(run_report, "text2text-generation"),
            lambda: {split: pairs.summary() for split, pairs in data.items()},
        ),
        predict=functools.partial(predict, data),
        export=functools.partial(export_model, tokenizer, decode),
        files=pretrained.files(config, tokenizer),
        identity={"decoder_tokens": list(config.decoder_tokens)},
    )


def written_and_losses(tokenizer, model):
    """What is written for a batch, and the mean loss of each known target."""

    def forward(batch, training):
        ids, is_text = write(tokenizer, model, batch, batch[features.UNIQUE_IDS])
        found = {"ids": tf.where(is_text, ids, -1)}
        if features.LABELS in batch:
            losses = model(batch, training=training)["next_token_losses"]
            mask = tf.cast(batch[features.DECODER_MASK], losses.dtype)
            count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
            found["losses"] = tf.reduce_sum(losses * mask, axis=1) / count
        return found

    return forward


def write(tokenizer, model, batch, rows):
    """Ids [B, N] for the sources of a batch, and which of them belong to texts."""
    source = {name: batch[name] for name in features.ENCODER_INPUTS}
    ids, lengths = model.start(tf.shape(rows)[0])
    common = {
        "end_ids": (model.config.eos_token_id,),
        "num_tokens": tokenizer.vocab_size,
    }
    most = FLAGS.max_target_length
    if FLAGS.num_beams > 1:
        rules = beam_search.BeamConfig(**seq2seq_flags.beams(), **common)
        found = beam_search.search(model, rules, ids, lengths, most, (source,))
        return found.ids[:, 0], found.is_text[:, 0]
    rules = decoding.GenerationConfig(
        sampling.Sampling(**seq2seq_flags.sampling()), **common
    )
    seeds = tf.cast(rows, tf.int64) + FLAGS.seed * _ROWS
    return decoding.write(model, rules, ids, lengths, seeds, most, (source,))


def predict(data, written, settings, _):
    """Writes predictions in both forms; returns scores, if any."""
    if settings.writes:
        paths = results.write_all(settings.output_dir, data["test"], written)
        print("\n".join(f"predictions: {path}" for path in paths))
    return written.results("test")


def export_model(tokenizer, decode, model, output_dir):
    """Writes output_dir/export/<n>: text in, text out."""
    limit, _ = seq2seq_flags.limits()

    def write_rows(batch):
        rows = tf.range(tf.shape(batch[features.INPUT_IDS])[0])
        return write(tokenizer, model, batch, rows)

    with kernels_tf.joined_projections(model) as variables:
        module = generation.TargetWriter(
            lambda texts: graph.encode(tokenizer, texts, limit),
            *(write_rows, decode, variables),
        )
        chosen = fine_tuning_flags.export_settings()
        return formats.save(module, output_dir, {}, **chosen)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
