"""Training steps of one shape: `python -m benchmarks.growth_point SETTINGS`.

SETTINGS is JSON of the arguments of `run`, whose result is printed as JSON. Each shape
is a process of its own, because the most memory that a process held never falls.
"""

import json
import sys

import numpy as np

from benchmarks import ours, preparation, sides  # ours sets the environment first
from modeling import pretrainers
from modeling.configs import config as config_lib

WARM_UP_STEPS = 2
CLASSES = 2


def run(*, config, train_batch_size, max_seq_length, steps):
    """Times a classifier with random weights on full sequences of random tokens.

    `config` has the keys of bert_config.json.

    Returns:
        "seconds" of `steps` steps and their mean "loss", "peak_memory_mb" and what of
        it was there before the model, "libraries_memory_mb", and "peak_gflops".
    """
    libraries = sides.peak_memory_mb()
    shape = config_lib.BertConfig.from_dict(config)
    packed, targets, _ = preparation.random_sequences(
        train_batch_size, max_seq_length, shape.vocab_size
    )
    order = np.tile(np.arange(train_batch_size, dtype=np.int32), (WARM_UP_STEPS, 1))
    order = np.concatenate([order, np.tile(order[:1], (steps, 1))])
    work = sides.Work(
        packed.tokens, packed.splits, packed.first_lengths, order, targets, {}
    )
    model = pretrainers.build("classifier", CLASSES, shape)
    found = ours.time_training(model, "classifier", work, WARM_UP_STEPS, steps)
    return {
        **found,
        "libraries_memory_mb": libraries,
        "peak_memory_mb": sides.peak_memory_mb(),  # before the product that takes some
        "peak_gflops": ours.peak_gflops(),
    }


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))
