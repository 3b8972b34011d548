"""How run_seq2seq.py writes targets: greedy, by beams, or drawn."""

import tensorflow as tf
from absl import flags

from cli import seq2seq_flags
from contract import features
from modeling.generation import beam_search, decoding, sampling

FLAGS = flags.FLAGS
_ROWS = 2**32  # a draw's seed holds --seed and the number of the row


def outputs(tokenizer, model):
    """A function of features to ids [B, N], -1 after a text, and losses of targets."""

    def forward(batch, training):
        ids, is_text = write(tokenizer, model, batch, batch[features.UNIQUE_IDS])
        results = {"ids": tf.where(is_text, ids, -1)}
        if features.LABELS in batch:
            losses = model(batch, training=training)["next_token_losses"]
            mask = tf.cast(batch[features.DECODER_MASK], losses.dtype)
            count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
            results["losses"] = tf.reduce_sum(losses * mask, axis=1) / count
        return results

    return forward


def write_rows(tokenizer, model, batch):
    """As `write`, of rows that are numbered from 0."""
    rows = tf.range(tf.shape(batch[features.INPUT_IDS])[0])
    return write(tokenizer, model, batch, rows)


def write(tokenizer, model, batch, rows):
    """Ids [B, N] for the sources of a batch, and which of them belong to texts."""
    source = {name: batch[name] for name in features.ENCODER_INPUTS}
    ids, lengths = model.start(tf.shape(rows)[0])
    common = {
        "end_ids": (model.config.eos_token_id,),
        "num_tokens": tokenizer.vocab_size,
    }
    settings = seq2seq_flags.settings()
    most = settings.pop("max_new_tokens")
    if FLAGS.num_beams > 1:
        beams = beam_search.BeamConfig(**settings, **common)
        best = beam_search.search(model, beams, ids, lengths, most, (source,))
        return best.ids[:, 0], best.is_text[:, 0]
    rules = decoding.GenerationConfig(
        sampling.Sampling(**seq2seq_flags.sampling()),
        **common,
        **{name: settings[name] for name in ("min_length", "no_repeat_ngram_size")},
    )
    seeds = tf.cast(rows, tf.int64) + FLAGS.seed * _ROWS
    return decoding.write(model, rules, ids, lengths, seeds, most, (source,))
