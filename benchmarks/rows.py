"""The table of rows that both sides are timed on."""

from collections.abc import Sequence
from typing import NamedTuple

from contract import errors

# Units of which less is better, and the result of a turn that is the figure.
FIGURES = {"ms": "p50_ms", "s": "start_s"}


class Row(NamedTuple):
    """A line of the result."""

    title: str
    source: str  # of preparation.SOURCES, or of texts for "answer"
    action: str = "train"  # of a sides.Job
    head: str = "classifier"
    steps: int = 0  # 0 for the whole file
    unit: str = "sequences/s"
    batch_size: int = 32
    max_seq_length: int = 128
    warm_up: int = 3
    has_fixed_shape: bool = False  # so that the peer is compiled, too
    export_format: str = ""  # of an export that runs in the place of the model
    quantization: str = "none"

    @property
    def file_flag(self) -> str:
        """The flag that names the row's file, or "" where it needs none."""
        return f"{self.source}_file" if self.source in ("near", "texts") else ""

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit not in FIGURES

    @property
    def full_title(self) -> str:
        """The title with the size of a batch."""
        if not self.is_rate:
            return self.title
        if self.has_fixed_shape:
            return f"{self.title}, {self.batch_size} x {self.max_seq_length}"
        return f"{self.title}, batches of {self.batch_size}"


# {end of a row's name: (title, format, quantization)} of exports.
_EXPORTS = {
    "litert": ("LiteRT", "litert", "none"),
    "onnx": ("ONNX", "onnx", "none"),
    "int8": ("int8", "onnx", "dynamic_int8"),
}


def _exported(row: Row, name: str) -> Row:
    title, export_format, quantization = _EXPORTS[name]
    return row._replace(
        title=f"{row.title}, {title}",
        export_format=export_format,
        quantization=quantization,
    )


_STEP = Row("classifier step", "full", steps=20, has_fixed_shape=True)
_INFERENCE = _STEP._replace(title="inference", action="predict", steps=40)
_SENTENCE = Row("one sentence, p50", "sentences", "answer", steps=200, unit="ms")
_SENTENCE = _SENTENCE._replace(
    warm_up=20, has_fixed_shape=True, export_format="saved_model"
)
_TEXTS = Row("texts to probabilities", "texts", "answer", unit="texts/s")
_TEXTS = _TEXTS._replace(export_format="saved_model")
_VECTORS = Row("vectors of pairs", "near", head="text_encoder", steps=60)
_START = Row("from the command to the first step", "messages", steps=1, unit="s")
ROWS = {
    "classifier": _STEP,
    "pretraining": _STEP._replace(
        title="pretraining step", source="masked", head="pretraining", steps=10
    ),
    "inference": _INFERENCE,
    "vectors": _VECTORS._replace(unit="pairs/s", max_seq_length=256),
    "start": _START._replace(max_seq_length=64, warm_up=1),
    "latency": _SENTENCE,
    **{f"latency_{name}": _exported(_SENTENCE, name) for name in _EXPORTS},
    **{f"inference_{name}": _exported(_INFERENCE, name) for name in ("onnx", "int8")},
    "texts": _TEXTS,
    "texts_onnx": _exported(_TEXTS, "onnx"),
}


def named(names: Sequence[str]) -> dict[str, Row]:
    """Rows by name, all for no names; InputError where there is no such row."""
    if unknown := sorted(set(names) - set(ROWS)):
        raise errors.InputError(
            f"--rows={','.join(unknown)}: rows are {', '.join(ROWS)}"
        )
    return {name: ROWS[name] for name in names or ROWS}
