"""ELMo: language models of both directions over words made of characters.

bilm-tf (Peters et al., 2018).
"""

import keras
from keras import ops

from modeling import dropout_sites, kernels
from modeling.configs import keras_configs
from modeling.networks.elmo import characters, lstm


class LstmWeights(keras_configs.Configured, keras.layers.Layer):
    """The weights of one direction of one layer, for `lstm.bidirectional`.

    Call shapes: none; `weights_of_step` gives them.
    """

    arguments = ("units", "projection_units")

    def __init__(self, units, projection_units=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.projection_units = projection_units
        self.projection = None

    def build(self, input_shape):
        width = self.projection_units or self.units
        self.kernel = self._weight(
            "kernel", (input_shape[-1] + width, 4 * self.units), "glorot_uniform"
        )
        self.bias = self._weight("bias", (4 * self.units,), "zeros")
        if self.projection_units:
            self.projection = self._weight(
                "projection", (self.units, width), "glorot_uniform"
            )

    def _weight(self, name, shape, initializer):
        return self.add_weight(
            shape=shape, initializer=initializer, name=name, autocast=False
        )

    @property
    def weights_of_step(self):
        """The weights as `lstm.bidirectional` takes them."""
        return lstm.Weights(self.kernel, self.bias, self.projection)


class ElmoNetwork(keras_configs.NetworkLayer):
    """Vectors of words and L layers of both directions.

    Call shapes:
        input_ids [B, S, 50] int (characters' ids + 1, 0 at padding), input_mask,
        segment_ids [B, S] int -> dict of
            embedding_output [B, S, 2 P] (each word twice),
            layer_outputs L x [B, S, 2 P] (forward and backward side by side),
            sequence_output [B, S, 2 P] (the last layer),
            pooled_output [B, 2 P] float32 (the mean of its tokens).

    `seed` and `positions` as in `bert.Network`. With `states`, an `lstm.States` of
    [L, 2, B, D] and [L, 2, B, P], each sequence begins with those of its row, and the
    dict has the "states" that follow. The first ones are zeros.

    Differs from bilm-tf: without `states` each sequence begins with states of zero;
    there they go on from one sequence to the next.
    """

    text_place = "mean"  # as in `kernels.pool_tokens`

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        dtype = self.given_dtype
        self.characters = characters.Characters(config, name="characters", dtype=dtype)
        self.forward, self.backward = (
            [self._cell(f"{name}_{j}") for j in range(config.num_hidden_layers)]
            for name in ("forward", "backward")
        )

    def _cell(self, name):
        width = self.config.projection_dim if self.config.has_projection else None
        units, dtype = self.config.lstm_dim, self.given_dtype
        return LstmWeights(units, width, name=name, dtype=dtype)

    def build(self, input_shape, *_):
        self.characters.build(input_shape)
        for cell in (*self.forward, *self.backward):
            cell.build((None, self.config.projection_dim))

    def token_vectors(self, input_ids, seed=None):
        """[..., 50] int -> [..., P]."""
        return self.characters(input_ids)

    def directions(self, forward, backward, mask=None, states=None, seed=None):
        """Both stacks of layers, on vectors that may be those of different texts.

        Args:
            forward, backward: [B, T, P], each in the order of its text: the backward
                stack begins at the end.
            mask: [B, T], 1 for tokens; None: all are.
            states: as in a call; None: zeros.
            seed: of dropout, which takes the input of each layer.

        Returns:
            A list of L pairs [B, T, P], and the states that follow.
        """
        pair, pairs, after = (forward, backward), [], []
        for j in range(self.config.num_hidden_layers):
            state = None if states is None else lstm.States(*(x[j] for x in states))
            pair, state = self._run(j, pair, mask, state, seed)
            pairs.append(pair)
            after.append(state)
        return pairs, lstm.States(*map(ops.stack, zip(*after, strict=True)))

    def _run(self, j, pair, mask, states, seed):
        """The outputs of layer j and the states that follow."""

        def run(forward, backward):
            config = self.config
            pair = self._dropped((forward, backward), seed, j)
            outputs, after = lstm.bidirectional(
                pair,
                [self.forward[j].weights_of_step, self.backward[j].weights_of_step],
                mask,
                states,
                cell_clip=config.cell_clip,
                projection_clip=config.proj_clip,
                trains=seed is not None,
            )
            if config.use_skip_connections and j > 0:
                outputs = tuple(a + b for a, b in zip(outputs, pair, strict=True))
            return outputs, after

        if seed is None or not self.recompute:
            return run(*pair)
        return keras.remat(run)(*pair)

    def top(self, layers, seed=None):
        """The last of the layers of `directions` as a softmax reads it: dropped."""
        return self._dropped(layers[-1], seed, self.config.num_hidden_layers)

    def _dropped(self, pair, seed, layer):
        rate = self.config.dropout
        return tuple(
            kernels.dropout(x, rate, seed, dropout_sites.of_lstm_input(layer, k))
            for k, x in enumerate(pair)
        )

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        positions=None,
        seed=keras_configs.FRESH,
        table=None,
        states=None,
        training=None,
    ):
        if seed is keras_configs.FRESH:
            seed = self.fresh_seed(training)
        x = self.token_vectors(input_ids, seed)  # [B, S, P]
        pairs, after = self.directions(x, x, input_mask, states, seed)
        first, *layers = [ops.concatenate(pair, axis=-1) for pair in ((x, x), *pairs)]
        last = layers[-1]
        outputs = {
            "embedding_output": first,
            "layer_outputs": layers,
            "sequence_output": last
            if positions is None
            else kernels.take_rows(last, positions),
            "pooled_output": kernels.pool_tokens(
                ops.cast(last, "float32"), input_mask, self.text_place
            ),
        }
        return outputs if states is None else {**outputs, "states": after}
