"""This project on another backend of Keras: `python -m benchmarks.on_backend JOB`.

JOB is a `sides.Job` as JSON, of a classifier whose batches have one shape, and
KERAS_BACKEND names the backend. Keras' own `fit` and `predict` run the steps, which JAX
compiles. Prints the result of `run` as JSON.
"""

import json
import sys
import time
from importlib import metadata

import keras
import numpy as np
from keras import ops

from benchmarks import sides
from contract import features
from modeling import pretrainers
from modeling.checkpoints import checkpoint, pretrained
from training import optimizers

BACKEND = keras.backend.backend()


def run(job):
    """Does one turn; "seconds" of all timed steps, and "compile_s" of those before."""
    model = open_model(job.pretrained, job.head, job.num_classes)
    work = sides.Work.load(job.work)
    batches = list(work.batches(job.warm_up + job.steps))
    size, first = len(work.order[0]), job.warm_up * len(work.order[0])
    columns = {key: np.concatenate([b[key] for b in batches]) for key in batches[0]}
    labels = columns.pop(features.LABEL_IDS, columns[features.INPUT_IDS])
    begin = time.perf_counter()
    act = ACTIONS[job.action](model, size)
    act({key: value[:first] for key, value in columns.items()}, labels[:first])
    warm = time.perf_counter()
    act({key: value[first:] for key, value in columns.items()}, labels[first:])
    seconds = time.perf_counter() - warm
    return {
        "seconds": seconds,
        # The steps of the warm-up take no longer than the others.
        "compile_s": warm - begin - seconds * job.warm_up / job.steps,
        "peak_memory_mb": sides.peak_memory_mb(),
        "peak_gflops": peak_gflops(),
        "versions": {name: metadata.version(name) for name in (BACKEND, "keras")},
        "environment": sides.environment(),
    }


def open_model(directory, head, num_classes=None):
    """The model of a directory, on any backend."""
    files = pretrained.look_in(directory)
    config = pretrained.read_config(files.config_file)
    model = pretrainers.build(head, num_classes, config)
    print(
        checkpoint.load(model, checkpoint.find(files.init_checkpoint)), file=sys.stderr
    )
    return model


def train(model, size):
    """A function of features and labels that trains on them."""
    model.compile(
        optimizer=optimizers.BertAdam(1e-5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return lambda x, y: model.fit(x, {"logits": y}, size, shuffle=False, verbose=0)


def predict(model, size):
    """A function of features that returns logits."""
    return lambda x, _: model.predict(x, size, verbose=0)


def peak_gflops():
    """`sides.peak_gflops` of the backend."""
    x = ops.convert_to_tensor(np.random.rand(*[sides.PEAK_SIZE] * 2), "float32")
    return sides.peak_gflops(lambda: ops.convert_to_numpy(ops.matmul(x, x)[:1]))


ACTIONS = {"train": train, "predict": predict}


if __name__ == "__main__":
    print(json.dumps(run(sides.Job(**json.loads(sys.argv[1])))))
