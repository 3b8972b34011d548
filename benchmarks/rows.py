"""The table of rows that both sides are timed on."""

from typing import NamedTuple

from contract import errors

WHOLE = 0  # steps of a row: NUM_EPOCHS over its file, at most MAX_STEPS
NUM_EPOCHS = 3  # as the scripts train by default
MAX_STEPS = 700
FILE_SOURCES = ("sms", "sst2", "pairs", "near", "tagging", "squad", "texts")


# Units of which less is better, and the result of a turn that is the figure.
FIGURES = {"ms": "p50_ms", "s": "start_s"}


class Row(NamedTuple):
    """A line of the result."""

    title: str
    source: str  # of preparation.SOURCES
    action: str = "train"  # of a sides.Job
    head: str = "classifier"
    steps: int = WHOLE
    unit: str = "sequences/s"
    precision: str = "float32"
    batch_size: int = 32
    max_seq_length: int = 128
    warm_up: int = 3
    has_fixed_shape: bool = False  # so that the peer is compiled, too
    export_format: str = ""  # of an export that runs in the place of the model
    quantization: str = "none"

    @property
    def file_flag(self) -> str:
        """The flag that names the row's file, or "" where it needs none."""
        return f"{self.source}_file" if self.source in FILE_SOURCES else ""

    @property
    def predicts_classes(self) -> bool:
        """Whether a classifier runs, in float32 or int8, and does not train."""
        is_float32 = self.precision == "float32"
        return is_float32 and self.action in ("predict", "answer")

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

    @property
    def trial_steps(self) -> int:
        """Steps in the trials that choose the peer's variant."""
        if self.action == "write":
            return 1
        return 100 if self.unit == "ms" else 8


_CLASSIFIER = Row("classifier step", "full", steps=20, has_fixed_shape=True)
_INFERENCE = _CLASSIFIER._replace(title="inference", action="predict", steps=40)
_LEFT_TO_RIGHT = Row("left-to-right step", "stretches", "train", "language_model", 10)
_FIXED = {
    "classifier": _CLASSIFIER,
    "pretraining": _CLASSIFIER._replace(
        title="pretraining step", source="masked", head="pretraining", steps=10
    ),
    "inference": _INFERENCE,
    "left_to_right": _LEFT_TO_RIGHT._replace(
        batch_size=8, max_seq_length=256, has_fixed_shape=True
    ),
}
_WRITING = Row(
    "writing 128 tokens", "stretches", "write", "language_model", 3, "texts/s"
)
_WRITING = _WRITING._replace(max_seq_length=16, warm_up=1)
_START = Row("from the command to the first step", "messages", steps=1, unit="s")
_LATENCY = Row("one sentence, p50", "sentences", "answer", steps=200, unit="ms")
_LATENCY = _LATENCY._replace(
    warm_up=20, has_fixed_shape=True, export_format="saved_model"
)
_TEXTS = Row("texts to probabilities", "texts", "answer", unit="texts/s")
_SQUAD = Row("SQuAD", "squad", head="span", steps=60, unit="windows/s")
ROWS = {
    **_FIXED,
    "sms": Row("fine-tuning, SMS", "sms", unit="examples/s"),
    "sst2": Row("fine-tuning, SST-2", "sst2", unit="examples/s"),
    "pairs": Row("fine-tuning, pairs", "pairs", unit="examples/s"),
    "vectors": Row(
        "vectors of pairs", "near", "train", "text_encoder", 60, "pairs/s"
    )._replace(max_seq_length=256),
    "tagging": Row("tagging", "tagging", head="tagger", unit="windows/s"),
    "squad": _SQUAD._replace(batch_size=16, max_seq_length=384),
    "start": _START._replace(max_seq_length=64, warm_up=1),
    "writing": _WRITING._replace(batch_size=1),
    "writing_8": _WRITING._replace(batch_size=8),
    "latency": _LATENCY,
    "latency_litert": _LATENCY._replace(
        title="one sentence, LiteRT, p50", export_format="litert"
    ),
    "latency_onnx": _LATENCY._replace(
        title="one sentence, ONNX, p50", export_format="onnx"
    ),
    "latency_int8": _LATENCY._replace(
        title="one sentence, int8, p50",
        export_format="onnx",
        quantization="dynamic_int8",
    ),
    "inference_onnx": _INFERENCE._replace(
        title="inference, ONNX", export_format="onnx"
    ),
    "inference_int8": _INFERENCE._replace(
        title="inference, int8", export_format="onnx", quantization="dynamic_int8"
    ),
    "texts": _TEXTS._replace(export_format="saved_model"),
    "texts_onnx": _TEXTS._replace(
        title="texts to probabilities, ONNX", export_format="onnx"
    ),
    **{
        f"{name}_bfloat16": row._replace(
            title=f"{row.title}, bfloat16", precision="bfloat16"
        )
        for name, row in _FIXED.items()
    },
}


def named(names: list[str]) -> dict[str, Row]:
    """Rows by name, all for no names; InputError where there is no such row."""
    if unknown := sorted(set(names) - set(ROWS)):
        raise errors.InputError(
            f"--rows={','.join(unknown)}: rows are {', '.join(ROWS)}"
        )
    return {name: ROWS[name] for name in names or ROWS}


def missing(row: Row, path: str | None, instruction_sets: list[str]) -> str:
    """Why a row cannot be timed here, or ""."""
    if row.file_flag and not path:
        return f"--{row.file_flag} is not set"
    units = {"avx512_bf16", "amx_bf16"}
    if row.precision == "bfloat16" and not units & set(instruction_sets):
        return "the processor has no instructions for bfloat16"
    return ""
