"""Predicting the next token, by the table that the network looks tokens up in.

Products are computed in the compute dtype, and logits are float32.
"""

from contract import errors
from modeling import kernels, losses
from modeling.generation import key_value_cache

OUTPUTS = ("next_token_losses", "next_token_hits")


def make_token_head(config, name, dtype=None):
    """The head that a network predicts tokens with.

    Raises:
        ValueError: the network looks to both sides.
    """
    if not config.is_left_to_right:
        raise errors.InputError(
            "attention is bidirectional, so that each token sees those that it is to "
            'predict; set "attention": "causal" in bert_config.json'
        )
    return config.spec.token_head(config, name=name, dtype=dtype)


def predict_tokens(head, hidden, table, labels, training=False):
    """How a head predicts tokens, int [B, S], each from its vector in hidden [B, S, D].

    Args:
        head: a result of `make_token_head`.
        table: that of `embeddings.table` of the network.

    Returns:
        {"next_token_losses": cross-entropy, float32 [B, S], "next_token_hits": 1.0
        where no other token was likelier, else 0.0}.
    """
    logits = head(hidden, table, training=training)  # [B, S, V]
    return {
        "next_token_losses": losses.cross_entropy(logits, labels),
        "next_token_hits": losses.is_best(logits, labels),
    }


def encode_and_predict(model, features, seed):
    """The network's outputs, and `predict_tokens` of those from the second on.

    The model has a head `masked_lm`; losses and hits are [B, S - 1].
    """
    table = model.network.embeddings.table(seed)
    outputs = model.encode(features, seed, table=table)
    labels = kernels.as_integers(features["input_ids"])[:, 1:]
    hidden = outputs["sequence_output"][:, :-1]
    is_training = seed is not None
    return outputs | predict_tokens(model.masked_lm, hidden, table, labels, is_training)


class CausalLMMixin:
    """Mix-in: predicts each token of a text from those before it, and extends texts.

    Call shapes: three features [B, S] -> {"next_token_losses", "next_token_hits"}
    [B, S - 1] float32; see `predict_tokens`. At padding they are arbitrary.
    """

    source_spec: tuple = ()  # what `empty_cache` takes besides, as tf.TensorSpecs

    @property
    def writer(self):
        """The bert.Network that reads what is written, and has the table of tokens."""
        return self.network

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        outputs = encode_and_predict(self, features, seed)
        return {name: outputs[name] for name in OUTPUTS}

    def logits(self, features):
        """Logits of the token after each, float32 [B, S, config.num_outputs]."""
        return self._predict(self.encode(features, None)["sequence_output"])

    def empty_cache(self, batch_size, capacity):
        """The cache that `extend` writes to, for B texts of up to `capacity` tokens.

        Raises:
            InputError: the network does not go on from what it has read.
        """
        if not self.writer.config.spec.writes_texts:
            raise errors.InputError(
                f"a network of {self.writer.config.kind} writes no texts; give a GPT"
            )
        return key_value_cache.make_empty(self.writer, batch_size, capacity)

    def extend(
        self,
        input_ids,
        position_ids,
        start,
        is_visible,
        cache,
        last_only=False,
        others=None,
    ):
        """Logits [B, S, V] of the tokens after S new ones, and the extended cache.

        With `last_only` those after the last of them, [B, 1, V]; the other arguments
        are those of `key_value_cache.extend`.
        """
        hidden, cache = key_value_cache.extend(
            self.writer, input_ids, position_ids, start, is_visible, cache, others
        )
        return self._predict(hidden[:, -1:] if last_only else hidden), cache

    def take_cache_rows(self, cache, rows):
        """The cache of these rows alone, int32 [R], one or several times."""
        return key_value_cache.take_rows(cache, rows)

    def _predict(self, hidden):
        return self.masked_lm(hidden, self.writer.embeddings.table())
