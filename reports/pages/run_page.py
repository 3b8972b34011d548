"""report.html of a run, or of several, with report.json beside it and a model card."""

import collections
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import jinja2
import numpy as np
import tensorflow as tf

from contract import atomic_files, file_names
from reports.pages import model_card, record, usage

SHOWN_ERRORS = 25
SHOWN_LABELS = 30
SHOWN_MATRIX = 15  # classes, beyond which a table is wider than a screen
# Where the runs of seeds, of a grid, and of a grid with seeds are.
_BELOW = ("seed-*", "*=*", "*=*/seed-*")
# Flags in which the runs of a grid differ without a difference.
_PLACES = frozenset({"output_dir"})
# Curves of the page: its title, and the names of what it shows.
_CURVES = {
    "Loss": ("train/loss", "eval/loss"),
    "Learning rate": ("train/learning_rate",),
    "Gradient norm": ("train/gradient_norm",),
}
_SAME = {"eval/batch_loss"}  # as the loss, but for rounding
# What became of rows, by kind of task: of how many, and what is right of them.
_VERDICTS = {
    "text-classification": "rows are labelled right",
    "multiple-choice": "rows get the right choice",
    "token-classification": "sentences have the right tag at every word",
    "question-answering": "questions are answered exactly right",
    "text2text-generation": "texts are written exactly as given",
}
_MEANINGS = {
    "accuracy": "share that is right",
    "f1": "harmonic mean of precision and recall",
    "f1_macro": "mean of the F1 of all classes",
    "f1_micro": "F1 of the labels of all rows together",
    "mcc": "Matthews correlation of given and predicted classes: 1 is perfect, "
    "0 is chance",
    "precision": "share of what is predicted that is right",
    "recall": "share of what is given that is predicted",
    "exact": "share that is exactly right, in percent",
    "pearson": "linear correlation of given and predicted numbers: 1 is perfect",
    "spearman": "correlation of their ranks",
    "loss": "mean over the rows; less is better",
}
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("reports.pages"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write(rows: Any, directory: str, **facts: Any) -> None:
    """Writes report.json, report.html and, beside weights, README.md.

    Each is whole or absent. An evaluation is not replaced by predictions of other rows
    that came later.

    Args:
        rows: an outcomes.Outcomes of what was evaluated, or None.
        directory: of the run.
        **facts: see record.of_run.
    """
    if _is_kept(directory, rows, trains=facts["trains"]):
        return
    text = record.text_of(record.of_run(rows, directory=directory, **facts))
    found = json.loads(text)  # what a reader of the file has
    where = usage.place(directory)
    files: dict[str, Iterable[str]] = {
        record.path_of(directory): [text],
        os.path.join(directory, file_names.REPORT_PAGE): [page(found, where)],
    }
    if found["has_weights"]:
        files |= model_card.file(found, directory)
    atomic_files.write(files)
    print(f"report: {os.path.join(directory, file_names.REPORT_PAGE)}")


def write_all(directory: str) -> None:
    """Writes report.html of the runs below a directory, of a grid or of seeds."""
    patterns = [record.path_of(os.path.join(directory, below)) for below in _BELOW]
    places = map(os.path.dirname, sorted(tf.io.gfile.glob(patterns)))
    found = {place: record.read(place) for place in places}
    if not found:
        return
    path = os.path.join(directory, file_names.REPORT_PAGE)
    atomic_files.write_text(path, page_of_runs(found, directory))
    print(f"report: {path}, of {len(found)} runs")


def page_of_runs(found: Mapping[str, Mapping[str, Any]], directory: str) -> str:
    """The page of several runs, {their directory: record}, the best first."""
    runs = list(found.values())
    names = sorted({name for run in runs for name in run["flags"]} - _PLACES)
    differing = [
        n for n in names if len({str(run["flags"].get(n)) for run in runs}) > 1
    ]
    scores = list(dict.fromkeys(n for run in runs for n in _scores(run)))
    values = {n: [_scores(run).get(n) for run in runs] for n in scores}
    summary = {
        name: {
            "mean": float(np.mean(known)),
            "deviation": float(np.std(known, ddof=1)) if len(known) > 1 else None,
            "least": min(known),
            "most": max(known),
        }
        for name, all_values in values.items()
        if (known := [value for value in all_values if value is not None])
    }
    main = scores[0] if scores else None
    sign = -1 if main and main.endswith("loss") else 1
    rows = [
        {
            "place": os.path.relpath(where, directory),
            "run": run,
            "scores": _scores(run),
            "main": (run["evaluation"] or {"scores": {}})["scores"].get(main),
        }
        for where, run in found.items()
    ]

    def rank(row):
        score = row["scores"].get(main)
        return score is None, -sign * (score or 0.0)

    rows.sort(key=rank)
    return render(
        "runs.html",
        name=os.path.basename(os.path.abspath(directory)),
        title=usage.KINDS[runs[0]["kind"]].title,
        rows=rows,
        differing=differing,
        scores=scores,
        summary=summary,
        command=runs[0]["command"],
    )


def _scores(run):
    held_out = run["evaluation"] or {"scores": {}}
    return {name: score["value"] for name, score in held_out["scores"].items()}


def _is_kept(directory, rows, *, trains):
    if trains or rows is None or rows.split == "dev":
        return False
    try:
        before = record.read(directory)
    except ValueError:  # none, or of an earlier schema
        return False
    return bool(before["evaluation"]) and before["evaluation"]["split"] == "dev"


def page(found: Mapping[str, Any], where: str) -> str:
    """The page of a record; equal for equal arguments.

    `where` is how commands name the directory.
    """
    from reports.pages import charts  # matplotlib takes most of a second

    held_out, tested = found["evaluation"] or {}, found["test_evaluation"] or {}
    pictures = [
        charts.framed(each["svg"], each["title"], each["description"])
        for each in found["pictures"]
    ]
    for title, values in held_out.get("histograms", {}).items():
        pictures.append(charts.bars(title, values, ""))
    return render(
        "report.html",
        run=found,
        subject=_subject(found),
        origin=usage.origin(found),
        verdict=_verdict(found["kind"], held_out),
        meanings=_MEANINGS,
        held_out=held_out,
        curves=_curves(found["curves"]),
        lengths={
            split: charts.bars(f"{split} lengths", data["lengths"], data["length_unit"])
            for split, data in found["data"].items()
            if data["lengths"]
        },
        labels=_labels(found["data"]),
        tested=tested,
        decided=[
            (
                seen,
                _classes(found["kind"], seen["classes"]),
                _confusion(seen["confusion"]),
            )
            for seen in (held_out, tested)
            if seen and seen["classes"]
        ],
        pictures=pictures,
        mix=_mix(found.get("layer_mix")),
        errors=held_out.get("errors", ())[:SHOWN_ERRORS],
        explanations=[_coloured(each) for each in found["explanations"]],
        explained=_which_rows(found["explanations"], held_out),
        uses=usage.uses(found, where),
    )


def _subject(found):
    """The kind of task, and the published task or the file that was scored."""
    split = (found["evaluation"] or {}).get("split", "train")
    path = found["data"].get(split, {}).get("path", "")
    name = found["flags"].get("task_name") or "/".join(path.split("/")[-2:])
    title = usage.KINDS[found["kind"]].title
    return f"{title}: {name}" if name else title


def _verdict(kind, held_out):
    """A sentence of how many rows are right, or ""."""
    if not held_out.get("is_correct") or kind not in _VERDICTS:
        return ""
    right, rows = sum(held_out["is_correct"]), len(held_out["is_correct"])
    return f"{right:,} of {rows:,} {held_out['split']} {_VERDICTS[kind]}."


def _classes(kind, classes):
    """Those of the table: all, or the worst; none of choices, which are places."""
    if kind == "multiple-choice":
        return []
    if len(classes) <= SHOWN_LABELS:
        return classes
    return sorted(classes, key=lambda row: row["f1"])[:SHOWN_LABELS]


def _which_rows(explanations, held_out):
    """A sentence on why these rows are explained."""
    if not held_out:
        return "The first rows."
    if held_out["is_correct"] is None:  # no number is exactly right
        return "The rows with the largest losses."
    is_wrong = {row["expected"] != row["predicted"] for row in explanations}
    if is_wrong == {False}:
        return "No row is wrong; these are the right ones with the largest losses."
    then = ", then right ones" if False in is_wrong else ""
    return f"The wrong rows with the largest losses{then}."


def render(template: str, **values: Any) -> str:
    """A page of templates/, in the style of all."""
    return _TEMPLATES.get_template(f"{template}.jinja").render(**values)


def _curves(found):
    from reports.pages import charts

    shown = {
        title: {name: found[name] for name in names if len(found.get(name, ())) > 1}
        for title, names in _CURVES.items()
    }
    used = {name for names in _CURVES.values() for name in names}
    for name, points in found.items():
        if name.startswith("eval/") and name not in used | _SAME and len(points) > 1:
            shown[name.removeprefix("eval/").replace("_", " ")] = {name: points}
    return [charts.lines(title, curves) for title, curves in shown.items() if curves]


def _labels(data):
    """A table of the labels of all splits, the commonest first."""
    splits = {split: facts for split, facts in data.items() if facts.get("labels")}
    if not splits:
        return None
    total: collections.Counter[str] = collections.Counter()
    for facts in splits.values():
        total.update(facts["labels"])
    rows = []
    for label, _ in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        cells = []
        for facts in splits.values():
            counts = facts["labels"]
            count = counts.get(label, 0)
            share = count / sum(counts.values())
            cells.append((count, share, count / max(counts.values())))
        rows.append((label, cells))
    title = next(iter(splits.values()))["labels_title"]
    left_out = max(0, len(rows) - SHOWN_LABELS)
    shown = rows[:SHOWN_LABELS]
    return {"splits": list(splits), "title": title, "rows": shown, "left_out": left_out}


def _confusion(found):
    """The rows of the table: name, and of each cell count and share of its row."""
    if not found:
        return None
    matrix, names = found["matrix"], found["names"]
    often = sorted(range(len(names)), key=lambda i: -sum(matrix[i]))[:SHOWN_MATRIX]
    shown = sorted(often)
    rows = []
    for i in shown:
        total = sum(matrix[i]) or 1
        cells = [(matrix[i][j], round(matrix[i][j] / total, 3), i == j) for j in shown]
        rows.append((names[i], sum(matrix[i]), cells))
    left_out = found["left_out"] + len(names) - len(shown)
    return {"names": [names[i] for i in shown], "rows": rows, "left_out": left_out}


def _mix(found):
    """The factor of a learned mix of layers, and a chart of their shares, if any."""
    from reports.pages import charts

    if not found:
        return None
    shares = {n.removeprefix("s_"): s for n, s in found.items() if n != "gamma"}
    unit = "layer, 0 being the embeddings"
    chart = charts.shares("Share of each layer", shares, unit) if shares else ""
    return {"gamma": found["gamma"], "chart": chart}


def _coloured(explanation):
    """Words with how strong their colour is, from -1 to 1."""
    weights = [weight for _, weight in explanation["words"]]
    largest = max(map(abs, weights), default=0.0) or 1.0
    words = [
        (w, weight, round(weight / largest, 2)) for w, weight in explanation["words"]
    ]
    return {**explanation, "words": words}
