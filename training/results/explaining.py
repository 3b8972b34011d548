"""What the words of some rows weighed: the worst errors, or the first rows."""

import json
import os

import numpy as np

from contract import atomic_files, file_names
from training.results import evaluation


def explain(weigh, rows, examples, words, count, settings):
    """Explanations of `count` rows, also in explanations.jsonl.

    Of evaluated rows the wrong ones come first, the worst before the others; of rows
    without labels, the first of "test". All processes take part, one writes.

    Args:
        weigh: built by training.steps.predict_function, of token weights and logits.
        rows: what fine_tuning.Task.examine returned.
        examples: split -> fine_tuning.Examples.
        words: split, rows, outputs of `weigh` -> a dict for each row.
        settings: a fine_tuning.Settings.
    """
    split = rows.split if rows is not None else "test"
    chosen = np.arange(min(count, len(examples(split))))
    if rows is not None:
        order = np.lexsort((-np.asarray(rows.losses), np.asarray(rows.is_correct)))
        chosen = order[:count]
    ascending = np.sort(chosen)
    outputs = evaluation.predict_rows(weigh, examples(split), ascending, settings)
    places = np.searchsorted(ascending, chosen)
    found = words(split, chosen, {name: v[places] for name, v in outputs.items()})
    path = os.path.join(settings.run.output_dir, file_names.EXPLANATIONS)
    if settings.run.writes:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in found)
        atomic_files.write({path: lines})
        print(f"explanations: {path}")
    return found
