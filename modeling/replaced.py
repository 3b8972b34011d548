"""Replaced-token detection (Clark et al., 2020): its model and its objective.

A small generator predicts masked words. Tokens that are drawn from its predictions take
their places, and the discriminator learns which tokens of a text are no longer its own.
"""

import math

from keras import ops

from contract import features as feature_names
from modeling import dropout_sites, losses, pretrainers


class ReplacedTokenDetector(pretrainers.Discriminator):
    """A discriminator and its generator, which have the same tables (section 3.2).

    `generator_size` is as in `generator` of the config, `generator` a BertPretrainer.

    Call shapes: three features [B, S], masked_lm_positions, masked_lm_ids [B, P] int,
    masked_lm_weights, generator_draws [B, P] float32 -> {"masked_lm_logits": [B, P, V],
    "replaced_logits": [B, S], "is_replaced": [B, S] of 0 and 1} float32.
    """

    arguments = (*pretrainers.Discriminator.arguments, "generator_size")

    def __init__(self, config, generator_size=0.25, **kwargs):
        super().__init__(config, **kwargs)
        self.generator_size = generator_size
        settings = {"recompute": self.recompute, "dtype": self.given_dtype}
        small = config.generator(generator_size)
        self.generator = pretrainers.BertPretrainer(small, name="generator", **settings)
        self.generator.network.embeddings.owner = self.network.embeddings

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        outputs = self.generator(features, seed=dropout_sites.seed_of_pass(seed, 1))
        tokens = draw(
            outputs["masked_lm_logits"], features[feature_names.GENERATOR_DRAWS]
        )
        input_ids, is_replaced = replace(features, tokens)
        outputs |= super().call(
            {**features, feature_names.INPUT_IDS: input_ids}, seed=seed
        )
        return {**outputs, "is_replaced": is_replaced}


def draw(logits, draws):
    """Tokens int32 [B, P] drawn from softmax(logits), [B, P, V] float32.

    `draws`, float32 [B, P] from 0 to below 1, are shares of the sum of probabilities.
    """
    count = logits.shape[-1]
    width = math.isqrt(count - 1) + 1
    # Sums within blocks: a sum over all V tokens takes five times as long.
    shares = ops.pad(ops.softmax(logits), ((0, 0), (0, 0), (0, -count % width)))
    blocks = ops.reshape(shares, (*ops.shape(logits)[:2], -1, width))
    sums = ops.cumsum(ops.sum(blocks, -1), -1)
    draws = draws[..., None] * sums[..., -1:]
    is_before = sums[..., :-1] <= draws
    block = ops.sum(ops.cast(is_before, "int32"), -1, keepdims=True)  # [B, P, 1]
    inner = ops.take_along_axis(blocks, block[..., None], axis=2)[:, :, 0]
    before = ops.take_along_axis(sums, block, axis=2) - ops.sum(inner, -1, True)
    is_before = before + ops.cumsum(inner, -1) <= draws
    place = ops.sum(ops.cast(is_before, "int32"), -1)
    # Rounding may pass the last token of a block.
    return ops.minimum(width * block[..., 0] + place, count - 1)


def replace(features, tokens):
    """Puts tokens, int32 [B, P], where words are masked.

    Returns:
        input_ids int32 [B, S], and float32 [B, S] of 1 where they are not the text's.
    """
    ids, positions = (
        features[feature_names.INPUT_IDS],
        features[feature_names.MASKED_LM_POSITIONS],
    )
    places = positions[..., None] == ops.arange(ops.shape(ids)[1])  # [B, P, S]
    places &= features[feature_names.MASKED_LM_WEIGHTS][..., None] > 0.0

    def place(values):
        return ops.max(ops.where(places, values[..., None], 0), axis=1)

    is_other = ops.cast(tokens != features[feature_names.MASKED_LM_IDS], "float32")
    return ops.where(ops.any(places, axis=1), place(tokens), ids), place(is_other)


def objective(weight):
    """Masked-LM loss plus `weight` times the discriminator's, a mean over real tokens.

    The metric discriminator_loss is that mean; precision and recall are of replaced
    tokens. Features and outputs are those of ReplacedTokenDetector.
    """

    def mask(features):
        return ops.cast(features[feature_names.INPUT_MASK], "float32")

    def total(features, outputs):
        logits, labels = outputs["replaced_logits"], outputs["is_replaced"]
        each = losses.classifier_losses("multi_label", logits, labels)  # [B, S]
        return ops.sum(each * mask(features))

    def count(features):
        return ops.sum(mask(features))

    def weighted(features, outputs):
        return weight * total(features, outputs)

    def metrics(features, outputs):
        is_real, actual = mask(features), outputs["is_replaced"]
        predicted = ops.cast(outputs["replaced_logits"] > 0.0, "float32")
        is_right = ops.cast(predicted == actual, "float32")
        right, number = ops.sum(predicted * actual * is_real), ops.sum(is_real)
        return {
            "discriminator_loss": (total(features, outputs), number),
            "discriminator_accuracy": (ops.sum(is_right * is_real), number),
            "discriminator_precision": (right, ops.sum(predicted * is_real)),
            "discriminator_recall": (right, ops.sum(actual * is_real)),
        }

    name = "weighted_discriminator_loss"
    discriminator = losses.one_part(name, count, weighted, metrics)
    return losses.together(losses.pretraining(has_sentence_task=False), discriminator)
