"""From a classifier's probabilities to decisions and files."""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from contract import atomic_files, file_names
from data_pipeline.classification import label_sets, tables


class Scored(NamedTuple):
    """Predictions of a split."""

    probabilities: np.ndarray  # float32 [N, C]; numbers [N, 1] of a regression
    predictions: np.ndarray  # in the form of `label_sets.LabelSet.encode`
    scores: dict[str, Any]  # {} where the labels are not known

    def results(self, prefix: str) -> dict[str, Any]:
        """The scores under names such as eval_accuracy."""
        return {f"{prefix}_{name}": value for name, value in self.scores.items()}


def decide(
    label_set: label_sets.LabelSet, probabilities: np.ndarray, threshold: float
) -> np.ndarray:
    """Decides from `Scored.probabilities`, in the form of `LabelSet.encode`.

    `threshold`, for multi_label, is the least probability of a predicted label.
    """
    if label_set.problem_type == "regression":
        return probabilities[:, 0]
    if label_set.problem_type == "multi_label":
        return (probabilities >= threshold).astype(np.float32)
    return np.argmax(probabilities, axis=-1).astype(np.int32)


def write(
    directory: str,
    table: tables.Table,
    label_set: label_sets.LabelSet,
    scored: Scored,
    *,
    lists_labels: bool = True,
) -> None:
    """Writes test_results.tsv, test_predictions.jsonl and label_map.json, or none.

    `lists_labels` is False where label_map.json is that of a trained run.
    """
    path = os.path.join(directory, file_names.TEST_PREDICTIONS)
    files: dict[str, Iterable[str]] = {
        os.path.join(directory, file_names.TEST_RESULTS): result_lines(scored),
        path: prediction_lines(table, label_set, scored),
    }
    if lists_labels:
        label_map = os.path.join(directory, file_names.LABEL_MAP)
        files[label_map] = [label_sets.label_map_text(label_set)]
    atomic_files.write(files)
    print(f"predictions: {path}")
    if warning := lone_class_warning(label_set, scored):
        print(f"warning: {warning}")


def result_lines(scored: Scored) -> Iterator[str]:
    """test_results.tsv of run_classifier.py: a line an example, a column a class."""
    probabilities: Any = scored.probabilities.astype(np.float32)
    for row in probabilities:
        yield "\t".join(map(str, row)) + "\n"


def prediction_lines(
    table: tables.Table, label_set: label_sets.LabelSet, scored: Scored
) -> Iterator[str]:
    """One JSON object an example: id, texts, prediction, probabilities, given label."""
    for i, example_id in enumerate(table.example_ids):
        row: dict[str, Any] = {"id": example_id, "text_a": table.text_a[i]}
        if table.text_b is not None:
            row["text_b"] = table.text_b[i]
        row.update(named(label_set, scored.probabilities[i], scored.predictions[i]))
        if table.labels is not None:
            row["given"] = table.labels[i]
        yield json.dumps(row, ensure_ascii=False) + "\n"


def columns(
    table: tables.Table, label_set: label_sets.LabelSet, scored: Scored, rows: Any
) -> dict[str, list[str]]:
    """{column: texts} of some rows: the label in the file, the prediction, the text."""
    found: dict[str, list[str]] = {"label": [], "predicted": [], "text": []}
    for i in rows:
        said = named(label_set, scored.probabilities[i], scored.predictions[i])
        given = table.labels[i] if table.labels is not None else ""
        texts = [table.text_a[i]]
        if table.text_b is not None:
            texts.append(table.text_b[i])
        found["label"].append(_listed(given))
        found["predicted"].append(_listed(next(iter(said.values()))))
        found["text"].append(" | ".join(texts))
    return found


def _listed(value: Any) -> str:
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def named(
    label_set: label_sets.LabelSet, probabilities: np.ndarray, prediction: Any
) -> dict[str, Any]:
    """What is predicted for one example, as in test_predictions.jsonl."""
    if label_set.problem_type == "regression":
        return {"score": float(prediction)}
    shares = {
        name: round(float(value), 6)
        for name, value in zip(label_set.names, probabilities, strict=True)
    }
    if label_set.problem_type == "multi_label":
        chosen = [name for name, is_on in zip(shares, prediction, strict=True) if is_on]
        return {"labels": chosen, "probabilities": shares}
    return {"label": label_set.names[int(prediction)], "probabilities": shares}


def lone_class_warning(label_set: label_sets.LabelSet, scored: Scored) -> str | None:
    """A sentence where every example gets the same class, a sign of a failed run."""
    predictions = scored.predictions
    if label_set.problem_type != "classification" or len(predictions) < 2:
        return None
    if np.ptp(predictions) > 0:
        return None
    return (
        f"every example is predicted as {label_set.names[int(predictions[0])]!r}; "
        "train longer, with another --learning_rate or --seed, or set "
        "--class_weights=balanced"
    )
