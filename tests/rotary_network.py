"""A network that the project does not have, all of it in one file, and its record.

Positions are rotations of queries and keys (Su et al., 2021, arXiv:2104.09864), and the
parts of a block read one norm of its input and are added to it side by side, as in
GPT-J. `listed` enters it in the list of networks.
"""

import contextlib
import dataclasses
from typing import ClassVar
from unittest import mock

import keras
import numpy as np
from keras import ops

from modeling import activations, bert, dropout_sites, kernels
from modeling.checkpoints import names
from modeling.configs import keras_configs
from modeling.features import attention_maps
from modeling.networks import bert_family, bert_names, catalogue, spec

_BASE = 100.0  # of the angles


@dataclasses.dataclass(frozen=True, kw_only=True)
class RotaryConfig(bert_family.RelativeConfig):
    """As transformers would write it, under names of its own."""

    model_type: str = "rotary"
    hidden_act: str = "relu"
    type_vocab_size: ClassVar[int] = 0
    network: ClassVar[str] = "rotary"
    kind: ClassVar[str] = "Rotary"

    @property
    def table_rows(self):
        """Rows of its one table."""
        return {"word_embeddings": self.vocab_size}

    @classmethod
    def keys(cls):
        ours = {"width": "hidden_size", "depth": "num_hidden_layers"}
        return super().keys() | ours  # of two keys the last is written


class RotaryEmbeddings(bert.Embeddings):
    """The vectors of words, and a norm."""

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        words = ops.take(self.word_embeddings, kernels.as_integers(input_ids), axis=0)
        rate, site = self.config.hidden_dropout_prob, dropout_sites.EMBEDDINGS
        return kernels.dropout(self.norm(words), rate, seed, site)


def rotated(x, position_ids):
    """Pairs of numbers of x [B, N, S, K] turned by angles that grow with positions."""
    half = x.shape[-1] // 2
    speeds = _BASE ** (-np.arange(half, dtype=np.float32) / half)
    angles = ops.cast(position_ids, "float32")[:, None, :, None] * speeds
    a, b = x[..., :half], x[..., half:]
    cos, sin = (ops.cast(f(angles), x.dtype) for f in (ops.cos, ops.sin))
    return ops.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class RotaryAttention(bert.SelfAttention):
    """Attention by directions that depend on how far two tokens are apart."""

    def call(self, hidden, bias, queries=None, places=None, of_queries=None, seed=None):
        self.places = places, of_queries  # for `project`, within this call
        try:
            return super().call(hidden, bias, queries, seed=seed)
        finally:
            self.places = None, None

    places = None, None

    def project(self, hidden, queries):
        """Query [B, N, S, K], and key and value [B, N, T, K]."""
        query, key, value = super().project(hidden, queries)
        places, of_queries = self.places
        if places is None:
            places = ops.arange(ops.shape(hidden)[1])[None]
        of_queries = places if of_queries is None else of_queries
        return rotated(query, of_queries), rotated(key, places), value


class RotaryBlock(keras_configs.Configured, keras.layers.Layer):
    """hidden + attention(norm(hidden)) + feed_forward(norm(hidden)).

    Call shapes: as bert.EncoderBlock; position_ids [B, T] int, or None for 0, 1, ...
    """

    arguments = ("config", "index")
    call_traced = None

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config, self.index = config, index
        self.site, dtype = dropout_sites.first_of_block(index), self.given_dtype
        self.norm = bert.layer_norm(config, "norm", dtype)
        self.attention = RotaryAttention(
            config, self.site, name="attention", dtype=dtype
        )
        self.ffn_in = bert.dense(config, config.intermediate_size, "ffn_in", dtype)
        self.ffn_out = bert.dense(config, config.hidden_size, "ffn_out", dtype)

    def build(self, shape, *_):
        for layer in (self.norm, self.attention, self.ffn_in):
            layer.build(shape)
        self.ffn_out.build((*shape[:-1], self.config.intermediate_size))

    def call(self, hidden, bias, positions=None, position_ids=None, seed=None):
        rate, normed = self.config.hidden_dropout_prob, self.norm(hidden)
        queries = normed
        if positions is not None:
            hidden, queries = (
                kernels.take_rows(x, positions) for x in (hidden, normed)
            )
        read = self.attention(normed, bias, queries, position_ids, positions, seed=seed)
        inner = activations.activate(
            self.config.hidden_act, self.ffn_in(queries), training=seed is not None
        )
        added = read + self.ffn_out(inner)
        return hidden + kernels.dropout(added, rate, seed, self.site + 1)


class RotaryNetwork(bert.Network):
    """Embeddings, blocks, and a norm of the last one's output."""

    embeddings_kind = RotaryEmbeddings
    block_kind = RotaryBlock
    traces_once = False

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.final_norm = bert.layer_norm(config, "final_norm", self.given_dtype)

    def build(self, shape, *_):
        super().build(shape)
        self.final_norm.build((*shape, self.config.hidden_size))

    def walk(self, hidden, mask, position_ids, seed):
        """As bert.Network's; attention needs the positions as well."""
        bias, outputs = kernels.attention_bias(self.visible(mask)), []
        for block in self.blocks[:-1]:
            hidden = self.run(block, (hidden,), bias, None, position_ids, seed=seed)
            outputs.append(hidden)
        return outputs

    def finish(self, hidden, *, training):
        return self.final_norm(hidden)


def _weights(block, hidden, bias):
    return attention_maps.of_attention(block.attention, block.norm(hidden), bias)


_LAYER = (
    ("norm", "norm", names.NORM),
    ("attention/query", "attn/wq", names.DENSE),
    ("attention/key", "attn/wk", names.DENSE),
    ("attention/value", "attn/wv", names.DENSE),
    ("attention/output", "attn/wo", names.DENSE),
    ("ffn_in", "mlp/up", names.DENSE),
    ("ffn_out", "mlp/down", names.DENSE),
)
_WORDS = "rotary/embeddings/word_embeddings"


class _Spec(spec.NetworkSpec):
    def input_rows(self):
        return [
            names.Name(_WORDS, "rotary/words", "rotary.words.weight"),
            *names.rows(
                names.NORM, "rotary/embeddings/layer_norm", "rotary/in", "rotary.in"
            ),
            *names.rows(names.NORM, "rotary/final_norm", "rotary/out", "rotary.out"),
        ]

    def layer_rows(self, number):
        parts = (
            (f"rotary/block_{number}/{path}", f"rotary/{number}/{name}", variables)
            for path, name, variables in _LAYER
        )
        layers = (
            names.rows(variables, path, name, name.replace("/", "."))
            for path, name, variables in parts
        )
        return [row for rows in layers for row in rows]

    def head_rows(self, config):
        return [*super().head_rows(config), *bert_names.masked_lm_rows(config)]


NETWORK = _Spec(
    kind="Rotary",
    config=RotaryConfig,
    layers=RotaryNetwork,
    model_types=("rotary",),
    classes={"rotary": "Rotary"},
    heads=spec.TASKS | {"pretraining"},
    objectives=("masked_lm",),
    sizes={
        "vocab_size": (_WORDS, 0),
        "hidden_size": (_WORDS, 1),
        "intermediate_size": ("rotary/block_0/ffn_in/bias", 0),
    },
    inputs=("rotary/embeddings/",),
    above=("rotary/final_norm/",),
    prefix="rotary",
    token_head=bert.MaskedLMHead,
    attention_weights=_weights,
    packs_rows=True,
)


@contextlib.contextmanager
def listed(**changes):
    """The list of networks with this one, whose record has `changes`."""
    network = dataclasses.replace(NETWORK, **changes)
    others = (each for each in catalogue.NETWORKS if each.kind != network.kind)
    networks = *others, network
    with mock.patch.object(catalogue, "NETWORKS", networks):
        yield network
