"""The table of what is timed on both sides."""

from typing import NamedTuple

from contract import errors

WHOLE = 0  # steps of a row: NUM_EPOCHS over its file, at most MAX_STEPS
NUM_EPOCHS = 3  # as the scripts train by default
MAX_STEPS = 700


class Row(NamedTuple):
    """What one line of the result is about."""

    title: str
    unit: str
    action: str  # of a sides.Job
    head: str
    source: str  # of preparation.SOURCES
    steps: int
    precision: str = "float32"
    batch_size: int = 32
    max_seq_length: int = 128
    warm_up: int = 3
    has_fixed_shape: bool = False  # so that the peer is compiled, too
    quantization: str = ""  # of a LiteRT export; "" for a SavedModel
    num_beams: int = 1  # of "write"; 1 for the likeliest token each time

    @property
    def file_flag(self) -> str:
        """The flag that names its file, or "" where it needs none."""
        return f"{self.source}_file" if self.source in FILE_SOURCES else ""

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.action != "answer"

    @property
    def is_served(self) -> bool:
        """Whether an export answers raw text."""
        return self.action in ("answer", "answer_all")

    @property
    def keeps_weights(self) -> bool:
        """Whether no weight changes, as in a server, so that they may be packed."""
        return self.is_served or self.action == "write"

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
        """Steps by which the peer's variants are told apart."""
        if self.action == "write":
            return 1
        return 8 if self.is_rate else 100


FILE_SOURCES = ("sms", "sst2", "tagging", "squad", "texts")
_FIXED = {
    "classifier": Row(
        *("classifier step", "sequences/s", "train", "classifier", "full", 20),
        has_fixed_shape=True,
    ),
    "pretraining": Row(
        *("pretraining step", "sequences/s", "train", "pretraining", "masked", 10),
        has_fixed_shape=True,
    ),
    "inference": Row(
        *("inference", "sequences/s", "predict", "classifier", "full", 40),
        has_fixed_shape=True,
    ),
    "left_to_right": Row(
        *("left-to-right step", "sequences/s", "train", "language_model"),
        *("stretches", 10),
        batch_size=8,
        max_seq_length=256,
        has_fixed_shape=True,
    ),
}
_WRITING = Row(
    *("writing 128 tokens", "texts/s", "write", "language_model", "stretches", 3),
    max_seq_length=16,
    warm_up=1,
)
_ANSWERING = Row(
    *("64 tokens for 64, greedy", "texts/s", "write", "seq2seq", "sources", 3),
    batch_size=8,
    max_seq_length=64,
    warm_up=1,
)
_LATENCY = Row(
    *("one sentence, p50", "ms", "answer", "classifier", "export", 200),
    warm_up=20,
    has_fixed_shape=True,
)
ROWS = {
    **_FIXED,
    "sms": Row(
        *("fine-tuning, SMS", "examples/s", "train", "classifier", "sms", WHOLE)
    ),
    "sst2": Row(
        *("fine-tuning, SST-2", "examples/s", "train", "classifier", "sst2", WHOLE)
    ),
    "tagging": Row(*("tagging", "windows/s", "train", "tagger", "tagging", WHOLE)),
    "squad": Row(
        *("SQuAD", "windows/s", "train", "span", "squad", 60),
        batch_size=16,
        max_seq_length=384,
    ),
    "writing": _WRITING._replace(batch_size=1),
    "writing_8": _WRITING._replace(batch_size=8),
    "seq2seq": _ANSWERING,
    "seq2seq_beams": _ANSWERING._replace(
        title="64 tokens for 64, 4 beams", num_beams=4
    ),
    "latency": _LATENCY,
    "latency_litert": _LATENCY._replace(
        title="one sentence, LiteRT, p50", quantization="none"
    ),
    "latency_int8": _LATENCY._replace(
        title="one sentence, int8, p50", quantization="dynamic_int8"
    ),
    "texts": Row(
        *("texts to probabilities", "texts/s", "answer_all", "classifier"),
        *("texts", WHOLE),
    ),
    **{
        f"{name}_bfloat16": row._replace(
            title=f"{row.title}, bfloat16", precision="bfloat16"
        )
        for name, row in _FIXED.items()
    },
}


def named(names: list[str]) -> dict[str, Row]:
    """Rows by name, all for no names.

    Raises:
        ValueError: there is no such row.
    """
    unknown = sorted(set(names) - set(ROWS))
    if unknown:
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
        return "the processor has no units for bfloat16"
    return ""
