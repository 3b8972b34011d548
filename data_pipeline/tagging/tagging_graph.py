"""Words to windows, and logits to tags, as TensorFlow operations for serving.

The same windows as `sentence_windows` makes, without the context of documents, and the
same tags as `sentence_sets` decides on, for a batch of sentences inside a SavedModel.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from contract import features
from data_pipeline.examples import packing
from data_pipeline.tagging import sentence_windows, tag_schemes, tag_sets
from data_pipeline.text import normalization, token_offsets, tokenization


class Windows(NamedTuple):
    """The N windows of B sentences with K words in all, in the order of the sentences.

    Attributes:
        features: input_ids, input_mask and segment_ids, int32 [N, S]; S is the length
            of the longest window.
        outputs: int64 [K, 2], the window and the place in it from which each word is
            predicted.
        words: int64 [K, 2], the sentence of each word and its place there.
        shape: int64 [2], B and the most places of a sentence, W.
    """

    features: dict[str, tf.Tensor]
    outputs: tf.Tensor
    words: tf.Tensor
    shape: tf.Tensor


def split_words(text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Splits texts at white space, and leaves punctuation alone.

    A character that the tokenizer makes a word of its own is one here as well:
    punctuation, signs and Chinese characters. All others between two blanks are one
    word, as it is written.

    Args:
        text: [B] string, UTF-8 of which invalid bytes are ignored.

    Returns:
        A dict of [B, W], W being the most words of a text:

        * words: string; "" behind the last.
        * starts, ends: int32, the characters of a word in the text; -1 behind the last.
    """
    with tf.device("CPU:0"):  # where string operations are
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
        # A blank behind each text, so that no word goes on in the next one.
        rows = tf.strings.unicode_decode(tf.strings.join([text, " "]), "UTF-8")
        points = rows.values
        is_ink = ~token_offsets.is_whitespace(points)
        distinct, index = tf.unique(points)
        letters = tf.strings.unicode_encode(distinct[:, tf.newaxis], "UTF-8")
        is_alone = tf.gather(normalization.stands_alone(letters), index)
        parts = ~is_ink | is_alone  # from what stands before and behind
        before = tf.concat([[True], parts[:-1]], axis=0)
        behind = tf.concat([parts[1:], [True]], axis=0)
        starts = tf.where(is_ink & (is_alone | before))[:, 0]
        ends = tf.where(is_ink & (is_alone | behind))[:, 0] + 1
        words = tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(points[is_ink], ends - starts), "UTF-8"
        )
        owner = tf.gather(rows.value_rowids(), starts)
        shift = tf.gather(rows.row_starts(), owner)

        def grid(values, padding):
            found = tf.RaggedTensor.from_value_rowids(values, owner, rows.nrows())
            return found.to_tensor(padding)

        return {
            "words": grid(words, ""),
            "starts": grid(tf.cast(starts - shift, tf.int32), -1),
            "ends": grid(tf.cast(ends - shift, tf.int32), -1),
        }


def encoder(
    tokenizer: tokenization.BertTokenizer, *, max_seq_length: int, stride: int = 0
) -> Callable[[tf.Tensor], Windows]:
    """Cuts sentences into windows as `sentence_windows.make_windows` does.

    Args:
        tokenizer: of the model.
        max_seq_length: of a window, in tokens, the special ones included.
        stride: of sentences longer than that, tokens from one window to the next; 0
            for half a window.

    Returns:
        A function of words, string [B, W], where "" is no word. A sentence without
        words has no window.

    Raises:
        ValueError: a length leaves no room, or the stride skips tokens.
    """
    room, step = sentence_windows.limits(max_seq_length, stride)

    def encode(words):
        with tf.device("CPU:0"):
            places = tf.where(words != "")  # [K, 2]
            texts = tf.gather_nd(words, places)
            tokens, word_tokens = _tokenize(texts, tokenizer, room)
            begin, end = _cut(word_tokens, places[:, 0], room, step)
            chosen = _best_windows(word_tokens, begin, end)
            used, chosen = _used(chosen, tf.size(begin))
            starts, ends = (
                tf.gather(word_tokens, tf.gather(edge, used)) for edge in (begin, end)
            )
            parts = tf.ragged.range(starts, ends)
            packed = packing.pack(
                parts.with_flat_values(tf.gather(tokens, parts.values)),
                None,
                cls_id=tokenizer.cls_id,
                sep_id=tokenizer.sep_id,
                max_seq_length=max_seq_length,
            )
            column = 1 + word_tokens[:-1] - tf.gather(starts, chosen)
            return Windows(
                features=packing.with_a_column(packing.pad(*packed)),
                outputs=tf.stack([chosen, column], axis=1),
                words=places,
                shape=tf.shape(words, tf.int64),
            )

    return encode


def _tokenize(words, tokenizer, room):
    """int32 [T] word pieces of all words, and int64 [K + 1] where each begins."""
    pieces = tokenizer.tokenize(words)
    lengths = pieces.row_lengths()
    # Words of which nothing is left point to the [UNK] behind all others.
    last = tf.size(pieces.values, tf.int64)
    starts = tf.where(lengths == 0, last, pieces.row_starts())
    index = tf.ragged.range(starts, starts + tf.clip_by_value(lengths, 1, room))
    tokens = tf.concat([pieces.values, [tokenizer.unk_id]], axis=0)
    return tf.gather(tokens, index.values), index.row_splits


def _cut(word_tokens, sentence, room, step):
    """The windows of all sentences, of whole words.

    Args:
        word_tokens: int64 [K + 1], where each word's tokens begin.
        sentence: int64 [K], of each word; it never falls.
        room: tokens of a window.
        step: tokens from one window to the next.

    Returns:
        int64 [N] each, from left to right: the first word, and that behind the last.
    """
    first = tf.searchsorted(sentence, sentence, "left", tf.int64)  # [K]
    last = tf.searchsorted(sentence, sentence, "right", tf.int64)
    # Of a window that begins with a word, the end and where the next one begins.
    begins = word_tokens[:-1]
    end = tf.searchsorted(word_tokens, begins + room, "right", tf.int64) - 1
    end = tf.minimum(end, last)
    following = tf.searchsorted(word_tokens, begins + step, "left", tf.int64)
    following = tf.minimum(following, end)
    goes_on = end < last

    # The first windows of all sentences, then the second ones, ...
    def cut_next(found, newest):
        newest = tf.gather(following, newest[tf.gather(goes_on, newest)])
        return tf.concat([found, newest], axis=0), newest

    begun = tf.where(tf.range(tf.size(sentence, tf.int64)) == first)[:, 0]
    shape = tf.TensorShape([None])
    found, _ = tf.while_loop(
        lambda _, newest: tf.size(newest) > 0,
        cut_next,
        (begun, begun),
        shape_invariants=(shape, shape),
    )
    begin = tf.sort(found)
    return begin, tf.gather(end, begin)


def _best_windows(word_tokens, begin, end):
    """int64 [K], the window that each word is predicted from."""
    shown = tf.ragged.range(begin, end)  # [N, (words)]
    word, window = shown.values, shown.value_rowids()
    before = tf.gather(word_tokens, word)
    behind = tf.gather(word_tokens, tf.gather(end, window)) - 1 - before
    before -= tf.gather(word_tokens, tf.gather(begin, window))
    around = tf.minimum(before, behind)
    count = tf.size(word_tokens, tf.int64) - 1
    most = tf.math.unsorted_segment_max(around, word, count)
    best = tf.where(around == tf.gather(most, word))[:, 0]
    # Of equal ones the first.
    return tf.math.unsorted_segment_min(
        tf.gather(window, best), tf.gather(word, best), count
    )


def _used(chosen, num_windows):
    """The windows that some word is predicted from, and `chosen` counted in these."""
    counts = tf.math.bincount(tf.cast(chosen, tf.int32), minlength=num_windows)
    number = tf.cumsum(tf.cast(counts > 0, tf.int64)) - 1
    return tf.where(counts > 0)[:, 0], tf.gather(number, chosen)


def best_tags(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """The likeliest tag of each token or word.

    Args:
        logits: float32 [..., C].

    Returns:
        "ids" int32 and "probabilities" float32, both [...].
    """
    probabilities = tf.nn.softmax(logits)
    return {
        "ids": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
        "probabilities": tf.reduce_max(probabilities, axis=-1),
    }


def chooser(
    tag_set: tag_sets.TagSet,
) -> Callable[[Windows, tf.Tensor], dict[str, tf.Tensor]]:
    """Chooses tags as `sentence_sets.decide` does: the likeliest, as the scheme spells.

    Args:
        tag_set: what the model predicts.

    Returns:
        A function of windows and their logits, float32 [N, S, C], that returns:

        * tags: string [B, W]; "" where no word is.
        * probabilities: float32 [B, W], of the likeliest tag, 0..1; 0 where no word is.
    """
    spell = _speller(tag_set)

    def choose(windows, logits):
        with tf.device("CPU:0"):
            best = best_tags(tf.gather_nd(logits, windows.outputs))  # [K]
            tags = spell(best["ids"], windows.words[:, 0])
            return {
                "tags": _grid(tags, windows),
                "probabilities": _grid(best["probabilities"], windows),
            }

    return choose


def _grid(values, windows):
    """[K] to [B, W], with "" or 0 where no word is."""
    empty = tf.zeros(windows.shape, values.dtype)
    return tf.tensor_scatter_nd_update(empty, windows.words, values)


def _speller(tag_set):
    """A function of ids int32 [K] and their sentences int64 [K]: the tags, string [K].

    The rule of `tag_schemes.repair`, for which a word needs its neighbours only.
    """
    if tag_set.scheme == tag_schemes.PLAIN:
        return lambda ids, sentence: tf.gather(tag_set.names, ids)
    parsed = [tag_schemes.parse(name, tag_set.scheme) for name in tag_set.spoken()]
    kinds = sorted({kind for _, kind in parsed})
    spellings = [_spellings(kind, tag_set.scheme) for kind in kinds]
    kind_index = [kinds.index(kind) for _, kind in parsed]

    def has_role(ids, roles):
        return tf.gather([role in roles for role, _ in parsed], ids)

    def spell(ids, sentence):
        is_inside = ~has_role(ids, tag_schemes.OUTSIDE)
        kind = tf.gather(kind_index, ids)
        goes_on = sentence[1:] == sentence[:-1]
        goes_on &= (kind[1:] == kind[:-1]) & is_inside[1:] & is_inside[:-1]
        parts = has_role(ids[1:], "BS") | has_role(ids[:-1], "ES")
        nothing = tf.zeros_like(is_inside[:1])  # before the first, behind the last
        touches = tf.concat([nothing, goes_on & parts], axis=0)
        has_before = tf.concat([nothing, goes_on & ~parts], axis=0)
        has_behind = tf.concat([goes_on & ~parts, nothing], axis=0)
        place = tf.stack([kind, *_integers(touches, has_before, has_behind)], axis=1)
        return tf.where(is_inside, tf.gather_nd(spellings, place), tag_schemes.OUTSIDE)

    return spell


def _integers(*masks):
    return [tf.cast(mask, features.INTEGER) for mask in masks]


def _spellings(kind, scheme):
    """How a word of a span is spelled: [it touches a like span][is before][is behind].

    The last two say whether words of its own span stand before and behind it.
    """

    def spelled(start, length):
        """Behind another span of `start` words."""
        other = tag_schemes.Span(0, start, kind)
        span = tag_schemes.Span(start, start + length, kind)
        spans = [other, span] if start else [span]
        return tag_schemes.tags_of(spans, span.end, scheme)[start:]

    found = []
    for start in (0, 1):
        (single,), (first, inside, last) = spelled(start, 1), spelled(start, 3)
        found.append([[single, first], [last, inside]])
    return found
