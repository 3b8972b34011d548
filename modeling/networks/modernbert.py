"""ModernBERT (Warner et al., 2024, arXiv:2412.13663)."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from contract import errors
from modeling import activations, bert, dropout_sites, kernels, kernels_tf, rotary
from modeling.checkpoints import names
from modeling.configs import config as config_lib
from modeling.configs import keras_configs
from modeling.networks import bert_family, modernbert_onnx, spec

# Transformers' names of a layer that attends to all tokens, and to those near by.
_GLOBAL, _LOCAL = _LAYER_TYPES = "full_attention", "sliding_attention"
_BASES = {_GLOBAL: "global_rope_theta", _LOCAL: "local_rope_theta"}
_FEWEST_QUERIES = 32  # of a block of local attention, so that products are not tiny
_WORDS = "modernbert/embeddings/word_embeddings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModernBertConfig(bert_family.RelativeConfig):
    """ModernBERT; the defaults are those of Hugging Face, of its base model."""

    model_type: str = "modernbert"
    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_act: str = "gelu_erf"
    classifier_act: str = "gelu_erf"  # of the dense layer below all heads
    attention_probs_dropout_prob: float = 0.0  # of the output of attention, too
    embedding_dropout: float = 0.0
    mlp_dropout: float = 0.0
    classifier_dropout: float = 0.0
    max_position_embeddings: int = 8192
    layer_norm_epsilon: float = 1e-5
    local_attention: int = 128  # tokens that a local layer sees, half on either side
    global_attn_every_n_layers: int = 3
    layer_types: Sequence[str] = ()  # where it does not follow from the number before
    global_rope_theta: float = 160000.0
    local_rope_theta: float = 10000.0
    classifier_pooling: str = "cls"
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False  # type: ignore[misc]
    classifier_bias: bool = False
    decoder_bias: bool = True
    hidden_dropout_prob: ClassVar[float] = 0.0  # type: ignore[misc]
    type_vocab_size: ClassVar[int] = 0  # type: ignore[misc]
    network: ClassVar[str] = "modernbert"
    kind: ClassVar[str] = "ModernBERT"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        "add_cross_attention": (False, None),
        "is_decoder": (False, None),
        "is_causal": (False, None),
        "causal_mask": (False, None),
        "rope_scaling": (None,),
        "rope_theta": (None,),
        "partial_rotary_factor": (None, 1.0),
        "head_dim": (None,),
        "initializer_cutoff_factor": (2.0,),
    }
    tolerated: ClassVar[frozenset[str]] = config_lib.NetworkConfig.tolerated | {
        "cls_token_id",
        "compiled_mlp",
        "deterministic_flash_attn",
        "layer_norm_eps",  # of earlier versions, beside norm_eps
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_types", tuple(self.layer_types))  # of a list
        super().__post_init__()
        config_lib.check_choice(
            "classifier_pooling", self.classifier_pooling, ("cls", "mean")
        )
        types, count = self.layer_types, self.num_hidden_layers
        if types and (len(types) != count or not {*types} <= {*_LAYER_TYPES}):
            raise errors.InputError(
                f"layer_types={[*types]} does not name {' or '.join(_LAYER_TYPES)} for "
                f"each of num_hidden_layers={count}; correct the config"
            )
        if self.hidden_size // self.num_attention_heads % 2:
            raise errors.InputError(
                f"hidden_size={self.hidden_size} is an odd number for each of "
                f"num_attention_heads={self.num_attention_heads}, and pairs of numbers "
                "are rotated; correct the config"
            )

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of its one table."""
        return {"word_embeddings": self.vocab_size}

    @property
    def head_act(self) -> str:
        """The activation of the masked-LM head."""
        return self.classifier_act

    @property
    def reach(self) -> int:
        """How far a token sees to either side in a local layer."""
        return self.local_attention // 2

    def types_of_layers(self, every: int | None = None) -> tuple[str, ...]:
        """Of each layer its type; `every` replaces global_attn_every_n_layers."""
        if self.layer_types and every is None:
            return tuple(self.layer_types)
        every = every or self.global_attn_every_n_layers
        layers = range(self.num_hidden_layers)
        return tuple(_LAYER_TYPES[i % every > 0] for i in layers)

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of ModernBERT's config.json."""
        keys = {ours: ours for ours in super().keys().values()}
        renamed = {
            "hidden_activation": "hidden_act",
            "classifier_activation": "classifier_act",
            "attention_dropout": "attention_probs_dropout_prob",
            "norm_eps": "layer_norm_epsilon",
        }
        for field in (*renamed.values(), "model_type"):
            del keys[field]
        return {**keys, **renamed}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "ModernBertConfig":
        """Builds a config from Hugging Face's keys, also of transformers 5.

        Raises:
            ValueError: as in RelativeConfig, or angles grow in another way.
        """
        raw, key = dict(raw), "classifier_activation"
        known = config_lib.HUGGING_FACE_ACTIVATIONS
        raw[key] = config_lib.read_activation(key, raw.get(key, "gelu"), known)
        rotations = raw.pop("rope_parameters", None) or {}
        for name, values in rotations.items():
            is_known = isinstance(values, dict) and name in _BASES
            given = dict(values) if is_known else {}
            base = given.pop("rope_theta", getattr(cls, _BASES.get(name, ""), None))
            if given != {"rope_type": "default"}:
                raise errors.InputError(
                    f"rope_parameters={rotations!r}, and only rope_theta of "
                    f"{' and '.join(_LAYER_TYPES)} with rope_type 'default' is "
                    "supported; give a model of this network"
                )
            raw[_BASES[name]] = base
        types = raw.pop("layer_types", None)
        config: ModernBertConfig = super().from_dict(raw)
        if types is None:
            return config
        config = dataclasses.replace(config, layer_types=types)
        usual = config.global_attn_every_n_layers
        for every in (usual, *range(1, config.num_hidden_layers + 1)):
            if config.types_of_layers(every) == config.layer_types:
                changes = {"global_attn_every_n_layers": every, "layer_types": ()}
                return dataclasses.replace(config, **changes)
        return config

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json, for transformers 4 and 5."""
        raw, known = super().to_dict(), config_lib.HUGGING_FACE_ACTIVATIONS
        key = "classifier_activation"
        raw[key] = config_lib.name_activation(self.classifier_act, known)
        raw["layer_types"] = [*self.types_of_layers()]
        raw["rope_parameters"] = {
            name: {"rope_type": "default", "rope_theta": raw[base]}
            for name, base in _BASES.items()
        }
        return raw

    def num_weights(self) -> int:
        """Numbers in all variables of the network, but for biases and norms."""
        layer = 4 * self.hidden_size + 3 * self.intermediate_size
        rows = self.vocab_size + self.num_hidden_layers * layer
        return rows * self.hidden_size


class _Windows:
    """Blocks of C queries, and of each the T = C + 2 R keys that these may see.

    A sequence that is hardly longer than three blocks is one block, with R = 0: the
    products of blocks would not be smaller. Sizes are tensors where lengths are.
    """

    def __init__(self, length, reach):
        size = max(reach, _FEWEST_QUERIES)
        is_long = length > 3 * size
        if isinstance(length, int):
            self.size, self.reach = (size, reach) if is_long else (max(length, 1), 0)
        else:
            self.size = tf.where(is_long, size, tf.maximum(length, 1))
            self.reach = tf.where(is_long, reach, 0)
        self.length, self.count = length, (length + self.size - 1) // self.size

    def cut(self, x):
        """Values [B, S, ...] as blocks [B, blocks, C, ...], padded by zeros."""
        missing = self.count * self.size - self.length
        if not isinstance(missing, int) or missing:
            x = tf.pad(x, [[0, 0], [0, missing], *[[0, 0]] * (len(x.shape) - 2)])
        return ops.reshape(x, (-1, self.count, self.size, *x.shape[2:]))

    def with_neighbours(self, x):
        """Keys or values [B * blocks, N, C, K] as [B * blocks, N, T, K]."""
        if isinstance(self.reach, int) and not self.reach:
            return x
        _, heads, _, width = x.shape
        x = ops.reshape(x, (-1, self.count, heads, self.size, width))
        none = [0, 0]
        left = tf.pad(
            x[:, :-1, :, self.size - self.reach :], [none, [1, 0], none, none, none]
        )
        right = tf.pad(x[:, 1:, :, : self.reach], [none, [0, 1], none, none, none])
        whole = ops.concatenate([left, x, right], axis=3)
        return ops.reshape(whole, (-1, heads, self.size + 2 * self.reach, width))

    def join(self, x):
        """Blocks of rows [B * blocks, C, D] as [B, S, D]."""
        x = ops.reshape(x, (-1, self.count * self.size, x.shape[-1]))
        return x[:, : self.length]

    def bias(self, mask, reach):
        """As kernels.attention_bias of the keys of each block: [B * blocks, 1, C, T].

        `mask` is int [B, S] or [B, S, S]; keys further away than `reach` are hidden.
        """
        blocks = self.size * ops.arange(self.count)[:, None]  # their first queries
        queries = blocks + ops.arange(self.size)
        keys = blocks + ops.arange(self.size + 2 * self.reach) - self.reach
        last = self.length - 1
        is_there = ops.logical_and(keys >= 0, keys <= last)
        distances = ops.expand_dims(queries, 2) - ops.expand_dims(keys, 1)
        is_near = ops.logical_and(
            ops.abs(distances) <= reach, ops.expand_dims(is_there, 1)
        )  # [blocks, C, T]
        keys = ops.clip(keys, 0, last)
        if len(mask.shape) == 2:
            seen = ops.expand_dims(ops.take(mask, keys, axis=1), 2)
        else:
            rows = ops.take(mask, ops.minimum(queries, last), axis=1)
            rows = ops.transpose(rows, (1, 0, 2, 3))  # [blocks, B, C, S]
            seen = tf.gather(rows, keys, axis=3, batch_dims=1)
            seen = ops.transpose(seen, (1, 0, 2, 3))
        seen = ops.where(is_near, seen, 0)  # [B, blocks, C, T]
        return kernels.attention_bias(ops.reshape(seen, (-1, *ops.shape(seen)[2:])))


class View(NamedTuple):
    """What blocks of one kind see: attention_bias, and the rotation of positions."""

    bias: Any
    rotation: rotary.Rotation


def _dense(config, units, name, dtype, *, use_bias, is_output=False):
    """A Dense; what is added to a sum begins smaller, by the number of sums."""
    scale = math.sqrt(2 * config.num_hidden_layers) if is_output else 1
    init = keras.initializers.TruncatedNormal(stddev=config.initializer_range / scale)
    return Dense(
        units, use_bias=use_bias, kernel_initializer=init, name=name, dtype=dtype
    )


@keras_configs.register
class Dense(bert.Dense):
    """A bert.Dense of which some columns, a slice, may be computed alone."""

    def call(self, inputs, columns=None, training=False):
        kernel, bias = self.kernel, self.bias
        if columns is not None:
            kernel = kernel[:, columns]
            bias = bias if bias is None else bias[columns]
        return bert.affine(inputs, kernel, bias, training)


class Embeddings(bert.Embeddings):
    """The vectors of words, normed."""

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        words = ops.take(self.word_embeddings, kernels.as_integers(input_ids), axis=0)
        words = kernels.norm(self.norm, words, training=seed is not None)
        rate, site = self.config.embedding_dropout, dropout_sites.EMBEDDINGS
        return ops.cast(kernels.dropout(words, rate, seed, site), "float32")


class Attention(keras_configs.Configured, keras.layers.Layer):
    """Attention to all tokens, or to those that a window reaches.

    Call shapes: hidden [B, T, D], a View, positions int [B, S], or None for all -> [B,
    S, D], at the positions.
    """

    arguments = ("config", "site", "is_local")
    parts = ("query_key_value", "output_projection")

    def __init__(self, config, site, is_local, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the bias stays float32
        self.config, self.site, self.is_local = config, site, is_local
        width, dtype, use_bias = (
            config.hidden_size,
            self.given_dtype,
            config.attention_bias,
        )
        self.query_key_value = _dense(
            config, 3 * width, "query_key_value", dtype, use_bias=use_bias
        )
        self.output_projection = _dense(
            config, width, "output", dtype, use_bias=use_bias, is_output=True
        )

    def _split(self, x):
        """[B, T, C * D] -> [C, B, N, T, K]."""
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        count, size = x.shape[-1] // width, width // heads
        shape = *kernels.shape_for_reshape(x)[:2], count, heads, size
        return ops.transpose(ops.reshape(x, shape), (2, 0, 3, 1, 4))

    def project(self, hidden, rotation, queries=None, of_queries=None):
        """Query [B, N, S, K], turned, key [B, N, T, K], turned, and value."""
        if queries is None:
            parts = self._split(self.query_key_value(hidden))
            query, key = ops.unstack(rotary.rotate(parts[:2], rotation), 2)
            return query, key, parts[2]
        width = self.config.hidden_size
        (query,) = ops.unstack(
            self._split(self.query_key_value(queries, columns=slice(width))), 1
        )
        others = self.query_key_value(hidden, columns=slice(width, None))
        key, value = ops.unstack(self._split(others), 2)
        return rotary.rotate(query, of_queries), rotary.rotate(key, rotation), value

    def call(self, hidden, view, positions=None, seed=None):
        if self.is_local:
            mixed = self._attend_near(hidden, view, seed)
            mixed = mixed if positions is None else kernels.take_rows(mixed, positions)
        else:
            turned = ()
            if positions is not None:
                queries = kernels.take_rows(hidden, positions)
                turned = queries, view.rotation.take(positions)
            parts = self.project(hidden, view.rotation, *turned)
            mixed = self._attend(*parts, view.bias, seed)
        return self.output_projection(mixed)

    def _attend(self, query, key, value, bias, seed):
        """[B, N, S, K] and so on -> [B, S, D]."""
        mixed = kernels.attend(
            query,
            key,
            value,
            bias,
            scale=query.shape[-1] ** -0.5,
            rate=self.config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
        )
        mixed = ops.transpose(mixed, (0, 2, 1, 3))  # [B, S, N, K]
        shape = kernels.shape_for_reshape(mixed)[:2]
        return ops.reshape(mixed, (*shape, self.config.hidden_size))

    def _attend_near(self, hidden, view, seed):
        windows = _Windows(ops.shape(hidden)[1], self.config.reach)
        rows = ops.reshape(windows.cut(hidden), (-1, windows.size, hidden.shape[-1]))
        parts = self._split(self.query_key_value(rows))
        heads, width = parts.shape[2], parts.shape[-1]
        # The rotation is [blocks, 1, C, K].
        shape = 2, -1, windows.count, heads, windows.size, width
        turned = rotary.rotate(ops.reshape(parts[:2], shape), view.rotation)
        turned = ops.reshape(turned, (2, -1, heads, windows.size, width))
        query, key = ops.unstack(turned, 2)
        key, value = map(windows.with_neighbours, (key, parts[2]))
        return windows.join(self._attend(query, key, value, view.bias, seed))


class Block(keras_configs.Configured, keras.layers.Layer):
    """x + attention(norm(x)), and to that its gated feed-forward, in float32.

    The first block has no norm before its attention, for the embeddings have one.

    Call shapes: as Attention, hidden float32 -> float32.
    """

    arguments = ("config", "index")
    call_traced: Any = None  # kernels_tf.trace_once of the network's blocks

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config, self.index = config, index
        self.site, dtype = dropout_sites.first_of_block(index), self.given_dtype
        self.is_local = config.types_of_layers()[index] == _LOCAL
        self.attention = Attention(
            config, self.site, self.is_local, name="attention", dtype=dtype
        )
        self.attention_norm = (
            bert.layer_norm(config, "attention_norm", dtype) if index else None
        )
        width, inner, use_bias = (
            config.hidden_size,
            config.intermediate_size,
            config.mlp_bias,
        )
        self.ffn_norm = bert.layer_norm(config, "ffn_norm", dtype)
        self.ffn_in = _dense(config, 2 * inner, "ffn_in", dtype, use_bias=use_bias)
        self.ffn_out = _dense(
            config, width, "ffn_out", dtype, use_bias=use_bias, is_output=True
        )

    def __call__(self, *inputs, seed=None):
        if self.call_traced is None or seed is None:
            return super().__call__(*inputs, seed=seed)
        return self.call_traced(self, *inputs, seed=seed)

    @property
    def kind(self):
        """Blocks of one kind have variables and computations of one form."""
        return self.is_local, self.index > 0

    def build(self, shape, *_):
        for layer in (self.attention_norm, self.attention, self.ffn_norm, self.ffn_in):
            if layer:
                layer.build(shape)
        self.ffn_out.build((*shape[:-1], self.config.intermediate_size))

    def attention_input(self, hidden, *, training):
        """What attention reads of the input of the block."""
        if self.attention_norm is None:
            return ops.cast(hidden, self.compute_dtype)
        return kernels.norm(self.attention_norm, hidden, training=training)

    def call(self, hidden, view, positions=None, seed=None):
        config, site = self.config, self.site
        x = self.attention_input(hidden, training=seed is not None)
        x = self.attention(x, view, positions, seed=seed)
        if positions is not None:
            hidden = kernels.take_rows(hidden, positions)
        rate = config.attention_probs_dropout_prob
        hidden, x = kernels.sum_and_norm(self.ffn_norm, hidden, x, rate, seed, site + 1)
        shape = kernels.shape_for_reshape(x)
        x = self._feed_forward(ops.reshape(x, (-1, config.hidden_size)), seed)
        return kernels.residual_sum(hidden, ops.reshape(x, shape), 0.0, seed, site)

    def _feed_forward(self, x, seed):
        config, inner = self.config, self.config.intermediate_size
        halves = slice(inner), slice(inner, None)
        parts = [self.ffn_in(x, columns=half) for half in halves]
        if seed is None and not config.mlp_bias:
            # TensorFlow computes the activation within a product that has a bias.
            parts[0] = parts[0] + ops.zeros(inner, parts[0].dtype)
        rate, site = config.mlp_dropout, self.site + 2
        return self.ffn_out(
            activations.gate(config.hidden_act, *parts, rate, seed, site)
        )


class ModernBertEncoder(bert.Network):
    """Embeddings, blocks, and a norm; pooled_output is without a pooler."""

    embeddings_kind = Embeddings
    block_kind = Block
    traces_once = False  # as one kind

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.final_norm = bert.layer_norm(config, "final_norm", self.given_dtype)
        if config.classifier_pooling == "mean":
            self.text_place = "mean"

    def make_blocks(self, count):
        """So many blocks; those of a kind are traced once."""
        blocks = super().make_blocks(count)
        for kind in {block.kind for block in blocks}:
            alike = [block for block in blocks if block.kind == kind]
            if len(alike) > 1:
                call_traced = kernels_tf.trace_once(alike[0])
                for block in alike:
                    block.call_traced = call_traced
        return blocks

    def build(self, shape, *_):
        super().build(shape)
        self.final_norm.build((*shape, self.config.hidden_size))

    def walk(self, hidden, mask, position_ids, seed):
        """As bert.Network's; local and global blocks have Views of their own."""
        views, outputs = self.bias(mask, position_ids=position_ids), []
        for block in self.blocks[:-1]:
            hidden = self.run(block, (hidden,), views, None, seed=seed)
            outputs.append(hidden)
        return outputs

    def bias(self, mask, positions=None, position_ids=None):
        """The View of global blocks, and that of local ones."""
        config, length = self.config, ops.shape(mask)[-1]
        width = config.hidden_size // config.num_attention_heads
        places = ops.arange(length)[None] if position_ids is None else position_ids
        windows, rotation = _Windows(length, config.reach), rotary.Rotation.of
        near = rotation(windows.cut(places), width, config.local_rope_theta)
        if position_ids is None:
            places = places[0]
        whole = rotation(places, width, config.global_rope_theta)
        return (
            View(super().bias(mask, positions), whole),
            View(windows.bias(mask, config.reach), near),
        )

    def run(self, block, hidden, views, positions, *, seed):
        return super().run(block, hidden, views[block.is_local], positions, seed=seed)

    def finish(self, hidden, *, training):
        """The final norm."""
        return kernels.norm(self.final_norm, hidden, training=training)


class _Prediction(keras_configs.Configured, keras.layers.Layer):
    """ModernBertPredictionHead: a dense layer, its activation and a norm."""

    parts: tuple[str, ...] = ("dense", "norm")

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config, dtype = config, self.only_dtype or self.given_dtype
        self.dense = _dense(
            config,
            config.hidden_size,
            "dense",
            dtype,
            use_bias=config.classifier_bias,
            is_output=True,
        )
        self.norm = bert.layer_norm(config, "norm", dtype)

    def transform(self, hidden, *, training):
        """[..., D] -> [..., D]."""
        hidden = self.dense(hidden, training=training)
        hidden = bert.activate(self.config.head_act, hidden, training=training)
        return kernels.norm(self.norm, hidden, training=training)


class TaskHead(_Prediction):
    """Logits of a classifier, of tags, or of choices.

    Call shapes: [B, D] -> [B, C], or [B, S, D] -> [B, S, C], float32.
    """

    arguments = ("config", "num_classes")
    parts = ("dense", "norm", "logits")
    only_dtype = "float32"

    def __init__(self, config, num_classes, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        stddev = config.hidden_size**-0.5
        self.logits = bert.OutputProjection(num_classes, stddev, name="logits")

    def call(self, hidden, seed=None, is_shared=False):
        hidden = self.transform(hidden, training=seed is not None)
        rate, site = self.config.classifier_dropout, dropout_sites.HEAD
        return self.logits(kernels.dropout(hidden, rate, seed, site))


class SpanHead(TaskHead):
    """Start and end logits of an answer: [B, S, D] -> [B, S] float32 each."""

    def call(self, hidden, seed=None):
        logits = super().call(hidden, seed)
        return logits[..., 0], logits[..., 1]


class MaskedLMHead(_Prediction):
    """Predicts hidden tokens; call shapes are as of bert.MaskedLMHead."""

    def build(self, shape, *_):
        super().build(shape)
        config, self.bias = self.config, None
        rows, width = config.vocab_size, config.hidden_size
        if config.decoder_bias:
            self.bias = self.add_weight((rows,), "zeros", name="bias", autocast=False)
        if not config.tie_word_embeddings:
            init = bert.weight_init(config)
            self.table = self.add_weight((rows, width), init, name="table")

    def call(self, masked, word_embeddings, training=False):
        hidden = self.transform(masked, training=training)
        is_tied = self.config.tie_word_embeddings
        table = ops.transpose(word_embeddings if is_tied else self.table)
        logits = bert.affine(hidden, ops.cast(table, hidden.dtype))  # [B, P, V]
        logits = ops.cast(logits, "float32")
        return logits if self.bias is None else logits + self.bias


def _weights(block, hidden, views):
    """As attention_maps.of_block; local blocks have zeros outside of their windows."""
    config, bias = block.config, views[0].bias
    places = ops.arange(ops.shape(hidden)[1])
    base = config.local_rope_theta if block.is_local else config.global_rope_theta
    width = config.hidden_size // config.num_attention_heads
    rotation = rotary.Rotation.of(places, width, base)
    hidden = block.attention_input(hidden, training=False)
    query, key, _ = block.attention.project(hidden, rotation)
    scores = ops.cast(ops.einsum("bnsk,bntk->bnst", query, key), "float32")
    if block.is_local:
        is_near = ops.abs(places[:, None] - places) <= config.reach
        bias = ops.where(is_near, bias, kernels.MASK_BIAS)
    return ops.softmax(scores / width**0.5 + bias)


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
    config=ModernBertConfig,
    layers=ModernBertEncoder,
    model_types=("modernbert",),
    classes={"modernbert": "ModernBert"},
    heads=spec.TASKS | {"pretraining"},
    objectives=("masked_lm",),
    sizes={"vocab_size": (_WORDS, 0), "hidden_size": (_WORDS, 1)},
    inputs=("modernbert/embeddings/",),
    above=("modernbert/final_norm/",),
    prefix="model",
    bare=("embeddings.", "layers.", "final_norm."),
    token_head=MaskedLMHead,
    task_heads={"classifier": TaskHead, "tagger": TaskHead, "span": SpanHead},
    attention_weights=_weights,
    packs_rows=True,
    text_vectors="untrained",
    onnx=modernbert_onnx.Writer,
    weighs_words=True,
)
