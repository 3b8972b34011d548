"""Models that pretrain, and every model by the name of its head."""

import keras

from contract import errors
from contract import features as feature_names
from modeling import bert, models, text_encoder, token_heads
from modeling.configs import keras_configs
from modeling.networks.encoder_decoder import decoding


class BertPretrainer(models.BertModel):
    """Masked words and the next sentence (BERT section 3.1); run_pretraining.py.

    Call shapes: three features [B, S], masked_lm_positions [B, P] int ->
    {"masked_lm_logits": [B, P, V], "next_sentence_logits": [B, 2]} float32, the latter
    if the network has that head. With masked_lm_places int [N] the logits are [N, V].
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        if "masked_lm" not in config.spec.objectives:
            raise errors.InputError(
                f"{config.kind} predicts the next token, and no masked words; give a "
                "BERT, or --objective=left_to_right"
            )
        self.masked_lm = config.spec.token_head(
            config, name="masked_lm", dtype=self.given_dtype
        )
        self.next_sentence = None
        if config.has_next_sentence:
            self.next_sentence = bert.OutputProjection(
                2, stddev=config.initializer_range, name="next_sentence"
            )

    def features_spec(self):
        """As BertModel's, and masked_lm_positions [B, P]."""
        positions = keras_configs.specs(
            {feature_names.MASKED_LM_POSITIONS: (None, None)}
        )
        return super().features_spec() | positions

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        first = self.pooled_position(features)
        masked = keras.ops.cast(features["masked_lm_positions"], first.dtype)
        positions = keras.ops.concatenate([first, masked], axis=1)
        outputs = self.encode(features, seed, positions)
        hidden = outputs["sequence_output"][:, 1:]
        if feature_names.MASKED_LM_PLACES in features:
            hidden = keras.ops.reshape(hidden, (-1, hidden.shape[-1]))
            hidden = keras.ops.take(hidden, features["masked_lm_places"], axis=0)
        logits = self.masked_lm(
            hidden, self.network.embeddings.table(), training=seed is not None
        )
        if not self.next_sentence:
            return {"masked_lm_logits": logits}
        order = self.next_sentence(outputs["pooled_output"])
        return {"masked_lm_logits": logits, "next_sentence_logits": order}


class Discriminator(models.BertModel):
    """Which tokens are not those of the text (Clark et al., 2020).

    Call shapes: three features [B, S] -> {"replaced_logits": [B, S]} float32.
    """

    uses_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.discriminator = config.spec.discriminator_head(
            config, name="discriminator"
        )

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        hidden = self.encode(features, seed)["sequence_output"]
        logits = self.discriminator(hidden, training=seed is not None)
        return {"replaced_logits": logits}


class LanguageModel(token_heads.CausalLMMixin, models.BertModel):
    """GPT, GPT-2, or BERT from left to right; see `token_heads.CausalLMMixin`."""

    uses_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.make_token_head(
            config, "masked_lm", self.given_dtype
        )


HEADS = {
    "none": models.BertModel,
    "pretraining": BertPretrainer,
    "discriminator": Discriminator,
    "classifier": models.BertClassifier,
    "tagger": models.BertTagger,
    "span": models.BertSpanPredictor,
    "language_model": LanguageModel,
    "text_encoder": text_encoder.TextEncoder,
    "seq2seq": decoding.SequenceToSequence,
}
CLASS_HEADS = ("classifier", "tagger")  # which take a number of classes
TASK_HEADS = (*CLASS_HEADS, "span")  # which take a head_config.HeadConfig


def build(head, num_classes, config, *, recompute=False, **settings):
    """The model with one of `HEADS`, its variables made; C is for `CLASS_HEADS`.

    Raises:
        ValueError: the network has no such head.
    """
    if head not in config.spec.heads:
        raise errors.InputError(
            f"a network of {config.kind} has no head {head!r}; choose one of "
            f"{', '.join(sorted(config.spec.heads))}"
        )
    classes = (num_classes,) if head in CLASS_HEADS else ()
    model = HEADS[head](config, *classes, recompute=recompute, **settings)
    model.build()
    return model
