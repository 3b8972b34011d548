"""report.html of a run, or of several, from their records."""

import collections
import html
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import numpy as np

from reports import figures, svg
from reports.measures import class_scores, selective
from reports.pages import head, usage
from training import metrics

SHOWN_ERRORS = 25
SHOWN_LABELS = 30
# Flags in which the runs of a grid differ without a difference.
_PLACES = frozenset({"output_dir"})
# Curves of the page: its title, and the names of what it shows.
_CURVES = {
    "Loss": ("train/loss", "eval/loss"),
    "Learning rate": ("train/learning_rate",),
    "Gradient norm": ("train/gradient_norm",),
}
_SAME = {"eval/batch_loss"}  # as the loss, but for rounding
_MEANINGS = {
    "accuracy": "share that is right",
    "f1": "harmonic mean of precision and recall",
    "f1_macro": "mean of the F1 of all classes",
    "f1_micro": "F1 of the labels of all rows together",
    "mcc": "Matthews correlation of given and predicted classes: 1 is perfect, "
    "0 is chance",
    "precision": "share of the predictions that is right",
    "recall": "share of the given labels that is predicted",
    "exact": "share that is exactly right, in percent",
    "pearson": "linear correlation of given and predicted numbers: 1 is perfect",
    "spearman": "correlation of their ranks",
    "loss": "mean over the rows; less is better",
}


def _cell(name: str) -> str:
    """A name as a line or table of Markdown has it, whatever its letters."""
    text = html.escape(" ".join(name.split()), quote=False)
    return re.sub(r"[\\|`\[]", r"\\\g<0>", text)


def _code(name: str) -> str:
    """A name within backticks, in a line or table."""
    return " ".join(name.split()).replace("`", "'").replace("|", "\\|")


def _fence(code: str) -> str:
    """The backticks around a block of code, more than it has in a row."""
    return "`" * max(3, *(len(run) + 1 for run in re.findall("`+", code)), 3)


def _names(paths):
    """The names of files, as wording.first_of lists their paths."""
    return ", ".join(map(os.path.basename, paths.split(", ")))


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__),
    autoescape=lambda name: name != "card.md.jinja",
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # YAML's letters
_TEMPLATES.filters |= {
    "cell": _cell,
    "code": _code,
    "fence": _fence,
    "name": _names,
    "on_lines": usage.on_lines,
}


def page_of_runs(records: Mapping[str, Mapping[str, Any]], directory: str) -> str:
    """The page of several runs, {their directory: record}, the best first."""
    runs = list(records.values())
    names = sorted({name for run in runs for name in run["flags"]} - _PLACES)
    differing = [
        n for n in names if len({str(run["flags"].get(n)) for run in runs}) > 1
    ]
    rows = []
    for where, run in records.items():
        held_out = (run["evaluation"] or {"scores": {}})["scores"]
        scored = {name: score["value"] for name, score in held_out.items()}
        place = os.path.relpath(where, directory)
        rows.append({"place": place, "run": run, "scores": scored, "details": held_out})
    scores = list(dict.fromkeys(name for row in rows for name in row["scores"]))
    main = scores[0] if scores else ""
    sign = metrics.sign(main)

    def rank(row):
        score = row["scores"].get(main)
        return score is None, -sign * (score or 0.0)

    rows.sort(key=rank)
    varied = [name for name in differing if name != "seed"]
    groups: dict[tuple[str, ...], list[Any]] = {}  # the seeds of each combination
    for row in rows:
        values = tuple(str(row["run"]["flags"].get(name)) for name in varied)
        groups.setdefault(values, []).append(row)
    combinations = [
        {
            "values": values,
            "count": len(group),
            "summary": summary,
            "scores": {main: summary["mean"] if summary else None},
        }
        for values, group in groups.items()
        for summary in [_summary([main], group).get(main)]
    ]
    combinations.sort(key=rank)
    return render(
        "runs.html",
        name=runs[0]["flags"].get("report_title")
        or os.path.basename(os.path.abspath(directory)),
        title=usage.KINDS[runs[0]["kind"]].title,
        rows=rows,
        differing=differing,
        scores=scores,
        varied=varied,
        combinations=combinations,
        # Scores of unlike runs have no mean.
        summary=_summary(scores, rows) if len(combinations) == 1 else {},
        command=runs[0]["command"],
    )


def _summary(scores: Sequence[str], rows: Sequence[Any]) -> dict[str, Any]:
    """{score: its mean, sample deviation and range} of rows that have it."""
    summary = {}
    for name in scores:
        values = [row["scores"].get(name) for row in rows]
        if known := [value for value in values if value is not None]:
            summary[name] = {
                "mean": float(np.mean(known)),
                "deviation": float(np.std(known, ddof=1)) if len(known) > 1 else None,
                "least": min(known),
                "most": max(known),
            }
    return summary


def page(record: Mapping[str, Any], where: str) -> str:
    """The page of a record; equal for equal arguments.

    `where` is how commands name the directory.
    """
    held_out, tested = record["evaluation"] or {}, record["test_evaluation"] or {}
    folds = record.get("cross_validation") or {}
    kind, data = record["kind"], record["data"]
    pictures = [
        svg.frame(each["svg"], each["title"], each["description"])
        for each in record["pictures"]
    ]
    for title, histogram in held_out.get("histograms", {}).items():
        pictures.append(_bars(title, histogram, ""))
    return render(
        "report.html",
        run=record,
        subject=_subject(record),
        origin=usage.origin(record),
        verdict=head.verdict(kind, held_out),
        tiles=head.tiles(kind, held_out),
        main_table=head.table(kind, held_out),
        meanings=_MEANINGS,
        held_out=held_out,
        curves=_curves(record["curves"]),
        lengths={
            split: _bars(f"{split} lengths", facts["lengths"], facts["length_unit"])
            for split, facts in data.items()
            if facts["lengths"]
        },
        labels=_labels(data),
        tested=tested,
        folds=folds,
        decided=[
            (each, _classes(kind, each["classes"]), _confusion(each["confusion"]))
            for each in (held_out, tested, folds)
            if each and each["classes"]
        ],
        answered=_answered(held_out or folds),
        columns=selective.COLUMNS,
        level=selective.LEVEL,
        use=selective.USE,
        pictures=pictures,
        mix=record.get("layer_mix"),
        errors=held_out.get("errors", ())[:SHOWN_ERRORS],
        explanations=[_colour(each) for each in record["explanations"]],
        explained=_explain_choice(record["explanations"], held_out),
        uses=usage.uses(record, where),
    )


def _subject(record):
    """--report_title, or the kind of task and the task or file that was scored."""
    if title := record["flags"].get("report_title"):
        return title
    split = (record["evaluation"] or {}).get("split", "train")
    path = record["data"].get(split, {}).get("path", "").split(", ")[0]
    name = record["flags"].get("task_name") or "/".join(path.split("/")[-2:])
    title = usage.KINDS[record["kind"]].title
    return f"{title}: {name}" if name else title


def _classes(kind, classes):
    """All classes, or the worst; none of choices, which are places."""
    if kind == "multiple-choice":
        return []
    if len(classes) <= SHOWN_LABELS:
        return classes
    return class_scores.worst(classes, SHOWN_LABELS)


def _answered(seen):
    """The rows of the table of what is answered alone."""
    count = seen.get("rows", 0)
    return [selective.cells(row, count) for row in seen.get("answered_alone", ())]


def _explain_choice(explanations, held_out):
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
    """A page or card of templates/."""
    return _TEMPLATES.get_template(f"{template}.jinja").render(**values)


def _curves(curves):
    shown = {
        title: {name: curves[name] for name in names if len(curves.get(name, ())) > 1}
        for title, names in _CURVES.items()
    }
    used = {name for names in _CURVES.values() for name in names}
    for name, points in curves.items():
        if name.startswith("eval/") and name not in used | _SAME and len(points) > 1:
            shown[name.removeprefix("eval/").replace("_", " ")] = {name: points}
    return [_lines(title, points) for title, points in shown.items() if points]


def _lines(title, curves):
    ends = ", ".join(
        f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}"
        for name, points in curves.items()
    )
    return _chart(title, f"{title} over steps: {ends}", figures.curves(curves))


def _bars(title, histogram, unit):
    edges, counts = histogram["edges"], histogram["counts"]
    most = counts.index(max(counts))
    description = (
        f"{title}: {sum(counts)} values from {edges[0]:.4g} to {edges[-1]:.4g}, "
        f"most between {edges[most]:.4g} and {edges[most + 1]:.4g}"
    )
    return _chart(title, description, figures.bars(edges, counts, unit))


def _chart(title, description, figure):
    return svg.frame(svg.element(figure), title, description)


def _labels(data):
    """A table of the labels of all splits, the commonest first."""
    splits = {split: facts for split, facts in data.items() if facts.get("labels")}
    if not splits:
        return None
    total: collections.Counter[str] = collections.Counter()
    for facts in splits.values():
        total.update(facts["labels"])
    ranked = sorted(total, key=lambda label: (-total[label], label))
    rows = []
    for label in ranked[:SHOWN_LABELS]:
        cells = []
        for counts in (facts["labels"] for facts in splits.values()):
            count, values = counts.get(label, 0), counts.values()
            cells.append((count, count / sum(values), count / max(values)))
        rows.append((label, cells))
    title = next(iter(splits.values()))["labels_title"]
    left_out = len(ranked) - len(rows)
    return {"splits": list(splits), "title": title, "rows": rows, "left_out": left_out}


def _confusion(confusion):
    """The rows of the table: name, and of each cell count and share of its row."""
    if not confusion:
        return None
    rows = []
    pairs = zip(confusion["names"], confusion["matrix"], strict=True)
    for place, (name, counts) in enumerate(pairs):
        total = sum(counts)
        cells = [
            (count, round(count / (total or 1), 3), place == column)
            for column, count in enumerate(counts)
        ]
        rows.append((name, total, cells))
    return {**confusion, "rows": rows}


def _colour(explanation):
    """Words with the strength of their colour, from -1 to 1."""
    words = explanation["words"]
    largest = max((abs(weight) for _, weight in words), default=0.0) or 1.0
    words = [(word, weight, round(weight / largest, 2)) for word, weight in words]
    return {**explanation, "words": words}
