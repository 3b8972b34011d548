"""How a task reads a network: which layers, whether they are trained, by which head.

Weights trained for another way than the original's have a head.json beside them, which
says it.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from contract import errors, file_names, json_files

LAST = "last"  # layer: as google-research/bert has it
# What is learned of layers: a weight of each and a factor, or the factor alone.
WEIGHTED, SCALED = ("learned", "learned_last_4"), ("top",)
LINEAR, BILSTM = HEADS = ("linear", "bilstm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """What the flags of the same names say; see docs/features.md.

    Attributes:
        freeze_encoder: whether the network stays as it is, and runs without dropout.
        layer_mix: one of WEIGHTED or SCALED, or of layer_choices.COMBINATIONS.
        layer_mix_norm: whether layers are normalized before they are weighted.
        layer_mix_l2: times the sum of squared weights, before their softmax.
        feature_dropout: rate, of what the head reads, and between its LSTM layers.
        head: one of HEADS.
        bilstm_units: of each direction.
        joins_pairs: whether a text is two segments, for a head of bilstm.
    """

    freeze_encoder: bool = False
    layer_mix: str = LAST
    layer_mix_norm: bool = False
    layer_mix_l2: float = 0.0
    feature_dropout: float = 0.0
    head: str = LINEAR
    bilstm_layers: int = 2
    bilstm_units: int = 768
    joins_pairs: bool = False

    def __post_init__(self) -> None:
        for name in ("layer_mix_norm", "layer_mix_l2"):
            if (value := getattr(self, name)) and self.layer_mix not in WEIGHTED:
                raise errors.InputError(
                    f"--{name}={value} is for layers whose weights are learned, and "
                    f"--layer_mix={self.layer_mix}; choose {' or '.join(WEIGHTED)}, "
                    f"or leave --{name} out"
                )
        for name in ("bilstm_layers", "bilstm_units"):
            value, usual = getattr(self, name), getattr(Reading, name)
            if value != usual and self.head != BILSTM:
                raise errors.InputError(
                    f"--{name}={value} is for a BiLSTM, and --head={self.head}; add "
                    f"--head={BILSTM}, or leave --{name} out"
                )

    @property
    def learns_mix(self) -> bool:
        """Whether the mix of layers has variables."""
        return self.layer_mix in (*WEIGHTED, *SCALED)

    @property
    def pools_states(self) -> bool:
        """Whether a classifier needs of each layer the vector of the text alone."""
        return self.head == LINEAR and not self.layer_mix_norm

    @property
    def is_plain(self) -> bool:
        """Whether the head reads what the original's does."""
        return self.layer_mix == LAST and self.head == LINEAR

    def chosen(self) -> dict[str, Any]:
        """What differs from the original, which is Reading(); {} for that."""
        default = dataclasses.asdict(Reading())
        given = dataclasses.asdict(self)
        return {name: given[name] for name in given if given[name] != default[name]}

    def files(self) -> dict[str, str]:
        """What lies beside weights that were trained for it: {file name: text}."""
        if not (chosen := self.chosen()):
            return {}
        return {file_names.HEAD: json.dumps(chosen, indent=2, sort_keys=True) + "\n"}


ORIGINAL = Reading()


def lstms(config: Any, reading: Reading) -> str:
    """Which part of a model is made of LSTMs, for messages; "" if none is."""
    of_head = f"--head={BILSTM}" if reading.head == BILSTM else ""
    return "an ELMo" if config.network == "elmo" else of_head


def of_weights(weights: str) -> Reading:
    """What weights were trained for, by the path of a checkpoint or a directory.

    Raises:
        ValueError: their head.json cannot be read.
    """
    path = _path(weights)
    if not tf.io.gfile.exists(path):
        return ORIGINAL
    stored = json_files.read_object(path)
    kinds = {name: type(value) for name, value in dataclasses.asdict(ORIGINAL).items()}
    for name, value in stored.items():
        if name not in kinds or type(value) is not kinds[name]:
            raise errors.InputError(
                f"{path}: {name}={value!r} is unknown here; give the file of the run "
                "that trained these weights"
            )
    return Reading(**stored)


def of_run(
    given: Mapping[str, Any], weights: str, *, trains: bool, num_texts: int = 1
) -> Reading:
    """What a run reads: as flags say or, where nothing is trained, as it was trained.

    Args:
        given: {flag: value} of those on the command line.
        weights: those that a run without training has, as in `of_weights`, or "".
        num_texts: of an example, 2 for pairs.

    Raises:
        ValueError: flags or texts are not those of the weights.
    """
    if trains or not weights:
        reading = Reading(**given)
        joins_pairs = reading.head == BILSTM and num_texts > 1
        return dataclasses.replace(reading, joins_pairs=joins_pairs)
    reading, path = of_weights(weights), _path(weights)
    for name, value in given.items():
        if value != (trained := getattr(reading, name)):
            where = "" if tf.io.gfile.exists(path) else "there is no "
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
    directory = weights if tf.io.gfile.isdir(weights) else os.path.dirname(weights)
    return os.path.join(directory, file_names.HEAD)
