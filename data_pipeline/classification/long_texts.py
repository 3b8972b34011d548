"""Long texts as several windows of one example, whose logits are joined."""

import dataclasses
from typing import Any

from contract import errors
from contract.tensorflow_later import tf
from data_pipeline.batches import excerpts, packing

TRUNCATE, WINDOWS = "truncate", "windows"
JOINS = ("mean", "max")  # of the logits of windows


@dataclasses.dataclass(frozen=True)
class Windows:
    """Which windows of a text are read; a text that fits is in one.

    Attributes:
        doc_stride: tokens from the beginning of a window to that of the next, at most
            those of a window; 0 for half a window.
        max_windows: of a text; what comes after these is not read.
        window_logits: one of JOINS.
    """

    doc_stride: int = 0
    max_windows: int = 16
    window_logits: str = JOINS[0]

    def __post_init__(self) -> None:
        if self.doc_stride < 0 or self.max_windows < 1:
            raise errors.InputError(
                f"doc_stride={self.doc_stride} and max_windows={self.max_windows}: "
                "give 0 or more, and 1 or more"
            )
        if self.window_logits not in JOINS:
            raise errors.InputError(
                f"window_logits={self.window_logits!r} is none of {', '.join(JOINS)}"
            )

    def settings(self) -> dict[str, str]:
        """The values that label_map.json keeps."""
        values = dataclasses.asdict(self)
        return {"long_texts": WINDOWS, **{name: str(v) for name, v in values.items()}}

    def typed(self) -> str:
        """As flags."""
        return " ".join(f"--{name}={value}" for name, value in self.settings().items())

    def cut(
        self, ids: "tf.RaggedTensor", special: Any, max_seq_length: int
    ) -> "tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]":
        """Cuts ragged ids [B, (S)], or [B, (S), C] of characters, as operations.

        Returns:
            Ids of N windows, without special tokens, text after text; int64 [B], the
            windows of each text; bool [B], whether it has more than are read.
        """
        room = max_seq_length - packing.num_special(special, is_pair=False)
        begin, end = ids.row_starts(), ids.row_limits()
        owner, number, starts, stops = excerpts.cut(
            tf.zeros_like(begin),
            begin,
            tf.maximum(end, begin + 1),  # a text without tokens has a window, too
            tf.constant(room, tf.int64),
            self.doc_stride or (room + 1) // 2,
        )
        size = tf.size(begin, tf.int64)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(owner), owner, size)
        is_read = number < self.max_windows
        owner, starts, stops = (
            tf.boolean_mask(values, is_read) for values in (owner, starts, stops)
        )
        wanted = tf.ragged.range(starts, tf.minimum(stops, tf.gather(end, owner)))
        read = tf.minimum(counts, self.max_windows)
        return tf.gather(ids.values, wanted), read, counts > read


def read_settings(settings: dict[str, Any]) -> Windows | None:
    """Takes what `Windows.settings` has from those of a label_map.json, if it is there.

    ValueError and InputError are raised for wrong values.
    """
    if settings.pop("long_texts", TRUNCATE) != WINDOWS:
        return None
    usual = dataclasses.asdict(Windows())
    values = {name: type(usual[name])(settings.pop(name)) for name in usual}
    return Windows(**values)
