"""What a report says of the rows of a run: how many, how long, of which labels."""

import collections
from typing import Any

from data_pipeline.classification import split as labelled_texts


def of_splits(data: labelled_texts.LabelledTexts) -> dict[str, dict[str, Any]]:
    """{split: facts} of the rows that were read."""
    found = {}
    for split, packed in data.packed.items():
        table = data.tables[split]
        counts: collections.Counter[str] = collections.Counter()
        if table.labels is not None and data.problem_type != "regression":
            for label in table.labels:
                several = isinstance(label, (list, tuple))
                counts.update(label if several else [str(label)])
        found[split] = {
            "path": table.path,
            "count": len(packed),
            "unit": "rows",
            "lengths": packed.lengths,
            "length_unit": "tokens of a row",
            "cut": packed.num_truncated,
            "cut_means": "cut to --max_seq_length",
            "labels": dict(counts),
            "labels_title": "Labels",
        }
    return found
