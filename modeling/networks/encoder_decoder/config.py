"""The shape of an encoder-decoder of two BERTs, as in Hugging Face's config.json."""

import dataclasses
import json
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contract import errors, features, file_names
from modeling.configs import config as config_lib

MODEL_TYPE = "encoder-decoder"  # Hugging Face's, and the network's name in messages
SIDES = ("encoder", "decoder")
_IDS = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
_FRAME = ("[CLS]", "[SEP]", "[PAD]")
_COMPARISONS = ("length_penalty", "early_stopping")  # of beams
# Flags of run_seq2seq.py, and the keys by which texts are written so in the library.
SETTINGS = {
    **{name: name for name in ("num_beams", *_COMPARISONS, "no_repeat_ngram_size")},
    "min_target_length": "min_length",  # with the start token there, the end here
    "max_target_length": "max_new_tokens",
}
_KEYS = (*SETTINGS.values(), "min_new_tokens", "max_length")
_LEAST = {"num_beams": 1, "max_new_tokens": 1, "max_length": 2}  # others 0
_MOST = 1 << 31
# Keys that change the texts there and have no effect here, with the library's defaults.
_OTHER_GENERATION = {
    **dict.fromkeys(("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")),
    **dict.fromkeys(("sequence_bias", "force_words_ids", "constraints", "max_time")),
    **dict.fromkeys(("exponential_decay_length_penalty", "penalty_alpha")),
    **dict.fromkeys(("stop_strings", "guidance_scale", "watermarking_config")),
    "renormalize_logits": False,
    "remove_invalid_values": False,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "encoder_no_repeat_ngram_size": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(config_lib.NetworkConfig):
    """Two BERTs, the second of which also reads the outputs of the first.

    `encoder` is bidirectional, `decoder` causal. Sizes without a side are those that
    the network reads with, the encoder's; `num_outputs` is the decoder's.
    """

    encoder: config_lib.BertConfig
    decoder: config_lib.BertConfig
    decoder_start_token_id: int  # what the decoder reads first
    eos_token_id: int  # after which a text ends
    pad_token_id: int = 0
    # As in generation_config.json; {} where a directory leaves open how it writes.
    generation: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: ClassVar[str] = "encoder_decoder"
    kind: ClassVar[str] = MODEL_TYPE
    file_name: ClassVar[str] = file_names.HUGGING_FACE_CONFIG
    is_left_to_right: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.encoder.is_left_to_right or not self.decoder.is_left_to_right:
            raise errors.InputError(
                f"the encoder's attention is {self.encoder.attention}, the decoder's "
                f"{self.decoder.attention}; set is_decoder for the decoder alone"
            )
        if self.encoder.hidden_size != self.decoder.hidden_size:
            raise errors.InputError(
                f"hidden_size is {self.encoder.hidden_size} of the encoder and "
                f"{self.decoder.hidden_size} of the decoder; give both one width"
            )
        for name in _IDS:
            value, limit = getattr(self, name), self.decoder.vocab_size
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or not 0 <= value < limit:
                raise errors.InputError(
                    f"{name}={value!r} is not a token of the decoder, whose vocabulary "
                    f"has the ids 0..{limit - 1}; correct the config"
                )
        for name in (_IDS[0], _IDS[2]):
            if getattr(self, name) == self.eos_token_id:
                raise errors.InputError(
                    f"{name}={self.eos_token_id} is eos_token_id as well, so that the "
                    "end of a text cannot be told from it; give each an id of its own"
                )

    @property
    def decoder_tokens(self) -> features.DecoderTokens:
        """The tokens around a target."""
        return features.DecoderTokens(*(getattr(self, name) for name in _IDS))

    @property
    def tie_word_embeddings(self) -> bool:  # type: ignore[override]
        """Whether the decoder's table of words predicts words, too."""
        return self.decoder.tie_word_embeddings

    @property
    def hidden_size(self) -> int:
        """D, of both sides."""
        return self.encoder.hidden_size

    @property
    def num_hidden_layers(self) -> int:
        """Layers of both sides together."""
        return self.encoder.num_hidden_layers + self.decoder.num_hidden_layers

    @property
    def vocab_size(self) -> int:
        """Tokens that can be read."""
        return self.encoder.vocab_size

    @property
    def num_outputs(self) -> int:
        """Tokens that can be written."""
        return self.decoder.vocab_size

    @property
    def type_vocab_size(self) -> int:
        """Kinds of segments that can be read."""
        return self.encoder.type_vocab_size

    @property
    def max_position_embeddings(self) -> int:
        """The longest text that can be read, in tokens."""
        return self.encoder.max_position_embeddings

    @classmethod
    def from_berts(
        cls,
        encoder: config_lib.BertConfig,
        decoder: config_lib.BertConfig,
        **ids: Any,
    ) -> "EncoderDecoderConfig":
        """The pair that is filled from two BERTs, or twice the same (Rothe et al.).

        `ids` are the other fields; the decoder becomes causal.
        """
        decoder = dataclasses.replace(decoder, attention="causal", extra={})
        encoder = dataclasses.replace(encoder, extra={})
        return cls(encoder=encoder, decoder=decoder, **ids)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "EncoderDecoderConfig":
        """Builds a config from Hugging Face's keys.

        Raises:
            ValueError: a side or id is missing or wrong, or the keys describe a network
                that is not built here.
        """
        raw = dict(raw)
        if (model_type := raw.pop("model_type", None)) != MODEL_TYPE:
            raise errors.InputError(f"model_type is {model_type!r}, not {MODEL_TYPE!r}")
        if raw.get("tie_encoder_decoder"):
            raise errors.InputError(
                "tie_encoder_decoder is true: both sides have the same weights, which "
                "is not built here; save the model with weights of their own"
            )
        sides: dict[str, Any] = {
            side: _read_side(side, raw.pop(side, None)) for side in SIDES
        }
        ids = {}
        for name in _IDS:
            usual = 0 if name == "pad_token_id" else None
            value = raw.pop(name, None)
            if value is None:  # where the library had it before
                value = sides["decoder"].extra.get(name, usual)
            if value is None:
                token = "[CLS]" if name == _IDS[0] else "[SEP]"
                raise errors.InputError(
                    f'the key {name} is missing; add "{name}": the id of {token} in '
                    "the vocabulary"
                )
            ids[name] = value
        return cls(**sides, **ids, extra=raw)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "EncoderDecoderConfig":
        """The config whose dataclasses.asdict it is."""
        sides = {side: config_lib.BertConfig(**values[side]) for side in SIDES}
        return cls(**{**values, **sides})

    def num_weights(self) -> int:
        """Numbers in all variables of both sides."""
        width = self.hidden_size
        cross_attention = 4 * (width + 1) * width + 2 * width  # and its norm
        more = self.decoder.num_hidden_layers * cross_attention
        return self.encoder.num_weights() + self.decoder.num_weights() + more

    def unknown_keys(self) -> list[str]:
        """Keys without effect in no released config; those of a side with its name."""
        keys = super().unknown_keys()
        for side in SIDES:
            keys += [f"{side}.{key}" for key in getattr(self, side).unknown_keys()]
        return keys

    def with_generation(self, beside: Mapping[str, Any]) -> "EncoderDecoderConfig":
        """The config with the settings of generation_config.json.

        `beside` are its values, {} if there is none; earlier releases had the same keys
        in config.json. A directory with either is the library's, whose early_stopping
        is False by default; here it is "never". A wrong value raises ValueError.
        """
        values, known = beside or self.extra, (*_KEYS, *_OTHER_GENERATION, *_IDS)
        stated = {key: values[key] for key in known if values.get(key) is not None}
        if not beside and not stated:
            return self
        stated.setdefault("early_stopping", False)
        for key in stated.keys() & {*_KEYS}:
            _check_setting(key, key, stated[key])
        if (least := stated.pop("min_new_tokens", None)) is not None:
            stated["min_length"] = least + 1
        if most := stated.get("max_new_tokens", stated.pop("max_length", 1) - 1):
            positions = self.decoder.max_position_embeddings
            stated["max_new_tokens"] = min(most, positions)
        self.check_lengths(stated)
        return dataclasses.replace(self, generation=stated)

    def settings(self, **passed: Any) -> dict[str, Any]:
        """How texts are written, by library keys: as `passed`, or else as stated.

        Raises:
            InputError: a value is wrong, or no text can be that long.
        """
        keys = SETTINGS.values() & self.generation.keys()
        named = {key: (key, self.generation[key]) for key in keys}
        named |= {SETTINGS[k]: (k, v) for k, v in passed.items() if v is not None}
        for key, (name, value) in named.items():
            _check_setting(name, key, value)
        values = {key: value for key, (_, value) in named.items()}
        self.check_lengths(values)
        return values

    def check_lengths(self, values: Mapping[str, Any]) -> None:
        """Refuses a least length above the most, and n-grams longer than any text."""
        positions = self.decoder.max_position_embeddings
        most = min(values.get("max_new_tokens", positions), positions)
        # The library's includes the start token.
        for key, limit in (
            ("min_length", most + 1),
            ("no_repeat_ngram_size", positions),
        ):
            if (value := values.get(key, 0)) > limit:
                raise errors.InputError(
                    f"{key} is {value}, and a text has at most {most} tokens; lower it"
                )

    def generation_json(self, for_library: bool = False) -> str:
        """The text of generation_config.json, complete where it is `for_library`."""
        values = {**self.generation, **{name: getattr(self, name) for name in _IDS}}
        if for_library:
            values.setdefault("max_new_tokens", self.decoder.max_position_embeddings)
        if for_library and values.get("num_beams", 1) == 1:  # where it warns of these
            values = {k: v for k, v in values.items() if k not in _COMPARISONS}
        return json.dumps(values, indent=2, sort_keys=True) + "\n"

    def ignored_generation(self) -> list[str]:
        """Settings by which the library writes other texts: ["num_beam_groups=2"]."""
        usual = {**_OTHER_GENERATION, **{name: getattr(self, name) for name in _IDS}}
        values = {**usual, **self.generation}
        return [f"{k}={values[k]!r}" for k in usual if values[k] != usual[k]]

    def network_alone(self) -> "EncoderDecoderConfig":
        """The config without further keys, of both sides as well."""
        sides = {side: getattr(self, side).network_alone() for side in SIDES}
        return dataclasses.replace(self, **sides, generation={}, extra={})

    def with_vocab_size(self, size: int) -> "EncoderDecoderConfig":
        """The config with so many tokens, on both sides.

        Raises:
            ValueError: the sides have vocabularies of their own.
        """
        if size == self.vocab_size:
            return self
        if self.vocab_size != self.num_outputs:
            raise errors.InputError(
                f"the encoder has {self.vocab_size} tokens and the decoder "
                f"{self.num_outputs}: no tokens can be added; keep their sizes"
            )
        sides = {side: getattr(self, side).with_vocab_size(size) for side in SIDES}
        return dataclasses.replace(self, **sides)

    def with_vocabulary(self, tokens: Sequence[str]) -> "EncoderDecoderConfig":
        """The config for one vocabulary of word pieces, its tokens by id.

        Texts begin with its [CLS], end with its [SEP], and are padded with its [PAD].
        """
        changes: dict[str, Any] = {
            side: getattr(self, side).with_vocab_size(len(tokens)) for side in SIDES
        }
        changes |= zip(_IDS, map(tokens.index, _FRAME), strict=True)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        return {
            **self.extra,
            **{name: getattr(self, name) for name in _IDS},
            "encoder": self.encoder.to_hugging_face(),
            "decoder": {**self.decoder.to_hugging_face(), "add_cross_attention": True},
            "is_encoder_decoder": True,
            "model_type": MODEL_TYPE,
        }

    to_hugging_face = to_dict


def _check_setting(name: str, key: str, value: Any) -> None:
    """Refuses a wrong value of a library's key, which messages call `name`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if key == "early_stopping":
        fits, wanted = isinstance(value, bool) or value == "never", "true, false, never"
    elif key == "length_penalty":
        fits, wanted = is_number and abs(value) < _MOST, "a finite number"
    else:
        least = _LEAST.get(key, 0)
        fits = isinstance(value, numbers.Integral) and is_number
        fits, wanted = (
            fits and least <= value < _MOST,
            f"{least} or more, a whole number",
        )
    if not fits:
        raise errors.InputError(f"{name} is {value!r}; give {wanted}")


def _read_side(side: str, raw: Any) -> config_lib.BertConfig:
    try:
        if not isinstance(raw, dict):
            raise errors.InputError("the key is missing, or holds no config")
        raw = {"model_type": "bert", **raw}
        crosses = raw.pop("add_cross_attention", False)
        if side == "decoder" and raw["model_type"] == "bert" and not crosses:
            raise errors.InputError(
                "add_cross_attention is not true, so the decoder does not read what the"
                " encoder puts out; give a model that was trained as an encoder-decoder"
            )
        return config_lib.BertConfig.from_dict(raw)
    except ValueError as error:
        raise errors.InputError(f"{side}: {error}") from error
