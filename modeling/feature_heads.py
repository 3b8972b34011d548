"""Layers of a network as the features of a task: mixed, and read by a head.

ELMo's use of a language model (Peters et al., 2018), and BERT as a fixed source of
features (BERT section 5.3), for any network.
"""

from keras import ops

from contract import features as names
from modeling.configs import readings
from modeling.operations import layer_choices, sequences


class ReadsLayers:
    """What a model does that reads a network in one of several ways; a mix-in."""

    reads_texts = False  # whether the head reads one vector a text, and no others

    def _read(self, reading):
        """Makes the parts of a readings.Reading; a task's own head comes after them."""
        self.reading = reading
        self.network.trainable = not reading.freeze_encoder
        self._wanted = choose(self.config, reading.layer_mix)

    def layer_states(self, features):
        """What the head reads of the network, float32 [B, S, K, W]; or [B, 1, K, W].

        The latter where it reads one vector a text. An example of G sequences has [B,
        G, ...]. Of a frozen network it can be computed once, and given to the model as
        the feature LAYER_STATES.
        """
        states = self._states(sequences.rows(features), None)
        return sequences.by_example(states, features)

    def _states(self, features, seed):
        if names.LAYER_STATES in features:
            return features[names.LAYER_STATES]
        if not self.reading.freeze_encoder:
            return self._computed(features, seed)
        return ops.stop_gradient(self._computed(features, None))

    def _computed(self, features, seed):
        if self.reads_texts and self.reading.layer_mix == readings.LAST:
            outputs = self.encode(features, seed, self.pooled_position(features))
            return outputs["pooled_output"][:, None, None]
        outputs = self.encode(features, seed)
        states = layer_choices.merged(outputs, *self._wanted)
        if not self.reads_texts:
            return states
        mask = features[names.INPUT_MASK]
        return layer_choices.of_text(states, mask, text_place(self.config))[:, None]


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
        ValueError: the network has too few layers.
    """
    depth, flag = config.num_hidden_layers, f"--layer_mix={layer_mix} needs"
    if layer_mix == "learned":
        return tuple(range(depth + 1)), "separate"
    if layer_mix == "learned_last_4":
        states = layer_choices.states_of(layer_choices.LAST_4, depth, flag)
        return states[::-1], "separate"
    name = readings.LAST if layer_mix in readings.SCALED else layer_mix
    layers, merge = layer_choices.COMBINATIONS[name]
    return layer_choices.states_of(layers, depth, flag), merge
