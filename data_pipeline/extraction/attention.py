"""Files of attention probabilities; docs/features.md says how each is read."""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import errors
from data_pipeline.extraction import vectors

HEADS = "heads"
PICTURES = ("png", "svg")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionLayout:
    """The content of a file to write: of each line [K, N, S, S]."""

    num_lines: int
    num_tokens: int  # of all lines together
    num_pairs: int  # sum over lines of S * S
    layers: tuple[int, ...]  # K, as they are called
    heads: tuple[int, ...]  # N
    spell: vectors.Spell
    of_tokens: bool = True  # ids are written, too

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        """The shape of the values, and names to write beside them in an .npz file."""
        count = len(self.layers) * len(self.heads) * self.num_pairs
        return {
            vectors.VALUES: (count,),
            vectors.LAYERS: self.layers,
            HEADS: self.heads,
        }

    @property
    def formats(self) -> dict[str, Any]:
        """{name: what opens a file of that format}."""
        return FORMATS

    def cut(self, values: np.ndarray, length: int) -> np.ndarray:
        """A line's values without padding."""
        return np.ascontiguousarray(values[:, :, :length, :length])

    def values_per_token(self, max_seq_length: int) -> int:
        """At most, while a line waits for those before it."""
        return len(self.layers) * len(self.heads) * max_seq_length


def check(output_format: str, path: str, num_lines: int) -> None:
    """Raises ValueError where a picture would be of several lines."""
    if output_format in PICTURES and num_lines > 1:
        raise errors.InputError(
            f"--output_format={output_format} draws one line, and {path} has "
            f"{num_lines}; give a file with one of them"
        )


@contextlib.contextmanager
def _jsonl(path, layout):
    """An object a line: tokens, and of each layer heads x queries x keys."""

    def rows(matrix):  # [S, S]
        return b", ".join(b"[%s]" % row for row in vectors.rows_of_text(matrix))

    def line_of(result):
        tokens = json.dumps(layout.spell(result.input_ids))
        layers = b", ".join(
            b'{"index": %d, "heads": [%s]}'
            % (name, b", ".join(b"[%s]" % rows(matrix) for matrix in heads))
            for name, heads in zip(layout.layers, result.values, strict=True)
        )
        start = f'{{"{vectors.LINE}": {result.unique_id}, "tokens": {tokens}, '
        return start.encode() + b'"layers": [' + layers + b"]}\n"

    with tf.io.gfile.GFile(path, "wb") as file:
        yield lambda result: file.write(line_of(result))


def _picture(form):
    @contextlib.contextmanager
    def draw(path, layout):
        def write_line(result):
            drawn = figure(
                layout.spell(result.input_ids),
                result.values,
                layers=layout.layers,
                heads=layout.heads,
            )
            # Without its time, so that equal inputs give equal files.
            metadata = {"Date": None} if form == "svg" else None
            with tf.io.gfile.GFile(path, "wb") as file:
                drawn.savefig(file, format=form, dpi=120, metadata=metadata)

        yield write_line

    return draw


FORMATS = {
    "jsonl": _jsonl,
    "npz": vectors.npz,
    "tfrecord": vectors.tfrecord,
    **{form: _picture(form) for form in PICTURES},
}

_LABELLED = 4  # panels up to which each has its tokens beside it
_INCHES, _INCHES_PER_TOKEN = 1.2, 0.22


def figure(
    tokens: Sequence[str],
    maps: np.ndarray,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Any:
    """A matplotlib Figure with a row of panels for each layer, a column for each head.

    Args:
        tokens: S.
        maps: [K, N, S, S] probabilities: a row is the token that looks, a column the
            token that is looked at.
        layers: names of the K, and `heads` of the N; by default counted from 0.
    """
    from matplotlib import figure as figures  # which takes a second

    num_layers, num_heads = maps.shape[:2]
    is_labelled = num_layers * num_heads <= _LABELLED
    size = _INCHES
    if is_labelled:
        size = max(3.0, _INCHES_PER_TOKEN * len(tokens) + 1.0)
    drawn = figures.Figure((size * num_heads, size * num_layers), layout="constrained")
    panels = drawn.subplots(num_layers, num_heads, squeeze=False)
    for i, layer in enumerate(range(num_layers) if layers is None else layers):
        for j, head in enumerate(range(num_heads) if heads is None else heads):
            panel = panels[i, j]
            panel.imshow(maps[i, j], cmap="Blues", vmin=0.0, vmax=1.0)
            panel.set_xticks([])
            panel.set_yticks([])
            if is_labelled:
                panel.set_xticks(range(len(tokens)), tokens, rotation=90)
                panel.set_yticks(range(len(tokens)), tokens)
                panel.set_title(f"layer {layer}, head {head}")
            elif i == 0:
                panel.set_title(f"head {head}", fontsize=8)
            if not is_labelled and j == 0:
                panel.set_ylabel(f"layer {layer}", fontsize=8)
    return drawn
