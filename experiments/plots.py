"""The pictures of a comparison, as SVG for light and dark pages."""

import io
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib import figure as figures

from experiments import claims, scores, systems, tasks

_INK = "#80868b"  # a contrast of 3.5 and more to white and to black
_STYLE = {
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8,
    "grid.alpha": 0.3,
    "grid.color": _INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "growth",  # the same names in every run
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_COLOURS = ("#3d85d8", "#e07b39", "#3aa17e", "#b07cc6", "#c9a227", "#80868b", "#d6618f")
_MARKERS = "osD^vPX*"
_FEW = 4  # lines whose names have room among them


def _svg(figure: figures.Figure) -> str:
    with io.StringIO() as file:
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        return file.getvalue()


def _lines(
    lines: Mapping[str, Sequence[tuple[float, float, float]]], across: str, up: str
) -> str:
    """Named curves of (x, y, deviation of y)."""
    with matplotlib.rc_context(_STYLE):
        few = len(lines) <= _FEW
        size = (6.2, 3.2) if few else (8.2, 3.6)
        figure = figures.Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
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
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.grid(True)
        if few:
            axes.legend(frameon=False, fontsize=8)
        else:
            figure.legend(loc="outside right center", frameon=False, fontsize=8)
        return _svg(figure)


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
        loss = next(
            (
                points
                for curve, points in record["curves"].items()
                if curve.startswith("eval/") and curve.endswith(("lm_loss", "n_loss"))
            ),
            None,
        )
        if loss:
            last = loss[-1][0]
            points = [(100 * step / last, value, 0.0) for step, value in loss]
            lines[systems.NETWORKS[name].title] = points
    return _lines(lines, "% of the tokens read", "held-out loss of a token, nats")


def layers(scored: Mapping[str, scores.Score]) -> str:
    """Bars of a task's score by what features are made of: table 7 of the paper."""
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(6.2, 2.6), layout="constrained")
        axes = figure.subplots()
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
        return _svg(figure)
