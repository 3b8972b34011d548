"""MPNet (Song et al., 2020, arXiv:2004.09297): RoBERTa whose scores know distances.

Each score of attention has a number added that is learned for its head and for the
distance between the two tokens (Raffel et al., 2020, section 2.1). All layers share
these numbers.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from contract import errors
from contract import features as feature_names
from modeling import bert
from modeling.checkpoints import names
from modeling.configs import keras_configs
from modeling.features import attention_maps
from modeling.networks import bert_family, bert_onnx, roberta, spec

_TABLE = "relative_attention_num_buckets"
_BUCKETS = 32  # half of them for keys after the query; transformers reads no others
_FIRST_PAD = 1  # the only pad_token_id that positions count from


@dataclasses.dataclass(frozen=True, kw_only=True)
class MPNetConfig(roberta.RobertaConfig):
    """MPNet (Song et al., 2020): positions as RoBERTa's, and no segments."""

    model_type: str = "mpnet"
    vocab_size: int = 30527
    relative_attention_num_buckets: int = _BUCKETS
    kind: ClassVar[str] = "MPNet"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **roberta.RobertaConfig.required,
        "pad_token_id": (_FIRST_PAD,),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relative_attention_num_buckets < _BUCKETS:
            raise errors.InputError(
                f"{_TABLE}={self.relative_attention_num_buckets} is less than "
                f"{_BUCKETS}, which MPNet reads whatever the key is; correct the config"
            )

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of the tables of words and positions."""
        rows = super().table_rows
        del rows["token_type_embeddings"]
        return rows

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of MPNet's config.json."""
        keys = super().keys()
        del keys["type_vocab_size"]
        return keys

    def num_weights(self) -> int:
        """As of BERT, and the numbers of distances."""
        rows = self.relative_attention_num_buckets
        return super().num_weights() + rows * self.num_attention_heads


def _buckets_by_distance():
    """The bucket of each distance from key to query, int32 [2 F + 1], -F ... F first.

    Beyond F, the last number, all are as it. Up to 8 each has its own, then there are
    2 for each doubling; those of keys after the query follow the others.
    """
    half = _BUCKETS // 2
    starts = [*range(1, half // 2 + 1)]
    starts += [math.ceil(half // 2 * 2 ** (k / 2)) for k in range(1, half // 2)]
    distances = np.arange(-starts[-1], starts[-1] + 1)
    buckets = np.digitize(abs(distances), starts) + half * (distances > 0)
    return buckets.astype(np.int32)


_OF_DISTANCE = _buckets_by_distance()
_FARTHEST = len(_OF_DISTANCE) // 2


class Distances(keras_configs.Configured, keras.layers.Layer):
    """A number for each head and bucket of distances, added to scores."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def build(self, *_):
        rows = self.config.relative_attention_num_buckets
        self.bias = self.add_weight(
            shape=(rows, self.config.num_attention_heads),
            initializer=bert.weight_init(self.config),
            name="bias",
            autocast=False,
        )

    def look_up(self, length, positions=None):
        """Float32 [1 or B, N, S, T] for `length` keys.

        `positions`, int [B, S], are those of the queries; None for those of the keys.
        """
        keys = ops.arange(length)
        queries = keys[None] if positions is None else ops.cast(positions, keys.dtype)
        distances = keys - ops.expand_dims(queries, -1)  # [1 or B, S, T]
        distances = ops.clip(distances, -_FARTHEST, _FARTHEST) + _FARTHEST
        buckets = ops.take(_OF_DISTANCE, distances)
        # A product, not a gather: the gradient of few rows is summed, not scattered.
        chosen = ops.one_hot(buckets, _BUCKETS, dtype="float32")
        numbers = ops.matmul(chosen, self.bias[:_BUCKETS])  # [1 or B, S, T, N]
        return ops.transpose(numbers, (0, 3, 1, 2))


class MPNetAttention(bert.SelfAttention):
    """Attention with a bias that is learned.

    Call shapes: as bert.SelfAttention; attention_bias is two of these, the whole, and
    the part of it that is learned.
    """

    def call(self, hidden, attention_bias, queries=None, seed=None, cache=None):
        bias, learned = attention_bias
        return super().call(hidden, bias, queries, seed, cache, learned)


class MPNetBlock(bert.EncoderBlock):
    """BERT's; the learned part of the bias comes with what gradients flow to."""

    attention_kind = MPNetAttention

    def call(self, hidden, learned, bias, positions=None, seed=None, cache=None):
        return super().call(hidden, (bias, learned), positions, seed, cache)


class MPNetEncoder(bert.BertEncoder):
    """MPNet (Song et al., 2020), without its permuted words."""

    block_kind = MPNetBlock

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.distances = Distances(config, name="distances", dtype=self.given_dtype)

    def build(self, input_shape, *_):
        super().build(input_shape)
        self.distances.build()

    def bias(self, mask, positions=None, position_ids=None):
        """The whole and its learned part; rows share places where texts lie whole."""
        learned = self.distances.look_up(ops.shape(mask)[-1], positions)
        return super().bias(mask, positions) + learned, learned

    def run(self, block, hidden, bias, *others, seed):
        bias, learned = bias
        return super().run(block, (*hidden, learned), bias, *others, seed=seed)


class Writer(bert_onnx.Writer):
    """As its base; attention takes the numbers of distances besides."""

    def embed(self, layer):
        graph, node = self.graph, self.graph.node
        zero, one, least, most = (
            graph.constant(f"int64 {number}", np.int64(number))
            for number in (0, 1, -_FARTHEST, _FARTHEST)
        )
        first, second = (graph.constant(f"axis {axis}", [axis]) for axis in (0, 1))
        length = node("Gather", node("Shape", feature_names.INPUT_IDS), one)
        keys = node("Range", zero, length, one)
        distances = node("Sub", keys, node("Unsqueeze", keys, second))
        places = node("Add", node("Clip", distances, least, most), most)
        numbers = np.asarray(self.model.network.distances.bias)[_OF_DISTANCE]
        numbers = graph.constant("distances", np.float32(numbers))
        numbers = node("Gather", numbers, places)  # [S, T, N]
        numbers = node("Transpose", numbers, perm=[2, 0, 1])
        self.distances = node("Unsqueeze", numbers, first)  # [1, N, S, T]
        return super().embed(layer)

    def attention_bias(self, is_first):
        if not is_first:
            return (self.distances,)
        ends = (self.graph.constant(f"axis {n}", [n]) for n in (0, 1, 2))
        return (self.graph.node("Slice", self.distances, *ends),)


def _attention_weights(block, hidden, bias):
    return attention_maps.of_block(block, hidden, bias[0])


_DISTANCES = names.Name(
    "bert/distances/bias",
    "mpnet/encoder/relative_attention_bias",
    "mpnet.encoder.relative_attention_bias.weight",
)
NETWORK = bert_family.FamilySpec(
    **{
        **bert_family.OF_BLOCKS,
        "attention_weights": _attention_weights,
        "onnx": Writer,
    },
    kind="MPNet",
    config=MPNetConfig,
    layers=MPNetEncoder,
    model_types=("mpnet",),
    classes={"mpnet": "MPNet"},
    sizes={**bert_family.ENCODER_SIZES, _TABLE: (_DISTANCES.path, 0)},
    inputs=("bert/embeddings/", "bert/distances/"),
    prefix="mpnet",
    classifier=spec.Classifier("tanh", 0.1, drops_input=True),
    renaming=dataclasses.replace(
        roberta.NETWORK.renaming,
        hugging_face=(
            ("bert.", "mpnet."),
            (".attention.self.query.", ".attention.attn.q."),
            (".attention.self.key.", ".attention.attn.k."),
            (".attention.self.value.", ".attention.attn.v."),
            (".attention.output.dense.", ".attention.attn.o."),
            (".attention.output.LayerNorm.", ".attention.LayerNorm."),
            *roberta.NETWORK.renaming.hugging_face[1:],
        ),
        google=(("bert/", "mpnet/"),),
        absent=("bert/embeddings/token_type", *roberta.NETWORK.renaming.absent),
        rows=(_DISTANCES,),
    ),
)
