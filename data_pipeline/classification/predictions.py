"""From a classifier's probabilities to decisions, files and explanations.

`scored` has predictions in the form of `labels.Labels.encode`, and probabilities
float32 [N, C], which are numbers [N, 1] of a regression.
"""

import json
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import atomic_files, file_names
from contract import outcomes as outcomes_lib
from data_pipeline import label_maps
from data_pipeline.classification import labels, split
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece

_GRADES = 0.0, 5.0  # the least and the largest number of STS-B


def decide(
    label_set: labels.Labels,
    probabilities: np.ndarray,
    threshold: float,
    lines: Sequence[int] = (),
    logits: np.ndarray | None = None,
) -> np.ndarray:
    """Decides from probabilities [N, C], in the form of `Labels.encode`.

    `threshold`, for multi_label, is the least probability of a predicted label. Rows of
    a "cloze" that stand in one of the `lines` share their choices, and each fills one
    blank: of all that are left, that of the largest of the `logits` [N, C], which they
    need, is taken first, as in CLUE.
    """
    if label_set.problem_type == "regression":
        return probabilities[:, 0]
    if label_set.problem_type == "multi_label":
        return (probabilities >= threshold).astype(np.float32)
    decisions = np.argmax(probabilities, axis=-1).astype(np.int32)
    if label_set.pair_input == "cloze" and logits is not None:
        shared: dict[int, list[int]] = {}
        for row, line in enumerate(lines):
            shared.setdefault(line, []).append(row)
        for rows in shared.values():
            left = np.array(logits[rows])
            for _ in range(min(left.shape)):
                place, column = divmod(int(np.argmax(left)), left.shape[1])
                decisions[rows[place]] = column
                left[place], left[:, column] = -np.inf, -np.inf
    return decisions


def write(
    directory: str,
    data: split.LabelledSplit,
    scored: outcomes_lib.Scored,
    *,
    writes_labels: bool = True,
    others: Mapping[str, Iterable[str]] = types.MappingProxyType({}),
) -> None:
    """Writes test_results.tsv, test_predictions.jsonl and label_map.json, or none.

    `others` are lines of further files, by name.
    """
    paths = [
        os.path.join(directory, name)
        for name in (file_names.TEST_RESULTS, file_names.TEST_PREDICTIONS, *others)
    ]
    contents = result_lines(scored), prediction_lines(data, scored), *others.values()
    files: dict[str, Iterable[str]] = dict(zip(paths, contents, strict=True))
    if writes_labels:
        label_map = os.path.join(directory, file_names.LABEL_MAP)
        files[label_map] = [label_maps.text(data.label_set)]
    atomic_files.write(files)
    print("\n".join(f"predictions: {path}" for path in paths))
    # Labelled rows get the warning beside their scores.
    warning = lone_class_warning(data.label_set, scored)
    if warning and scored.losses is None:
        print(f"warning: test rows: {warning}")


def result_lines(scored: outcomes_lib.Scored) -> Iterator[str]:
    """test_results.tsv of run_classifier.py: a line an example, a column a class."""
    probabilities: Any = scored.probabilities.astype(np.float32)
    for row in probabilities:
        yield "\t".join(map(str, row)) + "\n"


def prediction_lines(
    data: split.LabelledSplit, scored: outcomes_lib.Scored
) -> Iterator[str]:
    """One JSON object an example: id, texts, prediction, probabilities, given label.

    Where labels are known and no numbers, `correct` is whether all are right.
    """
    table, label_set = data.table, data.label_set
    is_correct = all_right(data, scored)
    for i, example_id in enumerate(table.example_ids):
        row: dict[str, Any] = {"id": example_id, "text_a": table.text_a[i]}
        if table.text_b is not None:
            row["text_b"] = table.text_b[i]
        if table.choices is not None:
            row["choices"] = list(table.choices[i])
        row.update(described(label_set, scored.probabilities[i], scored.predictions[i]))
        if table.labels is not None:
            row["given"] = table.labels[i]
        if is_correct is not None:
            row["correct"] = bool(is_correct[i])
        yield json.dumps(row, ensure_ascii=False) + "\n"


def submission_lines(
    name: str, data: split.LabelledSplit, scored: outcomes_lib.Scored
) -> Iterator[str]:
    """Lines of a file of that name for the sites of GLUE and CLUE; rows count from 0.

    GLUE's end in .tsv: index and prediction. CLUE's are JSON: a line a row, with its
    label; for C3 the place of the answer, by the id of the question; for ChID one
    object of blanks and the places of their idioms.
    """
    label_set, ids = data.label_set, data.table.example_ids
    if name.endswith(".tsv"):
        yield "index\tprediction\n"
        for index, value in enumerate(scored.predictions):
            shown = named(label_set, value)
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


def ranked(scores: np.ndarray) -> list[tuple[int, float]]:
    """Places and scores of float [N], the best first, of equal ones the first one."""
    order = np.argsort(-scores, kind="stable")
    return [(int(place), float(scores[place])) for place in order]


def columns(
    data: split.LabelledSplit, scored: outcomes_lib.Scored, rows: Iterable[int]
) -> dict[str, list[str]]:
    """{column: texts} of some rows: the label in the file, the prediction, the text."""
    rows, texts = list(rows), data.table.texts()
    gold: Sequence[labelled.Label] = data.table.labels or [""] * len(texts)
    return {
        "label": [joined(gold[i]) for i in rows],
        "predicted": [named(data.label_set, scored.predictions[i]) for i in rows],
        "text": [" | ".join(texts[i]) for i in rows],
    }


def outcomes(
    name: str,
    data: split.LabelledSplit,
    scored: outcomes_lib.Scored,
    compute: Callable[[np.ndarray, np.ndarray], Mapping[str, Any]],
) -> outcomes_lib.Outcomes | None:
    """The outcomes of the split `name`; None where labels are not known.

    `compute` scores labels and predictions, in the form of `Labels.encode`.
    """
    if scored.losses is None:
        return None
    losses, label_set = scored.losses, data.label_set
    gold, predictions = data.label_ids, scored.predictions
    decisions = numbers = None
    if label_set.problem_type == "regression":
        shown = [f"{value:.4g}" for value in predictions]
        numbers = outcomes_lib.Numbers(labels=gold, predictions=predictions)
    else:
        shown = [named(label_set, row) for row in predictions]
        confidences = scored.probabilities.max(axis=1)
        decisions = outcomes_lib.Decisions(
            class_names=label_set.names,
            labels=gold,
            predictions=predictions,
            probabilities=scored.probabilities,
            confidences=confidences if label_set.has_one_label else None,
        )

    def rescore(rows: np.ndarray) -> dict[str, Any]:
        scores = compute(gold[rows], predictions[rows])
        return {**scores, "loss": losses[rows].mean()}

    is_correct = _all_right(gold, predictions)
    return outcomes_lib.Outcomes(
        split=name,
        texts=data.table.texts(),
        expected=[joined(label) for label in data.table.labels or ()],
        predicted=shown,
        is_correct=is_correct,
        losses=losses,
        scores={k: v for k, v in scored.scores.items() if k != "batch_loss"},
        rescore=rescore,
        decisions=decisions,
        numbers=numbers,
        shares={} if numbers else {"accuracy": 1.0},
        warning=None if is_correct.all() else lone_class_warning(label_set, scored),
    )


def all_right(
    data: split.LabelledSplit, scored: outcomes_lib.Scored
) -> np.ndarray | None:
    """Whether all labels of a row are right, bool [N]; None of unknown or numbers."""
    if scored.losses is None or data.label_set.problem_type == "regression":
        return None
    return _all_right(data.label_ids, scored.predictions)


def _all_right(gold: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    right = gold == predictions
    return right.all(axis=1) if right.ndim > 1 else right


def named(label_set: labels.Labels, prediction: Any) -> str:
    """A decision of `decide` for one row, as shown to people."""
    return joined(_decision(label_set, prediction))


def joined(value: Any) -> str:
    """One label, or several with commas between."""
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _decision(label_set: labels.Labels, prediction: Any) -> Any:
    """The predicted label, list of labels, or number."""
    if label_set.problem_type == "regression":
        return float(prediction)
    if label_set.problem_type == "multi_label":
        pairs = zip(label_set.names, prediction, strict=True)
        return [name for name, is_on in pairs if is_on]
    return label_set.names[int(prediction)]


def described(
    label_set: labels.Labels, probabilities: np.ndarray, prediction: Any
) -> dict[str, Any]:
    """The prediction for one example, as in test_predictions.jsonl."""
    decision = _decision(label_set, prediction)
    if label_set.problem_type == "regression":
        return {"score": decision}
    shares = {
        name: round(float(value), 6)
        for name, value in zip(label_set.names, probabilities, strict=True)
    }
    key = "labels" if label_set.problem_type == "multi_label" else "label"
    return {key: decision, "probabilities": shares}


def lone_class_warning(
    label_set: labels.Labels, scored: outcomes_lib.Scored
) -> str | None:
    """A sentence where every example gets one class, or none any label."""
    predictions, kind = scored.predictions, label_set.problem_type
    if kind == "multi_label" and len(predictions) > 1 and not predictions.any():
        return "no example gets a label; train longer, or lower --multi_label_threshold"
    if kind != "classification":
        return None
    names = [label_set.names[index] for index in predictions.tolist()]
    warning = outcomes_lib.lone_prediction("example", names)
    return warning and f"{warning}, or set --class_weights=balanced"


def explain_rows(
    data: split.LabelledData,
    vocab: Sequence[str],
    decide: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    name: str,
    indices: np.ndarray,
    outputs: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """The predictions for K rows of the split `name`, and the weights of their words.

    `outputs` are "weights" float [K, S] of tokens, and "logits" [K, C] for `decide`.
    """
    packed, table = data.splits[name].packed, data.splits[name].table
    _, decisions = decide(outputs["logits"])
    rows = []
    for place, i in enumerate(indices):
        ids = packed.tokens[packed.splits[i] : packed.splits[i + 1]]
        label = table.labels[i] if table.labels is not None else ""
        words = word_weights(
            [vocab[token] for token in ids],
            outputs["weights"][place],
            second=int(packed.first_lengths[i]),
        )
        rows.append(
            {
                "split": name,
                "id": table.example_ids[i],
                "expected": joined(label),
                "predicted": named(data.label_set, decisions[place]),
                "words": words,
            }
        )
    return rows


def word_weights(
    tokens: Sequence[str], weights: np.ndarray, second: int
) -> list[list[Any]]:
    """[[word, weight], ...] of packed tokens: pieces are joined and their weights sum.

    [CLS] and [SEP] are left out; the second of two texts begins at the place `second`.
    """
    special = {tokens[0], tokens[second - 1], tokens[-1]}  # which no text becomes
    words: list[list[Any]] = []
    for place, token in enumerate(tokens):
        if token in special:
            continue
        weight = float(weights[place])
        is_piece = token.startswith(wordpiece.CONTINUATION) and words
        if is_piece and tokens[place - 1] not in special:
            words[-1][0] += token.removeprefix(wordpiece.CONTINUATION)
            words[-1][1] += weight
        else:
            words.append([token, weight])
    return [[word, round(weight, 6)] for word, weight in words]
