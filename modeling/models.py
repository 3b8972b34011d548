"""Encoder and heads joined: what a script builds, trains, saves and exports.

Every model takes features and an optional dropout seed, and returns named outputs.
They are Keras models: `fit`, `save` and, after this import, `load_model` work.

They compute in their `dtype` or, without one, in the policy that
`keras.config.set_dtype_policy` set before they were made: float32, mixed_bfloat16 or
mixed_float16. Variables and outputs are float32.
"""

import keras

from contract import errors
from contract import features as feature_names
from modeling import (
    heads,
    kernels,
    kernels_tf,
    packed_rows,
    sequences,
    token_heads,
)
from modeling.configs import keras_configs
from modeling.features import head_config, source


class BertModel(keras_configs.ConfiguredModel, keras.Model):
    """The network of a config, BERT, GPT or ELMo, and the dropout seed of `fit`.

    Every model takes `recompute`; see `bert.Network`. Where `reading`, a HeadConfig of
    a task, is not the original's, the head reads the layers through a FeatureSource.

    Call shapes: the three features {input_ids, input_mask, segment_ids} each [B, S] int
    -> the dict of `bert.Network`, float32.
    """

    arguments: tuple[str, ...] = ("config", "recompute")
    uses_pooler = True  # whether the outputs depend on the pooler
    num_classes = None  # C of a classifier or tagger
    pools_tokens = False  # whether a head reads one vector a text
    reads_segments = False  # whether a head has to know the segment of each token
    make_loss = None  # of logits, for `compile` without a loss; `bert.load` sets it

    def __init__(
        self, config, *, recompute=False, reading=head_config.ORIGINAL, **kwargs
    ):
        # Layer states and states of an ELMo, which are features, stay float32.
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.recompute = recompute
        network = config.spec.layers(
            config, recompute, name=config.network, dtype=self.given_dtype
        )
        # Keras' files call a part by its attribute, which is the network's name.
        setattr(self, config.network, network)
        # Only `fit` draws from it; the training loop passes seeds of its own.
        self._seeds = keras.random.SeedGenerator(seed=0, name="fit_seed")
        self.reading = reading
        is_original = reading == head_config.ORIGINAL
        self.source = None if is_original else source.FeatureSource(self, reading)

    @property
    def network(self):
        """The network alone, whichever it is."""
        return getattr(self, self.config.network)

    def build(self, input_shape=None):
        """Creates every variable; input shapes do not matter."""
        self.network.build((None, None))
        for part in self.layers[1:]:  # what a subclass has beside the encoder
            if isinstance(part, keras_configs.Configured):
                width = self.config.hidden_size
                width = self.source.width_before(part) if self.source else width
                part.build((None, None, width))
        if not all(part.built for part in self.layers):  # what a user has added
            self.compute_output_spec(self.features_spec())

    def build_from_config(self, config):
        """Creates every variable, whatever shapes the saved model was built with."""
        self.build()

    def __call__(self, features, *args, **kwargs):
        held = features if isinstance(features, dict) else feature_names.ENCODER_INPUTS
        missing = [name for name in feature_names.ENCODER_INPUTS if name not in held]
        if feature_names.INPUT_MASK in missing or (
            missing and feature_names.INPUT_IDS in held
        ):
            raise errors.InputError(  # before Keras, which would rewrite it
                f"features have no {' and no '.join(missing)}, but {', '.join(held)}; "
                "name them input_ids, input_mask (attention_mask elsewhere) and "
                "segment_ids (token_type_ids), int32 [B, S] as of encode(texts)"
            )
        return super().__call__(features, *args, **kwargs)

    def compile(self, optimizer="rmsprop", loss=None, **settings):
        """Compiles as Keras does, without a loss with that of the model's labels.

        InputError is raised for a loss of probabilities, since outputs are logits.
        """
        named = isinstance(loss, str) and "crossentropy" in loss.lower()
        if self.num_classes and (named or getattr(loss, "from_logits", None) is False):
            raise errors.InputError(
                f"loss={getattr(loss, 'name', loss)} takes probabilities, outputs are "
                "logits; leave loss out, or give a keras.losses with from_logits=True"
            )
        loss = self.make_loss() if loss is None and self.make_loss else loss
        super().compile(optimizer, loss, **settings)

    def compile_from_config(self, config):
        """Compiles as the saved model was, its optimizer with slots for all weights."""
        super().compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def dropout_seed(self, training, seed):
        """The seed of this call: the caller's, a fresh one in `fit`, or None."""
        if seed is None and training:
            seed = kernels_tf.make_seed(self._seeds.next())
        return seed

    def encode(self, features, seed, positions=None, table=None):
        """The network's outputs on the three input features."""
        if feature_names.PACKED_SOURCES in features:
            return packed_rows.encode(self.network, features, seed, positions, table)
        inputs = [features[name] for name in feature_names.ENCODER_INPUTS]
        return self.network(*inputs, positions, seed=seed, table=table)

    def pooled_position(self, features):
        """Where the text's vector is, int32 [B, 1]: at [CLS], or at the last token."""
        if self.network.text_place == "last":
            return kernels.last_position(features["input_mask"])
        return keras.ops.zeros_like(features["input_mask"][:, :1], dtype="int32")

    def text_position(self, features):
        """As `pooled_position`; None where a text's vector is a mean of tokens."""
        is_mean = self.network.text_place == "mean"
        return None if is_mean else self.pooled_position(features)

    def own_head(self, name, count):
        """The network's head of this name for C classes; None for one of `heads`."""
        own = self.config.spec.task_heads if self.reading.is_plain else {}
        return own[name](self.config, count, name=name) if name in own else None

    def call(self, features, training=False, seed=None):
        outputs = self.encode(features, self.dropout_seed(training, seed))
        return keras.tree.map_structure(lambda x: keras.ops.cast(x, "float32"), outputs)

    def learned_mix(self):
        """As LayerMix.learned; {} where nothing is learned of layers."""
        layer_mix = self.source and self.source.layer_mix
        return layer_mix.learned() if layer_mix else {}


class BertClassifier(BertModel):
    """One label, several labels or one number a text; run_classifier.py.

    Call shapes: three features [B, S] -> {"logits": [B, C]} float32. Where an example
    is G sequences, features are [B, G, S], and their vectors are "summed" before the
    linear layer (GPT section 3.3, similarity), or "compared", with one logit each, [B,
    G] (there, choice; BERT section 4.4); or they are windows of a text, whose logits
    are joined by "mean" or "max". With `predicts_tokens`, a model that trains
    returns next_token_losses [..., S - 1], too; see `token_heads.predict_tokens`.
    """

    arguments = (
        *BertModel.arguments,
        "num_classes",
        "sequences",
        "predicts_tokens",
        "reading",
    )

    pools_tokens = True

    def __init__(
        self, config, num_classes, sequences="single", predicts_tokens=False, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.sequences = sequences
        self.predicts_tokens = predicts_tokens
        is_choice = sequences == "compared"
        is_dense = config.spec.classifier is not None and not (
            is_choice and config.has_pooler  # where a choice is by the pooler
        )
        if own := self.own_head("classifier", num_classes):
            self.classifier = own
        elif self.reading.is_plain and is_dense:
            self.classifier = heads.DenseClassifierHead(
                config, num_classes, is_choice, name="classifier"
            )
        else:
            is_gpt = config.spec.has_wide_kernels
            self.classifier = heads.ClassifierHead(
                num_classes, is_gpt, name="classifier"
            )
        is_pooled = not isinstance(self.classifier, heads.DenseClassifierHead)
        self.uses_pooler = self.reading.is_plain and is_pooled
        if predicts_tokens:
            dtype = self.given_dtype
            self.masked_lm = token_heads.make_token_head(config, "masked_lm", dtype)

    def pool(self, features, seed=None, outputs=None):
        """The head's input: [B, W], or [B, G, W] where sequences are compared.

        That of windows is [B * G, W]. `outputs` are the network's, where it has been
        called already.
        """
        is_single = self.sequences == "single"
        rows = features if is_single else self._rows(features)
        if self.source:
            pooled = self.source.text_vectors(rows, seed, outputs)
        else:
            if outputs is None:
                outputs = self.encode(rows, seed, self.text_position(rows))
            pooled = outputs["pooled_output"]
            if not self.uses_pooler:  # whose classifier reads the vector itself
                first = outputs["sequence_output"][:, 0]
                pooled = keras.ops.cast(first, "float32")
        kind = self.sequences
        return pooled if is_single else sequences.join_rows(pooled, features, kind)

    @property
    def _reads_windows(self):
        return self.sequences in sequences.OF_WINDOWS

    def _rows(self, features):
        rows = sequences.window_rows if self._reads_windows else sequences.as_rows
        return rows(features)

    def features_spec(self):
        """As BertModel's; [B, G, S] where an example is G sequences."""
        features = super().features_spec()
        if self.sequences == "single":
            return features
        return keras_configs.specs(
            {name: (None, *x.shape) for name, x in features.items()}
        )

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        outputs, more = None, {}
        if self.predicts_tokens and seed is not None:
            rows = self._rows(features)
            outputs = token_heads.encode_and_predict(self, rows, seed)
            losses = sequences.by_example(outputs["next_token_losses"], features)
            more = {"next_token_losses": losses}
        pooled = self.pool(features, seed, outputs)
        is_choice = self.sequences == "compared"
        logits = self.classifier(pooled, seed=seed, is_shared=is_choice)
        if self._reads_windows:
            logits = sequences.join_windows(logits, features, self.sequences)
        return {"logits": logits[..., 0] if is_choice else logits, **more}


class BertTagger(BertModel):
    """One label a token (BERT section 5.3).

    Call shapes: three features [B, S] -> {"logits": [B, S, C]} float32.
    """

    arguments = (*BertModel.arguments, "num_classes", "reading")
    uses_pooler = False

    def __init__(self, config, num_classes, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.tagger = self.own_head("tagger", num_classes) or heads.ClassifierHead(
            num_classes, name="tagger"
        )

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        hidden = read_tokens(self, features, seed)
        return {"logits": self.tagger(hidden, seed=seed)}


class BertSpanPredictor(BertModel):
    """Where an answer starts and ends (BERT section 4.2); run_squad.py.

    Call shapes: three features [B, S] -> {"start_logits", "end_logits"} [B, S] float32.
    """

    arguments = (*BertModel.arguments, "reading")
    uses_pooler = False
    reads_segments = True

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.span = self.own_head("span", 2) or heads.SpanHead(name="span")

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        start, end = self.span(read_tokens(self, features, seed), seed=seed)
        return {"start_logits": start, "end_logits": end}


def read_tokens(model, features, seed):
    """The input of a tagger's or span predictor's head, float32 [B, S, W]."""
    if model.source:
        return model.source.token_vectors(features, seed)
    hidden = model.encode(features, seed)["sequence_output"]
    return keras.ops.cast(hidden, "float32")
