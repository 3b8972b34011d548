"""Predictions in the form that the sites of GLUE and CLUE take, a file a task."""

import json
from collections.abc import Iterator

from data_pipeline.classification import predictions, split

_GRADES = 0.0, 5.0  # the least and the largest number of STS-B


def lines(
    name: str, data: split.LabelledSplit, scored: predictions.Scored
) -> Iterator[str]:
    """The lines of a file of that name; rows count from 0, in the order of the file.

    GLUE's end in .tsv: index and prediction. CLUE's are JSON: a line a row, with its
    label; for C3 the place of the answer, by the id of the question; for ChID one
    object of blanks and the places of their idioms.
    """
    label_set, ids = data.label_set, data.table.example_ids
    if name.endswith(".tsv"):
        yield "index\tprediction\n"
        for index, value in enumerate(scored.predictions):
            shown = predictions.named(label_set, value)
            if label_set.problem_type == "regression":
                least, largest = _GRADES
                shown = f"{min(max(float(value), least), largest):.3f}"
            yield f"{index}\t{shown}\n"
        return
    # Ids of rows follow the prefix of their split.
    keys = [example_id.partition("-")[2] for example_id in ids]
    places = map(int, scored.predictions)
    if label_set.pair_input == "cloze":
        yield json.dumps(dict(zip(keys, places, strict=True)), indent=1) + "\n"
    elif label_set.problem_type == "choice":
        for key, place in zip(keys, places, strict=True):
            number = int(key) if key.isdecimal() else key
            yield json.dumps({"id": number, "label": place}) + "\n"
    else:
        for index, place in enumerate(places):
            row = {"id": index, "label": label_set.names[place]}
            yield json.dumps(row, ensure_ascii=False) + "\n"
