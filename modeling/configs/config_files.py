"""The config of any network, by what its file holds."""

import os
from collections.abc import Callable
from typing import Any

from absl import logging

from contract import errors, json_files
from modeling.configs import bert_family
from modeling.configs import config as config_lib
from modeling.networks.elmo import config as elmo_config
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from modeling.networks.gpt import config as gpt_config

Config = (
    config_lib.BertConfig
    | gpt_config.GptConfig
    | elmo_config.ElmoConfig
    | encoder_decoder_config.EncoderDecoderConfig
)
MODEL_TYPES = (
    "bert",
    "ernie",  # 1.0, whose network is BERT's
    *bert_family.RELATIVES,
    *gpt_config.MODEL_TYPES,
    encoder_decoder_config.MODEL_TYPE,
)


def read(path: str | os.PathLike[str], open_file: Callable[..., Any] = open) -> Config:
    """Reads the config of any network, in a file of pretrained.CONFIG_FILES.

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
        if (model_type := raw.get("model_type", "bert")) not in MODEL_TYPES:
            raise errors.InputError(
                f"model_type is {model_type!r}, and the networks that can be read are "
                f"those of {', '.join(MODEL_TYPES)}; give a model of one of these"
            )
        if "n_vocab" in raw or model_type in gpt_config.MODEL_TYPES:
            return gpt_config.GptConfig.from_dict(raw)
        if model_type == encoder_decoder_config.MODEL_TYPE:
            return encoder_decoder_config.EncoderDecoderConfig.from_dict(raw)
        if "num_hidden_groups" in raw:
            model_type = "albert"  # whose releases by Google have no model_type
        if "model_type" not in raw:
            if model_type == "bert":
                _check_classes(str(raw.get("architectures")))
            if "lstm" not in raw and config_lib.is_hugging_face(raw, path):
                raw = {**raw, "model_type": model_type}
                note = (
                    "%s: has no model_type; read as Hugging Face's %s, with exact gelu"
                )
                logging.warning(note, path, model_type)
        kind: Any = bert_family.RELATIVES.get(model_type, config_lib.BertConfig)
        kind = elmo_config.ElmoConfig if "lstm" in raw else kind
        return kind.from_dict(raw)


def _check_classes(classes: str) -> None:
    """Refuses a relative of BERT by its classes; BERT itself needs no model_type."""
    for model_type, kind in bert_family.RELATIVES.items():
        if kind.__name__.removesuffix("Config") in classes:
            raise errors.InputError(
                f"has no model_type, and {classes} is of a relative of BERT; add "
                f'"model_type": "{model_type}", or that of this class'
            )


def from_values(values: dict[str, Any]) -> Config:
    """The config whose dataclasses.asdict is `values`."""
    if "lstm_dim" in values:
        values.pop("share_embedding_softmax", None)  # of earlier versions
        return elmo_config.ElmoConfig(**values)
    if "decoder" in values:
        sides = encoder_decoder_config.SIDES
        parts = {side: config_lib.BertConfig(**values[side]) for side in sides}
        return encoder_decoder_config.EncoderDecoderConfig(**{**values, **parts})
    model_type = values.get("model_type", "")
    kind: Any = bert_family.RELATIVES.get(model_type, config_lib.BertConfig)
    kind = gpt_config.GptConfig if "norm_first" in values else kind
    return kind(**values)
