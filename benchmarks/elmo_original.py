"""The original's side of benchmarks/elmo.py: `python -m benchmarks.elmo_original JOB`.

allenai/bilm-tf as it is, with TensorFlow 2 as TensorFlow 1: its graphs, its sessions
and its way to carry states. Needs TensorFlow, tf_keras and h5py, and nothing that only
this project needs. What it does beside a step is left out: summaries, text to ids.
"""

import json
import os
import pathlib
import sys
import time

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # TensorFlow 1's LSTM is in tf_keras alone
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks import elmo_work, sides


def run(job):
    """Does one turn; returns what elmo_ours.run returns."""
    tf.disable_v2_behavior()
    sys.modules["tensorflow"] = tf  # which the original imports under this name
    sys.path.insert(0, job.original)
    found = ACTIONS[job.action](job, elmo_work.Work.load(job.directory))
    return {**found, "peak_memory_mb": sides.peak_memory_mb()}


def train(job, work):
    """Steps of its training with one tower and without summaries."""
    from bilm import training

    options = json.loads(pathlib.Path(job.directory, "options.json").read_text())
    options["char_cnn"]["n_characters"] -= 1  # as it wants them where it trains
    adagrad = tf.train.AdagradOptimizer(elmo_work.RATE, initial_accumulator_value=1.0)
    with tf.variable_scope("lm"):
        model = training.LanguageModel(options, True)
        grads = adagrad.compute_gradients(
            model.total_loss * elmo_work.UNROLL,
            aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
        )
    grads = training.average_gradients([grads], elmo_work.BATCH, options)
    grads, _ = training.clip_grads(grads, options, False, None)
    before = tf.nest.flatten(model.init_lstm_state)
    after = tf.nest.flatten(model.final_lstm_state)
    fetched = [adagrad.apply_gradients(grads), model.total_loss, *after]
    characters = work.characters - 1  # no padding there
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        states = [np.zeros(x.shape, np.float32) for x in before]
        for step, (read, following) in enumerate(work.windows(job.warm_up + job.steps)):
            if step == job.warm_up:
                begin = time.perf_counter()
            feed = {
                model.tokens_characters: characters[read[0]],
                model.tokens_characters_reverse: characters[read[1]],
                model.next_token_id: following[0],
                model.next_token_id_reverse: following[1],
                **dict(zip(before, states, strict=True)),
            }
            _, loss, *states = session.run(fetched, feed)
    seconds = time.perf_counter() - begin
    tokens = job.steps * elmo_work.BATCH * elmo_work.UNROLL
    return {"tokens_per_second": tokens / seconds, "check": float(loss)}


def extract(job, work, batch_size=elmo_work.SENTENCES):
    """All layers of batches of sentences; its graph keeps the states."""
    from bilm import model as model_lib

    files = (f"{job.directory}/{name}" for name in ("options.json", "weights.hdf5"))
    ids = tf.placeholder("int32", (None, None, elmo_work.CHARACTERS))
    model = model_lib.BidirectionalLanguageModel(*files, max_batch_size=batch_size)
    layers = model(ids)["lm_embeddings"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return elmo_work.time_batches(
            lambda batch: session.run(layers, {ids: batch}), job, work, batch_size
        )


ACTIONS = {
    "train": train,
    "extract": extract,
    "extract_one": lambda job, work: extract(job, work, batch_size=1),
}


if __name__ == "__main__":
    print(json.dumps(run(elmo_work.Job.from_json(sys.argv[1]))))
