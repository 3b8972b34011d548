"""A comparison as a page of tables and pictures, and as files for other programs."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tabulate

from contract import atomic_files
from experiments import claims, plots, scores, systems, tasks

# Before the table of claims.
CAUTION = (
    "Each claim has a separate 95 % interval. The intervals are not corrected for the "
    "number of claims, {}: without any difference, one in twenty leaves out 0. Few "
    "seeds also make them too narrow."
)
PAGE, TABLE, RECORD = "comparison.md", "scores.csv", "comparison.json"
PICTURES = {  # and what stands in their place for readers who do not see them
    "steps.svg": "A task's score along the pretraining",
    "losses.svg": "Held-out losses along the pretraining",
    "layers.svg": "Scores of features by layers",
}


class Results(NamedTuple):
    """Scores, reports and settings of a comparison; as in claims.rows."""

    scored: claims.SystemScores
    curves: claims.SystemScores
    reports: claims.Reports
    weights: Mapping[str, tuple[int, int]]  # {network: (weights, weights of tables)}
    facts: Sequence[str]  # lines about the command and the machine
    steps: Mapping[str, int]  # {network: steps}


def write(directory: str, results: Results) -> str:
    """Writes the page, the pictures, a table and a record; returns the page's path."""
    rows = claims.rows(results.scored, results.reports, results.curves)
    layered = layer_scores(results.scored)
    pictures = {
        "steps.svg": results.curves and plots.steps(results.curves),
        "losses.svg": results.reports and plots.losses(results.reports),
        "layers.svg": layered and plots.layers(layered),
    }
    drawn = {name: picture for name, picture in pictures.items() if picture}
    texts = drawn | {TABLE: _csv(results.scored), PAGE: _page(results, rows, drawn)}
    atomic_files.write({os.path.join(directory, n): [t] for n, t in texts.items()})
    atomic_files.write_json(os.path.join(directory, RECORD), _record(results, rows))
    return os.path.join(directory, PAGE)


def layer_scores(scored: claims.SystemScores) -> dict[str, scores.Score]:
    """{title of a choice of layers: score}, of the choices that were run."""
    names = {choice: f"layers_{choice}" for choice in systems.LAYER_CHOICES}
    names["learned"] = "bert_features"
    return {
        systems.LAYER_CHOICES[choice]: scored[name][systems.FEATURE_TASK]
        for choice, name in names.items()
        if systems.FEATURE_TASK in scored.get(name, {})
    }


def _page(results, rows, drawn):
    parts = ["# The comparison", "\n".join(results.facts)]
    parts += ["## Tasks", _task_table(results.scored)]
    parts += ["## Pretraining", _network_table(results)]
    parts += [f"![{PICTURES[name]}]({name})" for name in drawn]
    if layered := layer_scores(results.scored):
        cells = [(name, _score(score)) for name, score in layered.items()]
        task = tasks.TASKS[systems.FEATURE_TASK].title
        parts += ["## Layers for features", _table(("features", task), cells)]
    if rows:
        header = ("claim", "source", "what was run", "difference", "at this scale")
        parts += ["## What papers say", CAUTION.format(len(rows))]
        parts += [_table(header, rows)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tabulate.tabulate(rows, header, "github", disable_numparse=True)


def _score(score):
    return f"{score.mean:.1f} +- {score.deviation:.1f}"


def _task_table(scored):
    names = [n for n in tasks.TASKS if any(n in each for each in scored.values())]
    titles = [f"{tasks.TASKS[n].title}, {tasks.TASKS[n].score_title}" for n in names]
    guesses = [f"{tasks.TASKS[name].guessed:.1f}" for name in names]
    rows = [["the same answer to all", *guesses]]
    for key, system in systems.SYSTEMS.items():
        if each := scored.get(key):
            cells = [_score(each[n]) if n in each else "" for n in names]
            rows.append([system.title, *cells])
    return _table(["", *titles], rows)


def _network_table(results):
    """Size, updates, tokens and speed of each pretraining, and held-out scores."""
    rows = []
    for name, record in results.reports.items():
        weights, tables = results.weights[name]
        held_out = ", ".join(
            f"{key} {value:.4g}"
            for key, value in record["results"].items()
            if key.endswith(("accuracy", "perplexity"))
        )
        title, seconds = systems.NETWORKS[name].title, f"{record['seconds']:.0f}"
        steps = f"{results.steps[name]:,}"
        rows.append((title, f"{weights:,}", f"{tables:,}", steps, seconds, held_out))
    header = "network", "weights", "and in tables", "steps", "seconds", "held-out text"
    return _table(header, rows)


def _csv(scored):
    lines = ["system,task,score,seed,value\n"]
    for system, each in scored.items():
        for task, score in each.items():
            title = tasks.TASKS[task].score_title
            for seed, value in score.values.items():
                lines.append(f"{system},{task},{title},{seed},{value!r}\n")
    return "".join(lines)


def _record(results, rows):
    def values(scored):
        return {
            key: {name: dict(score.values) for name, score in each.items()}
            for key, each in scored.items()
        }

    return {
        "scores": values(results.scored),
        "along_pretraining": values(results.curves),
        "claims": [row._asdict() for row in rows],
        "plan": {"steps": results.steps},
        "weights": {name: list(pair) for name, pair in results.weights.items()},
    }
