"""Where long texts are cut into overlapping windows.

    tokens of a text         a b c d e f g h
    window 0                 a b c d
    window 1                     c d e f                   doc_stride=2
    window 2                         e f g h

A window's share of the text is its *excerpt*. The rule is the original's
(run_squad.py, convert_examples_to_features).
"""

from contract.tensorflow_later import tf


def cut(query_lengths, context_starts, context_ends, max_tokens, doc_stride):
    """Cuts windows as TensorFlow operations, for training and serving alike.

    `query_lengths`, int64 [B], are tokens before each excerpt of a text, which is
    tokens `context_starts` to `context_ends`, int64 [B]; `max_tokens` are of a window.

    Returns:
        int64 [N] each: text and number in it of each window, and its excerpt's first
        token and the one after its last, counted like `context_starts`. A text without
        tokens has no window.
    """
    room = max_tokens - query_lengths
    stride = tf.minimum(room, doc_stride)
    lengths = context_ends - context_starts
    counts = 1 - tf.minimum(room - lengths, 0) // stride  # [B]
    counts = tf.where(lengths > 0, counts, 0)
    question = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)  # [N]
    number = tf.ragged.range(counts).flat_values
    starts = tf.gather(context_starts, question) + number * tf.gather(stride, question)
    stops = starts + tf.gather(room, question)
    stops = tf.minimum(stops, tf.gather(context_ends, question))
    return question, number, starts, stops
