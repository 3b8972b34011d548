"""The pictures of a comparison, as SVG for light and dark pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments import claims, scores, systems, tasks
from reports import svg

_INK = "#80868b"  # a contrast of 3.5 and more to white and to black
_COLOURS = ("#3d85d8", "#e07b39", "#3aa17e", "#b07cc6", "#c9a227", "#80868b", "#d6618f")
_MARKERS = "osD^vPX*"
_FEW = 4  # lines whose names have room among them


def _file(figure: Any) -> str:
    return svg.element(figure).replace("currentColor", _INK)


@svg.style()
def _lines(
    lines: Mapping[str, Sequence[tuple[float, float, float]]], across: str, up: str
) -> str:
    """Named curves of (x, y, deviation of y)."""
    few = len(lines) <= _FEW
    figure, axes = svg.panel(6.2, 3.2) if few else svg.panel(8.2, 3.6)
    for number, (name, points) in enumerate(lines.items()):
        x, y, around = zip(*points, strict=True)
        axes.errorbar(
            x,
            y,
            around if any(around) else None,
            label=name,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            linestyle="-" if number < len(_COLOURS) else "--",
            linewidth=1.3,
            capsize=2,
        )
    axes.set(xlabel=across, ylabel=up)
    axes.grid(True)
    if few:
        axes.legend(fontsize=8)
    else:
        figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return _file(figure)


def steps(curves: claims.SystemScores) -> str:
    """A task's score by steps of pretraining: figure 5 of BERT's paper."""
    lines = {
        systems.SYSTEMS[name].title: [
            (int(step), score.mean, score.deviation)
            for step, score in sorted(scored.items(), key=lambda pair: int(pair[0]))
        ]
        for name, scored in curves.items()
    }
    task = tasks.TASKS[systems.CURVE_TASK]
    return _lines(lines, "steps of pretraining", f"{task.title}, {task.score_title}")


def losses(reports: claims.Reports) -> str:
    """Held-out loss of a predicted token by tokens read, of each pretraining."""
    lines = {}
    for name, record in reports.items():
        for curve, points in record["curves"].items():
            if curve.startswith("eval/") and curve.endswith(("lm_loss", "n_loss")):
                last = points[-1][0]
                shares = [(100 * step / last, value, 0.0) for step, value in points]
                lines.setdefault(systems.NETWORKS[name].title, shares)
    return _lines(lines, "% of the tokens read", "held-out loss of a token, nats")


@svg.style()
def layers(scored: Mapping[str, scores.Score]) -> str:
    """Bars of a task's score by what features are made of: table 7 of the paper."""
    figure, axes = svg.panel(6.2, 2.6)
    axes.barh(
        list(scored),
        [score.mean for score in scored.values()],
        xerr=[score.deviation for score in scored.values()],
        color=_COLOURS[0],
        ecolor=_INK,
        capsize=2,
    )
    axes.invert_yaxis()
    task = tasks.TASKS[systems.FEATURE_TASK]
    axes.set_xlabel(f"{task.title}, {task.score_title}")
    return _file(figure)
