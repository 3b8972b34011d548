"""GPT-2's byte-level byte pairs as TensorFlow operations, in graphs and eagerly.

1. Text is cut into pieces where GPT-2's pattern cuts it. The pattern looks ahead, which
   TensorFlow's regular expressions cannot do; but where a piece begins depends on the
   classes of a few characters around, so that all places are found at once.
2. Each different piece is a row of bytes. In all rows at once, every pair is replaced
   by its merge that no pair learned before it can take apart, until no row has a pair
   that was learned. There are about ten such steps, however long a row is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from contract.tensorflow_later import tf

# Classes of characters.
_NOTHING, _OTHER, _LETTER, _NUMBER = range(4)
_SPACE, _WHITESPACE = 4, 5  # U+0020 alone, and all others
ALL_WHITESPACE = (
    r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}"
)
# Excluding the surrogates makes RE2 strict: its "any character" matches any byte.
_UTF_8 = r"[^\x{d800}-\x{dfff}]*"
# Letters and numbers since Unicode 15, whose tables TensorFlow's expressions have. The
# library `tokenizers`, to which ids are equal, has those of Unicode 16.
_NEW_LETTERS = (
    "1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D4A-10D65 10D6F-10D85 "
    "10EC2-10EC4 11380-11389 1138B-1138B 1138E-1138E 11390-113B5 113B7-113B7 "
    "113D1-113D1 113D3-113D3 11BC0-11BE0 13460-143FA 16100-1611D 16D40-16D6C "
    "18CFF-18CFF 1E5D0-1E5ED 1E5F0-1E5F0 2EBF0-2EE5D"
)
_NEW_NUMBERS = (
    "10D40-10D49 116D0-116E3 11BF0-11BF9 16130-16139 16D70-16D79 1CCF0-1CCF9 "
    "1E5F1-1E5FA"
)
_PAGE_BITS = 8  # 256 code points share an entry of the first of two tables
_APOSTROPHE = ord("'")
_SHORT_SUFFIXES = "stmd"  # of 's, 't, 'm, 'd
_LONG_SUFFIXES = (("r", "e"), ("v", "e"), ("l", "l"))
_REACH = 12  # pairs on either side that are looked at before a pair is replaced


class Table(NamedTuple):
    """A vocabulary of V tokens, for one search for many pairs; sorted by `keys`."""

    byte_ids: np.ndarray  # int32 [256], -1 for a byte that is no token
    keys: np.ndarray  # int64 [M], left id * V + right id of the pairs that were learned
    ranks: np.ndarray  # int32 [M], 0 was learned first
    ids: np.ndarray  # int32 [M], of the token that replaces the pair
    lengths: np.ndarray  # int32 [V], bytes of each token
    # int32 [V, _REACH + 1]: [t, d - 2] is the least rank of a pair of d bytes or more
    # and t, and of t and d bytes or more; the last column is above all ranks
    before: np.ndarray
    after: np.ndarray
    vocab_size: np.ndarray  # int64 scalar, V


def table(
    ids: Mapping[str, int], merges: Sequence[tuple[str, str]], byte_tokens: str
) -> Table:
    """The table of merges, whose parts and results are all tokens of `ids`."""
    byte_ids = np.array([ids.get(token, -1) for token in byte_tokens], np.int32)
    left, right, both = (
        np.array([ids[token] for token in tokens], np.int64)
        for tokens in (
            (a for a, _ in merges),
            (b for _, b in merges),
            (a + b for a, b in merges),
        )
    )
    size = max(ids.values()) + 1
    keys = left * size + right
    order = np.argsort(keys)
    columns = keys[order], order.astype(np.int32), both[order].astype(np.int32)
    if not merges:  # one that no pair has, so that there is one
        columns = np.array([-1]), *np.zeros([2, 1], np.int32)
    lengths = np.zeros(size, np.int32)
    lengths[[*ids.values()]] = [*map(len, ids)]
    before = _least_ranks(size, right, lengths[left])
    after = _least_ranks(size, left, lengths[right])
    return Table(byte_ids, *columns, lengths, before, after, np.array(size))


def _least_ranks(vocab_size, tokens, neighbour_lengths):
    """`before` or `after` of a table, of M merges by rank."""
    least = np.full([vocab_size, _REACH + 1], len(tokens), np.int32)
    column = np.clip(neighbour_lengths - 2, 0, _REACH - 1)
    is_long = neighbour_lengths > 1
    ranks = np.arange(len(tokens), dtype=np.int32)
    np.minimum.at(least, (tokens[is_long], column[is_long]), ranks[is_long])
    return np.ascontiguousarray(np.minimum.accumulate(least[:, ::-1], axis=1)[:, ::-1])


def tokenize(texts: tf.Tensor, table: Table) -> tf.RaggedTensor:
    """Texts [B] as int32 ids [B, (S)]; bytes that are no tokens are left out."""
    return _compiled()(texts, table)


@functools.cache
def _compiled():
    table = Table(
        tf.TensorSpec([256], tf.int32),
        tf.TensorSpec([None], tf.int64),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None, _REACH + 1], tf.int32),
        tf.TensorSpec([None, _REACH + 1], tf.int32),
        tf.TensorSpec([], tf.int64),
    )
    signature = [tf.TensorSpec([None], tf.string), table]
    return tf.function(_tokenize, autograph=False, input_signature=signature)


def _tokenize(texts, table):
    texts = clean(texts)
    pieces, text_of_piece = split(texts)
    different, which = tf.unique(pieces)
    data = tf.io.decode_raw(tf.strings.reduce_join(different), tf.uint8)
    symbols = tf.gather(table.byte_ids, tf.cast(data, tf.int32))
    rows = _row_ids(tf.strings.length(different))
    is_known = symbols >= 0
    symbols, rows = (tf.boolean_mask(x, is_known) for x in (symbols, rows))
    symbols, rows = merge(symbols, rows, table)
    spelled = tf.RaggedTensor.from_value_rowids(
        symbols, rows, tf.size(different, tf.int32), validate=False
    )
    ids = tf.gather(spelled, which)  # [P, (ids of a piece)]
    return tf.RaggedTensor.from_value_rowids(
        ids.values,
        tf.gather(text_of_piece, _row_ids(tf.cast(ids.row_lengths(), tf.int32))),
        tf.size(texts),
        validate=False,
    )


def clean(texts: tf.Tensor) -> tf.Tensor:
    """Replaces what is not UTF-8 by U+FFFD, as Python's `decode` does."""
    is_valid = tf.reduce_all(tf.strings.regex_full_match(texts, _UTF_8))
    return tf.cond(
        is_valid,
        lambda: texts,
        lambda: tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace"),
    )


def split(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts clean texts [B] into pieces [P]; also returns the text of each piece [P].

    Together the pieces of a text are the text.
    """
    joined = tf.strings.reduce_join(texts)
    data = tf.io.decode_raw(joined, tf.uint8)  # [bytes]
    begins = tf.where(tf.bitwise.bitwise_and(data, 0xC0) != 0x80)[:, 0]  # [C]
    points = tf.strings.unicode_decode(joined, "UTF-8")  # [C]
    rows = _row_ids(tf.strings.length(texts, unit="UTF8_CHAR"))  # [C]
    piece_begins = tf.where(_begins_piece(points, rows))[:, 0]  # [P], of characters
    starts = tf.gather(begins, piece_begins)  # [P], of bytes
    ends = tf.concat([starts[1:], [tf.size(data, tf.int64)]], axis=0)
    # All pieces are substrings of one string, which has its own axis of size 1.
    some = tf.minimum(tf.size(starts), 1)  # without text there is none to cut
    lengths = (ends - starts)[: tf.size(starts)]
    pieces = tf.strings.substr(joined[tf.newaxis][:some], starts, lengths)
    return pieces, tf.gather(rows, piece_begins)


def _begins_piece(points, rows):
    """Whether a piece begins at each of C characters of joined texts; bool [C]."""
    first_pages, pages = _class_tables()
    page = tf.gather(first_pages, tf.bitwise.right_shift(points, _PAGE_BITS))
    place = tf.bitwise.bitwise_and(points, (1 << _PAGE_BITS) - 1)
    kinds = tf.gather(pages, tf.bitwise.left_shift(page, _PAGE_BITS) + place)  # [C]
    is_first = rows != _shifted(rows, 1, -1)
    is_last = rows != _shifted(rows, -1, -1)
    nothing = tf.constant(_NOTHING, kinds.dtype)
    before = tf.where(is_first, nothing, _shifted(kinds, 1, _NOTHING))
    after = tf.where(is_last, nothing, _shifted(kinds, -1, _NOTHING))
    is_white, was_white, will_be_white = (k >= _SPACE for k in (kinds, before, after))
    # The last of several goes to the next word, or stands alone, unless the text ends.
    begins_white = ~was_white | ~(will_be_white | is_last)
    begins_word = (kinds != before) & (before != _SPACE)
    begins = (is_white & begins_white) | (~is_white & begins_word)
    # 's and its like, unless ' ends other signs; what comes next begins a piece, too.
    apostrophes = tf.where((points == _APOSTROPHE) & begins)[:, 0]  # few of C
    one, two = (
        tf.where(
            _at(rows, apostrophes + by, -1) == tf.gather(rows, apostrophes),
            _at(points, apostrophes + by, 0),
            0,
        )
        for by in (1, 2)
    )
    short = functools.reduce(tf.logical_or, [one == ord(a) for a in _SHORT_SUFFIXES])
    long = functools.reduce(
        tf.logical_or, [(one == ord(a)) & (two == ord(b)) for a, b in _LONG_SUFFIXES]
    )
    short, long = (tf.boolean_mask(apostrophes, is_one) for is_one in (short, long))
    size = tf.size(points, tf.int64)
    joins = _flags(tf.concat([short, long], axis=0) + 1, size)
    splits = _flags(tf.concat([short + 2, long + 3], axis=0), size)
    return (begins & ~joins) | splits | is_first


def _at(values, places, fill):
    """Values [C] at places [n], some of which may lie behind the end."""
    is_there = places < tf.size(values, tf.int64)
    return tf.where(is_there, tf.gather(values, tf.where(is_there, places, 0)), fill)


def _flags(places, size):
    """True at the places [n] of [size]; those behind the end are left out."""
    places = tf.boolean_mask(places, places < size)
    counts = tf.scatter_nd(
        places[:, tf.newaxis], tf.ones_like(places), size[tf.newaxis]
    )
    return counts > 0


def _row_ids(lengths):
    """For rows of int32 lengths [B], the row of each of their elements; int32."""
    # tf.repeat would make a matrix as wide as the longest row.
    ends = tf.cumsum(lengths)
    starts = (ends - lengths)[:, tf.newaxis]
    total = tf.reduce_sum(lengths)
    begun = tf.scatter_nd(starts, tf.ones_like(lengths), [total + 1])[:total]
    return tf.cumsum(begun) - 1


def _shifted(values, by, fill):
    """Values [C], each `by` places to the right; `fill` where none comes from."""
    size = tf.size(values)
    missing = tf.fill([tf.minimum(abs(by), size)], tf.cast(fill, values.dtype))
    if by > 0:
        return tf.concat([missing, values], axis=0)[:size]
    return tf.concat([values[-by:], missing], axis=0)


@functools.cache
def _class_tables():
    """The class of each code point in two steps: which page, and where on it."""
    points = np.r_[1:0xD800, 0xE000:0x110000].astype(np.int32)
    with tf.init_scope(), tf.device("CPU:0"):
        everything = tf.strings.unicode_encode(points, "UTF-8")

        def members(excluded):
            left = tf.strings.regex_replace(everything, f"{excluded}+", "")
            return tf.strings.unicode_decode(left, "UTF-8").numpy()

        kinds = np.full(0x110000, _OTHER, np.int8)
        kinds[members(r"\P{L}")] = _LETTER
        kinds[members(r"\P{N}")] = _NUMBER
        kinds[members(f"[^{ALL_WHITESPACE}]")] = _WHITESPACE
    kinds[ord(" ")] = _SPACE
    for kind, ranges in ((_LETTER, _NEW_LETTERS), (_NUMBER, _NEW_NUMBERS)):
        for each in ranges.split():
            first, last = (int(point, 16) for point in each.split("-"))
            kinds[first : last + 1] = kind
    pages, first_pages = np.unique(
        kinds.reshape(-1, 1 << _PAGE_BITS), axis=0, return_inverse=True
    )
    return first_pages.reshape(-1).astype(np.int32), pages.reshape(-1)


def merge(
    symbols: tf.Tensor, rows: tf.Tensor, table: Table
) -> tuple[tf.Tensor, tf.Tensor]:
    """Joins pairs of ids in each row, those first that were learned first.

    Args:
        symbols: int32 [N], ids of the bytes.
        rows: int32 [N], ascending: the row that each stands in.
        table: as `table` returns it, of arrays or tensors.

    Returns:
        Ids and their rows, [n] each with n <= N.
    """
    none = tf.size(table.keys)  # above all ranks

    def look_up(symbols, rows):
        """Rank and place in the table of the pair that each symbol begins, [n]."""
        left, right = (
            tf.cast(ids, tf.int64) for ids in (symbols, _shifted(symbols, -1, 0))
        )
        key = left * table.vocab_size + right
        place = tf.minimum(tf.searchsorted(table.keys, key), none - 1)
        is_pair = tf.gather(table.keys, place) == key
        is_pair &= _shifted(rows, -1, -1) == rows
        return tf.where(is_pair, tf.gather(table.ranks, place), none), place

    def step(symbols, rows, rank, place):
        chosen = _chosen(symbols, rows, rank, table)
        symbols = tf.where(chosen, tf.gather(table.ids, place), symbols)
        kept = ~_shifted(chosen, 1, False)
        symbols, rows = tf.boolean_mask(symbols, kept), tf.boolean_mask(rows, kept)
        return symbols, rows, *look_up(symbols, rows)

    shape = tf.TensorShape([None])
    symbols, rows, *_ = tf.while_loop(
        lambda symbols, rows, rank, place: tf.reduce_any(rank < none),
        step,
        (symbols, rows, *look_up(symbols, rows)),
        shape_invariants=(shape, shape, shape, shape),
    )
    return symbols, rows


def _chosen(symbols, rows, rank, table):
    """Which of n symbols begin a pair that can be merged now; bool [n].

    A pair can, if nothing that is merged before it changes its two symbols: both pairs
    beside it were learned later, and from the nearest pair that was learned before, no
    token that could join one of the symbols reaches to it.
    """
    none = tf.size(table.keys)
    is_lowest = rank <= tf.minimum(_shifted(rank, 1, none), _shifted(rank, -1, none))
    is_lowest &= rank < none
    lengths = tf.gather(table.lengths, symbols)
    ends = tf.cumsum(lengths)
    before, after = (tf.reshape(least, [-1]) for least in (table.before, table.after))

    def is_safe(rank, left, right, columns):
        """Whether no token of column + 2 bytes or more joins pairs [c] before."""
        left = tf.gather(before, left * (_REACH + 1) + columns[0])
        right = tf.gather(after, right * (_REACH + 1) + columns[1])
        # Of equal pairs that overlap, the left one comes first.
        return (left > rank) & (right >= rank)

    def reach(places, direction, edges):
        """Columns [c] by the nearest pair with a lower rank than those at places."""
        own = places + (1 if direction > 0 else 0)
        far = own[:, tf.newaxis] + direction * tf.range(2, _REACH + 2, dtype=tf.int64)
        inside = tf.maximum(tf.minimum(far, tf.size(symbols, tf.int64) - 1), 0)
        is_there = tf.gather(rows, inside) == tf.gather(rows, own)[:, tf.newaxis]
        is_there &= far == inside  # [c, _REACH]
        pair = inside if direction < 0 else inside - 1
        is_before = tf.gather(rank, pair) < tf.gather(rank, places)[:, tf.newaxis]
        num_bytes = tf.gather(edges, inside) - tf.gather(edges, own)[:, tf.newaxis]
        column = tf.minimum(direction * num_bytes - 2, _REACH - 1)
        column = tf.where(is_there & is_before, column, _REACH)
        unseen = tf.where(is_there[:, -1], _REACH - 1, _REACH)
        return tf.minimum(tf.reduce_min(column, axis=1), unseen)

    can_merge = rank == tf.gather(tf.math.segment_min(rank, rows), rows)
    can_merge |= is_safe(rank, symbols, _shifted(symbols, -1, 0), (0, 0))
    can_merge &= is_lowest
    unsure = tf.where(is_lowest & ~can_merge)[:, 0]  # [c]
    pairs = tf.gather(symbols, unsure), tf.gather(symbols, unsure + 1)
    columns = reach(unsure, -1, ends - lengths), reach(unsure, 1, ends)
    is_sure = is_safe(tf.gather(rank, unsure), *pairs, columns)
    can_merge |= _flags(tf.boolean_mask(unsure, is_sure), tf.size(symbols, tf.int64))
    # Of a run, as of aaa where a a is learned, every second begins a pair, if all
    # before it can be merged.
    begins_run = rank != _shifted(rank, 1, -1)
    run = tf.cumsum(tf.cast(begins_run, tf.int32)) - 1
    position = tf.range(tf.size(symbols))
    start = tf.gather(tf.boolean_mask(position, begins_run), run)
    refused = tf.cumsum(tf.cast(~can_merge, tf.int32), exclusive=True)
    is_first = (position - start) % 2 == 0
    return can_merge & is_first & (refused == tf.gather(refused, start))
