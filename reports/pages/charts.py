"""Charts as SVG inside a page, in the colours of the page: light, dark or on paper."""

import io
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import markupsafe
from matplotlib import figure, ticker
from matplotlib import style as matplotlib_style

_INCHES = (4.4, 2.2)
# Colours that stand for variables of the style sheet, which knows light and dark.
_VARIABLES = {"#010101": "var(--muted)", "#020202": "var(--line)"}
_SERIES = {"#030303": "var(--accent)", "#040404": "var(--second)"}
_INK, _LINE = _VARIABLES
_STYLE = {
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's font
    "svg.hashsalt": "report",  # equal charts have equal ids
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "font.size": 9,
    "text.parse_math": False,  # a name may have a dollar
    "figure.constrained_layout.use": True,
}


def lines(title: str, curves: Mapping[str, Sequence[Sequence[float]]]) -> Any:
    """A chart of curves {name: [[step, value], ...]} over steps."""

    def draw(axes):
        for colour, (name, points) in zip(_SERIES, curves.items(), strict=False):
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) < 30 else None
            axes.plot(
                steps, values, color=colour, label=name, marker=marker, markersize=3
            )
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
        if len(curves) > 1:
            axes.legend(frameon=False)

    last = ", ".join(
        f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}"
        for name, points in curves.items()
    )
    return _svg(title, f"{title} over steps: {last}", draw)


def bars(title: str, histogram: Mapping[str, Sequence[float]], unit: str) -> Any:
    """A chart of a histogram as record.histogram makes it."""
    edges, counts = histogram["edges"], histogram["counts"]

    def draw(axes):
        widths = [b - a for a, b in itertools.pairwise(edges)]
        axes.bar(
            *(edges[:-1], counts, widths),
            **{"align": "edge", "color": next(iter(_SERIES)), "linewidth": 0},
        )
        axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
        axes.set_xlabel(unit)
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))

    most = max(range(len(counts)), key=counts.__getitem__)
    said = f"{title}: {sum(counts)} values from {edges[0]:.4g} to {edges[-1]:.4g}"
    said += f", most between {edges[most]:.4g} and {edges[most + 1]:.4g}"
    return _svg(title, said, draw)


def shares(title: str, values: Mapping[str, float], unit: str) -> Any:
    """A chart with a bar for each of {name: share of 1}."""

    def draw(axes):
        names = list(values)
        colour = next(iter(_SERIES))
        drawn = axes.bar(names, values.values(), 0.7, color=colour, linewidth=0)
        labels = [f"{value:.3f}" for value in values.values()]
        axes.bar_label(drawn, labels, fontsize="small")
        axes.set_xlabel(unit)
        axes.set_ylim(0, 1.15 * max(values.values()))

    each = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    return _svg(title, f"{title}, by {unit}: {each}", draw)


def _svg(title: str, said: str, draw: Callable[[Any], None]) -> Any:
    with matplotlib_style.context(_STYLE):
        made = figure.Figure(figsize=_INCHES)
        draw(made.add_subplot())
        file = io.StringIO()
        made.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.S)
    for colour, variable in {**_VARIABLES, **_SERIES}.items():
        text = text.replace(colour, variable)
    return framed(text, title, said)


def framed(svg: str, title: str, said: str) -> Any:
    """An <svg> as a <figure> of a page, no two of which share a title.

    `said` is for those who do not see it.
    """
    prefix = re.sub(r"\W+", "-", title.lower())  # ids of a page are different
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\1{prefix}-", svg)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    label = f'<svg role="img" aria-label="{markupsafe.escape(said)}"'
    return markupsafe.Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(
        title, markupsafe.Markup(svg.replace("<svg", label, 1))
    )
