"""From a classifier's probabilities to decisions and files."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from contract import atomic_files, file_names
from data_pipeline.classification import label_sets, tables


class Scored(NamedTuple):
    """Predictions of a split."""

    probabilities: np.ndarray  # float32 [N, C]; numbers [N, 1] of a regression
    predictions: np.ndarray  # in the form of `label_sets.LabelSet.encode`
    scores: dict[str, Any]  # {} where the labels are not known
    losses: np.ndarray | None = None  # float32 [N], likewise

    def results(self, prefix: str) -> dict[str, Any]:
        """The scores under names such as eval_accuracy."""
        return {f"{prefix}_{name}": value for name, value in self.scores.items()}

    def eval_results(self) -> dict[str, Any]:
        """The lines of eval_results.txt; `loss` is what an Estimator calls so."""
        results = self.results("eval")
        results["loss"] = results.pop("eval_batch_loss")
        return results


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
    print("\n".join(f"predictions: {path}" for path in list(files)[:2]))
    # Those of labelled rows are warned of beside their scores.
    if scored.losses is None and (warning := lone_class_warning(label_set, scored)):
        print(f"warning: {warning}")


def result_lines(scored: Scored) -> Iterator[str]:
    """test_results.tsv of run_classifier.py: a line an example, a column a class."""
    probabilities: Any = scored.probabilities.astype(np.float32)
    for row in probabilities:
        yield "\t".join(map(str, row)) + "\n"


def prediction_lines(
    table: tables.Table, label_set: label_sets.LabelSet, scored: Scored
) -> Iterator[str]:
    """One JSON object an example: id, texts, prediction, probabilities, given label.

    Where labels are known, `correct` says whether all of an example are right; of a
    number nothing is said.
    """
    is_correct = None
    if scored.losses is not None and label_set.problem_type != "regression":
        is_correct = all_right(label_set.encode(table), scored.predictions)
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


def columns(
    table: tables.Table, label_set: label_sets.LabelSet, scored: Scored, rows: Any
) -> dict[str, list[str]]:
    """{column: texts} of some rows: the label in the file, the prediction, the text."""
    found: dict[str, list[str]] = {"label": [], "predicted": [], "text": []}
    texts = list(_texts(table))
    for i in rows:
        given = table.labels[i] if table.labels is not None else ""
        found["label"].append(listed(given))
        found["predicted"].append(named(label_set, scored.predictions[i]))
        found["text"].append(" | ".join(texts[i]))
    return found


def outcomes(
    table: tables.Table,
    label_set: label_sets.LabelSet,
    scored: Scored,
    compute: Callable[[np.ndarray, np.ndarray], Mapping[str, Any]],
) -> dict[str, Any] | None:
    """What became of each labelled row, as reports.examined.of takes it.

    None where the labels are not known. `compute` scores labels and predictions, both
    in the form of `LabelSet.encode`.
    """
    if scored.losses is None:
        return None
    losses, labels = scored.losses, label_set.encode(table)
    predictions = scored.predictions
    outcome: dict[str, Any] = {"labels": labels, "predictions": predictions}
    if label_set.problem_type == "regression":
        key, shown = "numbers", [f"{value:.4g}" for value in predictions]
    else:
        key = "decisions"
        shown = [named(label_set, row) for row in predictions]
        outcome["class_names"] = label_set.names
        outcome["probabilities"] = scored.probabilities
    if label_set.has_one_label:
        outcome["confidences"] = scored.probabilities.max(axis=1)

    def rescore(rows: np.ndarray) -> dict[str, Any]:
        scores = compute(labels[rows], predictions[rows])
        return {**scores, "loss": losses[rows].mean()}

    is_correct = all_right(labels, predictions)
    is_regression = label_set.problem_type == "regression"
    warning = None if is_correct.all() else lone_class_warning(label_set, scored)
    return {
        "texts": list(_texts(table)),
        "expected": [listed(label) for label in table.labels or ()],
        "predicted": shown,
        "is_correct": is_correct,
        "shares": {} if is_regression else {"accuracy": 1.0},
        "warning": warning,
        "losses": losses,
        "scores": {k: v for k, v in scored.scores.items() if k != "batch_loss"},
        "rescore": rescore,
        key: outcome,
    }


def all_right(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Whether all labels of a row are right, bool [N]."""
    right = labels == predictions
    return right.all(axis=1) if right.ndim > 1 else right


def _texts(table: tables.Table) -> Iterable[tuple[str, ...]]:
    """The one or two texts of each row, and its choices."""
    columns = [table.text_a] if table.text_b is None else [table.text_a, table.text_b]
    if table.choices is None:
        return zip(*columns, strict=True)
    rows = zip(*columns, table.choices, strict=True)
    return ((*texts, *choices) for *texts, choices in rows)


def named(label_set: label_sets.LabelSet, prediction: Any) -> str:
    """A decision of `decide` for one row, as a reader writes it."""
    return listed(_decision(label_set, prediction))


def listed(value: Any) -> str:
    """One label, or several with commas between."""
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)


def _decision(label_set: label_sets.LabelSet, prediction: Any) -> Any:
    """The predicted label, list of labels, or number."""
    if label_set.problem_type == "regression":
        return float(prediction)
    if label_set.problem_type == "multi_label":
        pairs = zip(label_set.names, prediction, strict=True)
        return [name for name, is_on in pairs if is_on]
    return label_set.names[int(prediction)]


def described(
    label_set: label_sets.LabelSet, probabilities: np.ndarray, prediction: Any
) -> dict[str, Any]:
    """What is predicted for one example, as in test_predictions.jsonl."""
    decision = _decision(label_set, prediction)
    if label_set.problem_type == "regression":
        return {"score": decision}
    shares = {
        name: round(float(value), 6)
        for name, value in zip(label_set.names, probabilities, strict=True)
    }
    key = "labels" if label_set.problem_type == "multi_label" else "label"
    return {key: decision, "probabilities": shares}


def lone_class_warning(label_set: label_sets.LabelSet, scored: Scored) -> str | None:
    """A sentence where every example gets one class, or none any label."""
    predictions = scored.predictions
    if len(predictions) < 2:
        return None
    if label_set.problem_type == "multi_label" and not predictions.any():
        return "no example gets a label; train longer, or lower --multi_label_threshold"
    if label_set.problem_type != "classification" or np.ptp(predictions) > 0:
        return None
    return (
        f"every example is predicted as {label_set.names[int(predictions[0])]!r}; "
        "train longer, with another --learning_rate or --seed, or set "
        "--class_weights=balanced"
    )
