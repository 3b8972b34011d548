"""The shape of a BERT network, as released in bert_config.json and config.json."""

import dataclasses
import json
import math
import numbers
import os
from collections.abc import Callable
from typing import Any

# Keys of released configurations that change nothing in the network built here.
_TOLERATED = frozenset(
    {
        # multilingual and Chinese releases of google-research/bert
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        # Hugging Face
        "_name_or_path",
        "add_cross_attention",
        "architectures",
        "bos_token_id",
        "classifier_dropout",
        "dtype",
        "eos_token_id",
        "gradient_checkpointing",
        "id2label",
        "is_decoder",
        "label2id",
        "model_type",
        "output_past",
        "pad_token_id",
        "position_embedding_type",
        "problem_type",
        "tie_word_embeddings",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)

# google-research/bert calls the tanh form "gelu"; Hugging Face calls the exact form so.
_GOOGLE_ACTIVATIONS = {
    "": "linear",
    "linear": "linear",
    "relu": "relu",
    "gelu": "gelu_tanh",
    "gelu_erf": "gelu_erf",
    "tanh": "tanh",
}
_HUGGING_FACE_ACTIVATIONS = {
    "linear": "linear",
    "relu": "relu",
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "tanh": "tanh",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes, activation and dropout of a BERT network; modeling.py's BertConfig."""

    vocab_size: int  # V
    hidden_size: int = 768  # D, a multiple of N
    num_hidden_layers: int = 12  # L
    num_attention_heads: int = 12  # N
    intermediate_size: int = 3072  # F
    # Of the feed-forward layer and the masked-LM head: linear, relu, tanh, gelu_tanh or
    # gelu_erf. The two worlds call different functions `gelu`, so neither is that here.
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1  # of embeddings and layer outputs; below 1
    attention_probs_dropout_prob: float = 0.1  # of attention weights; below 1
    max_position_embeddings: int = 512  # longest sequence, in tokens
    type_vocab_size: int = 16  # the original's code; its released files say 2
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    layer_norm_epsilon: float = 1e-12  # added to the variance
    # Further keys of the file, kept so that writing it loses nothing.
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_number(field.name, field.type, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}; correct the config"
            )
        if self.hidden_act not in _GOOGLE_ACTIVATIONS.values():
            raise ValueError(
                f"hidden_act={self.hidden_act!r} is not one of "
                f"{sorted(set(_GOOGLE_ACTIVATIONS.values()))}"
            )

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "BertConfig":
        """Builds a config from Hugging Face's keys (`model_type` is one) or Google's.

        Raises:
            ValueError: vocab_size is missing, a number is wrong, or the activation or
                architecture is unknown.
        """
        raw = dict(raw)
        is_hugging_face = "model_type" in raw
        if "vocab_size" not in raw:
            raise ValueError("the key vocab_size is missing; is this a BERT config?")
        if is_hugging_face:
            raw = _translated_from_hugging_face(raw)
        raw["hidden_act"] = _activation(raw.get("hidden_act", "gelu"), is_hugging_face)
        if "layer_norm_eps" in raw:
            raw["layer_norm_epsilon"] = raw.pop("layer_norm_eps")
        known = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        # model_type says how the file is to be read, so Google's must not keep it.
        extra = {key: raw[key] for key in raw.keys() - known - {"model_type"}}
        return cls(**{key: raw[key] for key in raw.keys() & known}, extra=extra)

    @classmethod
    def from_json_file(
        cls, path: str | os.PathLike[str], open_file: Callable[..., Any] = open
    ) -> "BertConfig":
        """Reads bert_config.json (Google) or config.json (Hugging Face).

        Raises:
            FileNotFoundError, OSError: no such file, or it cannot be read.
            ValueError: the file is not JSON, or as in `from_dict`; names the file.
        """
        try:
            with open_file(path, "rb") as file:
                raw = json.loads(file.read())
            if not isinstance(raw, dict):
                raise ValueError("the file holds no JSON object")
            return cls.from_dict(raw)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{os.fspath(path)}: no such file; give the bert_config.json that lies "
                "beside the checkpoint"
            ) from error
        except OSError as error:
            raise OSError(
                f"{os.fspath(path)}: cannot be read ({error}); give the file "
                "bert_config.json that lies beside the checkpoint"
            ) from error
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error

    def num_weights(self) -> int:
        """Numbers in all variables of the encoder, the pooler left out."""
        width, inner = self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        attention = 4 * (width + 1) * width
        feed_forward = (width + 1) * inner + (inner + 1) * width
        layer = attention + feed_forward + 4 * width  # and two norms
        return (rows + 2) * width + self.num_hidden_layers * layer

    def unknown_keys(self) -> list[str]:
        """Keys of the file that have no effect here and are in no released config."""
        return sorted(self.extra.keys() - _TOLERATED)

    def to_dict(self) -> dict[str, Any]:
        """The keys of bert_config.json, with Google's names of the activations."""
        raw = dataclasses.asdict(self)
        extra = raw.pop("extra")
        names = {ours: name for name, ours in _GOOGLE_ACTIVATIONS.items() if name}
        raw["hidden_act"] = names[self.hidden_act]
        epsilon = raw.pop("layer_norm_epsilon")
        if epsilon != BertConfig.layer_norm_epsilon:
            raw["layer_norm_eps"] = epsilon
        return {**extra, **raw}

    def to_json_string(self) -> str:
        """The text of bert_config.json: two spaces, sorted keys, a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def to_hugging_face(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw = dataclasses.asdict(self)
        extra = raw.pop("extra")
        names = {ours: name for name, ours in _HUGGING_FACE_ACTIVATIONS.items()}
        names["gelu_tanh"] = "gelu_new"
        raw["hidden_act"] = names[self.hidden_act]
        raw["layer_norm_eps"] = raw.pop("layer_norm_epsilon")
        return {
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            **extra,
            **raw,
            "model_type": "bert",
        }


def _check_number(key: str, kind: Any, value: Any) -> None:
    """Refuses "32" for 32, and numbers out of range."""
    if kind not in (int, float):
        return
    if kind is int:
        wanted, fits = "a whole number of 1 or more", lambda x: x >= 1
    elif key.endswith("_prob"):
        wanted, fits = "a number of 0 or more and less than 1", lambda x: 0 <= x < 1
    elif key == "layer_norm_epsilon":  # 0 would divide by the variance 0 of equal rows
        wanted, fits = "a number greater than 0", lambda x: 0 < x < math.inf
    else:
        wanted, fits = "a number of 0 or more", lambda x: 0 <= x < math.inf
    of_kind = isinstance(value, numbers.Integral if kind is int else numbers.Real)
    if not of_kind or isinstance(value, bool) or not fits(value):
        raise ValueError(f"{key}={value!r} is not {wanted}; correct the config")


def _activation(name: Any, is_hugging_face: bool) -> str:
    known = _HUGGING_FACE_ACTIVATIONS if is_hugging_face else _GOOGLE_ACTIVATIONS
    lowered = "" if name is None else str(name).lower()
    if lowered not in known:
        raise ValueError(
            f"Unsupported activation: {name}; hidden_act must be one of {sorted(known)}"
        )
    return known[lowered]


def _translated_from_hugging_face(raw: dict[str, Any]) -> dict[str, Any]:
    """Checks what only Hugging Face's files say, and fills in their defaults."""
    if raw["model_type"] != "bert":
        raise ValueError(
            f"model_type is {raw['model_type']!r}; only 'bert' checkpoints can be read"
        )
    kind = raw.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise ValueError(
            f"position_embedding_type is {kind!r}; only 'absolute' is supported"
        )
    if raw.get("is_decoder"):
        raise ValueError(
            "is_decoder is true; only encoders, which look to both sides, can be read"
        )
    return {"type_vocab_size": 2, "layer_norm_eps": 1e-12, **raw}
