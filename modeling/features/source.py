"""Layers of a network as the features of a task: mixed, and read by a head.

ELMo's use of a language model (Peters et al., 2018), and BERT as a fixed source of
features (BERT section 5.3), for any network.
"""

import keras
from keras import ops

from contract import features as feature_names
from modeling import dropout_sites, heads, kernels, sequences
from modeling.configs import keras_configs
from modeling.features import head_config, layer_choices, vectors
from modeling.networks.elmo import lstm
from modeling.networks.elmo import network as elmo


class LayerMix(keras_configs.Configured, keras.layers.Layer):
    """gamma * sum_j s_j h_j, s = softmax(weights) (Peters et al., 2018, equation 1).

    Weights begin at 0, gamma at 1, so that the first mix is the mean.

    Call shapes: states [B, S, K, W] -> [B, S, W] float32.
    """

    arguments = ("num_states",)
    only_dtype = "float32"

    def __init__(self, num_states, **kwargs):
        super().__init__(**kwargs)
        self.num_states = num_states

    def build(self, input_shape):
        self.logits = self.add_weight((self.num_states,), "zeros", name="weights")
        self.gamma = self.add_weight((1,), "ones", name="gamma")

    def call(self, states):
        return self.gamma * ops.einsum("k,bskw->bsw", ops.softmax(self.logits), states)

    def learned(self):
        """gamma, and the weight s_j of each layer j, 0 being the embeddings'."""
        weights = ops.convert_to_numpy(ops.softmax(self.logits)).tolist()
        return {"gamma": float(self.gamma[0])} | {
            f"s_{j}": weight for j, weight in enumerate(weights)
        }


class BiLstm(keras_configs.Configured, keras.layers.Layer):
    """LSTMs of both directions; each layer reads both of the layer below.

    Call shapes: [B, S, W], mask [B, S] int -> [B, S, 2 * units] float32, 0 at padding.
    """

    arguments = ("num_layers", "units", "dropout")
    only_dtype = "float32"

    def __init__(self, num_layers, units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.units = units
        self.dropout = dropout
        self.forward, self.backward = (
            [elmo.LstmWeights(units, name=f"{name}_{j}") for j in range(num_layers)]
            for name in ("forward", "backward")
        )

    def build(self, input_shape):
        for pair in zip(self.forward, self.backward, strict=True):
            for weights in pair:
                weights.build(input_shape)
            input_shape = (*input_shape[:-1], 2 * self.units)

    def call(self, hidden, mask, seed=None):
        for j, pair in enumerate(zip(self.forward, self.backward, strict=True)):
            if j:
                site = dropout_sites.between_lstms(j)
                hidden = kernels.dropout(hidden, self.dropout, seed, site)
            weights = [each.weights_of_step for each in pair]
            outputs, _ = lstm.bidirectional(
                (hidden, hidden), weights, mask, trains=seed is not None
            )
            hidden = ops.concatenate(outputs, axis=-1)  # [B, S, 2 * units]
        return hidden


class FeatureSource:
    """The input of a model's head where its HeadConfig is not the original's.

    Makes `layer_mix` and `bilstm`, as parts of the model.

    Args:
        model: a models.BertModel.
        reading: a head_config.HeadConfig.
    """

    def __init__(self, model, reading):
        self.model, self.reading = model, reading
        # LSTMs read the segment of a token, 0 or 1, after its vector, where no table of
        # segments separates question and context: a GPT has drawn its delimiter at
        # random, and an ELMo's </S> may stand at the end of any sentence.
        self.adds_segments = model.reads_segments and not model.config.type_vocab_size
        self.states, self.merge = layer_choices.choose_mix(
            model.config, reading.layer_mix
        )
        self.layer_mix = self.bilstm = None
        model.network.trainable = not reading.freeze_encoder
        if reading.learns_mix:
            self.layer_mix = LayerMix(len(self.states), name="layer_mix")
            model.layer_mix = self.layer_mix
        if reading.head == head_config.BILSTM:
            size = reading.bilstm_layers, reading.bilstm_units
            self.bilstm = BiLstm(*size, reading.feature_dropout, name="bilstm")
            model.bilstm = self.bilstm

    @property
    def reads_texts(self):
        """Whether the head needs the vector of the text alone."""
        return self.model.pools_tokens and not self.bilstm

    @property
    def states_shape(self):
        """K and W of `layer_states`."""
        separate, joined = self.merge == "separate", self.merge == "concat"
        width = self.model.config.hidden_size * (len(self.states) if joined else 1)
        return len(self.states) if separate else 1, width

    def width_before(self, part):
        """The width of what a part beside the network reads."""
        if not isinstance(part, BiLstm | heads.ClassifierHead | heads.SpanHead):
            return self.model.config.hidden_size
        if self.bilstm and part is not self.bilstm:
            return 2 * self.bilstm.units * (4 if self.reading.joins_pairs else 1)
        _, width = self.states_shape
        return width + (part is self.bilstm and self.adds_segments)

    def layer_states(self, features):
        """The layers that the head reads, float32 [B, S, K, W]; or [B, 1, K, W].

        The latter where it reads one vector a text. An example of G sequences has [B,
        G, ...]. Of a frozen network it can be computed once, and passed to the model as
        the feature LAYER_STATES.
        """
        states = self._states(sequences.as_rows(features), None)
        return sequences.by_example(states, features)

    def token_vectors(self, features, seed=None, outputs=None):
        """The vectors of tokens, float32 [B, S, W]; S = 1 where texts alone are read.

        `outputs` are the network's, where it has been called already.
        """
        states = self._states(features, seed, outputs)
        mixed = self.layer_mix(states) if self.layer_mix else states[:, :, 0]
        rate = self.reading.feature_dropout
        mixed = kernels.dropout(mixed, rate, seed, dropout_sites.FEATURES)
        if not self.bilstm:
            return mixed
        if self.adds_segments:
            segments = ops.cast(features[feature_names.SEGMENT_IDS], "float32")[
                ..., None
            ]
            mixed = ops.concatenate([mixed, segments], axis=-1)
        return self.bilstm(mixed, features[feature_names.INPUT_MASK], seed)

    def text_vectors(self, features, seed=None, outputs=None):
        """One vector a sequence, [B, W]."""
        tokens = self.token_vectors(features, seed, outputs)
        if self.reads_texts:
            return tokens[:, 0]
        return largest_of_segments(tokens, features, self.reading.joins_pairs)

    def _states(self, features, seed, outputs=None):
        if feature_names.LAYER_STATES in features:
            return features[feature_names.LAYER_STATES]
        if seed is None or not self.reading.freeze_encoder:
            return self._compute(features, seed, outputs)
        return ops.stop_gradient(self._compute(features, None))

    def _compute(self, features, seed, outputs=None):
        model = self.model
        if self.reading.pooling:
            values = vectors.of_texts(model, features, seed, self.reading.pooling)
            if self.reading.is_normalized:
                values = vectors.normalize(values)
            return values[:, None, None]
        if self.reads_texts and self.reading.layer_mix == head_config.LAST:
            if outputs is None:
                outputs = model.encode(features, seed, model.text_position(features))
            return outputs["pooled_output"][:, None, None]
        outputs = model.encode(features, seed) if outputs is None else outputs
        states = layer_choices.read_layers(outputs, self.states, self.merge)
        if not self.reads_texts:
            return states
        place = model.network.text_place
        return kernels.pool_tokens(states, features[feature_names.INPUT_MASK], place)[
            :, None
        ]


def largest_of_segments(tokens, features, joins_pairs):
    """The largest values over the tokens of a text, [B, S, W] -> [B, W].

    With `joins_pairs` those of both segments: [u; v; |u - v|; u * v], [B, 4 W]. Of a
    segment without tokens they are -1, which an LSTM's outputs do not reach.
    """
    mask, segments = (
        features[feature_names.INPUT_MASK],
        features[feature_names.SEGMENT_IDS],
    )

    def largest(is_inside):
        return ops.max(ops.where(is_inside[..., None], tokens, -1.0), axis=1)

    is_token = ops.cast(mask, "bool")
    if not joins_pairs:
        return largest(is_token)
    u, v = (largest(ops.logical_and(is_token, segments == k)) for k in (0, 1))
    return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)
