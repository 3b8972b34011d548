"""DeBERTa-v2 and v3 (He et al., 2021, arXiv:2006.03654 and 2111.09543), mDeBERTa.

A score of attention is of content to content, of a query to the position of the key
relative to it, and of a key to that of the query (section 3.1 there, equation 4).
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from contract import errors
from modeling import bert, dropout_sites, kernels
from modeling.checkpoints import names
from modeling.configs import config as config_lib
from modeling.configs import keras_configs
from modeling.networks import bert_family, bert_names, spec

_TERMS = "c2p", "p2c"  # content to position, and position to content
_NORMS = "none", "layer_norm"
_UNLIMITED = "max_relative_positions", "position_buckets"  # -1 in a file, 0 here


@dataclasses.dataclass(frozen=True, kw_only=True)
class DebertaConfig(bert_family.RelativeConfig):
    """The sizes of a DeBERTa-v2 or v3, with the defaults of Hugging Face.

    Of `pos_att_type` the terms stand in one order, with | between. The numbers of
    `_UNLIMITED` are 0 for none; `embedding_size` 0 becomes `hidden_size`.
    """

    model_type: str = "deberta-v2"
    vocab_size: int = 128100
    embedding_size: int = 0  # E
    hidden_size: int = 1536
    num_hidden_layers: int = 24
    num_attention_heads: int = 24
    intermediate_size: int = 6144
    hidden_act: str = "gelu_erf"
    type_vocab_size: int = 0
    layer_norm_epsilon: float = 1e-7
    relative_attention: bool = False
    pos_att_type: str = ""
    max_relative_positions: int = 0
    position_buckets: int = 0
    share_att_key: bool = False
    norm_rel_ebd: str = "none"
    position_biased_input: bool = True
    conv_kernel_size: int = 0
    conv_act: str = "tanh"
    pooler_dropout: float = 0.0
    pooler_hidden_act: str = "gelu_erf"
    cls_dropout: float | None = None  # of a classifier; None for hidden_dropout_prob
    legacy: bool = True  # whether the head of masked words is as wide as the table
    may_be_0 = (*_UNLIMITED, "embedding_size", "type_vocab_size", "conv_kernel_size")
    kind: ClassVar[str] = "DeBERTa"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **bert_family.RelativeConfig.required,
        "conv_groups": (1,),
        "talking_head": (False, None),
        "z_steps": (0, None),
    }

    def __post_init__(self) -> None:
        if not self.embedding_size:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        super().__post_init__()
        config_lib.check_choice("norm_rel_ebd", self.norm_rel_ebd, _NORMS)
        for key in ("conv_act", "pooler_hidden_act"):
            config_lib.check_choice(key, getattr(self, key), self.activations)
        if self.cls_dropout is not None:
            config_lib.check_value("cls_dropout", float, self.cls_dropout)
        buckets, farthest = self.position_buckets, self.farthest
        if buckets and not 1 < buckets < 2 * (farthest - 1):
            raise errors.InputError(
                f"position_buckets={buckets} is 1, or not below twice the "
                f"{farthest - 1} distances of max_relative_positions; correct the "
                "config"
            )
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise errors.InputError(
                f"conv_kernel_size={self.conv_kernel_size} is even, so that a text "
                "would get shorter; correct the config"
            )
        if not self.legacy and (self.has_projection or not self.tie_word_embeddings):
            raise errors.InputError(
                f"legacy=False with embedding_size={self.embedding_size}, hidden_size="
                f"{self.hidden_size} and tie_word_embeddings="
                f"{self.tie_word_embeddings}: this head of masked words reads the "
                "table as it is; set legacy to true"
            )

    @property
    def has_projection(self) -> bool:  # type: ignore[override]
        """Whether embeddings [E] become inputs of blocks [D] by a linear map."""
        return self.embedding_size != self.hidden_size

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of each table of embeddings that it has."""
        rows = super().table_rows
        if not self.type_vocab_size:
            del rows["token_type_embeddings"]
        if not self.position_biased_input:
            del rows["position_embeddings"]
        return rows

    @property
    def terms(self) -> list[str]:
        """The terms of a score beside that of content to content."""
        return [term for term in _TERMS if term in self.pos_att_type]

    @property
    def scale(self) -> float:
        """What multiplies all terms of a score; pos_att_type counts them."""
        width = self.hidden_size // self.num_attention_heads
        return float((width * (1 + len(self.terms))) ** -0.5)

    @property
    def farthest(self) -> int:
        """Relative positions count up to this distance."""
        return self.max_relative_positions or self.max_position_embeddings

    @property
    def span(self) -> int:
        """Half of the rows of the table of relative positions."""
        return self.position_buckets or self.farthest

    def absent(self) -> list[str]:
        """Parts of the paths of variables that it does without."""
        own_keys = self.relative_attention and not self.share_att_key
        has = {
            "/token_type_embeddings": self.type_vocab_size,
            "/position_embeddings": self.position_biased_input,
            "/projection/": self.has_projection,
            "/relative/": self.relative_attention,
            "/relative/norm/": self.norm_rel_ebd != "none",
            "/position_key/": own_keys and "c2p" in self.terms,
            "/position_query/": own_keys and "p2c" in self.terms,
            "/conv/": self.conv_kernel_size,
        }
        return [part for part, is_there in has.items() if not is_there]

    def num_weights(self) -> int:
        """Numbers in all variables of the encoder."""
        width, layers = self.hidden_size, self.num_hidden_layers
        own = sum(f"/position_{x}/" not in self.absent() for x in ("key", "query"))
        more = own * layers * (width + 1) * width
        if self.relative_attention:
            more += 2 * (self.span + (self.norm_rel_ebd != "none")) * width
        if self.conv_kernel_size:
            more += (self.conv_kernel_size * width + 3) * width
        if self.has_projection:  # without a bias, and the norm is of its output
            more += width - 2 * self.embedding_size
        return super().num_weights() + more

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "DebertaConfig":
        """Builds a config from Hugging Face's keys, as in RelativeConfig.

        Raises:
            ValueError: as there, or a width is another than hidden_size makes it.
        """
        raw, known = dict(raw), config_lib.HUGGING_FACE_ACTIVATIONS
        raw["pos_att_type"] = _read_terms(raw.get("pos_att_type"))
        raw["norm_rel_ebd"] = _read_norm(raw.get("norm_rel_ebd", "none"))
        for key in _UNLIMITED:
            if raw.get(key) == -1:
                raw[key] = 0
        for key in ("conv_act", "pooler_hidden_act"):
            if key in raw:
                raw[key] = config_lib.read_activation(key, raw[key], known)
        config = super().from_dict(raw)
        width = config.hidden_size
        for key, size in (
            ("pooler_hidden_size", width),
            ("attention_head_size", width // config.num_attention_heads),
        ):
            if raw.get(key, size) != size:
                raise errors.InputError(
                    f"{key} is {raw[key]!r}, and hidden_size={width} makes it {size}; "
                    "correct the config"
                )
        return config

    def to_dict(self) -> dict[str, Any]:
        """The keys of Hugging Face's config.json."""
        raw, known = super().to_dict(), config_lib.HUGGING_FACE_ACTIVATIONS
        raw["pos_att_type"] = self.pos_att_type or None
        for key in _UNLIMITED:
            raw[key] = raw[key] or -1
        for key in ("conv_act", "pooler_hidden_act"):
            raw[key] = config_lib.name_activation(raw[key], known)
        return {key: value for key, value in raw.items() if key not in self._unset()}

    def _unset(self) -> Collection[str]:
        unset = ["layer_norm_epsilon"]  # read, and written as layer_norm_eps
        unset += ["cls_dropout"] * (self.cls_dropout is None)
        return unset + ["conv_kernel_size", "conv_act"] * (not self.conv_kernel_size)


def _read_terms(value):
    """pos_att_type of a file: a list, a text with | between, or None."""
    parts = value.lower().split("|") if isinstance(value, str) else value or ()
    terms = [str(part).strip() for part in parts if part]
    if unknown := [term for term in terms if term not in _TERMS]:
        raise errors.InputError(
            f"pos_att_type is {value!r}, and {unknown[0]} is none of "
            f"{', '.join(_TERMS)}; give a model of DeBERTa-v2 or v3"
        )
    return "|".join(term for term in _TERMS if term in terms)


def _read_norm(value):
    parts = [part.strip() for part in str(value).lower().split("|")]
    return next((part for part in parts if part != "none"), "none")


class Embeddings(bert.Embeddings):
    """The sum of embeddings, if they are narrower projected, and then their norm.

    Call shapes: as bert.Embeddings.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        if self.projection:
            self.projection = bert.Dense(
                config.hidden_size,
                use_bias=False,
                kernel_initializer=bert.weight_init(config),
                name="projection",
                dtype=self.given_dtype,
            )

    def build(self, input_shape, *_):
        for name, rows in self.config.table_rows.items():
            shape, init = (rows, self.config.embedding_size), bert.weight_init
            variable = self.add_weight(
                shape, init(self.config), name=name, autocast=False
            )
            setattr(self, name, variable)
        if self.projection:
            self.projection.build((*input_shape, self.config.embedding_size))
        self.norm.build((*input_shape, self.config.hidden_size))

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        input_ids, segment_ids = map(kernels.as_integers, (input_ids, segment_ids))
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, E]
        others = self.look_up_segments(segment_ids)
        if self.config.position_biased_input:
            positions = ops.cast(self.position_embeddings, "float32")
            if position_ids is None:
                others += positions[: ops.shape(input_ids)[1]]
            else:  # with a dense gradient, as in bert.Embeddings
                others += ops.take(1.0 * positions, position_ids, axis=0)
        if self.projection:
            words = self.projection(words + others)
            others = ops.zeros_like(words)
        rate, site = self.config.hidden_dropout_prob, dropout_sites.EMBEDDINGS
        hidden = kernels.norm_of_sum(self.norm, words, others, 0.0, seed, site)
        return kernels.dropout(hidden, rate, seed, site)


class RelativePositions(keras_configs.Configured, keras.layers.Layer):
    """The vectors of relative positions, which all layers share."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config, self.norm = config, None
        if config.norm_rel_ebd == "layer_norm":
            self.norm = bert.layer_norm(config, "norm", self.given_dtype)

    def build(self, *_):
        shape = 2 * self.config.span, self.config.hidden_size
        init = bert.weight_init(self.config)
        self.table = self.add_weight(shape, init, name="table", autocast=False)
        if self.norm:
            self.norm.build(shape)

    def vectors(self):
        """[2 * span, D] of the compute dtype."""
        table = ops.convert_to_tensor(self.table)
        table = self.norm(table) if self.norm else table
        return ops.cast(table, self.compute_dtype)


@functools.cache
def rows_by_distance(longest, buckets, farthest):
    """The rows of the table, int32 [2 * longest], of distances to earlier tokens.

    The distances go down from longest - 1 to -longest; of those above half of the
    buckets, the logarithms are counted (DeBERTa's code, make_log_bucket_position).
    """
    places = np.arange(longest - 1, -longest - 1, -1)
    span = buckets or farthest
    if buckets:
        near = buckets // 2
        far = np.maximum(abs(places), near).astype(np.float32) / np.float32(near)
        share = np.log(far) / np.log(np.float32((farthest - 1) / near))
        logs = np.ceil(share * np.float32(near - 1)) + near
        places = np.where(abs(places) <= near, places, np.sign(places) * logs)
    return np.clip(places + span, 0, 2 * span - 1).astype(np.int32)


def skew(scores, first):
    """Numbers [B, N, T, 2T] by distance as [B, N, T, T] by place: j - i from `first`.

    Row i begins i numbers earlier than the one before it: as rows of one number less
    they are copied in whole, where a gather takes ten times as long.
    """
    size, heads, length, width = ops.shape(scores)
    flat = ops.reshape(scores, (size, heads, length * width))
    flat = flat[:, :, first : first + length * (width - 1)]
    return ops.reshape(flat, (size, heads, length, width - 1))[..., :length]


class DisentangledAttention(bert.SelfAttention):
    """Attention by content and by relative positions.

    Call shapes: as bert.SelfAttention, with `table` [2 * span, D] and positions of the
    queries int [B, S], or None for all.
    """

    def _make_projections(self):
        super()._make_projections()
        size = self.config, self.config.hidden_size
        for name in ("position_key", "position_query"):
            if f"/{name}/" not in self.config.absent():
                setattr(self, name, bert.dense(*size, name, self.given_dtype))
                self.parts = (*self.parts, name)

    def call(
        self, hidden, table, attention_bias, queries=None, positions=None, seed=None
    ):
        config = self.config
        queries = hidden if queries is None else queries
        query, key, value = self.project(hidden, queries)
        learned = self.position_scores(query, key, table, positions, seed)
        if learned is not None:
            attention_bias += ops.cast(learned, "float32")
        mixed = kernels.attend(
            query,
            key,
            value,
            attention_bias,
            scale=config.scale,
            rate=config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
            learned=learned,
        )  # [B, N, S, K]
        mixed = ops.transpose(mixed, (0, 2, 1, 3))  # [B, S, N, K]
        mixed = ops.reshape(mixed, kernels.shape_for_reshape(queries))
        return self.output_projection(mixed)

    def position_scores(self, query, key, table, positions=None, seed=None):
        """The scaled terms of relative positions, [B, N, S, T]; None without any.

        Query and key are multiplied with the vectors of all distances in the text,
        [2T, D], and rows of the products are moved to where the keys are.
        """
        config, length = self.config, ops.shape(key)[2]
        if not (config.relative_attention and config.terms):
            return None
        site = self.site + dropout_sites.PER_BLOCK * config.num_hidden_layers
        table = kernels.dropout(table, config.hidden_dropout_prob, seed, site)
        longest = max(config.max_position_embeddings, key.shape[2] or 0)
        rows = rows_by_distance(longest, config.position_buckets, config.farthest)
        rows = ops.convert_to_tensor(rows)[longest - length : longest + length]
        vectors = ops.take(table, rows, axis=0)[None]  # [1, 2T, D]
        scores = []
        if "c2p" in config.terms:
            by_key = self.key if config.share_att_key else self.position_key
            keys = config.scale * self._split_heads(by_key(vectors))  # [1, N, 2T, K]
            product = ops.matmul(query, ops.transpose(keys, (0, 1, 3, 2)))
            if positions is None:
                scores.append(skew(product, length - 1))
            else:
                scores.append(_take_keys(product, positions, length))
        if "p2c" in config.terms:
            by_query = self.query if config.share_att_key else self.position_query
            queries = config.scale * self._split_heads(by_query(vectors))
            queries = ops.flip(queries, axis=2)  # the distances go up
            product = ops.matmul(key, ops.transpose(queries, (0, 1, 3, 2)))
            product = skew(product, length)  # [B, N, T, all queries]
            if positions is None:
                scores.append(ops.transpose(product, (0, 1, 3, 2)))
            else:
                product = ops.transpose(product, (0, 3, 1, 2))
                product = kernels.take_rows(product, positions)
                scores.append(ops.transpose(product, (0, 2, 1, 3)))
        return sum(scores[1:], scores[0])


def _take_keys(product, positions, length):
    """Scores [B, N, S, 2T] by distance, of queries at int [B, S], as [B, N, S, T]."""
    size, heads, count, width = ops.shape(product)
    rows = ops.reshape(ops.transpose(product, (0, 2, 3, 1)), (-1, heads))
    begins = width * ops.reshape(ops.arange(size * count), (size, count))
    begins = begins + length - 1 - ops.cast(positions, "int32")
    taken = ops.take(rows, begins[..., None] + ops.arange(length), axis=0)
    return ops.transpose(taken, (0, 3, 1, 2))


class Convolution(keras_configs.Configured, keras.layers.Layer):
    """norm(x + act(convolution(hidden))), after the first block of v2's largest models.

    Call shapes: hidden and x [B, S, D], mask [B, S, 1], positions int [B, P] of x, or
    None for all -> as x.
    """

    arguments = ("config", "site")

    def __init__(self, config, site, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config, self.site = config, site
        self.norm = bert.layer_norm(config, "norm", self.given_dtype)

    def build(self, input_shape, *_):
        width, size = self.config.hidden_size, self.config.conv_kernel_size
        init = bert.weight_init(self.config)
        self.kernel = self.add_weight((size, width, width), init, name="kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")
        self.norm.build(input_shape)

    def call(self, hidden, x, mask, positions=None, seed=None):
        config, length = self.config, ops.shape(hidden)[1]
        reach = config.conv_kernel_size // 2
        hidden = ops.pad(hidden * mask, ((0, 0), (reach, reach), (0, 0)))
        shifted = [hidden[:, i : i + length] for i in range(config.conv_kernel_size)]
        kernel = ops.reshape(self.kernel, (-1, config.hidden_size))
        kernel, bias = (ops.cast(each, hidden.dtype) for each in (kernel, self.bias))
        read = bert.affine(ops.concatenate(shifted, axis=-1), kernel, bias)
        if positions is not None:
            read = kernels.take_rows(read, positions)
        read = kernels.dropout(read, config.hidden_dropout_prob, seed, self.site)
        read = bert.activate(config.conv_act, read, training=seed is not None)
        return kernels.norm_of_sum(self.norm, x, read, 0.0, seed, self.site)


class Block(bert.EncoderBlock):
    """A block of disentangled attention, the first one with a convolution, if any.

    Call shapes: as bert.EncoderBlock, with a table [2 * span, D] after hidden.
    """

    attention_kind = DisentangledAttention

    def __init__(self, config, index, **kwargs):
        super().__init__(config, index, **kwargs)
        self.conv = None
        if config.conv_kernel_size and index == 0:
            site = dropout_sites.first_of_block(config.num_hidden_layers) + 1
            self.conv = Convolution(config, site, name="conv", dtype=self.given_dtype)

    def build(self, input_shape, *_):
        super().build(input_shape)
        if self.conv:
            self.conv.build(input_shape)

    def call(self, hidden, table, attention_bias, positions=None, seed=None):
        rate, site = self.config.hidden_dropout_prob, self.site
        queries = hidden if positions is None else kernels.take_rows(hidden, positions)
        x = self.attention(hidden, table, attention_bias, queries, positions, seed=seed)
        x = kernels.norm_of_sum(self.attention_norm, queries, x, rate, seed, site + 1)
        outer = self._feed_forward(x, seed)
        x = kernels.norm_of_sum(self.ffn_norm, x, outer, rate, seed, site + 2)
        if not self.conv:
            return x
        mask = ops.cast(attention_bias[:, 0, 0, :, None] == 0, hidden.dtype)
        return self.conv(hidden, x, mask, positions, seed=seed)


class DebertaEncoder(bert.Network):
    """Embeddings, the table of relative positions, and blocks; as bert.Network."""

    embeddings_kind = Embeddings
    block_kind = Block

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.relative = None
        if config.relative_attention:
            dtype = self.given_dtype
            self.relative = RelativePositions(config, name="relative", dtype=dtype)

    @property
    def traces_once(self):  # type: ignore[override]
        """Whether blocks are alike."""
        return not self.config.conv_kernel_size

    def build(self, input_shape, *_):
        super().build(input_shape)
        if self.relative:
            self.relative.build()

    def bias(self, mask, positions=None):
        """As in bert.Network, and the vectors of relative positions.

        Those within a text are the same wherever it lies in a row.
        """
        size = self.config.conv_kernel_size
        if size and len(mask.shape) == 3:
            raise errors.InputError(
                f"conv_kernel_size={size}: the convolution of this DeBERTa would read "
                "over the ends of texts that share rows; leave --pack_sequences out"
            )
        table = self.relative.vectors() if self.relative else ops.zeros((0, 1))
        return super().bias(mask, positions), table

    def run(self, block, hidden, bias, *others, seed):
        mask, table = bias
        return super().run(block, (*hidden, table), mask, *others, seed=seed)


def _attention_weights(block, hidden, bias):
    """Probabilities of a Block, as in attention_maps."""
    (mask, table), layer = bias, block.attention
    query, key, _ = layer.project(hidden, hidden)
    scores = ops.einsum("bnsk,bntk->bnst", query * layer.config.scale, key)
    learned = layer.position_scores(query, key, table)
    scores = scores if learned is None else scores + learned
    return ops.softmax(ops.cast(scores, "float32") + mask)


_KERNEL, _BIAS = names.DENSE
_CONV_KERNEL = (*_KERNEL[:3], "transposed")  # all three axes
_NETWORK = (
    ("embeddings/projection", "embeddings_project", "embeddings.embed_proj", [_KERNEL]),
    ("relative/norm", "encoder/LayerNorm", "encoder.LayerNorm", names.NORM),
    ("block_0/conv", "encoder/conv", "encoder.conv.conv", [_CONV_KERNEL, _BIAS]),
    ("block_0/conv/norm", "encoder/conv/norm", "encoder.conv.LayerNorm", names.NORM),
)
_ATTENTION = ("position_key", "pos_key_proj"), ("position_query", "pos_query_proj")
_LM_HEAD = (
    ("cls.predictions.transform.", "lm_predictions.lm_head."),
    ("cls.predictions.", "lm_predictions.lm_head."),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Deberta(bert_family.FamilySpec):
    def input_rows(self):
        path, rows = "bert/relative/table", super().input_rows()
        rows.append(
            names.Name(
                path,
                "deberta/encoder/rel_embeddings",
                "deberta.encoder.rel_embeddings.weight",
            )
        )
        for ours, google, theirs, variables in _NETWORK:
            google, theirs = f"deberta/{google}", f"deberta.{theirs}"
            rows += names.rows(variables, f"bert/{ours}", google, theirs)
        return rows

    def layer_rows(self, number):
        parts = (
            (f"attention/{ours}", f"attention/self/{theirs}", names.DENSE)
            for ours, theirs in _ATTENTION
        )
        more = bert_names.layer_rows(number, parts)
        return [*super().layer_rows(number), *self.renaming.of(more)]

    def rows(self, config):
        absent, rows = config.absent(), super().rows(config)
        return [row for row in rows if not any(part in row.path for part in absent)]

    def head_rows(self, config):
        rows = super().head_rows(config)
        renaming = bert_names.Renaming(hugging_face=() if config.legacy else _LM_HEAD)
        return renaming.of(rows)

    def classifier_of(self, config):
        rate, before = config.cls_dropout, config.pooler_dropout
        rate = config.hidden_dropout_prob if rate is None else rate
        return spec.Classifier(config.pooler_hidden_act, rate, True, input_rate=before)


NETWORK = _Deberta(
    **{
        **bert_family.OF_BLOCKS,
        "attention_weights": _attention_weights,
        "joined_projections": None,
        "onnx": None,
    },
    kind="DeBERTa",
    config=DebertaConfig,
    layers=DebertaEncoder,
    model_types=("deberta-v2",),
    classes={"deberta-v2": "DebertaV2"},
    sizes=bert_family.FACTORIZED_SIZES,
    inputs=("bert/embeddings/", "bert/relative/"),
    prefix="deberta",
    bare=("embeddings.", "encoder."),
    unprefixed="deberta.",  # so that its pooler stays beside it
    classifier=spec.Classifier("gelu_erf", 0.1, drops_input=True),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.", "deberta."),
            (".self.query.", ".self.query_proj."),
            (".self.key.", ".self.key_proj."),
            (".self.value.", ".self.value_proj."),
        ),
        google=(("bert/", "deberta/"),),
        absent=("bert/pooler/", "next_sentence/"),
        head_rows=bert_names.dense_classifier(
            ("dense", "pooler.dense"), ("out_proj", "classifier")
        ),
    ),
)
