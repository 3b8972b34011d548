"""Tests of data_pipeline/batches/tf_records.py.

The bytes are those of protobuf's own serializer.
"""

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import tf_records

# Around the numbers at which a varint grows by a byte.
EDGES = [
    *(0, 1, 126, 127, 128, 129, 255, 256, 16383, 16384, 30521),
    *(2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31 - 1, 2**32 - 1),
]


def expected(arrays):
    """One serialized message a row, by tf.train.Example."""
    actual = []
    for row in range(len(next(iter(arrays.values())))):
        example = tf.train.Example()
        for name, values in arrays.items():
            feature = example.features.feature[name]
            if np.asarray(values).dtype.kind == "f":
                feature.float_list.value.extend(values[row])
            else:
                feature.int64_list.value.extend(int(v) for v in values[row])
        actual.append(example.SerializeToString(deterministic=True))
    return actual


def encoded(arrays):
    return list(tf_records.records(arrays))


@pytest.mark.parametrize("rows", [1, 17])
def test_random_arrays(rows):
    rng = np.random.default_rng(rows)
    for _ in range(30):
        arrays = {}
        for name in rng.permutation(["b", "input_ids", "a", "z" * 90, "weights"]):
            length = int(rng.choice([1, 2, 31, 32, 127, 128, 200]))
            highest = int(rng.choice(len(EDGES))) + 1
            values = rng.choice(EDGES[:highest], size=(rows, length))
            if name == "weights":
                arrays[str(name)] = rng.standard_normal((rows, length), np.float32)
            else:
                arrays[str(name)] = values.astype(rng.choice(["i8", "u4"]))
        assert encoded(arrays) == expected(arrays)


@pytest.mark.parametrize("wrong", [-1, 1 << 32])
def test_numbers_that_a_record_cannot_hold_are_refused(wrong):
    for values in (np.array([[1, wrong]]), np.array([[2**32 - 1, wrong]])):
        with pytest.raises(ValueError, match=rf"{wrong} is outside 0\.\.4294967295"):
            list(tf_records.records({"ids": values}))
    (record,) = tf_records.records({"ids": np.array([[0, 2**32 - 1]])})
    feature = tf.train.Example.FromString(record).features.feature["ids"]
    assert list(feature.int64_list.value) == [0, 2**32 - 1]
