"""The model that reads a source and writes a target, and what it keeps while it does.

Beside the axes of __init__.py: R rows that are written, B * n for n texts a source,
those of one source one after another.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from contract import features as feature_names
from modeling import bert, kernels, models, token_heads
from modeling.configs import keras_configs


class DecodeCache(NamedTuple):
    """The past as `extend` needs it; tensors, as in key_value_cache.

    Attributes:
        written: of the target, a pair [R, N, T, K] a layer.
        source: of the source, a pair [B, N, S, K] a layer, computed once.
        source_mask: int32 [B, S].
    """

    written: Any
    source: Any
    source_mask: Any


class SequenceToSequence(token_heads.CausalLMMixin, models.BertModel):
    """A network of EncoderDecoderConfig with the decoder's masked-LM head.

    Call shapes: input_ids, input_mask, segment_ids [B, S], decoder_input_ids,
    decoder_mask, labels [B, T] int -> {"next_token_losses", "next_token_hits"} [B, T]
    float32, of labels; see `token_heads.predict_tokens`. At padding they are arbitrary.
    """

    uses_pooler = False

    @property
    def source_spec(self):
        """Inputs that are read before the first token is written; see `empty_cache`."""
        spec = tf.TensorSpec([None, None], tf.int32)
        return (dict.fromkeys(feature_names.ENCODER_INPUTS, spec),)

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = bert.MaskedLMHead(
            config.decoder, name="masked_lm", dtype=self.given_dtype
        )

    @property
    def writer(self):
        """The decoder, a bert.Network."""
        return self.network.decoder

    def features_spec(self):
        """As BertModel's, and those of a target [B, T]."""
        target = dict.fromkeys(feature_names.DECODER_INPUTS, (None, None))
        return super().features_spec() | keras_configs.specs(target)

    def encode(self, features, seed, positions=None, table=None):
        """The network's outputs on the five input features."""
        inputs = (
            *feature_names.ENCODER_INPUTS,
            feature_names.DECODER_INPUT_IDS,
            feature_names.DECODER_MASK,
        )
        return self.network(*(features[name] for name in inputs), seed=seed)

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        hidden = self.encode(features, seed)["sequence_output"]
        labels, table = features[feature_names.LABELS], self.writer.embeddings.table()
        return token_heads.predict_tokens(
            self.masked_lm, hidden, table, labels, seed is not None
        )

    def empty_cache(self, batch_size, capacity, source):
        """A DecodeCache of B sources, features of the encoder, without a target."""
        read = self.network.encoder(
            *(source[name] for name in feature_names.ENCODER_INPUTS)
        )
        written = super().empty_cache(batch_size, capacity)
        pairs = self.writer.read(read["sequence_output"])
        return DecodeCache(written, pairs, source[feature_names.INPUT_MASK])

    def extend(
        self, input_ids, position_ids, start, is_visible, cache, last_only=False
    ):
        """As token_heads.CausalLMMixin.extend, of target tokens, with a DecodeCache."""
        # Made anew each time. Where it is an input of a loop, and shapes are known,
        # TensorFlow 2.21 can fuse its addition and then take a wrong input.
        bias = kernels.attention_bias(cache.source_mask)
        others = [{"source": pair, "source_bias": bias} for pair in cache.source]
        inputs = input_ids, position_ids, start, is_visible, cache.written
        logits, written = super().extend(*inputs, last_only, others)
        return logits, cache._replace(written=written)

    def take_cache_rows(self, cache, rows):
        """The DecodeCache of these rows, int32 [R]; sources stay where they are.

        So the first R / B of them have to be of the first source, and so on.
        """
        return cache._replace(written=super().take_cache_rows(cache.written, rows))

    def start(self, num_rows):
        """The beginning of a target: ids int32 [R, 1], and their lengths [R]."""
        ids = tf.fill([num_rows, 1], self.config.decoder_start_token_id)
        return ids, tf.ones([num_rows], tf.int32)
