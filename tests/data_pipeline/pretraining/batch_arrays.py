"""Batches of pretraining data as arrays, and those that all hosts have together."""

import numpy as np
import tensorflow as tf


def read(dataset):
    return [{k: v.numpy() for k, v in batch.items()} for batch in dataset]


def assert_equal(batches, wanted):
    assert len(batches) == len(wanted) > 0
    for batch, other in zip(batches, wanted, strict=True):
        assert batch.keys() == other.keys()
        for name, value in batch.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def of_hosts(make, hosts):
    """Batches put together from the shares of all hosts, in their order."""
    contexts = [tf.distribute.InputContext(hosts, i, hosts) for i in range(hosts)]
    shares = [read(make(context=context)) for context in contexts]
    return [
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in zip(*shares, strict=True)
    ]
