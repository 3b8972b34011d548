"""What is no list of texts, and how every function that takes some refuses it."""

import numpy as np
import pytest

from contract import errors


class Frame:
    """Columns, as DataFrames of pandas and Polars and tables of pyarrow have them."""

    columns = ("text", "label")

    def __iter__(self):
        return iter(self.columns)


class DataSet:
    """Rows of the library `datasets`, which come one by one."""

    column_names = ("text", "label")

    def __iter__(self):
        return iter([{"text": "a", "label": "b"}])


EACH = [
    (Frame(), r'^{}: a Frame has columns; give one of them, such as df\["text"\]$'),
    (DataSet(), r'^{}: a DataSet has columns; .*, such as df\["text"\]$'),
    ({"a": ["b"]}, r'^{}: a dict has columns; .*, such as rows\["text"\]$'),
    ({"a", "b"}, "^{}: a set has no order of rows; give a list$"),
    (frozenset("ab"), "^{}: a frozenset has no order of rows; give a list$"),
    (b"ab", "^{}: a bytes has no order of rows; give a list$"),
    (5, "^{} is of type int; give a list$"),
    (np.array("a"), "^{} is of type ndarray; give a list$"),
]


def refused(name, call):
    """Calls it with each; the message has to name the argument `name`."""
    for texts, message in EACH:
        with pytest.raises(errors.InputError, match=message.format(name)):
            call(texts)
