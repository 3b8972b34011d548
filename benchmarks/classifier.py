r"""Times classifier fine-tuning on real text, and a peer's in turn with it.

    python benchmarks/classifier.py --pretrained=models/minilm \
        --train_file=sample_data/messages/train.tsv --text_column=0 \
        --peer_python=/path/to/python-with-transformers

Each side trains the same weights on the same rows in batches of 32, ours grouped by
length, Hugging Face's padded to the longest of each random batch. Sides take turns,
each in a process of its own. Prints one JSON object: examples a second without
start-up and first steps, the ratio of each pair, and what share of the machine's
measured matrix-product peak the useful work (6 operations a weight of the blocks and
token) took.
"""

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
WARM_UP_STEPS = 20


def read_texts():
    """The text column of a TSV, without a header line named `text`."""
    lines = pathlib.Path(FLAGS.train_file).read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[FLAGS.text_column] for line in lines]
    return texts[1:] if texts[0] in ("text", "sentence") else texts


def block_weights(net):
    """Weights of the encoder blocks, each of which works on every token."""
    d = net.hidden_size
    return net.num_hidden_layers * (4 * d**2 + 2 * d * net.intermediate_size)


def time_ours():
    """Examples and tokens a second of this project's loop, and the peak."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    from benchmarks import layers
    from data_pipeline.classification import labelled_texts, tables
    from data_pipeline.examples import batching
    from data_pipeline.text import tokenization
    from modeling import config, losses, models
    from modeling.checkpoints import checkpoint, pretrained
    from training import steps
    from training.optimization import loss_scale, optimizer

    files = pretrained.locate(FLAGS.pretrained)
    texts = read_texts()
    table = tables.Table(
        path=FLAGS.train_file,
        text_a=texts,
        text_b=None,
        labels=None,
        example_ids=[],
        lines=[],
    )
    tokenizer = tokenization.BertTokenizer.from_file(files.vocab_file)
    encode = labelled_texts.encoder(tokenizer, FLAGS.max_seq_length)
    packed = labelled_texts.featurize(table, encode, FLAGS.max_seq_length)
    net = config.BertConfig.from_json_file(files.config_file)
    model = models.BertClassifier(net, 2)
    model.build()
    checkpoint.load(model, files.checkpoint)
    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    order = batching.training_order(
        packed.lengths,
        batch_size=FLAGS.batch_size,
        num_steps=WARM_UP_STEPS + FLAGS.steps,
        seed=1,
    )
    labels = np.zeros(len(texts), np.int32)
    train = steps.train_function(
        *(model, adam),
        losses.classifier("classification"),
        tf.distribute.get_strategy(),
        seed=1,
        jit_compile=False,
    )
    batches = iter(batching.batches(packed, order, targets={"label_ids": labels}))
    rates = tf.fill([max(WARM_UP_STEPS, FLAGS.steps)], 1e-5)
    step = tf.constant(0, tf.int64)
    scaling = loss_scale.of({})
    train(batches, rates, tf.constant(WARM_UP_STEPS), step, scaling)
    begin = time.perf_counter()
    found, _ = train(batches, rates, tf.constant(FLAGS.steps), step, scaling)
    tokens = float(found["tokens"])
    seconds = time.perf_counter() - begin
    peak = layers.peak_gflops()
    return {
        "examples_per_second": FLAGS.steps * FLAGS.batch_size / seconds,
        "tokens_per_second": tokens / seconds,
        "peak_gflops": peak,
        "share_of_peak": 6 * block_weights(net) * tokens / seconds / 1e9 / peak,
    }


def time_hugging_face():
    """Examples a second of transformers with PyTorch on the same rows."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    tokenizer = transformers.BertTokenizerFast.from_pretrained(FLAGS.pretrained)
    model = transformers.BertForSequenceClassification.from_pretrained(FLAGS.pretrained)
    model.train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5)
    rng = np.random.default_rng(1)
    ids = tokenizer(read_texts(), truncation=True, max_length=FLAGS.max_seq_length)
    rows = [{"input_ids": row} for row in ids["input_ids"]]
    seconds, warm_up = 0.0, 5
    for step in range(warm_up + FLAGS.peer_steps):
        chosen = [rows[i] for i in rng.integers(len(rows), size=FLAGS.batch_size)]
        batch = tokenizer.pad(chosen, return_tensors="pt")
        begin = time.perf_counter()
        labels = torch.zeros(FLAGS.batch_size, dtype=torch.long)
        loss = model(**batch, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        if step >= warm_up:
            seconds += time.perf_counter() - begin
    return {"examples_per_second": FLAGS.peer_steps * FLAGS.batch_size / seconds}


def main(_):
    """Times one side, or both in turn."""
    handed_on = (
        "pretrained",
        "train_file",
        "text_column",
        "max_seq_length",
        "batch_size",
        "steps",
        "peer_steps",
    )
    turns.main(__file__, time_ours, time_hugging_face, handed_on, "examples_per_second")


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    flags.DEFINE_string("train_file", None, "TSV of texts.", required=True)
    flags.DEFINE_integer("text_column", 0, "Its column with the text.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest sequence, in tokens.")
    flags.DEFINE_integer("batch_size", 32, "Examples a step.")
    flags.DEFINE_integer("steps", 100, "Steps of ours that are timed.")
    flags.DEFINE_integer("peer_steps", 30, "Steps of the peer that are timed.")
    turns.define_flags()
    app.run(main)
