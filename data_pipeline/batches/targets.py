"""What a decoder reads of the targets that it learns to write."""

import tensorflow as tf

from contract import features


def shifted(
    labels: tf.Tensor, is_real: tf.Tensor, tokens: features.DecoderTokens
) -> tf.Tensor:
    """The decoder_input_ids of targets: each token is read where the next is written.

    Args:
        labels: int32 [B, T], targets with their end tokens, padded.
        is_real: bool [B, T], where a target is.
        tokens: of the decoder.

    Returns:
        int32 [B, T]: the start token and the target but for its last token, padded.
    """
    start = tf.fill([tf.shape(labels)[0], 1], tf.cast(tokens.start, labels.dtype))
    read = tf.concat([start, labels[:, :-1]], axis=1)  # [B, T]
    # What stands behind the last real place is the end token or padding.
    return tf.where(is_real, read, tf.cast(tokens.padding, labels.dtype))
