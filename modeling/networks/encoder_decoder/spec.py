"""The record of an encoder-decoder of two BERTs, and the names of its variables."""

import dataclasses
import itertools

import numpy as np

from contract import features, file_names
from modeling import kernels_tf
from modeling.checkpoints import names
from modeling.networks import bert_family, bert_names, spec
from modeling.networks.encoder_decoder import config as pair_config
from modeling.networks.encoder_decoder import network

_BERT = bert_family.BERT
_LAYERS = {
    "encoder": (*bert_names.ATTENTION, *bert_names.FEED_FORWARD),
    "decoder": (
        *bert_names.ATTENTION,
        *bert_names.CROSS_ATTENTION,
        *bert_names.FEED_FORWARD,
    ),
}


def side_rows(side, rows):
    """Rows of a BERT, renamed as those of one side of an encoder-decoder."""
    for row in rows:
        path, theirs = row.path, row.hugging_face
        if not _BERT.is_head(path):
            path = f"encoder_decoder/{side}/{path.removeprefix('bert/')}"
        if side == "encoder":  # a bare network there
            theirs = theirs.removeprefix("bert.")
        google, theirs = f"{side}/{row.google}", f"{side}.{theirs}"
        yield dataclasses.replace(row, path=path, google=google, hugging_face=theirs)


def _layer_rows(side, number):
    return list(side_rows(side, bert_names.layer_rows(number, _LAYERS[side])))


def _joined_projections(pair):
    """Pairs of a SelfAttention and the names of what is joined of it."""
    for block in (*pair.encoder.blocks, *pair.decoder.blocks):
        yield block.attention, kernels_tf.EVERY
    for block in pair.decoder.blocks:  # queries come from the target
        yield block.cross_attention, kernels_tf.BUT_QUERY


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _PairSpec(spec.NetworkSpec):
    def input_rows(self):
        sides = (side_rows(side, _BERT.input_rows()) for side in pair_config.SIDES)
        return [row for rows in sides for row in rows]

    def layer_rows(self, number):
        return [row for side in _LAYERS for row in _layer_rows(side, number)]

    def rows(self, config):
        layers = (
            _layer_rows(side, i)
            for side in pair_config.SIDES
            for i in range(getattr(config, side).num_hidden_layers)
        )
        return [*self.input_rows(), *(row for rows in layers for row in rows)]

    def head_rows(self, config):
        return [*side_rows("decoder", bert_names.masked_lm_rows(config.decoder))]

    def part(self, path):
        first, second, *_ = path.split("/")
        return first if self.is_head(path) else second

    def ties(self) -> spec.Ties:
        """Those of the decoder's BERT."""
        keys, path = _BERT.ties()
        return spec.Ties(
            {f"decoder.{k}": f"decoder.{v}" for k, v in keys.items()}, path
        )

    def find_sizes(self, shapes, format):
        values = super().find_sizes(shapes, format)
        for side in pair_config.SIDES:
            layers = (_layer_rows(side, i) for i in itertools.count())
            are = (any(row.key(format) in shapes for row in rows) for rows in layers)
            depth = sum(1 for _ in itertools.takewhile(bool, are))
            values[f"{side}.{names.DEPTH}"] = depth
        depths = (values[f"{side}.{names.DEPTH}"] for side in pair_config.SIDES)
        return {**values, names.DEPTH: sum(depths)}

    def layer_number(self, key):
        return None  # two sides have layers of a number

    def part_alone(self, config):
        return dataclasses.replace(config.encoder, extra={})

    def rows_of_part(self, rows):
        return side_rows("encoder", rows)  # only Hugging Face's have its pooler

    def beside(self, config, for_library):
        if not (config.generation or for_library):
            return {}
        return {file_names.GENERATION_CONFIG: config.generation_json(for_library)}

    def draw_more(self, config, rng):
        size = min(16, config.decoder.max_position_embeddings)
        target = rng.integers(0, config.num_outputs, (4, size + 1), np.int32)
        values = target[:, :-1], np.ones((4, size), np.int32), target[:, 1:]
        return dict(zip(features.DECODER_INPUTS, values, strict=True))


NETWORK = _PairSpec(
    kind=pair_config.MODEL_TYPE,
    config=pair_config.EncoderDecoderConfig,
    layers=network.EncoderDecoder,
    model_types=(pair_config.MODEL_TYPE,),
    architectures={(): "EncoderDecoderModel"},
    field="decoder",
    heads=frozenset(["seq2seq"]),
    usual_head="seq2seq",
    pretraining_head="seq2seq",
    objectives=("denoising",),
    sizes={
        f"{side}.{size}": (path.replace("bert", f"encoder_decoder/{side}", 1), axis)
        for side in pair_config.SIDES
        for size, (path, axis) in bert_family.BERT_SIZES.items()
    },
    unprefixed="decoder.",
    renamed={"encoder.bert.": "encoder."},  # of TensorFlow's classes
    joined_projections=_joined_projections,
    has_decoder=True,
)
