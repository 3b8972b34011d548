"""The shape of a network as its file describes it, and BERT's.

Configs of GPT, ELMo and encoder-decoders have the same base and their own tables:
../networks/gpt/config.py, ../networks/elmo/config.py and so on.
"""

import contextlib
import dataclasses
import json
import math
import numbers
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from contract import errors, file_names, json_files

if TYPE_CHECKING:
    from modeling.networks.spec import NetworkSpec

# Keys of released configurations that change nothing in the networks built here.
_WITHOUT_EFFECT = """
    _name_or_path add_cross_attention architectures bad_words_ids bos_token_id
    chunk_size_feed_forward classifier_dropout classifier_dropout_prob
    cross_attention_hidden_size decoder_start_token_id directionality
    diversity_penalty do_sample down_scale_factor dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_id finetuning_task forced_bos_token_id
    forced_eos_token_id gap_size gradient_checkpointing id2label inner_group_num
    is_decoder is_encoder_decoder label2id length_penalty line_by_line max_length
    min_length model_type n_ctx n_special net_structure_type no_repeat_ngram_size
    num_beam_groups num_beams num_memory_blocks num_return_sequences
    output_attentions output_hidden_states output_past output_scores pad_token_id
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type position_embedding_type predict_special_tokens
    prefix problem_type pruned_heads qa_dropout remove_invalid_values
    reorder_and_upcast_attn repetition_penalty return_dict return_dict_in_generate
    sbert_ce_default_activation_function scale_attn_by_inverse_layer_idx
    scale_attn_weights sentence_transformers sep_token_id
    seq_classif_dropout sinusoidal_pos_embds summary_activation
    summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type
    summary_use_proj task_specific_params temperature tie_encoder_decoder
    tie_weights_ tie_word_embeddings tokenizer_class top_k top_p torch_dtype
    torchscript transformers_version typical_p use_bfloat16 use_cache vocab_size
"""
# Keys that only the library of Hugging Face writes.
_LIBRARY_KEYS = {"architectures", "transformers_version", "_name_or_path"}
# Functions that both worlds call by one name.
_COMMON = "linear", "relu", "relu2", "tanh", "silu", "mish", "quick_gelu", "gelu_10"
_COMMON_ACTIVATIONS = {name: name for name in _COMMON}
ATTENTIONS = ("bidirectional", "causal")
# google-research/bert calls the tanh form "gelu"; Hugging Face calls the exact form so.
# The last of several names of a function is written.
_GOOGLE_ACTIVATIONS = {
    "": "linear",
    **_COMMON_ACTIVATIONS,
    "gelu": "gelu_tanh",
    "gelu_erf": "gelu_erf",
}
HUGGING_FACE_ACTIVATIONS = {
    "swish": "silu",
    **_COMMON_ACTIVATIONS,
    "gelu_python": "gelu_erf",
    "gelu": "gelu_erf",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}
_Config = TypeVar("_Config", bound="NetworkConfig")


class NetworkConfig:
    """The base of the configs of all networks; each is a frozen dataclass.

    Attributes:
        blocks_field: the field that counts layers with weights of their own.
        network: what the paths of its variables begin with, such as bert; `kind` is its
            name in messages.
        file_name: the name that its file gets.
        may_be_0: fields of numbers for which 0 means none.
        needed: keys of the file that have no default.
        required: {key of the file: values}; another value means another network.
        tolerated: keys that have no effect and are not reported.
        extra: further keys of the file, kept so that writing it loses nothing.
    """

    blocks_field: ClassVar[str] = "num_hidden_layers"
    network: ClassVar[str]
    kind: ClassVar[str]
    file_name: ClassVar[str] = file_names.BERT_CONFIG
    may_be_0: ClassVar[Collection[str]] = ()
    needed: ClassVar[Sequence[str]] = ("vocab_size",)
    required: ClassVar[Mapping[str, Sequence[Any]]] = {}
    tolerated: ClassVar[frozenset[str]] = frozenset(_WITHOUT_EFFECT.split())
    norm_bias: ClassVar[bool] = True  # whether norms have a beta
    # Whether the table of words predicts words, too, or there is one of its own.
    tie_word_embeddings: bool = True
    extra: dict[str, Any]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, key = getattr(self, field.name), self.key_in_file(field.name)
            is_none = value == 0 and not isinstance(value, bool)
            if not (is_none and field.name in self.may_be_0):
                check_value(field.name, field.type, value, key)

    @classmethod
    def keys(cls) -> dict[str, str]:
        """{key of the file: field}; of several keys of a field the last is written."""
        return {}

    @classmethod
    def from_dict(cls: type[_Config], raw: dict[str, Any]) -> _Config:
        """Builds a config from the keys of a file.

        Raises:
            ValueError: a key is missing, a value is wrong or of another network.
        """
        raise NotImplementedError

    @classmethod
    def from_values(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        """The config whose dataclasses.asdict, of this or an earlier version, it is."""
        return cls(**values)

    @classmethod
    def _from_keys(cls: type[_Config], raw: dict[str, Any], **fields: Any) -> _Config:
        """Builds a config from keys of the tables, and `fields` that are read already.

        `model_type` decides how a file is read, and so it is not kept.
        """
        for key in cls.needed:
            if key not in raw:
                raise errors.InputError(
                    f"the key {key} is missing; give the config of the network"
                )
        for key, allowed in cls.required.items():
            if (value := raw.get(key, allowed[0])) not in allowed:
                supported = [repr(value) for value in allowed if value is not None]
                raise errors.InputError(
                    f"{key} is {value!r}, and only {' or '.join(supported)} is "
                    "supported; give a model of this network"
                )
        keys = cls.keys()
        values = {field: raw[key] for key, field in keys.items() if key in raw}
        extra = {k: raw[k] for k in raw if k not in keys and k != "model_type"}
        return cls(**{**values, "extra": extra, **fields})

    def to_dict(self) -> dict[str, Any]:
        """The keys of the file that is written."""
        raise NotImplementedError

    def _to_keys(self) -> dict[str, Any]:
        """{key of the file: value} of the fields in `keys`, and of `extra`."""
        fields = dict.fromkeys(self.keys().values())
        values = {self.key_in_file(field): getattr(self, field) for field in fields}
        return {**self.extra, **values}

    def key_in_file(self, field: str) -> str:
        """Returns the key that is written for a field."""
        return {ours: key for key, ours in self.keys().items()}.get(field, field)

    @classmethod
    def from_json_file(cls: type[_Config], path: str | os.PathLike[str]) -> _Config:
        """Reads bert_config.json (Google) or config.json (Hugging Face).

        Raises:
            FileNotFoundError, OSError: no such file, or it cannot be read.
            ValueError: the file is not JSON, or as in `from_dict`; names the file.
        """
        with named(path), open(path, "rb") as file:
            raw = json_files.parse(file.read())
            if not isinstance(raw, dict):
                raise errors.InputError("the file holds no JSON object")
            theirs = {"model_type": "bert"} if is_hugging_face(raw, path) else {}
            return cls.from_dict({**theirs, **raw})

    def to_json_string(self) -> str:
        """The text of the file: two spaces, sorted keys, a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    @property
    def spec(self) -> "NetworkSpec":
        """The record of the network."""
        from modeling.networks import catalogue  # whose layers have configs

        return catalogue.of(self)

    @property
    def num_blocks(self) -> int:
        """Layers with weights of their own."""
        return int(getattr(self, self.blocks_field))

    def unknown_keys(self) -> list[str]:
        """Keys of the file that have no effect here and are in no released config."""
        return sorted(self.extra.keys() - self.tolerated - self.required.keys())

    def network_alone(self: _Config) -> _Config:
        """The config without the keys that change nothing here."""
        return dataclasses.replace(self, extra={})  # type: ignore[type-var]

    def with_vocab_size(self: _Config, size: int) -> _Config:
        """The config with `size` tokens."""
        return dataclasses.replace(self, vocab_size=size)  # type: ignore[type-var]

    def with_vocabulary(self: _Config, tokens: Sequence[str]) -> _Config:
        """The config for a vocabulary, its tokens by id."""
        return self.with_vocab_size(len(tokens))


class TransformerConfig(NetworkConfig):
    """The part that the configs of BERT and GPT share."""

    activations: ClassVar[Collection[str]] = frozenset(_GOOGLE_ACTIVATIONS.values())
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            width, heads = map(self.key_in_file, ("hidden_size", "num_attention_heads"))
            raise errors.InputError(
                f"{width}={self.hidden_size} is not a multiple of {heads}="
                f"{self.num_attention_heads}; correct the config"
            )
        check_choice("hidden_act", self.hidden_act, self.activations)

    def _num_layer_weights(self) -> int:
        """Numbers in the variables of one layer."""
        width, inner = self.hidden_size, self.intermediate_size
        attention = 4 * (width + 1) * width
        feed_forward = (width + 1) * inner + (inner + 1) * width
        return attention + feed_forward + 4 * width  # and two norms


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(TransformerConfig):
    """Sizes, activation and dropout of a BERT network; modeling.py's BertConfig."""

    vocab_size: int  # V
    hidden_size: int = 768  # D, a multiple of N
    num_hidden_layers: int = 12  # L
    num_attention_heads: int = 12  # N
    intermediate_size: int = 3072  # F
    # In the feed-forward layer and the masked-LM head: gelu_tanh, gelu_erf, or as in
    # activations.py. The two worlds call different functions `gelu`, so neither is
    # that here.
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1  # of embeddings and layer outputs; below 1
    attention_probs_dropout_prob: float = 0.1  # of attention weights; below 1
    max_position_embeddings: int = 512  # longest sequence, in tokens
    type_vocab_size: int = 16  # the original's code; 2 in its released files
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    layer_norm_epsilon: float = 1e-12  # added to the variance
    # bidirectional, or causal: a token sees none that follow it ("LTR" in the paper's
    # section 5.1); Hugging Face calls that is_decoder.
    attention: str = "bidirectional"
    tie_word_embeddings: bool = True
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "bert"
    kind: ClassVar[str] = "BERT"
    norm_first: ClassVar[bool] = False
    # Parts that a relative in ../networks/ may do without, or have besides.
    has_pooler: ClassVar[bool] = True
    has_next_sentence: ClassVar[bool] = True
    has_projection: ClassVar[bool] = False
    first_position: ClassVar[int] = 0  # the row of the first token's position
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "model_type": ("bert", "ernie"),
        "use_task_id": (False, None),  # of tasks, in ERNIE 3.0
        "position_embedding_type": ("absolute",),
        "add_cross_attention": (False, None),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("attention", self.attention, ATTENTIONS)

    @property
    def is_left_to_right(self) -> bool:
        """Whether no token sees those that follow it."""
        return self.attention == "causal"

    @property
    def num_outputs(self) -> int:
        """Tokens that can be predicted."""
        return self.vocab_size

    @property
    def embedding_size(self) -> int:
        """E, the width of the tables."""
        return self.hidden_size

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of each table of embeddings, by its name."""
        return {
            "word_embeddings": self.vocab_size,
            "token_type_embeddings": self.type_vocab_size,
            "position_embeddings": self.num_position_rows,
        }

    @property
    def num_position_rows(self) -> int:
        """Rows of the table of positions."""
        return self.first_position + self.max_position_embeddings

    @property
    def head_act(self) -> str:
        """The activation of the masked-LM head."""
        return self.hidden_act

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the fields under their own names, and one of Hugging Face's."""
        own = {field.name: field.name for field in dataclasses.fields(cls)}
        del own["extra"]
        return {**own, "layer_norm_eps": "layer_norm_epsilon"}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "BertConfig":
        """Builds a config from Hugging Face's keys (`model_type` is one) or Google's.

        Raises:
            ValueError: as in NetworkConfig, or the activation is unknown.
        """
        raw, known = dict(raw), _GOOGLE_ACTIVATIONS
        if "model_type" in raw:
            known = HUGGING_FACE_ACTIVATIONS
            raw.setdefault("type_vocab_size", 2)
            raw.pop("task_type_vocab_size", None)  # of ERNIE's `use_task_id`
            if raw.pop("is_decoder", False):
                raw["attention"] = "causal"
        activation = read_activation("hidden_act", raw.get("hidden_act", "gelu"), known)
        return cls._from_keys(raw, hidden_act=activation)

    def num_weights(self) -> int:
        """Numbers in all variables of the encoder, the pooler left out."""
        rows = sum(self.table_rows.values())
        layers = self.num_blocks * self._num_layer_weights()
        projection = (self.embedding_size + 1) * self.hidden_size * self.has_projection
        return (rows + 2) * self.embedding_size + projection + layers  # and a norm

    def to_dict(self) -> dict[str, Any]:
        """The keys of bert_config.json, with Google's names of the activations."""
        raw = self._to_keys()
        raw["hidden_act"] = name_activation(self.hidden_act, _GOOGLE_ACTIVATIONS)
        if not self.is_left_to_right:  # as in the original's files
            del raw["attention"]
        if self.layer_norm_epsilon == BertConfig.layer_norm_epsilon:
            del raw["layer_norm_eps"]
        if self.tie_word_embeddings:
            del raw["tie_word_embeddings"]
        return raw

    def to_hugging_face(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        usual = {"pad_token_id": 0, "position_embedding_type": "absolute"}
        raw = {**usual, **self._to_keys(), "model_type": "bert"}
        raw["hidden_act"] = name_activation(self.hidden_act, HUGGING_FACE_ACTIVATIONS)
        if raw.pop("attention") == "causal":
            raw["is_decoder"] = True
        return raw


def is_hugging_face(raw: dict[str, Any], path: str | os.PathLike[str]) -> bool:
    """Whether the keys of a file, early ones without model_type, are Hugging Face's.

    bert_config.json is Google's, whatever keys of the library it has kept.
    """
    name = os.path.basename(os.fspath(path))
    is_theirs = name == file_names.HUGGING_FACE_CONFIG
    has_keys = name != file_names.BERT_CONFIG and not _LIBRARY_KEYS.isdisjoint(raw)
    return "model_type" in raw or is_theirs or has_keys


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes errors that are raised within name the config file."""
    name = os.fspath(path)
    remedy = "give the bert_config.json that lies beside the checkpoint"
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{name}: no such file; {remedy}") from error
    except OSError as error:
        raise OSError(f"{name}: cannot be read ({error}); {remedy}") from error
    except ValueError as error:
        raise errors.InputError(f"{name}: {error}") from error


def check_value(field: str, kind: Any, value: Any, key: str | None = None) -> None:
    """Refuses "32" for 32, and numbers out of range; `key` is that of the file."""
    if kind is bool:
        wanted, fits = "true or false", isinstance(value, bool)
    elif kind in (int, float):
        wanted, fits = _check_number(field, kind, value)
    else:
        return
    if not fits:
        raise errors.InputError(
            f"{key or field}={value!r} is not {wanted}; correct the config"
        )


def _check_number(field: str, kind: Any, value: Any) -> tuple[str, bool]:
    number = numbers.Integral if kind is int else numbers.Real
    is_number = isinstance(value, number) and not isinstance(value, bool)
    x: Any = value if is_number else math.nan
    if kind is int:
        return "a whole number of 1 or more", x >= 1
    if field.endswith(("_prob", "dropout")):
        return "a number of 0 or more and less than 1", 0 <= x < 1
    # With 0, equal rows would be divided by their variance of 0, and angles by 0.
    if field.endswith(("layer_norm_epsilon", "rope_theta")):
        return "a number greater than 0", 0 < x < math.inf
    return "a number of 0 or more", 0 <= x < math.inf


def check_choice(key: str, value: Any, choices: Collection[str]) -> None:
    """Refuses a value that is none of `choices`."""
    if value not in [*choices]:
        raise errors.InputError(
            f"{key}={value!r} is not one of {sorted(choices)}; correct the config"
        )


def read_activation(key: str, name: Any, known: Mapping[str, str]) -> str:
    """The function with a name of a file, in capitals or not; None is ""."""
    lowered = "" if name is None else str(name).lower()
    if lowered not in known:
        raise errors.InputError(
            f"Unsupported activation: {name}; {key} must be one of {sorted(known)}"
        )
    return known[lowered]


def name_activation(function: str, known: Mapping[str, str]) -> str:
    """The last name of a function in {name of a file: function}."""
    return {ours: name for name, ours in known.items()}[function]
