"""Rows of texts that belong together, as tables hold them; no TensorFlow."""

import os
from typing import Any

from contract import errors
from data_pipeline.classification import tables
from data_pipeline.tables import table_columns

# Kinds of rows: an anchor and its positive; these and negatives; two texts and a score;
# a text and its label.
PAIRS, TRIPLETS, SCORED, LABELLED = "pairs", "triplets", "scored", "labelled"
USUAL_TEXTS = (*table_columns.USUAL_TRIPLETS, *table_columns.USUAL_TEXTS)
TEXTS = "texts"  # alone, for a teacher's vectors
RETRIEVAL = "retrieval"  # queries and a corpus, which are scored alone


def read(
    path: str, layout: tables.Layout, *, tfds: str = "", data_dir: str | None = None
) -> tables.Table:
    """The table of a file, or of the split `path` of a data set."""
    options: dict[str, Any] = {"labels_required": False, "allow_empty_text": False}
    if tfds:
        return tables.read_tfds(tfds, path, layout, data_dir=data_dir, **options)
    return tables.read_table(os.fspath(path), layout, **options)


def texts_of(table: tables.Table) -> list[tuple[str, ...]]:
    """The texts of each row: the first one, and the others in their order."""
    if table.choices is not None:
        pairs = zip(table.text_a, table.choices, strict=True)
        return [(first, *others) for first, others in pairs]
    columns = [table.text_a] if table.text_b is None else [table.text_a, table.text_b]
    return list(zip(*columns, strict=True))


def kind_of(table: tables.Table, *, has_teacher: bool = False) -> str:
    """The kind of the rows, by their columns; ValueError for texts with nothing."""
    if table.choices is not None:
        return TRIPLETS
    if table.text_b is not None:
        return PAIRS if table.labels is None else SCORED
    if table.labels is None and has_teacher:
        return TEXTS
    if table.labels is None:
        raise errors.InputError(
            f"{table.path}: rows of one text need a label; pass --label_column, "
            "--text_b_column for pairs, or --teacher"
        )
    return LABELLED
