"""The weight of each token in an output of a model (Simonyan et al., 2013)."""

import tensorflow as tf

from modeling import models


def token_weights(model: models.BertModel, features, training=False):
    """Gradient times input of the highest logit, by token, as one function of features.

    To first order, by how much the highest logit would fall without the token's word
    embedding; that of a regression is its number. Padding has weights, too: drop it.
    The model's network is BERT or a relative.

    Call shapes: the three features [B, S] -> {"weights": [B, S], "logits": [B, C]}
    float32.
    """
    table = model.network.embeddings.word_embeddings.value
    ids = features["input_ids"]
    with tf.GradientTape() as tape:
        tape.watch(table)  # that of a frozen network as well
        logits = model(features, training=training)["logits"]
        highest = tf.reduce_sum(tf.reduce_max(logits, axis=-1))
    # One row for each place in the texts, [B * S, D]: one gather reads them.
    rows = tape.gradient(highest, table).values
    words = tf.gather(table, tf.reshape(ids, [-1]))
    weights = tf.reduce_sum(rows * words, axis=-1)
    return {"weights": tf.reshape(weights, tf.shape(ids)), "logits": logits}
