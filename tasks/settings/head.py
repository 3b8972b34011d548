"""Settings of how a task reads the network: its layers, trained or not, its head."""

import dataclasses
from typing import Any

from tasks.settings import fields
from tasks.settings import vectors as vector_settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadChoice(fields.Settings):
    """Which layers a head reads, and what it is; the defaults are the original's."""

    freeze_encoder: bool = fields.vectors(
        False,
        "Train the head alone; the network is a fixed feature extractor without "
        "dropout.",
        changes=fields.NOTHING,
    )
    layer_mix: str = fields.vectors(
        "last",
        "Input of the head: one layer, or the sum or concatenation of several, as in "
        "Table 7 of the BERT paper. learned: a scaled sum of all layers and the "
        "output of the embeddings, with learned weights, as in the ELMo paper.",
        choices=[*vector_settings.COMBINATIONS, "learned"],
        changes=fields.NOTHING,
    )
    feature_dropout: float = fields.vectors(
        0.0,
        "Dropout rate for the input of the head and between its LSTM layers.",
        least=0,
        most=0.99,
        changes=fields.NOTHING,
    )
    head: str = fields.vectors(
        "linear",
        "linear: one linear layer, as in google-research/bert. bilstm: bidirectional "
        "LSTMs before the linear layer; for a text, with max pooling over its tokens.",
        choices=["linear", "bilstm"],
        changes=fields.NOTHING,
    )
    bilstm_layers: int = fields.vectors(
        2,
        "Number of LSTM layers in each direction.",
        least=1,
        most=8,
        changes=fields.NOTHING,
    )
    bilstm_units: int = fields.vectors(
        768,
        "Number of units of each LSTM, per direction.",
        least=1,
        changes=fields.NOTHING,
    )

    @property
    def trains_head_alone(self) -> bool:
        """Whether the network stays as it is."""
        return self.freeze_encoder

    def head_values(self) -> dict[str, Any]:
        """{name: value} of those that are given."""
        names = fields.rows(HeadChoice).keys() & self.given
        return {name: getattr(self, name) for name in sorted(names)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head(HeadChoice):
    """The choice of a head, and whether what it reads is kept."""

    feature_cache: str = fields.vectors(
        "auto",
        "Keep the outputs of a frozen network, so that it runs once per row. auto: up "
        "to 4 GB. memory: always. none: run the network in each step.",
        choices=["auto", "memory", "none"],
        changes=fields.NOTHING,
    )

    @property
    def kept_states(self) -> str:
        """The kind of a FeatureCache, or "" for none."""
        return "" if self.feature_cache == "none" else self.feature_cache
