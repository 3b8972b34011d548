"""Arrays to figures, and these to PNG or SVG; one function draws one picture.

Colours are those of Okabe and Ito and the map "cividis", which all eyes tell apart.
PNG has a white ground; SVG has none, and its text and lines take the colour of the text
around it, so that it suits a light page and a dark one.
"""

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib import colors, font_manager
from matplotlib import figure as figures

from reports.measures import diagnostics

MATRIX_CLASSES = 20  # more cells than these are too small to hold a count
_SQUARE = 4.2, 4.2  # inches; TensorBoard shows larger pictures with small letters
CURVES = 7  # colours that differ
_BARS = 20
_POINTS = 2000  # of a scatter, at equal distances in the order of the rows
_NAME_LENGTH = 18
_BLUE, _ORANGE, _GREEN, _GREY = "#0072b2", "#d55e00", "#009e73", "#999999"
_COLOURS = (_BLUE, "#e69f00", _GREEN, _ORANGE, "#56b4e9", "#cc79a7", "#7f6d00")
# Stands for the colour of the surrounding text in SVG, and is near black in PNG.
_INK = "#1f2023"
# For names in scripts that matplotlib's own font lacks, where the machine has them.
_OTHER_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Microsoft YaHei",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
)


@functools.cache
def _fonts():
    known = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in _OTHER_FONTS if name in known)]


@contextlib.contextmanager
def _style() -> Iterator[None]:
    settings = {
        "axes.axisbelow": True,
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 9,
        "font.family": _fonts(),
        "font.size": 9,
        "grid.alpha": 0.5,
        "grid.color": _GREY,
        "grid.linewidth": 0.4,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "bert",  # the same names in every run
        "text.color": _INK,
        "text.parse_math": False,  # a label may have a dollar
        "xtick.color": _INK,
        "ytick.color": _INK,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # A letter that no font has is an empty box, and no line on the terminal.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


@_style()
def png(figure: figures.Figure) -> bytes:
    """The figure as a picture of about 100 dots an inch."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=100, facecolor="white")
        return file.getvalue()


@_style()
def svg(figure: figures.Figure) -> str:
    """The figure as an <svg> element to stand in HTML; equal figures, equal texts."""
    with io.StringIO() as file:
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        text = file.getvalue()
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.S)
    return element.replace(_INK, "currentColor")


@_style()
def confusion(counts: np.ndarray, names: Sequence[str]) -> figures.Figure:
    """A matrix int [C, C] of up to MATRIX_CLASSES classes; else the worst of it.

    A cell's colour is its share of its row, so that a class with most of the rows does
    not outshine the others.
    """
    if len(names) > MATRIX_CLASSES:
        return _top_confusions(counts, names)
    side = 1.7 + 0.36 * len(names)
    figure, axes = _panel(side + 0.9, side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    scale = colors.PowerNorm(0.5, 0.0, 1.0)  # small shares are what one looks for
    mesh = axes.pcolormesh(shares, norm=scale, cmap="cividis")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            red, green, blue, _ = mesh.cmap(scale(shares[row, column]))
            is_light = 0.3 * red + 0.59 * green + 0.11 * blue > 0.45
            colour = "#000000" if is_light else "#ffffff"
            where = {"ha": "center", "va": "center", "fontsize": 8}
            axes.text(column + 0.5, row + 0.5, str(count), color=colour, **where)
    places = np.arange(len(names)) + 0.5
    shown = [short(name) for name in names]
    axes.set_xticks(places, shown, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, shown)
    axes.invert_yaxis()
    axes.set(xlabel="predicted", ylabel="given", aspect="equal")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(mesh, ax=axes, shrink=0.8, label="share of the given class")
    bar.outline.set_visible(False)
    return figure


def _top_confusions(counts: np.ndarray, names: Sequence[str]) -> figures.Figure:
    found = diagnostics.top_confusions(counts, _BARS)
    errors = int(counts.sum() - np.trace(counts))
    figure, axes = _panel(7.0, 1.6 + 0.24 * max(len(found), 1))
    shown = [f"{short(names[i])} → {short(names[j])}" for i, j, _ in found]
    values = [count for _, _, count in found]
    axes.barh(np.arange(len(found)), values, color=_BLUE, height=0.7)
    axes.set_yticks(np.arange(len(found)), shown)
    axes.invert_yaxis()
    axes.bar_label(axes.containers[0], padding=2, fontsize=8, color=_INK)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("times, given → predicted")
    axes.set_title(
        f"{sum(values)} of {errors} errors; {len(names)} classes are too many for a "
        "matrix"
    )
    return figure


@_style()
def precision_recall(
    curves: Mapping[int, diagnostics.Curve], names: Sequence[str]
) -> figures.Figure:
    """A curve for each class; of more than CURVES classes, for the worst."""
    figure, axes = _panel(*_SQUARE)
    worst = sorted(curves, key=lambda index: curves[index].average_precision)
    shown = sorted(worst[:CURVES])
    for colour, index in zip(_COLOURS, shown, strict=False):
        curve = curves[index]
        label = f"{short(names[index])}  {curve.average_precision:.3f}"
        # From here on down to the next threshold the precision is the one there.
        axes.step(
            curve.recall, curve.precision, color=colour, where="post", label=label
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    axes.grid(True)
    title = "average precision"
    if shown:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
        axes.legend(title=title, fontsize=8, **below)
    mean = np.mean([curve.average_precision for curve in curves.values()] or [0.0])
    rest = f"; the {len(shown)} lowest are shown" if len(shown) < len(curves) else ""
    axes.set_title(f"mean {mean:.3f} over {len(curves)} classes{rest}")
    return figure


@_style()
def reliability(found: diagnostics.Reliability) -> figures.Figure:
    """How often predictions of each probability are right, and how many there are."""
    figure, (upper, lower) = _panel(*_SQUARE, rows=2, height_ratios=(3, 1))
    width, is_full = np.diff(found.edges), found.counts > 0
    left = found.edges[:-1]
    upper.plot((0, 1), (0, 1), color=_GREY, linestyle="--", label="as sure as right")
    upper.bar(
        left[is_full],
        found.accuracy[is_full],
        width[is_full],
        align="edge",
        color=_BLUE,
        alpha=0.35,
    )
    upper.plot(
        found.confidence[is_full],
        found.accuracy[is_full],
        color=_BLUE,
        marker="o",
        label="this model",
    )
    upper.set(ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.03))
    upper.set_title(f"expected calibration error {found.calibration_error:.3f}")
    upper.legend(loc="upper left")
    lower.bar(left, found.counts, width, align="edge", color=_GREY, edgecolor="white")
    lower.set(xlabel="probability of the prediction", ylabel="count", xlim=(0, 1))
    for axes in (upper, lower):
        axes.grid(True)
    return figure


@_style()
def label_counts(
    counts: diagnostics.LabelCounts, names: Sequence[str]
) -> figures.Figure:
    """Rows of each label, given, predicted and both; of many labels, the worst."""
    shown = np.sort(diagnostics.largest(counts.wrong, _BARS))
    figure, axes = _panel(6.4, 1.4 + 0.42 * len(shown))
    bars = (
        ("given", counts.given, _GREY),
        ("predicted", counts.predicted, _ORANGE),
        ("both", counts.right, _BLUE),
    )
    for place, (label, values, colour) in enumerate(bars):
        height = np.arange(len(shown)) + (place - 1) * 0.26
        axes.barh(height, values[shown], 0.24, color=colour, label=label)
    axes.set_yticks(np.arange(len(shown)), [short(names[index]) for index in shown])
    axes.invert_yaxis()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("rows")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    if len(shown) < len(names):
        axes.set_title(f"the {len(shown)} of {len(names)} labels with most errors")
    return figure


@_style()
def scatter(labels: np.ndarray, predictions: np.ndarray) -> figures.Figure:
    """Predicted against given numbers, float [N] each."""
    figure, axes = _panel(4.8, 4.6)
    rows = np.linspace(0, len(labels) - 1, min(len(labels), _POINTS)).astype(np.int64)
    ends = [min(labels.min(), predictions.min()), max(labels.max(), predictions.max())]
    axes.plot(ends, ends, color=_GREY, linestyle="--", zorder=1)
    axes.scatter(labels[rows], predictions[rows], s=9, color=_BLUE, alpha=0.5)
    axes.set(xlabel="given", ylabel="predicted")
    axes.grid(True)
    if len(rows) < len(labels):
        axes.set_title(f"{len(rows)} of {len(labels)} rows")
    return figure


@_style()
def residuals(labels: np.ndarray, predictions: np.ndarray) -> figures.Figure:
    """How far predicted numbers are off."""
    errors = predictions - labels
    figure = histogram(errors, "predicted minus given")
    axes = figure.axes[0]
    axes.axvline(0.0, color=_INK, linewidth=0.8)
    axes.set_title(f"mean {errors.mean():.3f}, standard deviation {errors.std():.3f}")
    return figure


@_style()
def histogram(values: np.ndarray, label: str) -> figures.Figure:
    """How often float [K] values occur."""
    figure, axes = _panel(5.2, 3.2)
    axes.hist(values, bins=30, color=_BLUE, edgecolor="white", linewidth=0.3)
    axes.set(xlabel=label, ylabel="count")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(True)
    return figure


def short(name: str) -> str:
    """A name on one line, cut where it is too long for a picture."""
    name = " ".join(str(name).split())
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


def _panel(width, height, rows=1, **ratios):
    """A figure of some inches, and its one axes or array of axes.

    Not of pyplot, which would choose a window system for the whole process.
    """
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, 1, sharex=rows > 1, **ratios)
