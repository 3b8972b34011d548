"""How a task reads a network: which layers, whether they are trained, by which head.

Weights trained for another way than the original's have a head.json beside them.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from contract import errors, file_names, json_files, remote_files

LAST, LEARNED = "last", "learned"  # layer mixes: the original's, and ELMo's
LINEAR, BILSTM = HEADS = ("linear", "bilstm")
# Options of earlier versions, with the values under which they changed nothing.
_GONE = {"layer_mix_norm": False, "layer_mix_l2": 0.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The choices of the flags of the same names; see docs/frozen_features.md.

    Attributes:
        freeze_encoder: whether the network stays as it is, and runs without dropout.
        layer_mix: LEARNED, or one of layer_choices.COMBINATIONS.
        feature_dropout: rate, of what the head reads, and between its LSTM layers.
        head: one of HEADS.
        bilstm_units: of each direction.
        joins_pairs: whether a text is two segments, for a head of bilstm.
        pooling: one of vectors.TEXT_POOLINGS, of the last layer, for the linear head of
            a classifier; "" for the original's.
        is_normalized: whether what is pooled is scaled to the length 1.
    """

    freeze_encoder: bool = False
    layer_mix: str = LAST
    feature_dropout: float = 0.0
    head: str = LINEAR
    bilstm_layers: int = 2
    bilstm_units: int = 768
    joins_pairs: bool = False
    pooling: str = ""
    is_normalized: bool = False

    def __post_init__(self) -> None:
        for name in ("bilstm_layers", "bilstm_units"):
            value, usual = getattr(self, name), getattr(HeadConfig, name)
            if value != usual and self.head != BILSTM:
                raise errors.InputError(
                    f"--{name}={value} is for a BiLSTM, and --head={self.head}; add "
                    f"--head={BILSTM}, or leave --{name} out"
                )

    @property
    def learns_mix(self) -> bool:
        """Whether the mix of layers has variables."""
        return self.layer_mix == LEARNED

    @property
    def is_plain(self) -> bool:
        """Whether the head reads what the original's does."""
        return self.layer_mix == LAST and self.head == LINEAR and not self.pooling

    def chosen(self) -> dict[str, Any]:
        """The values that differ from the original's; {} for those."""
        values, default = dataclasses.asdict(self), dataclasses.asdict(ORIGINAL)
        return {name: values[name] for name in values if values[name] != default[name]}

    def files(self) -> dict[str, str]:
        """{file name: text} to store beside weights that were trained for it."""
        if not (chosen := self.chosen()):
            return {}
        return {file_names.HEAD: json.dumps(chosen, indent=2, sort_keys=True) + "\n"}


ORIGINAL = HeadConfig()


def from_values(values: Mapping[str, Any], source: str = ".keras file") -> HeadConfig:
    """A HeadConfig of {name: value}, as this or an earlier version wrote them.

    Raises:
        ValueError: one is unknown, or an option that is gone and was in use.
    """
    kinds = {name: type(value) for name, value in dataclasses.asdict(ORIGINAL).items()}
    kept = {}
    for name, value in values.items():
        if type(value) is kinds.get(name):
            kept[name] = value
        elif name not in _GONE or value != _GONE[name]:
            raise errors.InputError(
                f"{source}: {name}={value!r} is unknown here; give the file of the run "
                "that trained these weights, or open it with the version that wrote it"
            )
    return HeadConfig(**kept)


def name_lstms(config: Any, reading: HeadConfig) -> str:
    """Which part of a model is made of LSTMs, for messages; "" if none is."""
    in_head = f"--head={BILSTM}" if reading.head == BILSTM else ""
    return f"an {config.kind}" if config.spec.is_recurrent else in_head


def read_beside(weights: str) -> HeadConfig:
    """The HeadConfig that weights were trained for, by their path or directory.

    Raises:
        ValueError: their head.json cannot be read.
    """
    path = _path(weights)
    if not remote_files.exists(path):
        return ORIGINAL
    return from_values(json_files.read_object(path), path)


def choose(
    flags: Mapping[str, Any], weights: str, *, trains: bool, num_texts: int = 1
) -> HeadConfig:
    """The HeadConfig of a run: by its flags or, where nothing is trained, as trained.

    Args:
        flags: {flag: value} of those on the command line.
        weights: those that a run without training has, as in `read_beside`, or "".
        num_texts: of an example, 2 for pairs.

    Raises:
        ValueError: flags or texts are not those of the weights.
    """
    if trains or not weights:
        reading = HeadConfig(**flags)
        joins_pairs = reading.head == BILSTM and num_texts > 1
        return dataclasses.replace(reading, joins_pairs=joins_pairs)
    reading, path = read_beside(weights), _path(weights)
    for name, value in flags.items():
        if value != (trained := getattr(reading, name)):
            where = "" if remote_files.exists(path) else "there is no "
            raise errors.InputError(
                f"--{name}={value} is not what the model was trained with, {trained} "
                f"({where}{path}); leave the flag out"
            )
    if reading.head == BILSTM and reading.joins_pairs != (num_texts > 1):
        wanted = "two texts" if reading.joins_pairs else "one text"
        raise errors.InputError(
            f"{path}: the model compares what it reads of {wanted}, and the rows have "
            f"{num_texts}; give rows such as it was trained on"
        )
    return reading


def _path(weights: str) -> str:
    """Where a head.json would be: in a directory, or beside a checkpoint."""
    directory = weights if remote_files.is_dir(weights) else os.path.dirname(weights)
    return os.path.join(directory, file_names.HEAD)
