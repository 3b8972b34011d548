r"""Trains an encoder-decoder to write a text for each text, scores, predicts, exports.

    python run_seq2seq.py --bert_config_file=config.json \
        --vocab_file=vocab.txt --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv \
        --max_source_length=16 --max_target_length=12 --learning_rate=1e-3 \
        --num_train_epochs=10 --output_dir=output/dates

Summaries, translations, anything written for something read: see docs/seq2seq.md.
"""

from cli import command_line
from tasks.settings.seq2seq import Seq2seqSettings


def main() -> None:
    settings = command_line.parse(Seq2seqSettings, __doc__)
    command_line.load_tensorflow()
    from tasks import seq2seq

    command_line.run(seq2seq.run, settings)


if __name__ == "__main__":
    main()
