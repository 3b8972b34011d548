"""An encoder and a decoder; transformers' EncoderDecoderModel of two BERTs."""

from keras import ops

from modeling import encoder
from modeling.configs import keras_configs
from modeling.encoder_decoder import layers
from modeling.operations import token_masks

# Dropout of the decoder is drawn from another seed than the encoder's, whose sites have
# the same numbers.
_OF_DECODER = (1 << 62, 0)


class Decoder(encoder.Network):
    """BERT's embeddings, and blocks that look to the left and at a source.

    Call shapes: input_ids, input_mask [B, T] int, source [B, S, D], source_mask [B, S]
    int -> the dict of encoder.Network, without pooled_output.
    """

    block_kind = layers.DecoderBlock

    def call(self, input_ids, input_mask, source, source_mask, seed=None):
        if seed is not None:
            seed = ops.bitwise_xor(seed, ops.convert_to_tensor(_OF_DECODER, "int64"))
        hidden = self.embeddings(input_ids, ops.zeros_like(input_ids), seed=seed)
        adders = (
            token_masks.mask_adder(token_masks.causal(input_mask)),
            token_masks.mask_adder(source_mask),
        )
        outputs = {"embedding_output": hidden, "layer_outputs": []}
        for block in self.blocks:
            hidden = self._run(block, (hidden, source), *adders, seed=seed)
            outputs["layer_outputs"].append(hidden)
        return {**outputs, "sequence_output": hidden}

    def read(self, source, source_mask):
        """What blocks need of a source: a pair [B, N, S, K] for each, and the adder."""
        pairs = (b.cross_attention.keys_and_values(source) for b in self.blocks)
        return tuple(pairs), token_masks.mask_adder(source_mask)


class EncoderDecoder(keras_configs.NetworkLayer):
    """A BERT without pooler, and a decoder that reads its last layer.

    Call shapes: input_ids, input_mask, segment_ids [B, S], decoder_input_ids,
    decoder_mask [B, T] int -> the dict of `Decoder`, and "encoder_outputs", that of
    encoder.Network. `seed` and `recompute` are as there.
    """

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        dtype = self.given_dtype
        self.encoder = encoder.Network(
            config.encoder, recompute, name="encoder", dtype=dtype
        )
        self.decoder = Decoder(config.decoder, recompute, name="decoder", dtype=dtype)

    def build(self, input_shape, *_):
        self.encoder.build(input_shape)
        self.decoder.build(input_shape)

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        decoder_input_ids,
        decoder_mask,
        seed=keras_configs.FRESH,
        training=None,
    ):
        seed = self.seed_of_call(seed, training)
        read = self.encoder(input_ids, input_mask, segment_ids, seed=seed)
        outputs = self.decoder(
            *(decoder_input_ids, decoder_mask, read["sequence_output"], input_mask),
            seed=seed,
        )
        return {**outputs, "encoder_outputs": read}
