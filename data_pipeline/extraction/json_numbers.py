"""Numbers as text, as Python's json writes them, some twenty times as fast.

Text is looked up for whole arrays: the part before the point in one table, the part
after it in another, each entry filled up with NUL bytes, which are deleted in the end.
orjson is as fast, but spells 1e-06, 1.2e-05 and NaN in other ways; mending them makes
it 2.6 to 3.6 times as slow as these tables.
"""

import functools
import json

import numpy as np

DIGITS = 6  # after the point, as extract_features.py of the original rounds
_ONE = 10**DIGITS
# Numbers from here on are rare in vectors, and written one by one.
_LIMIT = 1000
_ENTRY_BYTES = 8
# Below this many millionths repr has an exponent: 9.9e-05, 0.0001.
_EXPONENT_BELOW = 100


def rows_of_text(values: np.ndarray) -> list[bytes]:
    """Writes each row of float32 [R, C] as json.dumps would, without brackets.

    Each text equals json.dumps([round(float(x), 6) for x in row])[1:-1].
    """
    if not values.size:
        return [b""] * len(values)
    is_usual = np.abs(values) < _LIMIT
    usual = values if is_usual.all() else np.where(is_usual, values, 0)
    words = _words(usual.ravel())
    text = words.view(np.uint8).reshape(len(values), -1)
    text[:, 0], text[:, 1] = ord("\n"), 0  # a row begins on a line of its own
    rows = text.tobytes().translate(None, b"\0").split(b"\n")[1:]
    for i in np.flatnonzero(~is_usual.all(axis=1)):
        rounded = [round(float(x), DIGITS) for x in values[i]]
        rows[i] = json.dumps(rounded)[1:-1].encode()
    return rows


def _words(values):
    """uint64 [N, 2]: two table entries a number, ", -12" and ".345678"."""
    wholes, fractions, small = _tables()
    # Exact, for 24 bits of the number and 14 of 10^6 / 2^6 fit in the 53 of a double;
    # so halves go to the even neighbour exactly where Python's round sends them.
    millionths = np.rint(values.astype(np.float64) * _ONE)
    is_negative = np.signbit(values).astype(np.int32)  # of -0.0, too
    size = np.abs(millionths).astype(np.int32)
    whole = size // np.int32(_ONE)  # vectorized, which divmod is not
    words = np.empty((len(values), 2), np.uint64)
    words[:, 0] = wholes.take(whole + is_negative * np.int32(_LIMIT + 1))
    words[:, 1] = fractions.take(size - whole * np.int32(_ONE))
    tiny = np.flatnonzero((size > 0) & (size < _EXPONENT_BELOW))
    words[tiny, 0] = wholes[_LIMIT + is_negative[tiny] * (_LIMIT + 1)]
    words[tiny, 1] = small[size[tiny]]
    return words


@functools.cache
def _tables():
    """What stands before the point (0..999, none, and negated), after it, exponents."""
    wholes = [
        f", {sign}{digits}"
        for sign in ("", "-")
        for digits in (*map(str, range(_LIMIT)), "")
    ]
    small = [repr(number / _ONE) for number in range(_EXPONENT_BELOW)]
    numbers = np.arange(_ONE)
    fractions = np.zeros((_ONE, _ENTRY_BYTES), np.uint8)
    fractions[:, 0] = ord(".")
    for place in range(1, DIGITS + 1):
        unit = 10 ** (DIGITS - place)
        fractions[:, place] = ord("0") + numbers // unit % 10
        if place > 1:  # one digit stays: 2.0
            fractions[numbers % (10 * unit) == 0, place] = 0
    return _entries(wholes), fractions.view(np.uint64).ravel(), _entries(small)


def _entries(texts):
    """uint64 [N] of texts of up to 8 characters, filled up with NUL."""
    return np.array(texts, f"S{_ENTRY_BYTES}").view(np.uint64)
