"""The encoder: embeddings, blocks and pooler; modeling.py's BertModel."""

import keras

from modeling import keras_configs, layers


class BertEncoder(keras_configs.Configured, keras.layers.Layer):
    """Deep bidirectional Transformer (BERT section 3).

    Call shapes:
        input_ids, input_mask, segment_ids [B, S] int -> dict of
            embedding_output [B, S, D], layer_outputs L x [B, S, D],
            sequence_output [B, S, D] (the last layer), pooled_output [B, D] float32.

    `seed` (int64 [2]) draws dropout; without it the encoder is deterministic.
    `positions`, int [B, P] beginning with 0, are those of the last layer that are read;
    it then computes no other, and sequence_output is [B, P, D].
    `recompute` trades time for memory: training keeps only what enters and leaves a
    block, and recomputes the rest for the gradient (Chen et al., 2016).
    """

    arguments = ("config", "recompute")

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.recompute = recompute
        self.embeddings = layers.Embeddings(config, name="embeddings")
        self.blocks = [
            layers.EncoderBlock(config, index, name=f"block_{index}")
            for index in range(config.num_hidden_layers)
        ]
        # In float32, because rounding its tanh to 1 would end its gradient.
        self.pooler = layers.dense(config, config.hidden_size, "pooler", "float32")

    def build(self, input_shape, *_):
        self.embeddings.build(input_shape)
        for block in self.blocks:
            block.build((*input_shape, self.config.hidden_size))
        self.pooler.build((input_shape[0], self.config.hidden_size))

    def call(self, input_ids, input_mask, segment_ids, positions=None, seed=None):
        hidden = self.embeddings(input_ids, segment_ids, seed=seed)  # [B, S, D]
        outputs = {"embedding_output": hidden, "layer_outputs": []}
        adder = layers.mask_adder(input_mask)
        for block in self.blocks[:-1]:
            hidden = self._run(block, hidden, adder, None, seed)
            outputs["layer_outputs"].append(hidden)
        if positions is not None and len(input_mask.shape) == 3:
            rows = keras.ops.take_along_axis(input_mask, positions[..., None], axis=1)
            adder = layers.mask_adder(rows)
        hidden = self._run(self.blocks[-1], hidden, adder, positions, seed)
        outputs["layer_outputs"].append(hidden)
        outputs["sequence_output"] = hidden
        # [CLS] stands for the sequence; it is cut out, for no rows may have no tokens.
        shape = keras.ops.shape(hidden)[0], self.config.hidden_size
        first = keras.ops.reshape(hidden[:, :1], shape)  # [B, D]
        return {**outputs, "pooled_output": keras.ops.tanh(self.pooler(first))}

    def _run(self, block, hidden, adder, positions, seed):
        def run(hidden):
            return block(hidden, adder, positions, seed=seed)

        if seed is None or not self.recompute:
            return run(hidden)
        # The seed is no state, so masks are the same in both passes.
        return keras.remat(run)(hidden)
