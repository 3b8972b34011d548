"""The records of GPT and GPT-2, and the names of their variables."""

import dataclasses
import json
from typing import Any

from contract import file_names
from modeling.checkpoints import names
from modeling.features import attention_maps
from modeling.networks import spec
from modeling.networks.gpt import config as gpt_config
from modeling.networks.gpt import network

_DENSE = (("kernel", "/w", "weight", "convolution"), ("bias", "/b", "bias"))
_NORM = (("gamma", "/g", "weight"), ("beta", "/b", "bias"))
_LAYER = (
    ("attention/query_key_value", "attn/c_attn", _DENSE),
    ("attention/output", "attn/c_proj", _DENSE),
    ("attention_norm", "ln_1", _NORM),
    ("ffn_in", "mlp/c_fc", _DENSE),
    ("ffn_out", "mlp/c_proj", _DENSE),
    ("ffn_norm", "ln_2", _NORM),
)
# GPT's one table: its tokens, then its positions, which Hugging Face stores apart.
_TABLE = "gpt/embeddings/word_and_position_embeddings"
_TOKENS, _POSITIONS = (
    f"transformer.{name}_embed.weight" for name in ("tokens", "positions")
)
_WORDS, _PLACES = (f"gpt/embeddings/{name}_embeddings" for name in ("word", "position"))
# Hugging Face's classifier has no bias.
_CLASSIFIER = (
    names.Name("classifier/logits/kernel", "model/clf/w", "score.weight", "transposed"),
    names.Name("classifier/logits/bias", "model/clf/b", "score.bias"),
)
_INNER = {"intermediate_size": ("gpt/block_0/ffn_in/bias", 0)}
# Names of files in GPT-2's release.
_RELEASED = {
    file_names.VOCAB_JSON: file_names.ENCODER_JSON,
    file_names.MERGES_TXT: file_names.VOCAB_BPE,
}


def _attention_weights(block, hidden, bias):
    """As attention_maps.of_block; GPT-2's attention reads a norm of its input."""
    hidden = block.attention_norm(hidden) if block.config.norm_first else hidden
    return attention_maps.of_attention(block.attention, hidden, bias)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _GptSpec(spec.NetworkSpec):
    tables: tuple[names.Name, ...]
    end: tuple[names.Name, ...] = ()

    def input_rows(self):
        return [*self.tables, *self.end]

    def layer_rows(self, number):
        rows = []
        for path, name, variables in _LAYER:
            theirs = f"transformer.h.{number}.{name.replace('/', '.')}"
            ours, google = f"gpt/block_{number}/{path}", f"model/h{number}/{name}"
            rows += names.rows(variables, ours, google, theirs)
        return rows

    def head_rows(self, config):
        return [*super().head_rows(config), *_CLASSIFIER]

    def ties(self):
        copies = {"lm_head.weight": self.tables[0].hugging_face}
        return spec.Ties(copies, self.token_table)

    def as_released(self, config: Any, files: dict[str, Any]) -> dict[str, Any]:
        """GPT-2's files; config.json stays where it holds more than hparams.json."""
        if not config.norm_first:
            return files
        raw = config.to_hparams()
        files = {_RELEASED.get(name, name): text for name, text in files.items()}
        alone = dataclasses.replace(config, extra={})
        if gpt_config.GptConfig.from_dict(raw) == alone:
            del files[config.file_name]
        return {**files, file_names.HPARAMS: json.dumps(raw)}


_SHARED: dict[str, Any] = {
    "config": gpt_config.GptConfig,
    "layers": network.GptDecoder,
    "field": "norm_first",
    "heads": spec.TASKS | {"language_model"},
    "usual_head": "language_model",
    "free_head": "language_model",
    "objectives": ("left_to_right",),
    "inputs": ("gpt/embeddings/",),
    "above": ("gpt/final_norm/",),
    "prefix": "transformer",
    "renamed": {"multiple_choice_head.summary.": "score."},
    "new_tokens": 3,
    "has_wide_kernels": True,
    "token_head": network.TiedHead,
    "attention_weights": _attention_weights,
    "packs_rows": True,
    "writes_texts": True,
    "text_vectors": "trained",
}
GPT = _GptSpec(
    **_SHARED,
    kind="GPT",
    model_types=("openai-gpt",),
    architectures={
        (): "OpenAIGPTLMHeadModel",
        ("classifier",): "OpenAIGPTForSequenceClassification",
    },
    other_classes=("OpenAIGPTModel", "OpenAIGPTDoubleHeadsModel"),
    sizes={"num_table_rows": (_TABLE, 0), "hidden_size": (_TABLE, 1), **_INNER},
    bare=("h.", "tokens_embed.", "positions_embed."),
    stacked={_TOKENS: _POSITIONS},
    token_table=_TABLE,
    tables=(names.Name(_TABLE, "model/we", _TOKENS),),
)
GPT_2 = _GptSpec(
    **_SHARED,
    kind="GPT-2",
    model_types=("gpt2",),
    config_file=file_names.HPARAMS,
    file_keys=("n_vocab",),  # of that file
    architectures={
        (): "GPT2LMHeadModel",
        ("classifier",): "GPT2ForSequenceClassification",
        ("tagger",): "GPT2ForTokenClassification",
        ("span",): "GPT2ForQuestionAnswering",
    },
    other_classes=("GPT2Model", "GPT2DoubleHeadsModel"),
    sizes={
        "vocab_size": (_WORDS, 0),
        "hidden_size": (_WORDS, 1),
        **_INNER,
        "max_position_embeddings": (_PLACES, 0),
    },
    bare=("h.", "wte.", "wpe.", "ln_f."),
    token_table=_WORDS,
    tables=(
        names.Name(_WORDS, "model/wte", "transformer.wte.weight"),
        names.Name(_PLACES, "model/wpe", "transformer.wpe.weight"),
    ),
    end=tuple(names.rows(_NORM, "gpt/final_norm", "model/ln_f", "transformer.ln_f")),
)
