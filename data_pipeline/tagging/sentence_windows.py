"""Sentences to windows of tokens that predict a tag for each word, and back.

A word is predicted from its first word piece (BERT section 5.3). A sentence that is
longer than a window has several, which overlap, and nothing of it is lost.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.examples import packing, ragged
from data_pipeline.tagging import tagged_files
from data_pipeline.text import tokenization

# Words tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_WORDS = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The N windows of sentences with W words in all.

    Attributes:
        packed: [CLS] words [SEP], all of segment 0. `num_truncated` counts the words
            that have more pieces than a window; each fills one of its own.
        sentence_index: int32 [N], the sentence that a window predicts words of.
        word_places: int64 [W], where in `packed.tokens` the token stands from which
            each word is predicted. Every window has one or more of them.
        word_splits: int64 [sentences + 1]; the words of sentence i are
            word_splits[i] .. word_splits[i + 1] - 1.
        tag_ids: int32 [W], the tag of each word; None where it is not known.
    """

    packed: packing.Packed
    sentence_index: np.ndarray
    word_places: np.ndarray
    word_splits: np.ndarray
    tag_ids: np.ndarray | None = None

    def __len__(self):
        return len(self.packed)

    def targets(self) -> dict[str, tf.RaggedTensor]:
        """What batching.batches takes: label_ids, ragged int32 [N, (S)].

        A word's tag stands at its place, features.IGNORED everywhere else. {} where
        tags are not known.
        """
        if self.tag_ids is None:
            return {}
        label_ids = np.full_like(self.packed.tokens, features.IGNORED)
        label_ids[self.word_places] = self.tag_ids
        ragged = tf.RaggedTensor.from_row_splits(label_ids, self.packed.splits)
        return {features.LABEL_IDS: ragged}

    def by_word(self, outputs: np.ndarray) -> np.ndarray:
        """What the model says of each word.

        Args:
            outputs: [N, S, ...], of the windows, padded on the right.

        Returns:
            [W, ...], sentence after sentence.

        Raises:
            ValueError: there are not N rows, or the longest window has more tokens.
        """
        longest = int(self.packed.lengths.max(initial=0))
        if len(outputs) != len(self) or outputs.shape[1] < longest:
            raise ValueError(
                f"outputs of shape {outputs.shape} are not those of {len(self)} windows"
                f" of up to {longest} tokens"
            )
        splits = self.packed.splits
        window = np.searchsorted(splits, self.word_places, side="right") - 1
        return outputs[window, self.word_places - splits[window]]

    def by_sentence(self, values: np.ndarray) -> list[list[Any]]:
        """[W] values of words, as one list a sentence."""
        flat, splits = values.tolist(), self.word_splits.tolist()
        return [flat[start:end] for start, end in itertools.pairwise(splits)]


def make_windows(
    sentences: tagged_files.Sentences,
    tokenizer: tokenization.BertTokenizer,
    *,
    max_seq_length: int,
    stride: int = 0,
    tag_ids: np.ndarray | None = None,
    document_context: bool = False,
) -> Windows:
    """Tokenizes words and cuts their sentences into windows.

    A window holds whole words. Each word is predicted from the window that shows most
    of what stands around it, by the smaller number of tokens before and behind it, and
    from the first of equal ones. A word that the tokenizer leaves nothing of is [UNK].

    Args:
        sentences: for training or prediction.
        tokenizer: of the model.
        max_seq_length: of a window, in tokens, the special ones included.
        stride: of sentences longer than that, tokens from one window to the next; 0
            for half a window.
        tag_ids: int32 [W], where they are known.
        document_context: fill each window on both sides with the words around it in
            the document, as far as max_seq_length goes.

    Raises:
        ValueError: a length leaves no room, or the stride skips tokens.
    """
    room, step = limits(max_seq_length, stride)
    tokens, word_tokens, num_cut = _tokenize(sentences, tokenizer, room)
    word_splits = ragged.splits([len(words) for words in sentences.words])
    sentence, begin, end = _cut(word_tokens, word_splits, room, step)
    chosen = _best_windows(word_tokens, begin, end)
    # Where windows follow closely, one may be the best for no word.
    used, chosen = np.unique(chosen, return_inverse=True)
    sentence, begin, end = sentence[used], begin[used], end[used]
    if document_context:
        bounds = _documents(sentences.documents, word_splits)[sentence]
        begin, end = _widen(word_tokens, begin, end, bounds, room)
    starts, lengths = word_tokens[begin], word_tokens[end] - word_tokens[begin]
    nought, one = np.zeros_like(starts), np.ones_like(starts)
    packed, splits = ragged.joined(
        (np.array([tokenizer.cls_id]), nought, one),
        (tokens, starts, lengths),
        (np.array([tokenizer.sep_id]), nought, one),
    )
    return Windows(
        packed=packing.Packed(
            packed, splits, (lengths + 2).astype(features.INTEGER), num_cut
        ),
        sentence_index=sentence.astype(features.INTEGER),
        word_places=splits[chosen] + 1 + word_tokens[:-1] - starts[chosen],
        word_splits=word_splits,
        tag_ids=tag_ids,
    )


def limits(max_seq_length: int, stride: int) -> tuple[int, int]:
    """Tokens of a window beside the special ones, and from one window to the next.

    Args:
        max_seq_length: of a window, in tokens, the special ones included.
        stride: in tokens; 0 for half a window.

    Raises:
        ValueError: a length leaves no room, or the stride skips tokens.
    """
    room = max_seq_length - 2  # [CLS] and [SEP]
    if room < 1:
        raise ValueError(
            f"--max_seq_length={max_seq_length} leaves no token beside [CLS] and [SEP];"
            " give 3 or more"
        )
    if not 0 <= stride <= room:
        raise ValueError(
            f"--window_stride={stride} is outside 0..{room}, the --max_seq_length="
            f"{max_seq_length} without [CLS] and [SEP]; give 0 for half a window"
        )
    return room, stride or (room + 1) // 2


def _tokenize(sentences, tokenizer, room):
    """Word pieces of all words, end to end.

    Returns:
        int32 [T] ids; int64 [W + 1] where each word begins; how many words were cut.
    """
    words = list(itertools.chain.from_iterable(sentences.words))
    ids, counts = [], []
    for start in range(0, len(words), _CHUNK_WORDS):
        pieces = tokenizer.tokenize(words[start : start + _CHUNK_WORDS])
        ids.append(pieces.values.numpy())
        counts.append(pieces.row_lengths().numpy())
    ids.append(np.array([tokenizer.unk_id], features.INTEGER))
    tokens, lengths = np.concatenate(ids), np.concatenate(counts)
    starts = ragged.splits(lengths)[:-1]
    starts[lengths == 0] = len(tokens) - 1  # the [UNK] behind all others
    kept = np.clip(lengths, 1, room)
    tokens = tokens[ragged.ranges(starts, kept)]
    return tokens, ragged.splits(kept), int(np.sum(lengths > room))


def _cut(word_tokens, word_splits, room, step):
    """Cuts sentences into windows of whole words.

    Returns:
        int64 [N] each: the sentence, the first word, and the word behind the last, by
        sentence and from left to right.
    """
    rows = np.flatnonzero(np.diff(word_splits))
    begin = word_splits[rows]
    found = []
    while len(rows):  # the first windows of all sentences, then the second ones, ...
        limit = word_tokens[begin] + room
        end = np.searchsorted(word_tokens, limit, side="right") - 1
        end = np.minimum(end, word_splits[rows + 1])
        found.append(np.stack([rows, begin, end]))
        goes_on = end < word_splits[rows + 1]
        rows, begin, end = rows[goes_on], begin[goes_on], end[goes_on]
        # Where a long word leaves no overlap, the next window begins behind this one.
        begin = np.searchsorted(word_tokens, word_tokens[begin] + step)
        begin = np.minimum(begin, end)
    windows = np.concatenate([np.zeros((3, 0), np.int64), *found], axis=1)
    return windows[:, np.argsort(windows[0], kind="stable")]


def _best_windows(word_tokens, begin, end):
    """int64 [W], the window that each word is predicted from."""
    counts = end - begin
    window = np.repeat(np.arange(len(begin)), counts)
    word = ragged.ranges(begin, counts)
    before = word_tokens[word] - word_tokens[begin[window]]
    behind = word_tokens[end[window]] - 1 - word_tokens[word]
    order = np.lexsort((window, -np.minimum(before, behind), word))
    _, first = np.unique(word[order], return_index=True)
    return window[order[first]]


def _documents(documents, word_splits):
    """int64 [sentences, 2], first word of a sentence's document and that behind it."""
    first = np.searchsorted(documents, documents, side="left")
    last = np.searchsorted(documents, documents, side="right")
    return np.stack([word_splits[first], word_splits[last]], axis=1)


def _widen(word_tokens, begin, end, bounds, room):
    """Windows with the words around them; `bounds` is how far they may go."""
    first, last = word_tokens[begin], word_tokens[end]
    before = first - word_tokens[bounds[:, 0]]
    behind = word_tokens[bounds[:, 1]] - last
    # Both sides give way as two texts do that are packed into one sequence; what whole
    # words leave unused on the left is used on the right.
    before, _ = packing.budgets(before, behind, room - (last - first))
    begin = np.searchsorted(word_tokens, first - before)
    end = np.searchsorted(word_tokens, word_tokens[begin] + room, side="right") - 1
    return begin, np.minimum(end, bounds[:, 1])
