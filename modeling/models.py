"""Encoder and heads joined: what a script builds, trains, saves and exports.

Every model takes the dict of features and an optional dropout seed, and returns a
dict of named outputs. They are ordinary Keras models: `compile`, `fit`, `save` and,
where this module is imported, `keras.models.load_model` work.

They compute in the policy that `keras.config.set_dtype_policy` set before they were
made: float32, mixed_bfloat16 or mixed_float16. Variables and outputs are float32.
"""

import keras
from keras import ops

from contract import features as names
from modeling import decoder, encoder, heads, keras_configs, token_heads
from modeling.operations import token_masks

NETWORKS = {"bert": encoder.BertEncoder, "gpt": decoder.GptDecoder}


class BertModel(keras_configs.Configured, keras.Model):
    """The network of a config, BERT or GPT, and the dropout seed of `fit`.

    Every model takes `recompute`; see `encoder.Network`.

    Call shapes: the three features {input_ids, input_mask, segment_ids} each [B, S] int
    -> the dict of `encoder.Network`, float32.
    """

    arguments: tuple[str, ...] = ("config", "recompute")
    reads_pooler = True  # whether the outputs depend on the pooler
    num_classes = None  # C of a classifier or tagger

    def __init__(self, config, *, recompute=False, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.recompute = recompute
        kind = NETWORKS[config.network]
        self.network = kind(config, recompute, name=config.network)
        # Only `fit` draws from it; the training loop passes seeds of its own.
        self._seeds = keras.random.SeedGenerator(seed=0, name="fit_seed")

    def build(self, input_shape=None):
        """Creates every variable; input shapes do not matter."""
        self.network.build((None, None))
        for head in self.layers[1:]:  # what a subclass has beside the encoder
            head.build((None, None, self.config.hidden_size))

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
        return keras.ops.zeros_like(features["input_ids"][:, :1], dtype="int32")

    def call(self, features, training=False, seed=None):
        outputs = self.encode(features, self.dropout_seed(training, seed))
        return keras.tree.map_structure(lambda x: keras.ops.cast(x, "float32"), outputs)


class BertClassifier(BertModel):
    """One label, several labels or one number a text; run_classifier.py.

    Call shapes: three features [B, S] -> {"logits": [B, C]} float32. Where an example
    is G sequences, features are [B, G, S], and `sequences` says what becomes of them:

    * "summed": the vectors of both orders of a pair are added before the linear layer
      (GPT section 3.3, similarity).
    * "compared": each has one logit, `num_classes` is 1, and the logits are [B, G] (GPT
      section 3.3, choice; BERT section 4.4).

    With `predicts_tokens` a model that trains, and sees from left to right, returns
    "next_token_losses" as well, [..., S - 1]; see `token_heads.next_tokens`.
    """

    arguments = (*BertModel.arguments, "num_classes", "sequences", "predicts_tokens")

    def __init__(
        self, config, num_classes, sequences="single", predicts_tokens=False, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.sequences = sequences
        self.predicts_tokens = predicts_tokens
        kind = self.network.classifier_kind
        self.classifier = kind(num_classes, name="classifier")
        if predicts_tokens:
            self.masked_lm = token_heads.of_network(config, name="masked_lm")

    def pool(self, features, seed=None):
        """What the head reads: [B, D], or [B, G, D] where sequences are compared."""
        rows = self._rows(features)
        outputs = self.encode(rows, seed, self.pooled_position(rows))
        return self._joined(outputs["pooled_output"], features)

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        if not self.predicts_tokens or seed is None:
            return {"logits": self._logits(self.pool(features, seed), seed)}
        rows, table = self._rows(features), self.network.embeddings.table(seed)
        outputs = self.encode(rows, seed, table=table)
        pooled = self._joined(outputs["pooled_output"], features)
        hidden, ids = outputs["sequence_output"], rows["input_ids"]
        found = token_heads.next_tokens(self.masked_lm, hidden, table, ids, True)
        shape = *ops.shape(features["input_ids"])[:-1], ops.shape(ids)[-1] - 1
        token_losses = ops.reshape(found["next_token_losses"], shape)
        return {
            "logits": self._logits(pooled, seed),
            "next_token_losses": token_losses,
        }

    def _rows(self, features):
        """The features with a row for each sequence, [R, S]."""
        if self.sequences == "single":
            return features
        shape = -1, ops.shape(features["input_ids"])[-1]
        return {
            name: ops.reshape(features[name], shape) for name in names.ENCODER_INPUTS
        }

    def _joined(self, pooled, features):
        if self.sequences == "single":
            return pooled
        count = ops.shape(features["input_ids"])[1]
        pooled = ops.reshape(pooled, (-1, count, self.config.hidden_size))
        return ops.sum(pooled, axis=1) if self.sequences == "summed" else pooled

    def _logits(self, pooled, seed):
        is_choice = self.sequences == "compared"
        logits = self.classifier(pooled, seed=seed, is_shared=is_choice)
        return logits[..., 0] if is_choice else logits


class BertTagger(BertModel):
    """One label a token (BERT section 5.3).

    Call shapes: three features [B, S] -> {"logits": [B, S, C]} float32.
    """

    arguments = (*BertModel.arguments, "num_classes")
    reads_pooler = False

    def __init__(self, config, num_classes, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        self.tagger = heads.TaggerHead(num_classes, name="tagger")

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        sequence = self.encode(features, seed)["sequence_output"]
        return {"logits": self.tagger(sequence, seed=seed)}


class BertSpanPredictor(BertModel):
    """Where an answer starts and ends (BERT section 4.2); run_squad.py.

    Call shapes: three features [B, S] -> {"start_logits", "end_logits"} [B, S] float32.
    """

    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.span = heads.SpanHead(name="span")

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        start, end = self.span(self.encode(features, seed)["sequence_output"])
        return {"start_logits": start, "end_logits": end}


class BertPretrainer(BertModel):
    """Masked words and the next sentence (BERT section 3.1); run_pretraining.py.

    Call shapes: three features [B, S], masked_lm_positions [B, P] int ->
    {"masked_lm_logits": [B, P, V], "next_sentence_logits": [B, 2]} float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.MaskedLMHead(config, name="masked_lm")
        self.next_sentence = heads.OutputProjection(
            2, stddev=config.initializer_range, name="next_sentence"
        )

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        first = self.pooled_position(features)
        masked = keras.ops.cast(features["masked_lm_positions"], first.dtype)
        positions = keras.ops.concatenate([first, masked], axis=1)
        outputs = self.encode(features, seed, positions)
        return {
            "masked_lm_logits": self.masked_lm(
                outputs["sequence_output"][:, 1:],
                self.network.embeddings.table(),
                training=seed is not None,
            ),
            "next_sentence_logits": self.next_sentence(outputs["pooled_output"]),
        }


class LanguageModel(token_heads.NextTokens, BertModel):
    """GPT, GPT-2, or BERT from left to right; see `token_heads.NextTokens`."""

    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.of_network(config, name="masked_lm")


HEADS = {
    "none": BertModel,
    "pretraining": BertPretrainer,
    "classifier": BertClassifier,
    "tagger": BertTagger,
    "span": BertSpanPredictor,
    "language_model": LanguageModel,
}
CLASS_HEADS = ("classifier", "tagger")  # which take a number of classes


def sequences_of(problem_type, pair_input="joined"):
    """`BertClassifier.sequences` for a label_sets.LabelSet's settings."""
    if problem_type == "choice":
        return "compared"
    return "summed" if pair_input == "both_orders" else "single"


def build(head, num_classes, config, *, recompute=False, **settings):
    """The model with one of `HEADS`, its variables made; C is for `CLASS_HEADS`."""
    classes = (num_classes,) if head in CLASS_HEADS else ()
    model = HEADS[head](config, *classes, recompute=recompute, **settings)
    model.build()
    return model
