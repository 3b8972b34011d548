"""Heads that predict tokens, by the table that the network looks them up in.

Their products are computed in the compute dtype, and logits are float32.
"""

import keras
from keras import ops

from contract import errors
from modeling import layers, losses
from modeling.configs import keras_configs
from modeling.generation import key_value_cache

OUTPUTS = ("next_token_losses", "next_token_hits")


class MaskedLMHead(keras_configs.Configured, keras.layers.Layer):
    """Predicts hidden tokens with the word embedding table (BERT section 3.1).

    run_pretraining.py: get_masked_lm_output, after its gather.

    Call shapes: [B, P, D] at the masked positions, word_embeddings [V, D] -> logits
    [B, P, V] float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        if config.network != "bert":
            raise errors.InputError(
                f"{config.kind} predicts the next token, and no masked words; give a "
                "BERT, or --objective=left_to_right"
            )
        self.config = config
        dtype, width = self.given_dtype, config.hidden_size
        self.transform = layers.dense(config, width, "transform", dtype)
        self.norm = layers.layer_norm(config, "layer_norm", dtype)

    def build(self, input_shape, *_):
        self.transform.build(input_shape)
        self.norm.build(input_shape)
        self.bias = self.add_weight(
            shape=(self.config.vocab_size,),
            initializer="zeros",
            name="bias",
            autocast=False,
        )

    def call(self, masked, word_embeddings, training=False):
        hidden = self.transform(masked)
        hidden = self.norm(layers.activation(self.config, hidden, fused=training))
        table = ops.transpose(ops.cast(word_embeddings, hidden.dtype))  # [D, V]
        if keras.backend.standardize_dtype(hidden.dtype) == "float32":
            # The bias within the product: a few rows take a fifth of the time so.
            return layers.affine(hidden, table, self.bias)  # [B, P, V]
        return ops.cast(ops.matmul(hidden, table), "float32") + self.bias


class TiedHead(keras_configs.Configured, keras.layers.Layer):
    """Predicts tokens with the table alone, as GPT and GPT-2 do; it has no weights.

    Call shapes: [B, S, D], table [rows, D] -> logits [B, S, V] float32, or one for each
    row of tokens and positions where the config says joined_table.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def build(self, input_shape, *_):
        self.built = True

    def call(self, hidden, table, training=False):
        table = ops.convert_to_tensor(table)[: self.config.num_outputs]
        hidden = ops.cast(hidden, self.compute_dtype)
        table = ops.cast(table, self.compute_dtype)
        return ops.cast(ops.matmul(hidden, ops.transpose(table)), "float32")


def of_network(config, name, dtype=None):
    """The head that a network predicts tokens with.

    Raises:
        ValueError: the network looks to both sides.
    """
    if not config.is_left_to_right:
        raise errors.InputError(
            "attention is bidirectional, so that each token sees those that it is to "
            'predict; set "attention": "causal" in bert_config.json'
        )
    kind = MaskedLMHead if config.network == "bert" else TiedHead
    return kind(config, name=name, dtype=dtype)


def next_tokens(head, hidden, table, input_ids, training=False):
    """How a network predicts each token of a text from those before it.

    `hidden` is the network's sequence_output [B, S, D], `input_ids` are int [B, S]; the
    rest is as in `predictions`, of the tokens from the second on.
    """
    labels = keras_configs.whole(input_ids)[:, 1:]
    return predictions(head, hidden[:, :-1], table, labels, training)


def predictions(head, hidden, table, labels, training=False):
    """How a head predicts tokens, int [B, S], each from its vector in hidden [B, S, D].

    Args:
        head: what `of_network` gives.
        table: what `embeddings.table` of the network gave.

    Returns:
        {"next_token_losses": cross-entropy, float32 [B, S], "next_token_hits": 1.0
        where no other token was likelier, else 0.0}.
    """
    logits = head(hidden, table, training=training)  # [B, S, V]
    return {
        "next_token_losses": losses.cross_entropy(logits, labels),
        "next_token_hits": losses.is_best(logits, labels),
    }


def predict(model, features, seed):
    """The network's outputs, and `next_tokens` by the model's head `masked_lm`."""
    table = model.network.embeddings.table(seed)
    outputs = model.encode(features, seed, table=table)
    ids, hidden = features["input_ids"], outputs["sequence_output"]
    found = next_tokens(model.masked_lm, hidden, table, ids, seed is not None)
    return {**outputs, **found}


def with_next_tokens(objective, weight):
    """Another objective + `weight` * that of a language model (GPT section 3.2, L3).

    The latter is the mean over sequences of the mean over a sequence's tokens, special
    ones included, from the second on. The metric lm_loss is that without the weight.

    Features: input_mask [B, S], or [B, G, S]. Outputs: next_token_losses [..., S - 1].
    """
    if not weight:
        return objective

    def count(features):
        return ops.cast(ops.size(features["input_mask"][..., 0]), "float32")

    def total(features, outputs):
        is_real = ops.cast(features["input_mask"][..., 1:], "float32")
        sums = ops.sum(outputs["next_token_losses"] * is_real, axis=-1)
        return ops.sum(sums / ops.maximum(ops.sum(is_real, axis=-1), 1.0))

    def counts(features):
        return {**objective.counts(features), "weighted_lm_loss": count(features)}

    def totals(features, outputs):
        found = weight * total(features, outputs)
        return {**objective.totals(features, outputs), "weighted_lm_loss": found}

    def metrics(features, outputs):
        found = total(features, outputs), count(features)
        return {**objective.metrics(features, outputs), "lm_loss": found}

    return losses.Objective(counts, totals, metrics)


class NextTokens:
    """What a model does that predicts each token from those before it; a mix-in.

    Call shapes: three features [B, S] -> {"next_token_losses", "next_token_hits"}
    [B, S - 1] float32; see `next_tokens`. At padding they are arbitrary.
    """

    source_spec: tuple = ()  # what `empty_cache` takes besides, as tf.TensorSpecs

    def call(self, features, training=False, seed=None):
        found = predict(self, features, self.dropout_seed(training, seed))
        return {name: found[name] for name in OUTPUTS}

    def logits(self, features):
        """Of the token after each, [B, S, V] float32; V is config.num_outputs."""
        hidden = self.encode(features, None)["sequence_output"]
        return self.masked_lm(hidden, self.network.embeddings.table())

    def empty_cache(self, batch_size, capacity):
        """What `extend` writes to, for B texts of up to `capacity` tokens."""
        return key_value_cache.empty(self.network, batch_size, capacity)

    def extend(
        self, input_ids, position_ids, start, is_visible, cache, last_only=False
    ):
        """Logits [B, S, V] of the tokens after S new ones, and the extended cache.

        With `last_only` those after the last of them, [B, 1, V]; the rest is as in
        `key_value_cache.extend`.
        """
        hidden, cache = key_value_cache.extend(
            *(self.network, input_ids, position_ids, start, is_visible, cache)
        )
        hidden = hidden[:, -1:] if last_only else hidden
        return self.masked_lm(hidden, self.network.embeddings.table()), cache

    def rows_of(self, cache, rows):
        """The cache with these rows of it alone, int32 [R], one or several times."""
        return key_value_cache.rows_of(cache, rows)
