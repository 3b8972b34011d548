r"""Trains an encoder-decoder to write a text for each text, scores, predicts, exports.

    python run_seq2seq.py --bert_config_file=config.json \
        --vocab_file=vocab.txt --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv \
        --max_source_length=16 --max_target_length=12 --learning_rate=1e-3 \
        --num_train_epochs=10 --output_dir=output/dates

Summaries, translations, anything written for something read: see docs/seq2seq.md.
"""

import contextlib
import functools

from absl import flags

from cli import command_line, fine_tuning_flags, seq2seq_flags
from data_pipeline.seq2seq import pairs as text_pairs

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=None)
    seq2seq_flags.define()


def check():
    seq2seq_flags.check()
    for split, path in fine_tuning_flags.local_tables().items():
        targets_required = split != "test"
        with contextlib.redirect_stdout(None):  # what is printed comes with all rows
            text_pairs.open_rows(
                path, seq2seq_flags.layout(), targets_required=targets_required
            )


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run, check)

from cli import networks, run_flags, target_writing
from data_pipeline.batches import packing
from data_pipeline.seq2seq import graph, results
from data_pipeline.seq2seq import split as pair_rows
from data_pipeline.text import opening
from modeling import losses
from modeling.checkpoints import pretrained
from modeling.encoder_decoder import decoding as sequence_to_sequence
from serving import generation


def prepare():
    """The task and its settings; ValueError for wrong input."""
    strategy = run_flags.set_up()
    seq2seq_flags.check()
    opened = networks.open_for_task(0, takes_encoder_decoder=True)
    opening.check_exports(opened.tokenizer, FLAGS.do_export)
    (files, tokenizer, config), load_weights = networks.open_both_sides(opened)
    config = seq2seq_flags.take_settings(config)
    seq2seq_flags.check_network(files.config_file, config, tokenizer.vocab_size)
    config.check_lengths(seq2seq_flags.settings())
    data = pair_rows.load(
        seq2seq_flags.paths(),
        seq2seq_flags.layout(),
        tokenizer,
        config.decoder_tokens,
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


def make_task(config, tokenizer, data, load_weights):
    """The driver.FineTuningTask of writing a text for each text."""
    decode = functools.partial(graph.decode, tokenizer, config.decoder_tokens)
    return run_flags.make_task(
        "text2text-generation",
        lambda: {split: pairs.summary() for split, pairs in data.items()},
        splits={
            split: pairs.examples(is_numbered=split != "train")
            for split, pairs in data.items()
        },
        model=functools.partial(
            sequence_to_sequence.SequenceToSequence, config, recompute=FLAGS.recompute
        ),
        load_weights=load_weights,
        objective=losses.target_token(),
        outputs=functools.partial(target_writing.outputs, tokenizer),
        score=lambda split, outputs, _: results.decide(data[split], outputs, decode),
        examine=lambda split, scored: results.outcomes(split, data[split], scored),
        predict=functools.partial(predict, data),
        export=functools.partial(export_model, tokenizer, decode),
        files=pretrained.files(config, tokenizer),
        identity={"decoder_tokens": list(config.decoder_tokens)},
    )


def predict(data, written, settings, _):
    """Writes predictions in both forms; returns scores, if any."""
    if settings.writes:
        paths = results.write_all(settings.output_dir, data["test"], written)
        print("\n".join(f"predictions: {path}" for path in paths))
    return written.results("test")


def export_model(tokenizer, decode, model, output_dir):
    """Writes output_dir/export/<n>: text in, text out."""
    limit, _ = seq2seq_flags.limits()

    def make(variables):
        return generation.TargetWriter(
            lambda texts: packing.encode(tokenizer, texts, limit),
            functools.partial(target_writing.write_rows, tokenizer, model),
            decode,
            variables,
        )

    return run_flags.export(model, make, output_dir)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
