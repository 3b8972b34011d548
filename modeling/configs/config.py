"""The shape of a BERT network, as released in bert_config.json and config.json."""

import contextlib
import dataclasses
import json
import math
import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from contract import errors, file_names, json_files

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

ATTENTIONS = ("bidirectional", "causal")
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


_Config = TypeVar("_Config", bound="NetworkConfig")


class NetworkConfig:
    """What the configs of all networks share; each is a frozen dataclass."""

    network: ClassVar[str]  # bert, gpt or elmo, which paths of its variables begin with
    file_name: ClassVar[str] = file_names.BERT_CONFIG  # under which it is written
    extra: dict[str, Any]
    tolerated: ClassVar[frozenset[str]] = _TOLERATED

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, name = getattr(self, field.name), self.key_in_file(field.name)
            check_number(field.name, field.type, value, name)

    @classmethod
    def from_dict(cls: type[_Config], raw: dict[str, Any]) -> _Config:
        """Builds a config from the keys of a file."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The keys of the file that is written."""
        raise NotImplementedError

    @classmethod
    def from_json_file(
        cls: type[_Config],
        path: str | os.PathLike[str],
        open_file: Callable[..., Any] = open,
    ) -> _Config:
        """Reads bert_config.json (Google) or config.json (Hugging Face).

        Raises:
            FileNotFoundError, OSError: no such file, or it cannot be read.
            ValueError: the file is not JSON, or as in `from_dict`; names the file.
        """
        with named(path), open_file(path, "rb") as file:
            raw = json_files.parse(file.read())
            if not isinstance(raw, dict):
                raise errors.InputError("the file holds no JSON object")
            return cls.from_dict(raw)

    def unknown_keys(self) -> list[str]:
        """Keys of the file that have no effect here and are in no released config."""
        return sorted(self.extra.keys() - self.tolerated)

    def network_alone(self: _Config) -> _Config:
        """The config without the keys that change nothing here."""
        return dataclasses.replace(self, extra={})  # type: ignore[type-var]

    def with_vocab_size(self: _Config, size: int) -> _Config:
        """The config with so many tokens."""
        return dataclasses.replace(self, vocab_size=size)  # type: ignore[type-var]

    def with_vocabulary(self: _Config, tokens: Sequence[str]) -> _Config:
        """The config for a vocabulary, its tokens by id."""
        return self.with_vocab_size(len(tokens))

    def key_in_file(self, field: str) -> str:
        """What the file calls a field or property."""
        return field

    def to_json_string(self) -> str:
        """The text of the file: two spaces, sorted keys, a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes errors that are raised within name the config file."""
    name = os.fspath(path)
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{name}: no such file; give the bert_config.json that lies "
            "beside the checkpoint"
        ) from error
    except OSError as error:
        raise OSError(
            f"{name}: cannot be read ({error}); give the file "
            "bert_config.json that lies beside the checkpoint"
        ) from error
    except ValueError as error:
        raise errors.InputError(f"{name}: {error}") from error


class TransformerConfig(NetworkConfig):
    """What the configs of BERT and GPT share."""

    hidden_size: int
    num_attention_heads: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            raise errors.InputError(
                f"{self.key_in_file('hidden_size')}={self.hidden_size} is not a "
                f"multiple of {self.key_in_file('num_attention_heads')}="
                f"{self.num_attention_heads}; correct the config"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(TransformerConfig):
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
    # bidirectional, or causal: a token sees none that follow it ("LTR" in the paper's
    # section 5.1); Hugging Face calls that is_decoder.
    attention: str = "bidirectional"
    # Further keys of the file, kept so that writing it loses nothing.
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "bert"
    norm_first: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_act not in _GOOGLE_ACTIVATIONS.values():
            raise errors.InputError(
                f"hidden_act={self.hidden_act!r} is not one of "
                f"{sorted(set(_GOOGLE_ACTIVATIONS.values()))}"
            )
        if self.attention not in ATTENTIONS:
            raise errors.InputError(
                f"attention={self.attention!r} is not one of {list(ATTENTIONS)}; "
                "correct the config"
            )

    @property
    def kind(self) -> str:
        """What people call the network."""
        return "BERT"

    @property
    def is_left_to_right(self) -> bool:
        """Whether no token sees those that follow it."""
        return self.attention == "causal"

    @property
    def num_outputs(self) -> int:
        """Tokens that can be predicted."""
        return self.vocab_size

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
            raise errors.InputError(
                "the key vocab_size is missing; is this a BERT config?"
            )
        if is_hugging_face:
            raw = _translated_from_hugging_face(raw)
        raw["hidden_act"] = _activation(raw.get("hidden_act", "gelu"), is_hugging_face)
        if "layer_norm_eps" in raw:
            raw["layer_norm_epsilon"] = raw.pop("layer_norm_eps")
        known = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        # model_type says how the file is to be read, so Google's must not keep it.
        extra = {key: raw[key] for key in raw.keys() - known - {"model_type"}}
        return cls(**{key: raw[key] for key in raw.keys() & known}, extra=extra)

    def num_weights(self) -> int:
        """Numbers in all variables of the encoder, the pooler left out."""
        width, inner = self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        attention = 4 * (width + 1) * width
        feed_forward = (width + 1) * inner + (inner + 1) * width
        layer = attention + feed_forward + 4 * width  # and two norms
        return (rows + 2) * width + self.num_hidden_layers * layer

    def to_dict(self) -> dict[str, Any]:
        """The keys of bert_config.json, with Google's names of the activations."""
        raw = dataclasses.asdict(self)
        extra = raw.pop("extra")
        names = {ours: name for name, ours in _GOOGLE_ACTIVATIONS.items() if name}
        raw["hidden_act"] = names[self.hidden_act]
        if not self.is_left_to_right:  # the original's files do not say it
            del raw["attention"]
        epsilon = raw.pop("layer_norm_epsilon")
        if epsilon != BertConfig.layer_norm_epsilon:
            raw["layer_norm_eps"] = epsilon
        return {**extra, **raw}

    def key_in_file(self, field: str) -> str:
        """Returns the key of a field in bert_config.json and config.json."""
        return {"layer_norm_epsilon": "layer_norm_eps"}.get(field, field)

    def to_hugging_face(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw = dataclasses.asdict(self)
        extra = raw.pop("extra")
        names = {ours: name for name, ours in _HUGGING_FACE_ACTIVATIONS.items()}
        names["gelu_tanh"] = "gelu_new"
        raw["hidden_act"] = names[self.hidden_act]
        raw["layer_norm_eps"] = raw.pop("layer_norm_epsilon")
        if raw.pop("attention") == "causal":
            raw["is_decoder"] = True
        return {
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            **extra,
            **raw,
            "model_type": "bert",
        }


def check_number(key: str, kind: Any, value: Any, name: str | None = None) -> None:
    """Refuses "32" for 32, and numbers out of range; `name` is the key in the file."""
    if kind not in (int, float):
        return
    if kind is int:
        wanted, fits = "a whole number of 1 or more", lambda x: x >= 1
    elif key.endswith(("_prob", "dropout")):
        wanted, fits = "a number of 0 or more and less than 1", lambda x: 0 <= x < 1
    elif key == "layer_norm_epsilon":  # 0 would divide by the variance 0 of equal rows
        wanted, fits = "a number greater than 0", lambda x: 0 < x < math.inf
    else:
        wanted, fits = "a number of 0 or more", lambda x: 0 <= x < math.inf
    of_kind = isinstance(value, numbers.Integral if kind is int else numbers.Real)
    if not of_kind or isinstance(value, bool) or not fits(value):
        raise errors.InputError(
            f"{name or key}={value!r} is not {wanted}; correct the config"
        )


def _activation(name: Any, is_hugging_face: bool) -> str:
    known = _HUGGING_FACE_ACTIVATIONS if is_hugging_face else _GOOGLE_ACTIVATIONS
    lowered = "" if name is None else str(name).lower()
    if lowered not in known:
        raise errors.InputError(
            f"Unsupported activation: {name}; hidden_act must be one of {sorted(known)}"
        )
    return known[lowered]


def _translated_from_hugging_face(raw: dict[str, Any]) -> dict[str, Any]:
    """Checks what only Hugging Face's files say, and fills in their defaults."""
    if raw["model_type"] != "bert":
        raise errors.InputError(
            f"model_type is {raw['model_type']!r}, and this is to be a BERT ('bert'); "
            "give the model of a BERT"
        )
    kind = raw.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise errors.InputError(
            f"position_embedding_type is {kind!r}; only 'absolute' is supported"
        )
    if raw.get("add_cross_attention"):
        raise errors.InputError(
            "add_cross_attention is true; the decoder of an encoder-decoder cannot be "
            "read alone"
        )
    if raw.pop("is_decoder", False):
        raw["attention"] = "causal"
    return {"type_vocab_size": 2, "layer_norm_eps": 1e-12, **raw}
