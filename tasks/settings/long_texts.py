"""Settings of how much a classifier reads of a long text."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from data_pipeline.classification import long_texts as windows_lib
from tasks.settings import fields, recipe

_USUAL = windows_lib.Windows()
_ONLY = {"long_texts": windows_lib.WINDOWS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTexts(fields.Settings):
    """How texts beyond --max_seq_length are read."""

    long_texts: str = fields.data(
        windows_lib.TRUNCATE,
        "How to read texts beyond --max_seq_length. truncate: their beginning, as "
        "google-research/bert. windows: the network reads overlapping windows of "
        "--max_seq_length, and all of a text's decide on its label. Trained models "
        "keep it.",
        choices=[windows_lib.TRUNCATE, windows_lib.WINDOWS],
    )
    doc_stride: int = fields.data(
        _USUAL.doc_stride,
        "Stride in tokens between the windows of a long text, at most a window; 0 for "
        "half a window.",
        least=0,
        only_with=_ONLY,
    )
    max_windows: int = fields.data(
        _USUAL.max_windows,
        "Most windows of a text; what follows is not read. Training needs memory for "
        "--train_batch_size times as many sequences.",
        least=1,
        only_with=_ONLY,
    )
    window_logits: str = fields.data(
        _USUAL.window_logits,
        "How the logits of the windows of a text become its own.",
        choices=windows_lib.JOINS,
        only_with=_ONLY,
    )

    def windows(self) -> windows_lib.Windows | None:
        """The windows to read; None where texts are cut."""
        if self.long_texts != windows_lib.WINDOWS:
            return None
        return windows_lib.Windows(
            self.doc_stride, self.max_windows, self.window_logits
        )


def refusals(settings: Any, given: str) -> Iterator[tuple[Any, str]]:
    """Pairs of a condition and a message, for windows that `given` calls for."""
    others = "explain", "write_projector", "pack_sequences", "lm_loss_weight"
    records = ["write_tf_records"] * ("write_tf_records" in settings.given)
    yield from (
        (
            getattr(settings, name),
            f"{settings.typed(name)} is for texts in one sequence, and {given} reads "
            "several; leave one of them out",
        )
        for name in (*others, *records, "choice_columns", "text_b_column")
    )
    yield (
        settings.recipe != recipe.FINE_TUNE,
        f"{settings.typed('recipe')} reads texts in one sequence, and {given} several; "
        "leave one of them out",
    )
    yield (
        settings.pair_input != "joined",
        f"{settings.typed('pair_input')} is for pairs, and {given} for single texts; "
        "leave one of them out",
    )
