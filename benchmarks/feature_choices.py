r"""Tags words from frozen features: which layers are best (BERT section 5.3, Table 7)?

    python benchmarks/feature_choices.py --pretrained=models/minilm \
        --train_file=train.conll --dev_file=dev.conll --test_file=test.conll

BERT is not trained. One pass over the texts keeps what its embeddings and each of its
layers say of the first word piece of every word. On each of vectors.COMBINATIONS, and
on a sum of all layers whose weights are learned with it (their softmax), a new tagger
is trained: a bidirectional LSTM and a linear layer (the paper has two LSTMs of 768). It
is scored after every epoch, and the weights of the best one on --dev_file are kept.
Prints one JSON object: for each choice the score of --dev_file and --test_file (F1 of
spans, or accuracy where tags have none), means over --seeds and each of them.
"""

import contextlib
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from keras import ops

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from data_pipeline import (  # noqa: E402
    batching,
    features,
    stretches,
    tag_schemes,
    tag_scores,
    tagged_data,
    tagged_text,
    tokenization,
)
from modeling import checkpoint, models, pretrained, vectors  # noqa: E402
from training import steps  # noqa: E402

FLAGS = flags.FLAGS
SPLITS = ("train", "dev", "test")
WEIGHTED_SUM = "weighted_sum"
LEARNING_RATE = 1e-3


class WeightedSum(keras.layers.Layer):
    """A mean of the layers with learned weights, at first equal.

    Call shapes: [B, S, L + 1, D], of the embeddings and L layers -> [B, S, D].
    """

    def build(self, shape):
        self.logits = self.add_weight((shape[2] - 1,), "zeros", name="logits")

    def call(self, states):
        return ops.einsum("l,bsld->bsd", ops.softmax(self.logits), states[:, :, 1:])


class Tagger(keras.Model):
    """Reads a sentence of vectors both ways.

    Call shapes: [B, S, L + 1, D], zeros behind each sentence -> logits [B, S, C].
    """

    def __init__(self, merge, num_tags):
        super().__init__()
        self.merge = merge
        lstm = keras.layers.LSTM(FLAGS.units, return_sequences=True)
        self.reader = keras.layers.Bidirectional(lstm)
        self.head = keras.layers.Dense(num_tags)

    def call(self, states):
        mask = ops.any(ops.not_equal(states[:, :, 0], 0), axis=-1)
        return self.head(self.reader(self.merge(states), mask=mask))


def merge_of(name, config):
    """What makes one vector a word of what all layers say of it."""
    if name == WEIGHTED_SUM:
        return WeightedSum()
    choice = vectors.choose(config, combine=name)

    def merge(states):
        first, *others = ops.unstack(states, axis=2)
        outputs = {"embedding_output": first, "layer_outputs": others}
        return vectors.compute(outputs, None, choice)[:, :, 0]

    return merge


def read():
    """Configuration, network, tags, and the windows of each split."""
    files = pretrained.locate(FLAGS.pretrained)
    config = pretrained.read_config(files.config_file)
    tokenizer = tokenization.BertTokenizer.from_file(
        files.vocab_file, files.do_lower_case is not False
    )
    paths = {split: FLAGS[f"{split}_file"].value for split in SPLITS}
    texts = tagged_data.read(paths, tagged_text.Layout())
    tag_set = tagged_data.find_tag_set(
        texts["train"], names=(), scheme="", known="", open_file=open
    )
    limits = {"max_seq_length": FLAGS.max_seq_length}
    data = tagged_data.load(texts, tag_set, tokenizer, accepts_unknown=True, **limits)
    model = models.BertModel(config)
    model.build()
    print(checkpoint.load(model, files.checkpoint))
    return config, model, tag_set, data


def states_function(model):
    """The network with what embeddings and layers say of each token."""

    def all_states(batch, training):
        outputs = model(batch, training=training)
        states = [outputs["embedding_output"], *outputs["layer_outputs"]]
        return {"states": ops.stack(states, axis=2)}  # [B, S, L + 1, D]

    return steps.predict_function(
        all_states, tf.distribute.get_strategy(), jit_compile=False
    )


def word_states(predict, windows):
    """What embeddings and layers say of each word, float32 [W, L + 1, D]."""
    packed, places = windows.packed, windows.word_places
    window = np.searchsorted(packed.splits, places, side="right") - 1
    words = np.argsort(window, kind="stable")  # window after window
    splits = stretches.splits(np.bincount(window, minlength=len(windows)))
    order = batching.evaluation_order(packed.lengths, FLAGS.batch_size)
    found = np.empty(0, np.float32)
    for indices, batch in zip(order, batching.batches(packed, order), strict=True):
        states = predict(batch)["states"].numpy()
        if not found.size:
            found = np.empty((len(places), *states.shape[2:]), np.float32)
        for row, index in enumerate(indices[indices >= 0]):
            mine = words[splits[index] : splits[index + 1]]
            found[mine] = states[row, places[mine] - packed.splits[index]]
    return found


class Sentences:
    """The sentences of a split as the tagger takes them."""

    def __init__(self, data, states):
        self.given = data.sentences.tags
        splits = data.windows.word_splits
        self.lengths = np.diff(splits)
        self.states = tf.RaggedTensor.from_row_splits(states, splits)
        self.tag_ids = tf.RaggedTensor.from_row_splits(data.windows.tag_ids, splits)

    def batches(self, order):
        """Pairs of [B, S, L + 1, D] and [B, S], in an order as of batching."""

        def gather(indices):
            indices = tf.maximum(indices, 0)
            states = tf.gather(self.states, indices).to_tensor()
            return states, tf.gather(self.tag_ids, indices).to_tensor(features.IGNORED)

        return tf.data.Dataset.from_tensor_slices(order).map(gather).prefetch(2)

    def score(self, predict, tag_set):
        """The usual score of what a tagger says, 0..1."""
        order = batching.evaluation_order(self.lengths, FLAGS.batch_size)
        found = [None] * len(self.lengths)
        for indices, (states, _) in zip(order, self.batches(order), strict=True):
            ids = tf.argmax(predict(states), axis=-1).numpy()
            for row, index in enumerate(indices[indices >= 0]):
                found[index] = ids[row, : self.lengths[index]]
        scheme = tag_set.scheme
        tags = [tag_schemes.repair(row, scheme)[0] for row in tag_set.decode(found)]
        scores = tag_scores.score(self.given, tags, scheme)
        return scores[tagged_data.score_names(tag_set)[0]]


def train(name, config, tag_set, splits, seed):
    """Trains and scores one tagger; returns what is reported of it."""
    keras.utils.set_random_seed(seed)
    tagger = Tagger(merge_of(name, config), len(tag_set.names))
    tagger.compile(
        optimizer=keras.optimizers.Adam(LEARNING_RATE),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=features.IGNORED
        ),
        jit_compile=False,  # lengths differ
    )
    predict = tf.function(tagger, reduce_retracing=True)
    lengths = splits["train"].lengths
    num_steps = -(-len(lengths) // FLAGS.batch_size) * FLAGS.epochs
    order = batching.training_order(
        lengths, batch_size=FLAGS.batch_size, num_steps=num_steps, seed=seed
    )
    best = {"dev": -1.0}
    for epoch, rows in enumerate(np.split(order, FLAGS.epochs), start=1):
        tagger.fit(splits["train"].batches(rows), shuffle=False, verbose=0)
        dev = splits["dev"].score(predict, tag_set)
        if dev > best["dev"]:
            best = {"dev": dev, "epoch": epoch}
            weights = tagger.get_weights()
    tagger.set_weights(weights)
    best["test"] = splits["test"].score(predict, tag_set)
    if name == WEIGHTED_SUM:
        weights = ops.softmax(tagger.merge.logits).numpy()[::-1]
        best["weights_last_first"] = [round(float(weight), 3) for weight in weights]
    return best


def main(_):
    """Extracts once, then trains on each choice."""
    begin = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        config, model, tag_set, data = read()
    predict = states_function(model)
    splits = {
        name: Sentences(part, word_states(predict, part.windows))
        for name, part in data.items()
    }
    results = {"score": tagged_data.score_names(tag_set)[0]}
    results["seconds_of_features"] = round(time.perf_counter() - begin)
    for name in FLAGS.choices:
        begin = time.perf_counter()
        runs = [train(name, config, tag_set, splits, int(seed)) for seed in FLAGS.seeds]
        found = {k: round(statistics.mean(r[k] for r in runs), 4) for k in SPLITS[1:]}
        found["seconds"] = round(time.perf_counter() - begin)
        results[name] = {**found, "runs": runs}
        print(f"{name}: {results[name]}", file=sys.stderr, flush=True)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    for split in SPLITS:
        flags.DEFINE_string(f"{split}_file", None, "Words and tags.", required=True)
    flags.DEFINE_list("choices", [*vectors.COMBINATIONS, WEIGHTED_SUM], "Features.")
    flags.DEFINE_list("seeds", "1", "Seeds of the tagger, each trained anew.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest window, in tokens.")
    flags.DEFINE_integer("batch_size", 32, "Sentences a step.")
    flags.DEFINE_integer("epochs", 10, "Of the tagger.")
    flags.DEFINE_integer("units", 128, "Of each LSTM, each way.")
    app.run(main)
