"""Layers of a network as the features of a task: mixed, and read by a head.

ELMo's use of a language model (Peters et al., 2018), and BERT as a fixed source of
features (BERT section 5.3), for any network.
"""

import dataclasses

import keras
from keras import ops

from contract import errors
from contract import features as names
from modeling import heads
from modeling.configs import keras_configs
from modeling.elmo import lstm
from modeling.elmo import network as elmo
from modeling.features import head_config, layer_choices, sequences
from modeling.operations import fast_ops

_NORM_EPSILON = 1e-12  # bilm-tf, weight_layers
# Dropout of what the head reads, and below it that between its LSTM layers.
_FEATURE_SITE = heads.HEAD_SITE - 1
_LAST = heads.ClassifierHead | heads.SpanHead  # what reads vectors, or LSTMs
SQUARES = "layer_mix_squares"  # of what a model that trains puts out


def normalized(states, mask):
    """Layers [B, S, K, W] with one mean and variance each, over all tokens of a batch.

    Those of `mask` [B, S] count. bilm-tf's layer norm; it has neither gain nor bias.
    """
    mask = ops.cast(mask, "float32")[:, :, None, None]
    count = ops.sum(mask) * states.shape[-1]

    def mean(values):  # [1, 1, K, 1]
        return ops.sum(values * mask, axis=(0, 1, 3), keepdims=True) / count

    centred = states - mean(states)
    return centred * ops.rsqrt(mean(ops.square(centred)) + _NORM_EPSILON)


class LayerMix(keras_configs.Configured, keras.layers.Layer):
    """gamma * sum_j s_j h_j, s = softmax(weights) (Peters et al., 2018, equation 1).

    Weights begin at 0, gamma at 1, so that the first mix is the mean. A single layer
    has no weight.

    Call shapes: states [B, S, K, W], mask [B, S] -> [B, S, W] float32.
    """

    arguments = ("num_states", "normalizes")
    only_dtype = "float32"

    def __init__(self, num_states, normalizes=False, **kwargs):
        super().__init__(**kwargs)
        self.num_states = num_states
        self.normalizes = normalizes

    def build(self, input_shape):
        self.logits = None
        if self.num_states > 1:
            self.logits = self.add_weight((self.num_states,), "zeros", name="weights")
        self.gamma = self.add_weight((1,), "ones", name="gamma")

    def call(self, states, mask):
        if self.normalizes:
            states = normalized(states, mask)
        mixed = states[:, :, 0]
        if self.logits is not None:
            mixed = ops.einsum("k,bskw->bsw", ops.softmax(self.logits), states)
        return self.gamma * mixed

    def learned(self, states):
        """gamma, and s_j of the `states` j, 0 being the embeddings': {name: float}."""
        found = {"gamma": float(self.gamma[0])}
        if self.logits is not None:
            shares = ops.convert_to_numpy(ops.softmax(self.logits)).tolist()
            found |= {f"s_{j}": s for j, s in zip(states, shares, strict=True)}
        return found

    def squares(self):
        """The sum of squared weights, before their softmax; a float32 scalar."""
        return ops.sum(ops.square(self.logits))


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
                site = _FEATURE_SITE - j
                hidden = fast_ops.dropout(hidden, self.dropout, seed, site)
            weights = [each.weights_of_step for each in pair]
            outputs, _ = lstm.bidirectional(
                (hidden, hidden), weights, mask, trains=seed is not None
            )
            hidden = ops.concatenate(outputs, axis=-1)  # [B, S, 2 * units]
        return hidden


class ReadsLayers:
    """What a model does that reads a network in one of several ways; a mix-in."""

    reads_texts = False  # whether the head reads one vector a text, and no others
    tells_segments = False  # whether LSTMs have to know the segment of each token

    def __init__(self, config, *, reading=head_config.ORIGINAL, **kwargs):
        """Makes the parts of a readings.Reading; a task's own head comes after them."""
        super().__init__(config, **kwargs)
        self.reading = reading
        self.network.trainable = not reading.freeze_encoder
        self._wanted = choose(self.config, reading.layer_mix)
        self.layer_mix = self.bilstm = None
        if reading.learns_mix:
            size, norm = len(self._wanted[0]), reading.layer_mix_norm
            self.layer_mix = LayerMix(size, norm, name="layer_mix")
        if reading.head == head_config.BILSTM:
            size = reading.bilstm_layers, reading.bilstm_units
            self.bilstm = BiLstm(*size, reading.feature_dropout, name="bilstm")

    def width_before(self, part):
        """The width of what a part reads."""
        if self.bilstm and isinstance(part, _LAST):
            return 2 * self.bilstm.units * (4 if self.reading.joins_pairs else 1)
        states, merge = self._wanted
        more = 1 if self._adds_segments and part is self.bilstm else 0
        is_wide = merge == "concat" and isinstance(part, BiLstm | _LAST)
        return super().width_before(part) * (len(states) if is_wide else 1) + more

    @property
    def _adds_segments(self):
        """Whether LSTMs read the segment of a token, 0 or 1, after its vector.

        It tells a question from its context. BERT's vectors tell it themselves; those
        of a network without a table of segments do not, least of all where it is
        frozen: a frozen GPT has drawn its delimiter at random, and an ELMo's </S> may
        stand at the end of any sentence. One number serves all of these, adds no
        variable and leaves the heads without LSTMs what they were.
        """
        return self.tells_segments and not self.config.type_vocab_size

    def layer_states(self, features):
        """What the head reads of the network, float32 [B, S, K, W]; or [B, 1, K, W].

        The latter where it reads one vector a text. An example of G sequences has [B,
        G, ...]. Of a frozen network it can be computed once, and given to the model as
        the feature LAYER_STATES.
        """
        states = self._states(sequences.rows(features), None)
        return sequences.by_example(states, features)

    def states_identity(self):
        """What else `layer_states` depend on than features and the network's weights.

        A value as JSON has it; it differs where they may.
        """
        return {
            "config": dataclasses.asdict(self.config),
            "layer_mix": self.reading.layer_mix,
            "reads_texts": self.reads_texts,
            "dtype": self.dtype_policy.name,
        }

    def vectors(self, features, seed=None, outputs=None):
        """What is made of the layer states of sequences: float32 [B, S, W], or S = 1.

        `outputs` are the network's, where it has been called already.
        """
        mask = features[names.INPUT_MASK]
        states = self._states(features, seed, outputs)
        mixed = self.layer_mix(states, mask) if self.layer_mix else states[:, :, 0]
        rate = self.reading.feature_dropout
        mixed = fast_ops.dropout(mixed, rate, seed, _FEATURE_SITE)
        if not self.bilstm:
            return mixed
        if self._adds_segments:
            segments = ops.cast(features[names.SEGMENT_IDS], "float32")[..., None]
            mixed = ops.concatenate([mixed, segments], axis=-1)
        return self.bilstm(mixed, mask, seed)

    def text_vectors(self, features, seed=None, outputs=None):
        """One vector a sequence, [B, W]."""
        vectors = self.vectors(features, seed, outputs)
        if self.reads_texts:
            return vectors[:, 0]
        if self.bilstm:
            return of_segments(vectors, features, self.reading.joins_pairs)
        place = text_place(self.config)
        return layer_choices.of_text(vectors, features[names.INPUT_MASK], place)

    def learned_mix(self):
        """As LayerMix.learned; {} where nothing is learned of layers."""
        return self.layer_mix.learned(self._wanted[0]) if self.layer_mix else {}

    def penalties(self, seed):
        """Outputs for the objective of `with_penalty`, of a model that trains."""
        if seed is None or not self.reading.layer_mix_l2:
            return {}
        return {SQUARES: self.layer_mix.squares()}

    def _states(self, features, seed, outputs=None):
        if names.LAYER_STATES in features:
            return features[names.LAYER_STATES]
        if seed is None or not self.reading.freeze_encoder:
            return self._computed(features, seed, outputs)
        return ops.stop_gradient(self._computed(features, None))

    def _computed(self, features, seed, outputs=None):
        if self.reads_texts and self.reading.layer_mix == head_config.LAST:
            if outputs is None:
                outputs = self.encode(features, seed, self.pooled_position(features))
            return outputs["pooled_output"][:, None, None]
        outputs = self.encode(features, seed) if outputs is None else outputs
        states = layer_choices.merged(outputs, *self._wanted)
        if not self.reads_texts:
            return states
        mask = features[names.INPUT_MASK]
        return layer_choices.of_text(states, mask, text_place(self.config))[:, None]


def of_segments(vectors, features, joins_pairs):
    """The largest values over the tokens of a text, [B, S, W] -> [B, W].

    With `joins_pairs` those of both segments: [u; v; |u - v|; u * v], [B, 4 W]. Of a
    segment without tokens they are -1, which an LSTM's outputs do not reach.
    """
    mask, segments = features[names.INPUT_MASK], features[names.SEGMENT_IDS]

    def largest(is_its):
        return ops.max(ops.where(is_its[..., None], vectors, -1.0), axis=1)

    is_token = ops.cast(mask, "bool")
    if not joins_pairs:
        return largest(is_token)
    u, v = (largest(ops.logical_and(is_token, segments == k)) for k in (0, 1))
    return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)


def with_penalty(objective, reading):
    """Another objective + layer_mix_l2 * the sum of squared weights of layers.

    ELMo section 3.4. Every part of a batch adds its share, by its examples.
    """
    if not reading.layer_mix_l2:
        return objective

    def count(features):
        return ops.cast(ops.shape(features[names.INPUT_MASK])[0], "float32")

    def counts(features):
        return {**objective.counts(features), "layer_mix_loss": count(features)}

    def totals(features, outputs):
        found = reading.layer_mix_l2 * outputs[SQUARES] * count(features)
        return {**objective.totals(features, outputs), "layer_mix_loss": found}

    return objective._replace(counts=counts, totals=totals)


def text_place(config):
    """Where the vector of a text is, as layer_choices.of_text takes it."""
    if config.network == "elmo":
        return "mean"
    return "last" if config.is_left_to_right else "first"


def choose(config, layer_mix):
    """Indices of the states that a mix reads, and how they are merged.

    As `layer_choices.merged` takes them; of those that are weighted the first is the
    lowest.

    Raises:
        ValueError: there is no such mix, or the network has too few layers.
    """
    depth, flag = config.num_hidden_layers, f"--layer_mix={layer_mix} needs"
    if layer_mix == "learned":
        return tuple(range(depth + 1)), "separate"
    if layer_mix == "learned_last_4":
        states = layer_choices.states_of(layer_choices.LAST_4, depth, flag)
        return states[::-1], "separate"
    name = head_config.LAST if layer_mix in head_config.SCALED else layer_mix
    if name not in layer_choices.COMBINATIONS:
        known = *layer_choices.COMBINATIONS, *head_config.WEIGHTED, *head_config.SCALED
        raise errors.InputError(
            f"--layer_mix={layer_mix} is none of {', '.join(known)}"
        )
    layers, merge = layer_choices.COMBINATIONS[name]
    return layer_choices.states_of(layers, depth, flag), merge
