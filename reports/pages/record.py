"""report.json: all that the page of a run shows, and what comparing two runs needs."""

import collections
import hashlib
import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from contract import errors, file_names, json_files
from reports.measures import class_scores, confidence, diagnostics, selective

SCHEMA = 1  # raised where an older reader would misread a newer file
ERRORS = 200  # kept with their texts, the worst first
TEXT_CHARACTERS = 2000  # of a text that is kept
CLASSES = 30  # of a confusion matrix; more than that nobody reads
CURVE_POINTS = 400  # of a curve; a screen has no more
_BINS = 20  # of a histogram
OFF = "half", "nine_tenths", "mean_half"  # of numbers, and of guessing their mean
FEWEST_ROWS = 5  # of each class, for an interval of their mean
_CURVE_FOLDERS = ("train", "eval")  # below the directory of a run
# Keys that comparisons read, of a record and of its evaluation.
_FORM = {"kind": str, "flags": dict, "command": str, "evaluation": (dict, type(None))}
_EVALUATION_FORM = {"scores": dict, "resampled": dict, "keys": list, "errors": list}
_REMEDY = "evaluate that run again to write the file anew"


def build(
    rows: Any,
    *,
    directory: str,
    flags: Mapping[str, Any],
    defaults: Mapping[str, Any],
    answer_flags: Collection[str] = (),
    **facts: Any,
) -> dict[str, Any]:
    """The record of a run.

    Args:
        rows: Outcomes of the evaluated rows, or None.
        directory: of the run, with its event files.
        flags, defaults: {flag: value} of all flags of the script.
        answer_flags: those that change answers of a trained directory to other rows.
        facts: other facts of the page: kind, script, command, step, seconds,
            environment, results, explanations, has_weights; exports, as
            export_formats.of_run has them; pictures, [{title, description, svg}];
            data, {split: facts}, among them lengths [N]; and, if any, layer_mix,
            {gamma and s_j: number}; findings, warnings of the rows; cross_validation, a
            `summary` of training rows held out in turn; tested, an
            outcomes.Outcomes of test rows beside those of `rows`; and alone,
            `answered_alone` of `rows` where that is known.
    """
    # Lists for tuples, as run.json has them.
    flags, defaults = (json.loads(json.dumps(dict(v))) for v in (flags, defaults))
    data, tested = facts.pop("data"), facts.pop("tested", None)
    alone = facts.pop("alone", None)
    changed = sorted(name for name in flags if flags[name] != defaults.get(name))
    return {
        "schema": SCHEMA,
        "name": os.path.basename(os.path.abspath(directory)),
        "flags": flags,
        "changed_flags": changed,
        "answer_flags": [name for name in changed if name in answer_flags],
        "data": {split: _split(**each) for split, each in data.items()},
        "curves": read_curves(directory),
        "evaluation": evaluation(rows, alone) if rows is not None else None,
        "test_evaluation": summary(tested) if tested is not None else None,
        **facts,
    }


def _split(lengths=(), **facts):
    array = np.asarray(lengths)
    return {
        **facts,
        "lengths": histogram(array) if array.size else None,
        "mean_length": float(array.mean()) if array.size else 0.0,
        "longest": int(array.max(initial=0)),
    }


def evaluation(rows: Any, alone: Any = None) -> dict[str, Any]:
    """Scores of Outcomes with intervals, errors, and a verdict on each row.

    `alone` is `answered_alone` of the rows, where it is known.
    """
    keys, decisions = row_keys(rows.texts), rows.decisions
    several = decisions is not None and decisions.is_multi_label
    num_labels = len(decisions.class_names) if several else 1
    resampled: dict[str, np.ndarray] = {}
    if keys:
        resampled = confidence.resample(rows.rescore, keys, num_labels=num_labels)
    return {
        "split": rows.split,
        "rows": len(keys),
        "resamples": max((len(values) for values in resampled.values()), default=0),
        "warning": rows.warning,
        "scores": {
            name: {"value": float(value), **_interval(name, rows, resampled.get(name))}
            for name, value in rows.scores.items()
        },
        "resampled": {n: np.round(v, 6).tolist() for n, v in resampled.items()},
        **_classes(decisions),
        "confusion": _confusion(decisions),
        "answered_alone": answered_alone(rows) if alone is None else alone,
        **_head(rows),
        "histograms": {n: histogram(v) for n, v in rows.histograms.items()},
        "errors": _errors(rows, keys),
        "keys": keys,
        # No number is exactly right.
        "is_correct": None if rows.numbers else [int(v) for v in rows.is_correct],
        "losses": [float(f"{loss:.6g}") for loss in rows.losses],
    }


def summary(rows: Any) -> dict[str, Any]:
    """The evaluation without the lists of rows."""
    per_row = {"resampled", "histograms", "errors", "keys", "is_correct", "losses"}
    return {k: value for k, value in evaluation(rows).items() if k not in per_row}


def _interval(name, rows, resampled):
    """The interval of a score, or None and a note with the reason."""
    if name in rows.shares and len(rows.is_correct):
        scale, right = rows.shares[name], np.asarray(rows.is_correct, bool)
        ends = confidence.share_interval(int(right.sum()), len(right))
        return {"interval": [scale * end for end in ends], "note": ""}
    if name == "f1_macro" and _rarest_class(rows.decisions) < FEWEST_ROWS:
        # Resamples without the class average over others: another quantity.
        return {"interval": None, "note": f"a class has fewer than {FEWEST_ROWS} rows"}
    values = () if resampled is None else resampled
    interval, note = confidence.interval(values), confidence.why_no_interval(values)
    if note and len(values) and np.all(rows.is_correct):
        note = "too few errors for an interval"
    return {"interval": interval, "note": note}


def _rarest_class(decisions):
    """The rows of the rarest class that occurs."""
    labels = np.asarray(decisions.labels)
    if decisions.is_multi_label:
        counts = labels.sum(axis=0)
    else:
        counts = np.bincount(labels[labels >= 0])
    return counts[counts > 0].min(initial=FEWEST_ROWS)


def _classes(decisions):
    """Scores of each class and their averages; none where nothing is decided."""
    if decisions is None or not len(decisions.labels):
        return {"classes": [], "class_averages": {}}
    classes, averages = class_scores.collect(
        decisions.class_names, decisions.labels, decisions.predictions
    )
    return {"classes": classes, "class_averages": averages}


def row_keys(texts: Sequence[tuple[str, ...]]) -> list[str]:
    """A key for each row, in any file: a digest of the texts, counted if equal."""
    seen: collections.Counter[str] = collections.Counter()
    keys = []
    for row in texts:
        digest = hashlib.sha256(json.dumps(list(row)).encode()).hexdigest()[:12]
        seen[digest] += 1
        keys.append(digest if seen[digest] == 1 else f"{digest}-{seen[digest]}")
    return keys


def histogram(values: Any) -> dict[str, list[float]]:
    """Edges [n + 1] and counts [n] of numbers."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    bins: Any = _BINS
    if finite.size and np.all(finite == np.round(finite)):  # no bin splits a number
        width = max(1, math.ceil((np.ptp(finite) + 1) / _BINS))
        bins = np.arange(finite.min(), finite.max() + width + 1, width) - 0.5
    counts, edges = np.histogram(finite, bins)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _confusion(decisions):
    """The matrix of the commonest classes, given by row and predicted by column."""
    if decisions is None or decisions.is_multi_label or not len(decisions.labels):
        return None
    classes = len(decisions.class_names)
    labels, predictions = decisions.labels, decisions.predictions
    is_known = (labels >= 0) & (labels < classes)
    known = labels[is_known], predictions[is_known]
    matrix = diagnostics.confusion(*known, classes)
    wrong = matrix - np.diag(np.diag(matrix))
    given, predicted = np.unravel_index(wrong.argmax(), wrong.shape)
    names = decisions.class_names[given], decisions.class_names[predicted]
    shown = np.sort(diagnostics.largest(matrix.sum(axis=1), CLASSES))
    return {
        "commonest": [*names, wrong.max().item()],  # given, predicted, and how often
        "names": [decisions.class_names[i] for i in shown],
        "matrix": matrix[np.ix_(shown, shown)].tolist(),
        "left_out": classes - len(shown),
    }


def answered_alone(rows: Any) -> list[dict[str, Any]]:
    """selective.promises of Outcomes of texts that have one label; [] of others."""
    decisions = rows.decisions
    if decisions is None or decisions.confidences is None:
        return []
    if len(decisions.labels) != len(rows.expected):  # of words
        return []
    return selective.promises(decisions.confidences, rows.is_correct)


def _head(rows):
    """For the head of the page: the commonest answer, and how far numbers are off."""
    decisions, numbers = rows.decisions, rows.numbers
    facts: dict[str, Any] = {"numbers": _numbers(numbers) if numbers else None}
    # Not of words.
    if decisions is not None and len(decisions.labels) == len(rows.expected) > 0:
        (facts["commonest"],) = collections.Counter(rows.expected).most_common(1)
    return facts


def _numbers(numbers):
    labels, predictions = np.asarray(numbers.labels), np.asarray(numbers.predictions)
    errors = np.abs(predictions - labels)
    if not errors.size or not np.all(np.isfinite(errors)):
        return None
    quantiles = np.quantile(errors, [0.5, 0.9]).tolist()
    mean_half = float(np.median(np.abs(labels - labels.mean())))
    return dict(zip(OFF, [*quantiles, mean_half], strict=True))


def _shortened(text):
    """At most TEXT_CHARACTERS, the last of which shows that some are left out."""
    is_long = len(text) > TEXT_CHARACTERS
    return f"{text[: TEXT_CHARACTERS - 1]}…" if is_long else text


def _errors(rows, keys):
    # No number is exactly right.
    is_right = np.zeros(len(keys), bool) if rows.numbers else rows.is_correct
    worst = diagnostics.worst(rows.losses, is_right, ERRORS)
    return [
        {
            "key": keys[i],
            "texts": [_shortened(text) for text in rows.texts[i]],
            "expected": _shortened(str(rows.expected[i])),
            "predicted": _shortened(str(rows.predicted[i])),
            "loss": float(f"{rows.losses[i]:.6g}"),
        }
        for i in worst.tolist()
    ]


def read_curves(directory: str) -> dict[str, list[list[float]]]:
    """{name such as "train/loss": [[step, value], ...]}, of the event files.

    A step has its last value, since a resumed run repeats steps. A longer curve keeps
    CURVE_POINTS of its points, the first and the last among them.
    """
    from tensorboard.util import tensor_util  # and TensorFlow, which reading has not

    curves: dict[str, dict[int, float]] = {}
    for kind in _CURVE_FOLDERS:
        for event in _events(os.path.join(directory, kind)):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = tensor_util.make_ndarray(value.tensor).item()
                    if not math.isnan(number):  # a score that was not defined
                        curves.setdefault(value.tag, {})[event.step] = number
    return {name: _thin(sorted(points.items())) for name, points in curves.items()}


def _events(directory):
    """All events of a directory, in the order in which they were written."""
    from tensorboard.backend.event_processing import event_file_loader, io_wrapper

    files = io_wrapper.tf.io.gfile
    if not files.isdir(directory):
        return
    names = sorted(filter(io_wrapper.IsTensorFlowEventsFile, files.listdir(directory)))
    for name in names:
        loader = event_file_loader.EventFileLoader(os.path.join(directory, name))
        yield from loader.Load()


def _thin(points):
    keep = np.unique(np.linspace(0, len(points) - 1, CURVE_POINTS).round().astype(int))
    return [[points[i][0], float(f"{points[i][1]:.6g}")] for i in keep]


def make_text(record: Mapping[str, Any]) -> str:
    """The record as JSON, equal for equal records; NaN and infinities are null."""
    return json.dumps(_finite(record), ensure_ascii=False) + "\n"


def _finite(value):
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def get_path(directory: str) -> str:
    """The file of the record of a run."""
    return os.path.join(directory, file_names.REPORT_JSON)


def read(directory: str) -> dict[str, Any]:
    """The record of a run's directory; raises InputError where it is damaged."""
    path = get_path(directory)
    record = json_files.read_object(
        path,
        remedy="name the --output_dir of a run that has evaluated and written a report",
    )
    if record.get("schema") != SCHEMA:
        raise errors.InputError(
            f"{path}: is of schema {record.get('schema')!r}, and {SCHEMA} is read "
            f"here; {_REMEDY}"
        )
    _check_form(path, record, _FORM)
    if record["evaluation"] is not None:
        _check_form(path, record["evaluation"], _EVALUATION_FORM)
    return record


def _check_form(path, values, form):
    for name, kinds in form.items():
        if name not in values or not isinstance(values[name], kinds):
            state = f"is {values[name]!r:.40}" if name in values else "is missing"
            raise errors.InputError(f"{path}: {name} {state}; {_REMEDY}")
