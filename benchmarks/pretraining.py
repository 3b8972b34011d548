r"""Times pretraining steps, and a peer's in turn with them.

    python benchmarks/pretraining.py --bert_config_file=models/minilm/config.json \
        --peer_python=/path/to/python-with-transformers

Both sides train the same shape from random weights on full sequences of random tokens,
20 of 128 masked. Hugging Face's BertForPreTraining computes the vocabulary matrix at
every position. Sides take turns, each in a process of its own. Prints one JSON object:
sequences a second without start-up and first steps, the ratio of each pair, and what
share of the machine's measured matrix-product peak the useful work (6 operations a
weight and token, or prediction) took.
"""

import json
import os
import pathlib
import sys
import time

import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import turns

FLAGS = flags.FLAGS
WARM_UP_STEPS = 3


def random_batch(vocab_size):
    """Features of full sequences, int64 but for the weights."""
    rng = np.random.default_rng(1)
    rows, length, predictions = (
        FLAGS.batch_size,
        FLAGS.max_seq_length,
        FLAGS.predictions,
    )
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


def useful_gflop(net):
    """Billions of operations of one step, forward and backward, without attention."""
    d = net.hidden_size
    blocks = net.num_hidden_layers * (4 * d**2 + 2 * d * net.intermediate_size)
    head = d**2 + d * net.vocab_size
    tokens = blocks * FLAGS.max_seq_length + head * FLAGS.predictions
    return 6 * FLAGS.batch_size * tokens / 1e9


def time_ours():
    """Sequences a second of this project's loop, and the share of the peak."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    from benchmarks import layers
    from modeling import losses, models
    from modeling.checkpoints import pretrained
    from training import steps
    from training.optimization import loss_scale, optimizer

    net = pretrained.read_config(FLAGS.bert_config_file)
    model = models.BertPretrainer(net)
    model.build()
    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    train = steps.train_function(
        model,
        adam,
        losses.pretraining(),
        tf.distribute.get_strategy(),
        seed=1,
        jit_compile=False,
    )
    batch = {
        name: value if value.dtype == np.float32 else value.astype(np.int32)
        for name, value in random_batch(net.vocab_size).items()
    }
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    step, rates = tf.constant(0, tf.int64), tf.fill([FLAGS.steps + 1], 1e-5)
    scaling = loss_scale.of({})
    train(batches, rates, tf.constant(WARM_UP_STEPS), step, scaling)
    begin = time.perf_counter()
    train(batches, rates, tf.constant(FLAGS.steps), step, scaling)
    seconds = (time.perf_counter() - begin) / FLAGS.steps
    peak = layers.peak_gflops()
    return {
        "sequences_per_second": FLAGS.batch_size / seconds,
        "peak_gflops": peak,
        "share_of_peak": useful_gflop(net) / seconds / peak,
    }


def time_hugging_face():
    """Sequences a second of transformers with PyTorch on the same batch."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    raw = json.loads(pathlib.Path(FLAGS.bert_config_file).read_text(encoding="utf-8"))
    model = transformers.BertForPreTraining(transformers.BertConfig(**raw))
    model.train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5)
    features = {
        name: torch.tensor(value)
        for name, value in random_batch(model.config.vocab_size).items()
    }
    labels = torch.full_like(features["input_ids"], -100)
    labels.scatter_(1, features["masked_lm_positions"], features["masked_lm_ids"])
    for step in range(WARM_UP_STEPS + FLAGS.peer_steps):
        if step == WARM_UP_STEPS:
            begin = time.perf_counter()
        model(
            input_ids=features["input_ids"],
            attention_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
            labels=labels,
            next_sentence_label=features["next_sentence_labels"],
        ).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
    seconds = time.perf_counter() - begin
    return {"sequences_per_second": FLAGS.peer_steps * FLAGS.batch_size / seconds}


def main(_):
    """Times one side, or both in turn."""
    handed_on = (
        "bert_config_file",
        "max_seq_length",
        "predictions",
        "batch_size",
        "steps",
        "peer_steps",
    )
    turns.main(
        __file__, time_ours, time_hugging_face, handed_on, "sequences_per_second"
    )


if __name__ == "__main__":
    flags.DEFINE_string("bert_config_file", "models/minilm/config.json", "The shape.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens a sequence.")
    flags.DEFINE_integer("predictions", 20, "Masked tokens a sequence.")
    flags.DEFINE_integer("batch_size", 32, "Sequences a step.")
    flags.DEFINE_integer("steps", 20, "Steps of ours that are timed.")
    flags.DEFINE_integer("peer_steps", 5, "Steps of the peer that are timed.")
    turns.define_flags()
    app.run(main)
