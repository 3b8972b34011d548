"""Choices in the forms of C3 and ChID, of CLUE, as TensorFlow operations.

Both return ids of first and second texts, ragged int32 [B * C, (S)], for packing.pack.
"""

from typing import Any

from contract import errors
from contract.tensorflow_later import tf
from data_pipeline.batches import packing
from data_pipeline.tables import clue

_MASKS = 4  # in the place of another blank: an idiom has four characters
_BLANK_TOKEN = "[unused1]"
_MARK = "\x01"  # between the parts of a passage
# Tokens of [CLS] idiom [SEP] left [unused1] right [SEP] beside left and right.
_AROUND = 8


def separate(
    tokenizer: Any,
    contexts: "tf.Tensor",
    questions: "tf.Tensor",
    choices: "tf.Tensor",
    max_seq_length: int,
) -> "tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]":
    """Context, and question [SEP] choice, of C3; and which are cut, bool [B * C].

    The longest of the three loses its last token, until they fit; of equally long ones
    the context does, then the choice.
    """
    count, rows = tf.shape(choices)[1], tf.shape(choices)[0]
    each = tf.repeat(tf.range(rows), count)
    texts = [
        tf.gather(tokenizer.tokenize(contexts), each),
        tf.gather(tokenizer.tokenize(questions), each),
        tokenizer.tokenize(tf.reshape(choices, [-1])),
    ]
    between = tokenizer.delimiter_ids
    room = max_seq_length - 2 - 2 * len(between)
    lengths = tf.stack([tf.cast(ids.row_lengths(), tf.int32) for ids in texts], axis=1)
    kept = _shares(lengths, room)
    context, question, choice = (
        packing.head(ids, kept[:, i]) for i, ids in enumerate(texts)
    )
    separator = tf.tile([list(between)], [rows * count, 1])
    second = tf.concat([question, separator, choice], axis=1)
    return context, second, tf.reduce_sum(lengths, axis=1) > room


def _shares(lengths, room):
    """The tokens that context, question and choice keep, int32 [B, 3]."""
    shortest = tf.sort(lengths, axis=1)
    a, b = shortest[:, 0], shortest[:, 1]
    level = tf.maximum((room - a) // 2, tf.maximum(room // 3, room - a - b))
    kept = tf.minimum(lengths, level[:, tf.newaxis])
    left = room - tf.reduce_sum(kept, axis=1)
    # One more token, for those that lose last: question, choice, context.
    for place in (1, 2, 0):
        more = tf.cast((lengths[:, place] > kept[:, place]) & (left > 0), tf.int32)
        kept += more[:, tf.newaxis] * tf.one_hot(place, 3, dtype=tf.int32)
        left -= more
    return kept


def check_length(max_seq_length: int) -> None:
    """Raises InputError where no token of a passage has room."""
    if max_seq_length <= _AROUND:
        raise errors.InputError(
            f"--max_seq_length={max_seq_length} has no room for a passage of "
            f"--pair_input=cloze; give more than {_AROUND}"
        )


def cloze(
    tokenizer: Any, contexts: "tf.Tensor", choices: "tf.Tensor", max_seq_length: int
) -> "tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]":
    """Idiom, and the passage around its blank, of ChID; and which passages are cut.

    As many tokens before the blank as behind it, unless the passage has fewer there.
    Other blanks become four [MASK].
    """
    ids = {token: index for index, token in enumerate(tokenizer.vocab)}
    if _BLANK_TOKEN not in ids or tokenizer.mask_id is None:
        raise errors.InputError(
            f"a blank is {_BLANK_TOKEN}, and others are [MASK]; the vocabulary lacks "
            "one of them, so give a BERT's"
        )
    count = tf.shape(choices)[1]
    halves = tf.strings.split(contexts, clue.BLANK).to_tensor("", shape=[None, 2])
    left, left_blanks = _with_masks(tokenizer, halves[:, 0])
    right, right_blanks = _with_masks(tokenizer, halves[:, 1])
    room = max_seq_length - _AROUND
    # A blank counts as one token where the window is laid.
    length_left, length_right = (
        tf.cast(ids.row_lengths(), tf.int32) - (_MASKS - 1) * blanks
        for ids, blanks in ((left, left_blanks), (right, right_blanks))
    )
    keep_left = tf.minimum(length_left, tf.maximum(room // 2, room - length_right))
    keep_right = tf.minimum(length_right, room - keep_left)
    drop = tf.cast(left.row_lengths(), tf.int32) - keep_left
    blank = tf.fill([tf.shape(contexts)[0], 1], ids[_BLANK_TOKEN])
    passage = tf.concat(
        [_behind(left, drop), blank, packing.head(right, keep_right)], axis=1
    )
    each = tf.repeat(tf.range(tf.shape(contexts)[0]), count)
    is_cut = length_left + length_right > room
    idioms = tokenizer.tokenize(tf.reshape(choices, [-1]))
    return idioms, tf.gather(passage, each), tf.gather(is_cut, each)


def _behind(rows, drop):
    starts = tf.cast(rows.row_starts(), tf.int64)
    wanted = tf.ragged.range(starts + tf.cast(drop, tf.int64), rows.row_limits())
    return tf.gather(rows.values, wanted)


def _with_masks(tokenizer, texts):
    """Ids [B, (S)], with masks for blanks, and how many blanks there were, [B]."""
    # No word has the mark: normalization deletes it.
    marked = tf.strings.regex_replace(texts, _MARK, "")
    marked = tf.strings.regex_replace(marked, clue.BLANKS, _MARK)
    parts = tf.strings.split(marked, _MARK)
    pieces = tokenizer.tokenize(parts.values)
    masks = tf.fill([tf.shape(parts.values)[0], _MASKS], tokenizer.mask_id)
    each = tf.RaggedTensor.from_row_splits(
        tf.concat([masks, pieces], axis=1), parts.row_splits
    )
    blanks = tf.cast(parts.row_lengths(), tf.int32) - 1
    return _behind(each.merge_dims(1, 2), tf.fill(tf.shape(blanks), _MASKS)), blanks
