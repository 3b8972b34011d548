"""Matplotlib figures in one style, as PNG and as SVG that stands inside HTML.

PNG has a white ground. SVG has none, and its text and lines take the colour of the text
around it, so that it suits a light page and a dark one. Matplotlib takes most of a
second to import, so this waits until something is drawn.
"""

import contextlib
import functools
import html
import io
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#999999"
# Stands for the colour of the surrounding text in SVG, and is near black in PNG.
INK = "#1f2023"
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
_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 9,
    "grid.alpha": 0.5,
    "grid.color": GREY,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's font
    "svg.hashsalt": "bert",  # equal figures have equal ids
    "text.color": INK,
    "text.parse_math": False,  # a label may have a dollar
    "xtick.color": INK,
    "ytick.color": INK,
}


@functools.cache
def _fonts() -> list[str]:
    from matplotlib import font_manager

    known = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in _OTHER_FONTS if name in known)]


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The settings under which figures are drawn and written; a decorator, too."""
    import matplotlib

    settings = {**_SETTINGS, "font.family": _fonts()}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # A letter that no font has is an empty box, and no line on the terminal.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def panel(width: float, height: float, rows: int = 1, **ratios: Any) -> Any:
    """A figure of some inches, and its one axes or array of axes.

    It is not of pyplot, which would choose a window system for the whole process.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, 1, sharex=rows > 1, **ratios)


@style()
def png(figure: "Figure") -> bytes:
    """The figure as a picture of about 100 dots an inch."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=100, facecolor="white")
        return file.getvalue()


@style()
def element(figure: "Figure") -> str:
    """The figure as an <svg> element; equal figures give equal texts."""
    with io.StringIO() as file:
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.S)


def frame(svg: str, title: str, description: str) -> str:
    """An <svg> as the HTML of a <figure> of a page, no two of which share a title.

    `description` is for readers who do not see it.
    """
    prefix = re.sub(r"\W+", "-", title.lower())  # ids of a page are different
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\1{prefix}-", svg)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    label = f'<svg role="img" aria-label="{html.escape(description)}"'
    svg = svg.replace("<svg", label, 1)
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"
