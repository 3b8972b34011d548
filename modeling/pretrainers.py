"""Models that pretrain, and every model by the name of its head."""

import keras

from modeling import heads, models, token_heads


class BertPretrainer(models.BertModel):
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


class LanguageModel(token_heads.NextTokens, models.BertModel):
    """GPT, GPT-2, or BERT from left to right; see `token_heads.NextTokens`."""

    reads_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = token_heads.of_network(config, name="masked_lm")


HEADS = {
    "none": models.BertModel,
    "pretraining": BertPretrainer,
    "classifier": models.BertClassifier,
    "tagger": models.BertTagger,
    "span": models.BertSpanPredictor,
    "language_model": LanguageModel,
}
CLASS_HEADS = ("classifier", "tagger")  # which take a number of classes


def build(head, num_classes, config, *, recompute=False, **settings):
    """The model with one of `HEADS`, its variables made; C is for `CLASS_HEADS`."""
    classes = (num_classes,) if head in CLASS_HEADS else ()
    model = HEADS[head](config, *classes, recompute=recompute, **settings)
    model.build()
    return model
