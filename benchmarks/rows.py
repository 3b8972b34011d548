"""The tables of rows, and of the sides that are timed on them."""

from collections.abc import Sequence
from typing import NamedTuple

from contract import errors

# Units of which less is better, and the result of a turn that is the figure.
FIGURES = {"ms": "p50_ms", "s": "start_s"}
_WITH_FILE = "near", "texts", "train"  # sources that a flag names


def is_rate(unit: str) -> bool:
    """Whether more of a unit is better."""
    return unit not in FIGURES


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

    @property
    def file_flag(self) -> str:
        """The flag that names the row's file, or "" where it needs none."""
        return f"{self.source}_file" if self.source in _WITH_FILE else ""

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return is_rate(self.unit)

    @property
    def full_title(self) -> str:
        """The title with the size of a batch."""
        if not self.is_rate:
            return self.title
        length = f" x {self.max_seq_length}" if self.has_fixed_shape else ""
        return f"{self.title}, batches of {self.batch_size}{length}"


_STEP = Row("classifier step", "full", steps=8, has_fixed_shape=True)
_SENTENCE = Row("one sentence of 16 words", "sentences", "answer", steps=200, unit="ms")
_MIXED = Row("texts of mixed length", "texts", "answer", steps=30, unit="texts/s")
_PAIRS = Row("vectors of pairs", "near", head="text_encoder", steps=60, unit="pairs/s")
_START = Row("from the command to the first step", "messages", steps=1, unit="s")
ROWS = {
    "sentence": _SENTENCE._replace(batch_size=1, warm_up=20, has_fixed_shape=True),
    "batch": _MIXED._replace(
        title="texts of 128 tokens", source="words", steps=6, has_fixed_shape=True
    ),
    "mixed": _MIXED,
    "vectors": _MIXED._replace(title="vectors of texts", head="text_encoder"),
    "classifier": _STEP,
    "fine_tuning": Row("fine-tuning on texts of mixed length", "train", steps=60),
    "pretraining": _STEP._replace(
        title="pretraining step", source="masked", head="pretraining"
    ),
    "pairs": _PAIRS._replace(max_seq_length=256),
    "start": _START._replace(max_seq_length=64, warm_up=1),
}


class Side(NamedTuple):
    """This project, or a peer, in one of its ways."""

    title: str
    variant: str = ""  # of a peer; of those with the same family the fastest goes on
    family: str = ""
    export: tuple[str, ...] = ()  # format and quantization of ours that answers


OURS = "this project"
RUNTIMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}  # of our exports
_OF_TORCH = (
    Side("transformers, sdpa", "sdpa", "transformers"),
    Side("transformers, eager", "eager", "transformers"),
    Side("transformers, sdpa, compiled", "sdpa_compiled", "transformers"),
    Side(
        "transformers, sdpa, compiled, frozen", "sdpa_compiled_frozen", "transformers"
    ),
    Side("transformers, int8", "sdpa_int8"),
    Side("transformers, bfloat16", "sdpa_bf16"),
)
EXPORTS = (
    Side(f"{OURS}, SavedModel", export=("saved_model", "none")),
    Side(f"{OURS}, LiteRT", export=("litert", "none")),
    Side(f"{OURS}, ONNX", export=("onnx", "none")),
    Side(f"{OURS}, ONNX, int8", export=("onnx", "dynamic_int8")),
    Side(f"{OURS}, ONNX, static int8", export=("onnx", "static_int8")),
)
_RUNTIMES = (
    Side("ONNX Runtime", "onnxruntime", "ONNX Runtime"),
    Side("ONNX Runtime, fused", "onnxruntime_fused", "ONNX Runtime"),
    Side("ONNX Runtime, int8", "onnxruntime_int8", "ONNX Runtime, int8"),
    Side("ONNX Runtime, fused, int8", "onnxruntime_fused_int8", "ONNX Runtime, int8"),
    Side("OpenVINO", "openvino"),
    Side("OpenVINO, bfloat16", "openvino_bf16"),
    Side("OpenVINO, static int8", "openvino_static"),
    Side("OpenVINO, static int8, bfloat16", "openvino_static_bf16"),
)
_OF_VECTORS = (
    Side("sentence-transformers", "sentence_torch"),
    Side("sentence-transformers, ONNX", "sentence_onnx"),
    Side("sentence-transformers, OpenVINO", "sentence_openvino"),
    Side("fastembed", "fastembed"),
)


def sides_of(row: Row) -> list[Side]:
    """The sides that can take part in a row."""
    if row.action == "train":
        sides = _OF_TORCH[:3]
    else:
        of_torch = _OF_VECTORS if row.head == "text_encoder" else _OF_TORCH
        sides = (*EXPORTS, *of_torch, *_RUNTIMES)
    each = [Side(f"{OURS}, Python"), *sides]
    return [s for s in each if row.has_fixed_shape or "frozen" not in s.title]


def named(names: Sequence[str]) -> dict[str, Row]:
    """Rows by name, all for no names; InputError where there is no such row."""
    if unknown := sorted(set(names) - set(ROWS)):
        raise errors.InputError(
            f"--rows={','.join(unknown)}: rows are {', '.join(ROWS)}"
        )
    return {name: ROWS[name] for name in names or ROWS}
