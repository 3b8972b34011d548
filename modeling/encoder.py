"""The encoder: embeddings, blocks and pooler; modeling.py's BertModel."""

import keras
from keras import ops

from modeling import heads, layers
from modeling.configs import keras_configs
from modeling.operations import token_masks


class Network(keras_configs.NetworkLayer):
    """Embeddings and blocks; BertEncoder and GptDecoder add what follows them.

    Call shapes:
        input_ids, input_mask, segment_ids [B, S] int -> dict of
            embedding_output [B, S, D], layer_outputs L x [B, S, D],
            sequence_output [B, S, D] (the last layer), pooled_output [B, D] float32.

    `seed` (int64 [2]) draws dropout; with None the network is deterministic. Without
    the argument it is as in `keras_configs.NetworkLayer`.
    `positions`, int [B, P], are those of the last layer that are read; it computes no
    other, sequence_output is [B, P, D], and the first is pooled. Without them that is
    the first token, from left to right the last. `table` is what `embeddings.table`
    gave for the seed, if it was called before.
    `recompute` trades time for memory: training keeps only what enters and leaves a
    block, and recomputes the rest for the gradient (Chen et al., 2016).
    """

    embeddings_kind: type = layers.Embeddings
    block_kind: type = layers.EncoderBlock
    classifier_kind: type = heads.ClassifierHead

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        dtype = self.given_dtype
        self.embeddings = self.embeddings_kind(config, name="embeddings", dtype=dtype)
        self.blocks = [
            self.block_kind(config, index, name=f"block_{index}", dtype=dtype)
            for index in range(config.num_hidden_layers)
        ]

    def build(self, input_shape, *_):
        self.embeddings.build(input_shape)
        for block in self.blocks:
            block.build((*input_shape, self.config.hidden_size))

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        positions=None,
        seed=keras_configs.FRESH,
        table=None,
        training=None,
    ):
        seed = self.seed_of_call(seed, training)
        hidden = self.embeddings(input_ids, segment_ids, seed=seed, table=table)
        outputs = {"embedding_output": hidden, "layer_outputs": []}
        is_causal = self.config.is_left_to_right
        sees = token_masks.causal(input_mask) if is_causal else input_mask
        adder = token_masks.mask_adder(sees)
        for block in self.blocks[:-1]:
            hidden = self._run(block, (hidden,), adder, None, seed=seed)
            outputs["layer_outputs"].append(hidden)
        if positions is not None and len(sees.shape) == 3:
            adder = token_masks.mask_adder(token_masks.rows_at(sees, positions))
        hidden = self._run(self.blocks[-1], (hidden,), adder, positions, seed=seed)
        hidden = self.finish(hidden, fused=seed is not None)
        outputs["layer_outputs"].append(hidden)
        outputs["sequence_output"] = hidden
        pooled = hidden[:, :1]
        if positions is None and is_causal:
            pooled = token_masks.rows_at(hidden, token_masks.last_position(input_mask))
        # It is cut out, for no rows may have no tokens.
        shape = ops.shape(hidden)[0], self.config.hidden_size
        return {**outputs, "pooled_output": self._pool(ops.reshape(pooled, shape))}

    def _run(self, block, hidden, *others, seed):
        def run(*hidden):  # what gradients flow to
            return block(*hidden, *others, seed=seed)

        if seed is None or not self.recompute:
            return run(*hidden)
        # The seed is no state, so masks are the same in both passes.
        return keras.remat(run)(*hidden)

    def finish(self, hidden, *, fused):
        """sequence_output of what the last block puts out; `fused` as in fast_norms."""
        return hidden

    def _pool(self, hidden):
        return ops.cast(hidden, "float32")


class BertEncoder(Network):
    """Deep bidirectional Transformer (BERT section 3), or causal by its config."""

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        # In float32, because rounding its tanh to 1 would end its gradient.
        self.pooler = layers.dense(config, config.hidden_size, "pooler", "float32")

    def build(self, input_shape, *_):
        super().build(input_shape)
        self.pooler.build((input_shape[0], self.config.hidden_size))

    def _pool(self, hidden):
        return ops.tanh(self.pooler(hidden))
