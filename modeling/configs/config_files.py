"""The config of any network, by what its file holds."""

import os
from collections.abc import Callable
from typing import Any

from contract import errors, json_files
from modeling.configs import config as config_lib
from modeling.elmo import config
from modeling.encoder_decoder import config as encoder_decoder_config
from modeling.gpt import config as gpt_config

Config = (
    config_lib.BertConfig
    | gpt_config.GptConfig
    | config.ElmoConfig
    | encoder_decoder_config.EncoderDecoderConfig
)


MODEL_TYPES = ("bert", *gpt_config.MODEL_TYPES, encoder_decoder_config.MODEL_TYPE)


def read(path: str | os.PathLike[str], open_file: Callable[..., Any] = open) -> Config:
    """The config of any network, by what its file holds.

    bert_config.json, config.json of BERT, GPT, GPT-2 or an encoder-decoder, GPT-2's
    hparams.json, GPT's params_shapes.json, and ELMo's options.json.

    Raises:
        FileNotFoundError, OSError: no such file, or it cannot be read.
        ValueError: the file is not JSON, or no config; names the file.
    """
    with config_lib.named(path), open_file(path, "rb") as file:
        raw = json_files.parse(file.read())
        if isinstance(raw, list) and raw and isinstance(raw[0], list):
            return gpt_config.GptConfig.from_shapes(raw)
        if not isinstance(raw, dict):
            raise errors.InputError(
                "the file holds no JSON object; copy it again from where the weights "
                "are from"
            )
        if (kind := raw.get("model_type", "bert")) not in MODEL_TYPES:
            raise errors.InputError(
                f"model_type is {kind!r}, and the networks that can be read are those "
                f"of {', '.join(MODEL_TYPES)}; give a model of one of these types"
            )
        if "n_vocab" in raw or raw.get("model_type") in gpt_config.MODEL_TYPES:
            return gpt_config.GptConfig.from_dict(raw)
        if raw.get("model_type") == encoder_decoder_config.MODEL_TYPE:
            return encoder_decoder_config.EncoderDecoderConfig.from_dict(raw)
        if "lstm" in raw:
            return config.ElmoConfig.from_dict(raw)
        return config_lib.BertConfig.from_dict(raw)


def of_values(values: dict[str, Any]) -> Config:
    """The config whose dataclasses.asdict is `values`."""
    if "lstm_dim" in values:
        return config.ElmoConfig(**values)
    if "decoder" in values:
        sides = encoder_decoder_config.SIDES
        parts = {side: config_lib.BertConfig(**values[side]) for side in sides}
        return encoder_decoder_config.EncoderDecoderConfig(**{**values, **parts})
    kind = gpt_config.GptConfig if "norm_first" in values else config_lib.BertConfig
    return kind(**values)
