r"""Tags words from frozen features: which layers are best (BERT section 5.3, Table 7)?

    python benchmarks/feature_choices.py --pretrained=models/minilm \
        --train_file=train.conll --dev_file=dev.conll --test_file=test.conll

BERT is not trained: one pass keeps the output of its embeddings and each of its layers
for the first piece of every word. For each of layer_choices.COMBINATIONS, and for a sum
of all layers with learned weights (a softmax), a new tagger is trained: a bidirectional
LSTM and a linear layer (the paper has two LSTMs of 768). It is scored after every
epoch; the best weights on --dev_file count. Prints one JSON object: for each choice the
scores of --dev_file and --test_file (F1 of spans, or accuracy where tags have none),
means over --seeds and each of them.
"""

import contextlib
import dataclasses
import json
import pathlib
import statistics
import sys
import time

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from keras import ops

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from training import environment

environment.prepare()  # before TensorFlow is imported

from benchmarks import ours
from contract import features
from data_pipeline.examples import batching
from data_pipeline.tagging import sentence_sets, tag_scores, tagged_files
from modeling.inspection import vectors
from modeling.operations import layer_choices
from training import steps

FLAGS = flags.FLAGS
SPLITS = ("train", "dev", "test")
WEIGHTED_SUM = "weighted_sum"
LEARNING_RATE = 1e-3


class WeightedSum(keras.layers.Layer):
    """A mean of K vectors with learned weights: [B, S, K, D] -> [B, S, D]."""

    def build(self, shape):
        num_vectors = shape[2]
        self.logits = self.add_weight(
            (num_vectors,), "zeros", trainable=num_vectors > 1, name="logits"
        )

    def call(self, inputs):
        return ops.einsum("k,bskd->bsd", tf.nn.softmax(self.logits), inputs)


class Tagger(keras.Model):
    """Reads vectors [B, S, K, D], zeros after the sentence, both ways: [B, S, C]."""

    def __init__(self, num_tags):
        super().__init__()
        self.merge = WeightedSum()
        lstm = keras.layers.LSTM(FLAGS.units, return_sequences=True)
        self.reader = keras.layers.Bidirectional(lstm)
        self.head = keras.layers.Dense(num_tags)

    def call(self, inputs):
        mask = ops.any(ops.not_equal(inputs[:, :, 0], 0), axis=-1)  # [B, S]
        return self.head(self.reader(self.merge(inputs), mask=mask))


def read():
    """The network, the tags, and the windows of each split."""
    tokenizer, model = ours.open_pretrained(FLAGS.pretrained)
    paths = {split: FLAGS[f"{split}_file"].value for split in SPLITS}
    texts = sentence_sets.read(paths, tagged_files.Layout())
    tag_set = sentence_sets.find_tag_set(
        texts["train"],
        names=(),
        scheme="",
        train_scheme="",
        known="",
        open_file=open,
    )
    data = sentence_sets.load(
        *(texts, tag_set, tokenizer),
        accepts_unknown=True,
        max_seq_length=FLAGS.max_seq_length,
    )
    return model, tag_set, data


def states_function(model):
    """The network with what embeddings and layers say of each token, float16."""

    def all_states(batch, training):
        outputs = model(batch, training=training)
        states = [outputs["embedding_output"], *outputs["layer_outputs"]]
        states = ops.stack(states, axis=2)  # [B, S, L + 1, D]
        return {"states": ops.cast(states, "float16")}

    return steps.predict_function(
        all_states, tf.distribute.get_strategy(), jit_compile=False
    )


def word_states(predict, windows):
    """What embeddings and layers say of each word, float16 [W, L + 1, D].

    Float16 halves the memory; its rounding is far below what training adds.
    """
    packed, num_words = windows.packed, len(windows.word_places)
    # A tag of its own for each word, so that the batches say which word stands where.
    numbers = np.arange(num_words, dtype=features.INTEGER)
    numbered = dataclasses.replace(windows, tag_ids=numbers)
    order = batching.evaluation_order(packed.lengths, FLAGS.batch_size)
    found = np.empty(0, np.float16)
    for batch in batching.batches(packed, order, targets=numbered.targets()):
        states = predict(batch)["states"].numpy()
        words = batch[features.LABEL_IDS].numpy()  # [B, S]
        is_word = words != features.IGNORED
        if not found.size:
            found = np.empty((num_words, *states.shape[2:]), states.dtype)
        found[words[is_word]] = states[is_word]
    return found


def inputs_of(name, config, states):
    """What a tagger reads of each word [W, K, D]; K is 1, or L for WEIGHTED_SUM."""
    if name == WEIGHTED_SUM:
        return states[:, 1:]
    first, *others = np.split(states, states.shape[1], axis=1)  # [W, 1, D] each
    outputs = {"embedding_output": first, "layer_outputs": others}
    choice = vectors.choose(config, combine=name)
    return vectors.compute(outputs, None, choice)[:, 0]


class SentenceVectors:
    """The sentences of a split as the tagger takes them."""

    def __init__(self, data, inputs):
        self.given = data.sentences.tags
        splits = data.windows.word_splits
        self.lengths = np.diff(splits)
        self.inputs = tf.RaggedTensor.from_row_splits(inputs, splits)
        self.tag_ids = tf.RaggedTensor.from_row_splits(data.windows.tag_ids, splits)

    def batches(self, order):
        """Pairs of float32 [B, S, K, D] and [B, S], in an order as of batching."""

        def gather(indices):
            indices = tf.maximum(indices, 0)
            inputs = tf.gather(self.inputs, indices).to_tensor()
            tag_ids = tf.gather(self.tag_ids, indices).to_tensor(features.IGNORED)
            return tf.cast(inputs, tf.float32), tag_ids

        return tf.data.Dataset.from_tensor_slices(order).map(gather).prefetch(2)

    def score(self, predict, tag_set):
        """The usual score of what a tagger says, 0..1."""
        order = batching.evaluation_order(self.lengths, FLAGS.batch_size)
        found = [None] * len(self.lengths)
        for indices, (inputs, _) in zip(order, self.batches(order), strict=True):
            ids = tf.argmax(predict(inputs), axis=-1).numpy()
            for row, index in enumerate(indices[indices >= 0]):
                found[index] = ids[row, : self.lengths[index]]
        tags = tag_set.decode(found)
        scores = tag_scores.score(self.given, tags, tag_set.file_scheme)
        return scores[sentence_sets.score_names(tag_set)[0]]


def train(tag_set, splits, seed):
    """Trains and scores one tagger; returns what is reported of it."""
    keras.utils.set_random_seed(seed)
    tagger = Tagger(len(tag_set.names))
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
    weights = tf.nn.softmax(tagger.merge.logits).numpy()[::-1]
    if len(weights) > 1:
        best["weights_last_first"] = [round(float(weight), 3) for weight in weights]
    return best


def main(_):
    """Extracts once, then trains on each choice."""
    begin = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        model, tag_set, data = read()
    predict = states_function(model)
    states = {split: word_states(predict, part.windows) for split, part in data.items()}
    results = {"score": sentence_sets.score_names(tag_set)[0]}
    results["seconds_of_features"] = round(time.perf_counter() - begin)
    for name in FLAGS.choices:
        begin = time.perf_counter()
        splits = {
            split: SentenceVectors(part, inputs_of(name, model.config, states[split]))
            for split, part in data.items()
        }
        runs = [train(tag_set, splits, int(seed)) for seed in FLAGS.seeds]
        found = {k: round(statistics.mean(r[k] for r in runs), 4) for k in SPLITS[1:]}
        found["seconds"] = round(time.perf_counter() - begin)
        results[name] = {**found, "runs": runs}
        print(f"{name}: {results[name]}", file=sys.stderr, flush=True)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    for split in SPLITS:
        flags.DEFINE_string(f"{split}_file", None, "Words and tags.", required=True)
    flags.DEFINE_list(
        "choices", [*layer_choices.COMBINATIONS, WEIGHTED_SUM], "Features."
    )
    flags.DEFINE_list("seeds", "1", "Seeds of the tagger, each trained anew.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest window, in tokens.")
    flags.DEFINE_integer("batch_size", 32, "Sentences a step.")
    flags.DEFINE_integer("epochs", 10, "Of the tagger.")
    flags.DEFINE_integer("units", 128, "Of each LSTM, each way.")
    app.run(main)
