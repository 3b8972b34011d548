"""Models that pretrain, and every model by the name of its head."""

import keras

from contract import errors
from contract import features as names
from modeling import heads, models, token_heads
from modeling.configs import keras_configs
from modeling.elmo import lstm, objective
from modeling.encoder_decoder import decoding


class BertPretrainer(models.BertModel):
    """Masked words and the next sentence (BERT section 3.1); run_pretraining.py.

    Call shapes: three features [B, S], masked_lm_positions [B, P] int ->
    {"masked_lm_logits": [B, P, V], "next_sentence_logits": [B, 2]} float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.MaskedLMHead(
            config, name="masked_lm", dtype=self.given_dtype
        )
        self.next_sentence = heads.OutputProjection(
            2, stddev=config.initializer_range, name="next_sentence"
        )

    def features_spec(self):
        """As BertModel's, and masked_lm_positions [B, P]."""
        positions = keras_configs.specs({names.MASKED_LM_POSITIONS: (None, None)})
        return super().features_spec() | positions

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


class LanguageModel(token_heads.NextTokens, models.BertModel):
    """GPT, GPT-2, or BERT from left to right; see `token_heads.NextTokens`."""

    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.of_network(config, "masked_lm", self.given_dtype)


class BidirectionalLM(models.BertModel):
    """The language models of an ELMo, of streams in both directions.

    `states` are {name: shape}, what is carried from batch to batch beside an axis of
    rows. The two streams are different texts; the backward one comes in the order in
    which it is read, each sentence from its end.

    Call shapes: distinct_words [U, 50] or [U], words [B, T] of each direction, which
    are rows of it, targets [B, T], states [B, ...] -> {"forward_losses",
    "backward_losses"} [B, T] float32 and the states that follow. In training
    sampling_seed [B, 2] decides what a sampled softmax compares with.
    """

    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.bidirectional_lm = objective.WordSoftmax(
            config, name="bidirectional_lm", dtype=self.given_dtype
        )

    @property
    def states(self):
        """{name: shape without rows} of the features and outputs that are states."""
        config, layers = self.config, (self.config.num_hidden_layers, 2)
        return {
            "cell_states": (*layers, config.lstm_dim),
            "hidden_states": (*layers, config.projection_dim),
        }

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        vectors = self.network.token_vectors(features["distinct_words"], seed)  # [U, P]
        forward, backward = (
            keras.ops.take(vectors, features[f"{direction}_words"], axis=0)
            for direction in objective.DIRECTIONS
        )
        states = (keras.ops.moveaxis(features[name], 0, 2) for name in self.states)
        layers, after = self.network.directions(
            *(forward, keras.ops.flip(backward, axis=1)),
            states=lstm.States(*states),
            seed=seed,
        )
        forward, backward = self.network.top(layers, seed)
        found = self.bidirectional_lm(
            (forward, keras.ops.flip(backward, axis=1)),
            [features[f"{name}_targets"] for name in objective.DIRECTIONS],
            table=self._table(),
            candidates=self._candidates(features, training),
        )
        after = (keras.ops.moveaxis(state, 2, 0) for state in after)
        return {
            **dict(zip(("forward_losses", "backward_losses"), found, strict=True)),
            **dict(zip(self.states, after, strict=True)),
        }

    def _table(self):
        """The network's words, where the softmax has no table of its own."""
        if self.config.share_embedding_softmax:
            return self.network.words.embedding
        return None

    def _candidates(self, features, training):
        """What each direction's words are compared with; None for all words."""
        if not (training and self.config.sample_softmax):
            return None
        return objective.draw_both(
            features["sampling_seed"][0],
            self.config.num_negative_samples,
            self.config.vocab_size,
        )


def best_words(count, model, features, training):
    """The likeliest tokens at masked positions of a BertPretrainer.

    Returns:
        {"ids", "probabilities"} [B, P, count], the best first.
    """
    logits = model(features, training=training)["masked_lm_logits"]
    shares, ids = keras.ops.top_k(keras.ops.softmax(logits), count)
    return {"ids": ids, "probabilities": shares}


HEADS = {
    "none": models.BertModel,
    "pretraining": BertPretrainer,
    "classifier": models.BertClassifier,
    "tagger": models.BertTagger,
    "span": models.BertSpanPredictor,
    "language_model": LanguageModel,
    "seq2seq": decoding.SequenceToSequence,
}
CLASS_HEADS = ("classifier", "tagger")  # which take a number of classes
TASK_HEADS = (*CLASS_HEADS, "span")  # which take a readings.Reading


def build(head, num_classes, config, *, recompute=False, **settings):
    """The model with one of `HEADS`, its variables made; C is for `CLASS_HEADS`.

    Raises:
        ValueError: an encoder-decoder is to have another head than its own, or that
            head another network.
    """
    if (config.network == "encoder_decoder") != (head == "seq2seq"):
        raise errors.InputError(
            f"a network of {config.kind} has no head {head!r}: seq2seq is the one head "
            "of an encoder-decoder, and of no other; choose a head of the network"
        )
    classes = (num_classes,) if head in CLASS_HEADS else ()
    model = HEADS[head](config, *classes, recompute=recompute, **settings)
    model.build()
    return model
