"""The record of ELMo."""

import dataclasses
import json
from typing import Any

import numpy as np

from contract import features, file_names
from modeling.checkpoints import names
from modeling.networks import spec
from modeling.networks.elmo import config as elmo_config
from modeling.networks.elmo import names as elmo_names
from modeling.networks.elmo import network


def _row(path):
    google, hdf5 = elmo_names.find_names(path)
    return names.Name(path, google, hdf5=hdf5)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _ElmoSpec(spec.NetworkSpec):
    def input_rows(self):
        return [_row("elmo/characters/embedding")]

    def layer_rows(self, number):
        directions, ends = ("forward", "backward"), ("kernel", "bias")
        return [
            _row(f"elmo/{direction}_{number}/{end}")
            for direction in directions
            for end in ends
        ]

    def rows(self, config):
        return [_row(path) for path in elmo_names.list_paths(config)]

    def head_rows(self, config):
        return [*super().head_rows(config), *map(_row, elmo_names.HEAD)]

    def modern_key(self, key):
        return elmo_names.number_cells(key)

    def find_sizes(self, shapes, format):
        return elmo_names.sizes(lambda path: shapes.get(_row(path).key(format)))

    def as_released(self, config, files):
        raw = config.to_dict()  # the original wants another number where it trains
        raw["char_cnn"]["n_characters"] = elmo_config.NUM_CHARACTERS
        text = json.dumps(raw, indent=2, sort_keys=True) + "\n"
        return {**files, config.file_name: text}

    def draw_ids(self, config: Any, rng: Any, mask: Any) -> Any:
        """Characters of words, int32 [B, S, 50]."""
        shape = (*mask.shape, config.max_characters)
        ids = rng.integers(0, elmo_config.NUM_CHARACTERS, shape, np.int32) + 1
        return ids * mask[..., np.newaxis]

    def input_shapes(self, config):
        ids = {features.INPUT_IDS: (None, None, config.max_characters)}
        return super().input_shapes(config) | ids


NETWORK = _ElmoSpec(
    kind="ELMo",
    config=elmo_config.ElmoConfig,
    layers=network.ElmoNetwork,
    config_file=f"*{file_names.ELMO_OPTIONS}",
    vocabulary="vocab-*.txt",
    file_keys=("lstm",),
    field="lstm_dim",
    objectives=("bidirectional_lm",),
    targets=("google", "hdf5"),
    sizes=dict.fromkeys(elmo_names.SIZES, ("", 0)),
    inputs=("elmo/characters/",),
    reads_characters=True,
    is_recurrent=True,
)
