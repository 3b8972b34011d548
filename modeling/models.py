"""Encoder and heads joined: what a script builds, trains, saves and exports.

Every model takes features and an optional dropout seed, and returns named outputs.
They are Keras models: `fit`, `save` and, after this import, `load_model` work.

They compute in their `dtype` or, without one, in the policy that
`keras.config.set_dtype_policy` set before they were made: float32, mixed_bfloat16 or
mixed_float16. Variables and outputs are float32.
"""

import keras

from modeling import encoder, heads, token_heads
from modeling.configs import keras_configs
from modeling.elmo import network as elmo
from modeling.encoder_decoder import network as encoder_decoder
from modeling.features import head_config, sequences
from modeling.features import heads as feature_heads
from modeling.gpt import network as decoder
from modeling.operations import token_masks

NETWORKS = {
    "bert": encoder.BertEncoder,
    "gpt": decoder.GptDecoder,
    "elmo": elmo.ElmoNetwork,
    "encoder_decoder": encoder_decoder.EncoderDecoder,
}


class BertModel(keras_configs.ConfiguredModel, keras.Model):
    """The network of a config, BERT, GPT or ELMo, and the dropout seed of `fit`.

    Every model takes `recompute`; see `encoder.Network`.

    Call shapes: the three features {input_ids, input_mask, segment_ids} each [B, S] int
    -> the dict of `encoder.Network`, float32.
    """

    arguments: tuple[str, ...] = ("config", "recompute")
    reads_pooler = True  # whether the outputs depend on the pooler
    num_classes = None  # C of a classifier or tagger
    reading = head_config.ORIGINAL  # how its head reads the network

    def __init__(self, config, *, recompute=False, **kwargs):
        # Layer states and states of an ELMo, which are features, stay float32.
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.recompute = recompute
        # Keras' files call a part by its attribute, which is the network's name.
        kind, name = NETWORKS[config.network], config.network
        network = kind(config, recompute, name=name, dtype=self.given_dtype)
        setattr(self, name, network)
        # Only `fit` draws from it; the training loop passes seeds of its own.
        self._seeds = keras.random.SeedGenerator(seed=0, name="fit_seed")

    @property
    def network(self):
        """The network alone, whichever it is."""
        return getattr(self, self.config.network)

    def build(self, input_shape=None):
        """Creates every variable; input shapes do not matter."""
        self.network.build((None, None))
        for part in self.layers[1:]:  # what a subclass has beside the encoder
            if isinstance(part, keras_configs.Configured):
                part.build((None, None, self.width_before(part)))
        if not all(part.built for part in self.layers):  # what a user has added
            self.compute_output_spec(self.features_spec())

    def width_before(self, part):
        """The width of what a part beside the encoder reads."""
        return self.config.hidden_size

    def learned_mix(self):
        """{name: number} of what is learned of layers; see feature_heads."""
        return {}

    def build_from_config(self, config):
        """Creates every variable, whatever shapes the saved model was built with."""
        self.build()

    def dropout_seed(self, training, seed):
        """The seed of this call: the caller's, a fresh one in `fit`, or None."""
        if seed is None and training:
            seed = keras.ops.cast(self._seeds.next(), "int64")
        return seed

    def encode(self, features, seed, positions=None, table=None):
        """The network's outputs on the three input features."""
        return self.network(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            positions,
            seed=seed,
            table=table,
        )

    def pooled_position(self, features):
        """Where the text's vector is, int32 [B, 1]: at [CLS], or at the last token."""
        if self.config.is_left_to_right:
            return token_masks.last_position(features["input_mask"])
        return keras.ops.zeros_like(features["input_mask"][:, :1], dtype="int32")

    def call(self, features, training=False, seed=None):
        outputs = self.encode(features, self.dropout_seed(training, seed))
        return keras.tree.map_structure(lambda x: keras.ops.cast(x, "float32"), outputs)


class BertClassifier(feature_heads.ReadsLayers, BertModel):
    """One label, several labels or one number a text; run_classifier.py.

    Call shapes: three features [B, S] -> {"logits": [B, C]} float32. Where an example
    is G sequences, features are [B, G, S], and their vectors are "summed" before the
    linear layer (GPT section 3.3, similarity), or "compared", with one logit each, [B,
    G] (there, choice; BERT section 4.4). With `predicts_tokens`, a model that trains
    returns next_token_losses [..., S - 1], too; see `token_heads.next_tokens`.
    """

    arguments = (
        *(*BertModel.arguments, "num_classes", "sequences"),
        *("predicts_tokens", "reading"),
    )

    def __init__(
        self,
        config,
        num_classes,
        sequences="single",
        predicts_tokens=False,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.sequences = sequences
        self.predicts_tokens = predicts_tokens
        kind = self.network.classifier_kind
        self.classifier = kind(num_classes, name="classifier")
        if predicts_tokens:
            dtype = self.given_dtype
            self.masked_lm = token_heads.of_network(config, "masked_lm", dtype)

    @property
    def reads_texts(self):
        """Whether the head reads one vector a text, and no others."""
        return self.reading.pools_states

    @property
    def reads_pooler(self):
        """Whether the outputs depend on the pooler."""
        return self.reading.is_plain

    def pool(self, features, seed=None, outputs=None):
        """What the head reads: [B, W], or [B, G, W] where sequences are compared.

        `outputs` are the network's, where it has been called already.
        """
        vectors = self.text_vectors(sequences.rows(features), seed, outputs)
        return sequences.joined(vectors, features, self.sequences)

    def features_spec(self):
        """As BertModel's; [B, G, S] where an example is G sequences."""
        features = super().features_spec()
        if self.sequences == "single":
            return features
        return keras_configs.specs(
            {name: (None, *x.shape) for name, x in features.items()}
        )

    def call(self, features, training=False, seed=None):
        seed, told = self.dropout_seed(training, seed), None
        found = self.penalties(seed)
        if self.predicts_tokens and seed is not None:
            told = token_heads.predict(self, sequences.rows(features), seed)
            each = sequences.by_example(told["next_token_losses"], features)
            found["next_token_losses"] = each
        pooled = self.pool(features, seed, told)
        is_choice = self.sequences == "compared"
        logits = self.classifier(pooled, seed=seed, is_shared=is_choice)
        return {"logits": logits[..., 0] if is_choice else logits, **found}


class BertTagger(feature_heads.ReadsLayers, BertModel):
    """One label a token (BERT section 5.3).

    Call shapes: three features [B, S] -> {"logits": [B, S, C]} float32.
    """

    arguments = (*BertModel.arguments, "num_classes", "reading")
    reads_pooler = False

    def __init__(self, config, num_classes, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.tagger = heads.TaggerHead(num_classes, name="tagger")

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        logits = self.tagger(self.vectors(features, seed), seed=seed)
        return {"logits": logits, **self.penalties(seed)}


class BertSpanPredictor(feature_heads.ReadsLayers, BertModel):
    """Where an answer starts and ends (BERT section 4.2); run_squad.py.

    Call shapes: three features [B, S] -> {"start_logits", "end_logits"} [B, S] float32.
    """

    arguments = (*BertModel.arguments, "reading")
    tells_segments = True
    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.span = heads.SpanHead(name="span")

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        start, end = self.span(self.vectors(features, seed))
        return {"start_logits": start, "end_logits": end, **self.penalties(seed)}
