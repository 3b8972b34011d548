"""Draws arrays with matplotlib; one function draws one picture.

Colours are those of Okabe and Ito and the map "cividis", which all eyes tell apart.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reports import svg
from reports.measures import diagnostics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATRIX_CLASSES = 20  # more cells than these are too small to hold a count
_SQUARE = 4.2, 4.2  # inches; TensorBoard shows larger pictures with small letters
_CHART = 4.4, 2.2  # inches of a chart of a page
CURVES = 7  # colours that differ
_BARS = 20
_POINTS = 2000  # of a scatter, at equal distances in the order of the rows
_NAME_LENGTH = 18
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"
_COLOURS = (_BLUE, "#e69f00", _GREEN, _ORANGE, "#56b4e9", "#cc79a7", "#7f6d00")


@svg.style()
def confusion(counts: np.ndarray, names: Sequence[str]) -> "Figure":
    """A matrix int [C, C], of more than MATRIX_CLASSES those with most errors.

    A cell's colour is its share of its row, lest a frequent class outshine the others.
    """
    from matplotlib import colors

    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    chosen = np.sort(diagnostics.largest(errors, MATRIX_CLASSES))
    counts, shares = (grid[np.ix_(chosen, chosen)] for grid in (counts, shares))
    side = 1.7 + 0.36 * len(chosen)
    figure, axes = svg.panel(side + 0.9, side)
    scale = colors.PowerNorm(0.5, 0.0, 1.0)  # small shares are what one looks for
    mesh = axes.pcolormesh(shares, norm=scale, cmap="cividis")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            red, green, blue, _ = mesh.cmap(scale(shares[row, column]))
            is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.45
            form = {"ha": "center", "va": "center", "fontsize": 8}
            form["color"] = "#000000" if is_light else "#ffffff"
            axes.text(column + 0.5, row + 0.5, str(count), **form)
    places = np.arange(len(chosen)) + 0.5
    shown = [short(names[index]) for index in chosen]
    axes.set_xticks(places, shown, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, shown)
    axes.invert_yaxis()
    axes.set(xlabel="predicted", ylabel="given", aspect="equal")
    if len(chosen) < len(names):
        axes.set_title(f"the {len(chosen)} of {len(names)} classes with most errors")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.8, label="share of the given class")
    bar.outline.set_visible(False)
    return figure


@svg.style()
def precision_recall(
    curves: Mapping[int, diagnostics.Curve], names: Sequence[str]
) -> "Figure":
    """A curve for each class; of more than CURVES classes, for the worst."""
    figure, axes = svg.panel(*_SQUARE)
    worst = sorted(curves, key=lambda index: curves[index].average_precision)
    shown = sorted(worst[:CURVES])
    for colour, index in zip(_COLOURS, shown, strict=False):
        curve = curves[index]
        # Matplotlib leaves labels out that begin with _.
        label = f"{short(names[index])}  {curve.average_precision:.3f}"
        label = f"\u200b{label}" if label.startswith("_") else label
        # From here on down to the next threshold the precision is the one there.
        line = {"color": colour, "where": "post", "label": label}
        axes.step(curve.recall, curve.precision, **line)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    axes.grid(True)
    if shown:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
        axes.legend(title="average precision", fontsize=8, **below)
    mean = np.mean([curve.average_precision for curve in curves.values()] or [0.0])
    only = f"; the {len(shown)} lowest are shown" if len(shown) < len(curves) else ""
    axes.set_title(f"mean {mean:.3f} over {len(curves)} classes{only}")
    return figure


@svg.style()
def reliability(bins: diagnostics.Reliability) -> "Figure":
    """The share of right predictions of each probability, and their counts."""
    figure, (upper, lower) = svg.panel(*_SQUARE, rows=2, height_ratios=(3, 1))
    left, width = bins.edges[:-1], np.diff(bins.edges)
    full = bins.counts > 0
    accuracy, confidence = bins.accuracy[full], bins.confidence[full]
    upper.plot((0, 1), (0, 1), color=svg.GREY, linestyle="--", label="as sure as right")
    bar = {"align": "edge", "color": _BLUE, "alpha": 0.35}
    upper.bar(left[full], accuracy, width[full], **bar)
    upper.plot(confidence, accuracy, color=_BLUE, marker="o", label="this model")
    upper.set(ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.03))
    upper.set_title(f"expected calibration error {bins.calibration_error:.3f}")
    upper.legend(loc="upper left")
    lower.bar(left, bins.counts, width, align="edge", color=svg.GREY, edgecolor="white")
    lower.set(xlabel="probability of the prediction", ylabel="count", xlim=(0, 1))
    for axes in (upper, lower):
        axes.grid(True)
    return figure


@svg.style()
def label_counts(counts: diagnostics.LabelCounts, names: Sequence[str]) -> "Figure":
    """Rows of each label, given, predicted and both; of many labels, the worst."""
    shown = np.sort(diagnostics.largest(counts.wrong, _BARS))
    figure, axes = svg.panel(6.4, 1.4 + 0.42 * len(shown))
    places = np.arange(len(shown))
    for shift, label, values, colour in (
        (-0.26, "given", counts.expected, svg.GREY),
        (0, "predicted", counts.predicted, _ORANGE),
        (0.26, "both", counts.right, _BLUE),
    ):
        axes.barh(places + shift, values[shown], 0.24, color=colour, label=label)
    axes.set_yticks(places, [short(names[index]) for index in shown])
    axes.invert_yaxis()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("rows")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    if len(shown) < len(names):
        axes.set_title(f"the {len(shown)} of {len(names)} labels with most errors")
    return figure


@svg.style()
def scatter(labels: np.ndarray, predictions: np.ndarray) -> "Figure":
    """Predicted against given numbers, float [N] each."""
    figure, axes = svg.panel(4.8, 4.6)
    rows = np.linspace(0, len(labels) - 1, min(len(labels), _POINTS)).astype(np.int64)
    ends = [min(labels.min(), predictions.min()), max(labels.max(), predictions.max())]
    axes.plot(ends, ends, color=svg.GREY, linestyle="--", zorder=1)
    axes.scatter(labels[rows], predictions[rows], s=9, color=_BLUE, alpha=0.5)
    axes.set(xlabel="given", ylabel="predicted")
    axes.grid(True)
    if len(rows) < len(labels):
        axes.set_title(f"{len(rows)} of {len(labels)} rows")
    return figure


@svg.style()
def residuals(labels: np.ndarray, predictions: np.ndarray) -> "Figure":
    """A histogram of predicted minus expected numbers."""
    errors = predictions - labels
    counts, edges = np.histogram(errors, 30)
    figure = bars(edges, counts, "predicted minus given")
    axes = figure.axes[0]
    axes.axvline(0.0, color=svg.INK, linewidth=0.8)
    axes.set_title(f"mean {errors.mean():.3f}, standard deviation {errors.std():.3f}")
    return figure


@svg.style()
def curves(points: Mapping[str, Sequence[Sequence[float]]]) -> "Figure":
    """Curves {name: [[step, value], ...]} over steps."""
    figure, axes = svg.panel(*_CHART)
    for colour, (name, pairs) in zip((_BLUE, _ORANGE), points.items(), strict=False):
        steps, values = zip(*pairs, strict=True)
        marker = "o" if len(pairs) < 30 else None
        axes.plot(steps, values, color=colour, label=name, marker=marker, markersize=3)
    axes.set_xlabel("step")
    axes.locator_params(axis="x", nbins=6, integer=True)
    axes.grid(True, axis="y")
    if len(points) > 1:
        axes.legend()
    return figure


@svg.style()
def bars(edges: Any, counts: Any, unit: str) -> "Figure":
    """A histogram whose B counts lie between B + 1 edges."""
    figure, axes = svg.panel(*_CHART)
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=_BLUE, linewidth=0)
    axes.set_xlabel(unit)
    axes.locator_params(axis="x", nbins=6)
    axes.locator_params(axis="y", nbins=4, integer=True)
    axes.grid(True, axis="y")
    return figure


def short(name: str) -> str:
    """A name on one line, cut where it is too long for a picture."""
    name = " ".join(str(name).split())
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
