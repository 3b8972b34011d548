r"""Times pretraining steps, in turn with a peer.

    python benchmarks/pretraining.py --bert_config_file=models/minilm/config.json \
        --peer_python=/path/to/python-with-transformers

Both sides train the same shape from random weights on full sequences of random tokens,
20 of 128 masked. Hugging Face's BertForPreTraining computes the vocabulary matrix at
every position. Prints sequences a second without start-up and first steps, the ratio of
each pair, and `sides.shares_of_peak`; see `turns.compare`.
"""

import itertools
import json
import pathlib
import sys

import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import sides, turns

FLAGS = flags.FLAGS
WARM_UP_STEPS = 3


def random_batch(vocab_size):
    """Features of full sequences, int64 but for the weights."""
    rng = np.random.default_rng(1)
    rows, length = FLAGS.batch_size, FLAGS.max_seq_length
    predictions = FLAGS.predictions
    places = rng.permuted(np.tile(np.arange(1, length - 1), (rows, 1)), axis=1)
    return {
        "input_ids": rng.integers(999, vocab_size, (rows, length)),
        "input_mask": np.ones((rows, length), np.int64),
        "segment_ids": np.tile(np.arange(length) >= length // 2, (rows, 1)).astype(int),
        "masked_lm_positions": np.sort(places[:, :predictions], axis=1),
        "masked_lm_ids": rng.integers(999, vocab_size, (rows, predictions)),
        "masked_lm_weights": np.ones((rows, predictions), np.float32),
        "next_sentence_labels": rng.integers(0, 2, rows),
    }


def time_ours():
    """Sequences a second of this project's loop, and the share of the peak."""
    import tensorflow as tf

    from modeling import losses, models
    from modeling.checkpoints import pretrained

    config = pretrained.read_config(FLAGS.bert_config_file)
    model = models.build("pretraining", None, config)
    batch = {
        name: value if value.dtype == np.float32 else value.astype(np.int32)
        for name, value in random_batch(config.vocab_size).items()
    }
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    seconds, tokens = sides.time_ours(
        model, losses.pretraining(), batches, WARM_UP_STEPS, FLAGS.steps
    )
    sequences = FLAGS.steps * FLAGS.batch_size
    predictions = sequences * FLAGS.predictions
    return {
        "sequences_per_second": sequences / seconds,
        **sides.shares_of_peak(config, seconds, tokens, predictions),
    }


def time_hugging_face():
    """Sequences a second of transformers with PyTorch on the same batch."""
    import torch
    import transformers

    raw = json.loads(pathlib.Path(FLAGS.bert_config_file).read_text(encoding="utf-8"))
    model = transformers.BertForPreTraining(transformers.BertConfig(**raw))
    features = {
        name: torch.tensor(value)
        for name, value in random_batch(model.config.vocab_size).items()
    }
    labels = torch.full_like(features["input_ids"], -100)
    labels.scatter_(1, features["masked_lm_positions"], features["masked_lm_ids"])
    batch = {
        "input_ids": features["input_ids"],
        "attention_mask": features["input_mask"],
        "token_type_ids": features["segment_ids"],
        "labels": labels,
        "next_sentence_label": features["next_sentence_labels"],
    }
    batches = itertools.repeat(batch, WARM_UP_STEPS + FLAGS.peer_steps)
    seconds, _ = sides.time_hugging_face(model, batches, WARM_UP_STEPS)
    return {"sequences_per_second": FLAGS.peer_steps * FLAGS.batch_size / seconds}


def main(_):
    """Times one side, or both in turn."""
    timed = {turns.OURS: time_ours, turns.PEER: time_hugging_face}
    turns.compare(timed, "sequences_per_second")


if __name__ == "__main__":
    flags.DEFINE_string("bert_config_file", "models/minilm/config.json", "The shape.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens a sequence.")
    flags.DEFINE_integer("predictions", 20, "Masked tokens a sequence.")
    flags.DEFINE_integer("batch_size", 32, "Sequences a step.")
    flags.DEFINE_integer("steps", 20, "Steps of ours that are timed.")
    flags.DEFINE_integer("peer_steps", 5, "Steps of the peer that are timed.")
    turns.define_flags()
    app.run(main)
