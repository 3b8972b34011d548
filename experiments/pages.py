"""A comparison as a page of tables and pictures, and as files for other programs."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contract import atomic_files
from experiments import claims, plots, scores, systems, tasks

# Before the table of claims.
CAUTION = (
    "Each interval is of 95 % by itself and not corrected for the number of claims, "
    "{}: one in twenty leaves out 0 where there is no difference. Resamples of few "
    "seeds make it too narrow as well."
)
PAGE, TABLE, RECORD = "comparison.md", "scores.csv", "comparison.json"
PICTURES = ("steps.svg", "losses.svg", "layers.svg")


class Results(NamedTuple):
    """All that a comparison found.

    `found` and `curves` as in claims.rows; `weights` are {network: (weights, weights
    of tables)}, `facts` lines that say how it was run.
    """

    found: claims.Found
    curves: claims.Found
    reports: claims.Reports
    weights: Mapping[str, tuple[int, int]]
    facts: Sequence[str]
    plan: Mapping[str, Any]


def write(directory: str, results: Results) -> str:
    """Writes the page, the pictures, a table and a record; returns the page's path."""
    os.makedirs(directory, exist_ok=True)
    rows = claims.rows(results.found, results.reports, results.curves)
    layered = layer_scores(results.found)
    drawn = (
        plots.steps(results.curves) if results.curves else "",
        plots.losses(results.reports) if results.reports else "",
        plots.layers(layered) if layered else "",
    )
    for name, picture in zip(PICTURES, drawn, strict=True):
        if picture:
            atomic_files.write_text(os.path.join(directory, name), picture)
    atomic_files.write_text(os.path.join(directory, TABLE), _csv(results.found))
    atomic_files.write_json(os.path.join(directory, RECORD), _record(results, rows))
    path = os.path.join(directory, PAGE)
    atomic_files.write_text(path, page(results, rows, drawn))
    return path


def layer_scores(found: claims.Found) -> dict[str, scores.Score]:
    """{what features are made of: score}, of the choices that were run."""
    names = {choice: f"layers_{choice}" for choice in systems.LAYER_CHOICES}
    names["learned"] = "bert_features"
    return {
        systems.LAYER_CHOICES[choice]: found[name][systems.FEATURE_TASK]
        for choice, name in names.items()
        if systems.FEATURE_TASK in found.get(name, {})
    }


def page(
    results: Results, rows: Sequence[claims.Row], drawn: Sequence[str] = ("",) * 3
) -> str:
    """The page, in Markdown."""
    parts = ["# The comparison", "\n".join(results.facts)]
    parts += ["## Tasks", _task_table(results.found)]
    parts += ["## Pretraining", _network_table(results)]
    alternatives = (
        "A task's score along the pretraining",
        "Held-out losses along the pretraining",
        "Scores of features by layers",
    )
    for name, picture, said in zip(PICTURES, drawn, alternatives, strict=True):
        if picture:
            parts.append(f"![{said}]({name})")
    if layered := layer_scores(results.found):
        told = [(name, _score(score)) for name, score in layered.items()]
        task = tasks.TASKS[systems.FEATURE_TASK].title
        parts += ["## Layers for features", markdown(("features", task), told)]
    if rows:
        header = ("claim", "source", "what was run", "difference", "at this scale")
        cells = [(r.claim, r.source, r.ran, r.result, r.verdict) for r in rows]
        parts += ["## What papers say", CAUTION.format(len(rows))]
        parts += [markdown(header, cells)]
    return "\n\n".join(parts) + "\n"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _score(score):
    return f"{score.mean:.1f} +- {score.deviation:.1f}"


def _task_table(found):
    names = [n for n in tasks.TASKS if any(n in scored for scored in found.values())]
    header = [
        "",
        *(f"{tasks.TASKS[n].title}, {tasks.TASKS[n].score_title}" for n in names),
    ]
    guesses = [f"{tasks.TASKS[name].guessed:.1f}" for name in names]
    rows = [["the same answer to all", *guesses]]
    rows += [
        [
            system.title,
            *(_score(found[key][n]) if n in found[key] else "" for n in names),
        ]
        for key, system in systems.SYSTEMS.items()
        if found.get(key)
    ]
    return markdown(header, rows)


def _network_table(results):
    """Size, updates, tokens and speed of each pretraining, and how well it predicts."""
    rows = []
    for name, record in results.reports.items():
        weights, tables = results.weights[name]
        told = {
            key: value
            for key, value in record["results"].items()
            if key.endswith(("accuracy", "perplexity"))
        }
        rows.append(
            (
                systems.NETWORKS[name].title,
                f"{weights:,}",
                f"{tables:,}",
                f"{results.plan['steps'][name]:,}",
                f"{record['seconds']:.0f}",
                ", ".join(f"{key} {value:.4g}" for key, value in told.items()),
            )
        )
    header = (
        "network",
        "weights",
        "and in tables",
        "steps",
        "seconds",
        "held-out text",
    )
    return markdown(header, rows)


def _csv(found):
    with io.StringIO() as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("system", "task", "score", "seed", "value"))
        for system, scored in found.items():
            for task, score in scored.items():
                for seed, value in score.values.items():
                    name = tasks.TASKS[task].score_title
                    writer.writerow((system, task, name, seed, repr(value)))
        return file.getvalue()


def _record(results, rows):
    def plain(found):
        return {
            key: {name: dict(score.values) for name, score in scored.items()}
            for key, scored in found.items()
        }

    return {
        "scores": plain(results.found),
        "along_pretraining": plain(results.curves),
        "claims": [vars(row) for row in rows],
        "plan": results.plan,
        "weights": {name: list(pair) for name, pair in results.weights.items()},
    }
