"""Numbers with decimal commas, and those whose comma may be another."""

import numpy as np
import pytest

from data_pipeline.classification import labels
from data_pipeline.embedding import corpora
from data_pipeline.embedding import split as text_split
from data_pipeline.tables import labelled, numbers
from tests.refusals import refused

REGRESSION = labels.Labels((), "regression")


def of_classifier(path):
    table = labelled.read_table(path, labelled.Layout(), labels_required=True)
    return REGRESSION.encode(table)


def of_memory(path):
    with open(path) as file:
        rows = [line.rstrip("\n").split(";") for line in file][1:]
    layout = labelled.Layout()
    table = labelled.open_memory("t", rows, layout, labels_required=True).read()
    return REGRESSION.encode(table)


def of_embedding(path):
    return text_split._scores(corpora.open_rows(path, labelled.Layout()).read())


HEADER = "sentence1;sentence2;score"
DOORS = [of_classifier, of_memory, of_embedding]


def write(tmp_path, cells):
    lines = [HEADER, *(f"a {i};b {i};{cell}" for i, cell in enumerate(cells))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "t.csv")


@pytest.mark.parametrize("read", DOORS)
@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["2,5", "-0,5", "3", " 4,25 "], [2.5, -0.5, 3, 4.25]),
        (["0,2852978", "1,125", "1,5e-05", ",5"], [0.2852978, 1.125, 1.5e-5, 0.5]),
        (["0,250", "1,000", "2,500"], [0.25, 1, 2.5]),  # three digits in all
        (["2,5", "1,000"], [2.5, 1]),
        (["2.5", "0.25", "1e3"], [2.5, 0.25, 1000]),
        (["2,5", "0.250", "1.5"], [2.5, 0.25, 1.5]),
        (["1.234", "2.500"], [1.234, 2.5]),
    ],
)
def test_decimal_commas_are_read(tmp_path, read, cells, wanted):
    values = read(write(tmp_path, cells))
    assert values.dtype == np.float32
    assert values.tolist() == np.array(wanted, np.float32).tolist()


THOUSANDS = "(its comma may be between thousands: write 1000 or 1.0)"


@pytest.mark.parametrize("read", DOORS)
@pytest.mark.parametrize(
    ("cells", "bad", "reason"),
    [
        (["1,000", "2"], "1,000", THOUSANDS),
        (["1,125", "12,345"], "1,125", THOUSANDS),  # of any size
        (["1,5", "1,000,000"], "1,000,000", ";"),
        (["1,000", "2", "0%"], "1,000", THOUSANDS),
        (["0%", "1,000"], "0%", ";"),
        (["0.5", "1_000"], "1_000", ";"),
        (["0,5", "1_0,5"], "1_0,5", ";"),
        (["1", "1.234,5"], "1.234,5", ";"),
        (["2,5", "1.234"], "1.234", "(its point may be between thousands: "),
        (["-1.234.567", "0,5"], "-1.234.567", "write 1000 or 1,0)"),
    ],
)
def test_other_commas_and_signs_are_refused(tmp_path, read, cells, bad, reason):
    place = "t" if read is of_memory else "t.csv"
    number = cells.index(bad) + (1 if read is of_memory else 2)
    with refused(
        f"{place}:{number}: {bad!r} is not a finite number", reason, "correct"
    ):
        read(write(tmp_path, cells))


def test_scores_beyond_float32_are_refused():
    with refused("t:2: '1e39' is not a finite number; so"):
        numbers.read("t", [1, 2], ["1", "1e39"], "so")
