"""Each word of a batch computed once, and a short one by its first characters.

Words repeat, and most are short: of 2,560 words of Wikipedia 45 % are distinct, and
where the longest filter spans 7 characters the first 20 of 50 do for 88 % of these.
docs/performance.md has what both save.
"""

import tensorflow as tf

from modeling import kernels_tf

_SHORT_WORD = 13  # characters; its two marks included


def compute_once(convolve, finish, words, widest):
    """The same as finish(convolve(words)), where processors are what counts.

    Other devices, and what XLA compiles, take the batch as it is.

    Args:
        convolve: int [N, C] -> [N, F], the largest values over all places of a word.
        finish: [N, F] -> [N, P], each row by itself.
        words: int [N, 50], characters' ids; N is not 0.
        widest: characters that the longest filter spans.
    """

    def on_cpu():
        groups, index = _groups(words, widest)
        found = finish(tf.concat([convolve(group) for group in groups], 0))
        return tf.gather(found, index)

    return kernels_tf.select_by_device(on_cpu, lambda: finish(convolve(words)))


def _groups(words, widest):
    """The distinct words in groups of one length, and the row of each word in these.

    Cut words end in `widest` equal characters, so that what is the largest over all
    places of the word is so over those of this part.
    """
    distinct, index = tf.raw_ops.UniqueV2(x=words, axis=[0])
    cut = _SHORT_WORD + widest
    if cut >= words.shape[1]:
        return [distinct], index
    rest = distinct[:, _SHORT_WORD:]
    is_short = tf.reduce_all(rest[:, 1:] == rest[:, :-1], axis=1)
    groups = [
        # No group is empty, which convolutions do not understand.
        tf.concat([distinct[:1], tf.boolean_mask(distinct, mask)], 0)
        for mask in (is_short, ~is_short)
    ]
    short, long = (tf.cumsum(tf.cast(x, tf.int32)) for x in (is_short, ~is_short))
    places = tf.where(is_short, short, tf.shape(groups[0])[0] + long)
    return [groups[0][:, :cut], groups[1]], tf.gather(places, index)
