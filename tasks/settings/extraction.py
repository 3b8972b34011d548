"""Settings of extract_features.py: which lines, which vectors, and how written."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from contract import errors
from tasks.settings import devices, fields, model, processes
from tasks.settings import vectors as vector_settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionSettings(
    processes.Shards,
    vector_settings.VectorChoice,
    devices.Devices,
    model.MaxSeqLength,
):
    """Which lines, which vectors, and how they are written."""

    program: ClassVar[str] = "extract_features"
    needs_weights: ClassVar[bool] = True

    input_file: str = fields.data(
        fields.REQUIRED,
        "Text file with one example per line; `A ||| B` is a sentence pair.",
        path=True,
        on_workers=True,
    )
    batch_size: int = fields.data(32, "Number of lines per batch.", least=1)
    output_file: str = fields.output(
        fields.REQUIRED,
        "File for the vectors; an existing file is replaced.",
        path=True,
    )
    output_format: str = fields.output(
        "jsonl",
        "jsonl: JSON lines, as in google-research/bert. npz: NumPy arrays.",
        choices=["jsonl", "npz"],
    )
    layers: Sequence[str] = fields.again(
        vector_settings.VectorChoice, "layers", ("-1", "-2", "-3", "-4")
    )
    pooling: str = fields.again(
        vector_settings.VectorChoice,
        "pooling",
        "none",
        choices=("none", "cls", "mean"),
        help="Vectors of texts: the vector of [CLS], or the mean over the tokens. "
        "none: vectors of tokens.",
    )
    use_one_hot_embeddings: bool = fields.vectors(
        False, "Accepted and ignored; it does not change the vectors."
    )

    def check(self) -> None:
        """Refuses a file that is missing."""
        errors.refuse(
            *(
                (not getattr(self, name), f"--{name} is empty; name a file")
                for name in ("input_file", "output_file")
            )
        )
        super().check()
        errors.refuse(
            (
                self.is_tpu and self.engine == "beam",
                "--engine=beam does not run on TPU; leave out one of them",
            ),
        )
        self.check_files("input_file")
