"""The record of ModernBERT, and the names of its variables."""

import dataclasses

from modeling.checkpoints import names
from modeling.networks import spec
from modeling.networks.modernbert import config as config_lib
from modeling.networks.modernbert import network, onnx

_WORDS = "modernbert/embeddings/word_embeddings"
_LAYER = (
    ("attention_norm", "attn_norm", names.NORM),
    ("attention/query_key_value", "attn/Wqkv", names.DENSE),
    ("attention/output", "attn/Wo", names.DENSE),
    ("ffn_norm", "mlp_norm", names.NORM),
    ("ffn_in", "mlp/Wi", names.DENSE),
    ("ffn_out", "mlp/Wo", names.DENSE),
)
_BIAS = names.Name("masked_lm/bias", "decoder/bias", "decoder.bias")


def _rows(variables, path, name, prefix=""):
    google = f"{prefix and 'modernbert/'}{name}"
    return names.rows(variables, path, google, prefix + name.replace("/", "."))


class _ModernBert(spec.NetworkSpec):
    def input_rows(self):
        ours, theirs = "modernbert/embeddings", "embeddings/norm"
        return [
            names.Name(
                _WORDS,
                f"{ours}/tok_embeddings",
                "model.embeddings.tok_embeddings.weight",
            ),
            *_rows(names.NORM, f"{ours}/layer_norm", theirs, "model."),
            *_rows(names.NORM, "modernbert/final_norm", "final_norm", "model."),
        ]

    def layer_rows(self, number):
        ours, theirs = f"modernbert/block_{number}", f"layers/{number}"
        rows = (
            _rows(variables, f"{ours}/{path}", f"{theirs}/{name}", "model.")
            for path, name, variables in _LAYER
        )
        return [row for each in rows for row in each]

    def rows(self, config):
        """The rows of what the config has."""
        absent = ["/block_0/attention_norm/"]
        absent += [] if config.norm_bias else ["/beta"]
        absent += (
            [] if config.attention_bias else ["/query_key_value/bias", "/output/bias"]
        )
        absent += [] if config.mlp_bias else ["/ffn_in/bias", "/ffn_out/bias"]
        rows = super().rows(config)
        return [row for row in rows if not any(part in row.path for part in absent)]

    def head_rows(self, config):
        """The rows of the heads, which share the names of their first layers."""
        rows = [row for row in super().head_rows(config) if "span/" not in row.path]
        rows += names.rows(names.PROJECTION, "span/logits", "cls/squad/", "classifier")
        for head in ("masked_lm", "classifier", "tagger", "span"):
            dense = _rows(names.DENSE, f"{head}/dense", "head/dense")
            norm = _rows(names.NORM, f"{head}/norm", "head/norm")
            rows += dense if config.classifier_bias else dense[:1]
            rows += norm if config.norm_bias else norm[:1]
        bias = _BIAS
        if not config.decoder_bias and self._predicts_words(config):
            # By this a head without a bias is known.
            bias = dataclasses.replace(norm[0], path=bias.path)
        rows.append(bias)
        if not config.tie_word_embeddings:
            table = "masked_lm/table", "decoder/table", "decoder.weight"
            rows.append(names.Name(*table))
        return rows

    def _predicts_words(self, config):
        return "ForMaskedLM" in str(config.extra.get("architectures"))

    def ties(self):
        """The table of the head of words."""
        words = "model.embeddings.tok_embeddings.weight"
        return spec.Ties({"decoder.weight": words}, _BIAS.path)


NETWORK = _ModernBert(
    kind="ModernBERT",
    config=config_lib.ModernBertConfig,
    layers=network.ModernBertEncoder,
    model_types=("modernbert",),
    classes={"modernbert": "ModernBert"},
    heads=spec.TASKS | {"pretraining"},
    objectives=("masked_lm",),
    sizes={"vocab_size": (_WORDS, 0), "hidden_size": (_WORDS, 1)},
    inputs=("modernbert/embeddings/",),
    above=("modernbert/final_norm/",),
    prefix="model",
    bare=("embeddings.", "layers.", "final_norm."),
    token_head=network.ModernBertMaskedLMHead,
    task_heads={
        "classifier": network.ModernBertTaskHead,
        "tagger": network.ModernBertTaskHead,
        "span": network.ModernBertSpanHead,
    },
    attention_weights=network.attention_weights,
    packs_rows=True,
    text_vectors="untrained",
    onnx=onnx.Writer,
    weighs_words=True,
)
