"""Texts that nobody expects, alone and among others, and batches without a row."""

import numpy as np
import tensorflow as tf

MEGABYTE = 1 << 20
ODD = [
    b"",
    b"   ",
    b"\x00\x00",
    b"a \x00good\x00 film",
    b"\xff\xfe good \xc3",
    b"good \xed\xa0\x80\xf8 film",  # a surrogate, and a byte of no character
]
# One with few words, for models that read all of a text, whatever its length.
LONG_WORDS = (b"x" * 1023 + b" ") * (MEGABYTE // 1024)
LONG = (b"a good film. " * (MEGABYTE // 13 + 1))[:MEGABYTE]
PADDING = {"S": b"", "f": 0, "i": -1}
ROUNDING = 1e-5  # of float32; two graphs multiply matrices of different padding


def assert_alone(signature, columns):
    """Each row of a batch has the answer of the row alone, and nothing but padding.

    `columns` are {input: texts}. Returns the outputs of the batch.
    """
    batch = _ask(signature, columns)
    for i in range(len(next(iter(columns.values())))):
        alone = _ask(signature, {name: [texts[i]] for name, texts in columns.items()})
        assert alone.keys() == batch.keys()
        for name, values in alone.items():
            _assert_same(values, batch[name][i : i + 1], f"{name} of row {i}")
    return batch


def _ask(signature, columns):
    actual = signature(**{k: tf.constant(v, tf.string) for k, v in columns.items()})
    return {name: values.numpy() for name, values in actual.items()}


def _assert_same(alone, batched, where):
    kept = tuple(slice(0, size) for size in alone.shape)
    is_padding = np.ones(batched.shape, bool)
    is_padding[kept] = False
    kind = "S" if batched.dtype == object else batched.dtype.kind
    assert (batched[is_padding] == PADDING[kind]).all(), where
    if kind == "f":
        np.testing.assert_allclose(batched[kept], alone, atol=ROUNDING, err_msg=where)
    else:
        np.testing.assert_array_equal(batched[kept], alone, err_msg=where)


def assert_no_rows(signatures):
    """Every signature gives no rows for none, of the shapes and types it declares."""
    for name, signature in signatures.items():
        taken = signature.structured_input_signature[1]
        widths = (0, 3) if any(s.shape.rank == 2 for s in taken.values()) else (0,)
        for width in widths:
            actual = signature(
                **{
                    key: tf.zeros([0, width][: spec.shape.rank], spec.dtype)
                    for key, spec in taken.items()
                }
            )
            assert actual.keys() == signature.structured_outputs.keys()
            for key, values in actual.items():
                spec = signature.structured_outputs[key]
                assert values.shape[0] == 0, (name, key)
                assert spec.is_compatible_with(values), (name, key, values.shape)
                assert values.shape.rank == spec.shape.rank
