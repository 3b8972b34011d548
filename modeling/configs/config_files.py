"""The config of any network, by what its file holds."""

import os
from collections.abc import Callable
from typing import Any

from absl import logging

from contract import errors, json_files
from modeling.configs import config as config_lib
from modeling.networks import catalogue


def read(path: str | os.PathLike[str], open_file: Callable[..., Any] = open) -> Any:
    """Reads the config of any network, in a file of places.CONFIG_FILES.

    Raises:
        FileNotFoundError, OSError: no such file, or it cannot be read.
        ValueError: the file is not JSON, or no config; names the file.
    """
    with config_lib.named(path), open_file(path, "rb") as file:
        raw = json_files.parse(file.read())
        if not isinstance(raw, dict):
            raise errors.InputError("the file holds no JSON object; copy it again")
        if "registered_name" in raw:
            raise errors.InputError(
                "describes a preset of KerasHub, whose weights are not read; give a "
                "release of Google or Hugging Face"
            )
        network = catalogue.of_file(raw)
        if "model_type" not in raw and network.classes:
            if network is catalogue.USUAL:
                _check_classes(str(raw.get("architectures")))
            if config_lib.is_hugging_face(raw, path):
                model_type = network.model_types[0]
                raw = {**raw, "model_type": model_type}
                note = (
                    "%s: has no model_type; read as Hugging Face's %s, with exact gelu"
                )
                logging.warning(note, path, model_type)
        return network.config.from_dict(raw)


def _check_classes(classes: str) -> None:
    """Refuses a relative of BERT by its classes; BERT itself needs no model_type."""
    for network in catalogue.NETWORKS:
        for model_type, name in network.classes.items():
            if network is not catalogue.USUAL and name in classes:
                raise errors.InputError(
                    f"has no model_type, and {classes} is of a relative of BERT; add "
                    f'"model_type": "{model_type}", or that of this class'
                )


def from_values(values: dict[str, Any]) -> Any:
    """The config whose dataclasses.asdict is `values`."""
    return catalogue.of_values(values).config.from_values(values)
