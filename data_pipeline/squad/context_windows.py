"""Questions and their contexts to windows of tokens, [CLS] question [SEP] part [SEP].

The rules of the original (convert_examples_to_features, _improve_answer_span,
_check_is_max_context), for thousands of questions at a time.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from contract import features
from data_pipeline.examples import packing, ragged
from data_pipeline.squad import squad_files
from data_pipeline.text import tokenization

FIRST_UNIQUE_ID = 1_000_000_000
# Contexts or questions handled at a time: enough to keep NumPy busy, little to hold.
_CHUNK_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Documents:
    """The tokens of C contexts, end to end; each word is tokenized by itself.

    Attributes:
        tokens: int32 [T].
        splits: int64 [C + 1]; context c is tokens[splits[c]:splits[c + 1]].
        token_words: int32 [T], the word of each token, counted in its context.
        word_tokens: int64 [W + 1], where in `tokens` each word of all contexts begins.
        word_splits: int64 [C + 1]; the words of context c are
            word_splits[c]..word_splits[c + 1] - 1.
    """

    tokens: np.ndarray
    splits: np.ndarray
    token_words: np.ndarray
    word_tokens: np.ndarray
    word_splits: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The N windows of Q questions, in the order of the questions.

    A window is a row of `packed`; what is in it of the context is a stretch of
    `documents.tokens`.

    Attributes:
        packed: the windows; segment 1 is the part of the context and the last [SEP].
            `num_truncated` counts the questions that were cut.
        documents: the contexts they are parts of.
        question_index: int32 [N], the question of each.
        window_index: int32 [N], counted from 0 for each question.
        window_starts: int64 [N], first token of the part, counted in the context.
        document_starts: int64 [N], first token of the context in `documents.tokens`.
        start_positions: int32 [N], first token of the answer, counted in the window;
            0, which is [CLS], where the window lacks the whole answer. None for
            prediction.
        end_positions: int32 [N], its last token; the same.
    """

    packed: packing.Packed
    documents: Documents
    question_index: np.ndarray
    window_index: np.ndarray
    window_starts: np.ndarray
    document_starts: np.ndarray
    start_positions: np.ndarray | None
    end_positions: np.ndarray | None

    def __len__(self):
        return len(self.packed)

    @property
    def unique_ids(self) -> np.ndarray:
        """int32 [N], as the original numbers its features."""
        return FIRST_UNIQUE_ID + np.arange(len(self), dtype=features.INTEGER)

    @property
    def part_lengths(self) -> np.ndarray:
        """int64 [N], tokens of the context in each window."""
        return self.packed.lengths - self.packed.first_lengths - 1


def document_tokens(windows: Windows, window: int) -> tuple[np.ndarray, np.ndarray]:
    """What of the context is in a window; entry i is token first_lengths[window] + i.

    Returns:
        int32 [P] token ids and int32 [P], the word of each in the context.
    """
    begin = windows.document_starts[window] + windows.window_starts[window]
    part = slice(begin, begin + windows.part_lengths[window])
    return windows.documents.tokens[part], windows.documents.token_words[part]


def is_max_context(windows: Windows, window: int) -> np.ndarray:
    """Tokens of a window that no other window shows with more context on both sides.

    Each token of a context counts in one window only: where the smaller of the numbers
    of tokens before and after it is largest, a hundredth of the window's length added,
    and in the first of equal windows.

    Returns:
        bool [P], by token as `document_tokens` has them.
    """
    first = window - windows.window_index[window]
    question = windows.question_index[window]
    end = np.searchsorted(windows.question_index, question, side="right")
    starts = windows.window_starts[first:end, None]  # [windows of the question, 1]
    lengths = windows.part_lengths[first:end, None]
    own = window - first
    position = starts[own] + np.arange(lengths[own, 0])  # [P]
    left, right = position - starts, starts + lengths - 1 - position
    context = np.minimum(left, right)
    scores = np.where(context < 0, -1, context + 0.01 * lengths)
    return np.argmax(scores, axis=0) == own


def token_grids(windows: Windows, length: int) -> tuple[np.ndarray, np.ndarray]:
    """`document_tokens` and `is_max_context` of all windows, laid out as padded rows.

    Args:
        windows: N of them.
        length: S, tokens of a padded row, not shorter than any window.

    Returns:
        int32 [N, S], the word of each token in its context, -1 where a token is not of
        the context; bool [N, S], False there.
    """
    parts = windows.part_lengths
    rows = np.repeat(np.arange(len(windows)), parts)
    columns = ragged.ranges(windows.packed.first_lengths, parts)
    begins = windows.document_starts + windows.window_starts
    words = np.full((len(windows), length), -1, features.INTEGER)
    words[rows, columns] = windows.documents.token_words[ragged.ranges(begins, parts)]
    is_max = words >= 0
    # Most questions have one window, in which every token counts.
    for window in np.flatnonzero(_num_siblings(windows)):
        first = windows.packed.first_lengths[window]
        found = is_max_context(windows, window)
        is_max[window, first : first + len(found)] = found
    return words, is_max


def _num_siblings(windows: Windows) -> np.ndarray:
    """How many other windows the question of each window has, int [N]."""
    counts = np.bincount(windows.question_index, minlength=1)
    return counts[windows.question_index] - 1


def check_lengths(max_seq_length: int, doc_stride: int, max_query_length: int) -> None:
    """Refuses lengths of windows, all in tokens, that leave no room for a context.

    Raises:
        ValueError: a length leaves no room, or is not positive.
    """
    if doc_stride < 1:
        raise ValueError(
            f"--doc_stride={doc_stride} is not positive; give the tokens from one "
            "window to the next, such as 128"
        )
    limit = max_seq_length - 4
    if not 0 <= max_query_length <= limit:
        raise ValueError(
            f"--max_query_length={max_query_length} is outside 0..{limit}: "
            f"the --max_seq_length={max_seq_length} of a window includes 3 special "
            "tokens and some of the context; lower the one or raise the other"
        )


def make_windows(
    questions: squad_files.Questions,
    tokenizer: tokenization.BertTokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Windows:
    """Cuts contexts into overlapping windows, each behind its question.

    Args:
        questions: for training (with `answer_words`) or prediction. A question about a
            context without tokens has no window.
        tokenizer: of the model.
        max_seq_length: of a window, in tokens, the special ones included.
        doc_stride: tokens from one window to the next, at most its part of the context.
        max_query_length: tokens that a question keeps.
        report: called with (questions done, questions in all) now and then.

    Raises:
        ValueError: a length leaves no room, or is not positive.
    """
    check_lengths(max_seq_length, doc_stride, max_query_length)
    documents = tokenize_contexts(questions.contexts, tokenizer)
    parts = []
    for start in range(0, len(questions), _CHUNK_ROWS):
        report(start, len(questions))
        rows = np.arange(start, min(start + _CHUNK_ROWS, len(questions)))
        limits = (max_seq_length, doc_stride, max_query_length)
        parts.append(_windows_of(rows, questions, documents, tokenizer, limits))
    columns = {
        field.name: _concatenated([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(Windows)
        if field.name not in ("packed", "documents")
    }
    packed = packing.concatenate([part.packed for part in parts])
    return Windows(packed=packed, documents=documents, **columns)


def _concatenated(parts):
    return None if parts[0] is None else np.concatenate(parts)


def tokenize_contexts(contexts, tokenizer: tokenization.BertTokenizer) -> Documents:
    """Tokenizes all words of all contexts.

    Args:
        contexts: C texts.
        tokenizer: of the model.
    """
    ids, pieces, words = [], [], []
    for start in range(0, len(contexts), _CHUNK_ROWS):
        split = [
            squad_files.split_words(text) for text in contexts[start:][:_CHUNK_ROWS]
        ]
        tokens = tokenizer.tokenize([word for found in split for word in found])
        ids.append(tokens.values.numpy())
        pieces.append(tokens.row_lengths().numpy())
        words.append([len(found) for found in split])
    word_lengths, context_lengths = np.concatenate(pieces), np.concatenate(words)
    word_tokens, word_splits = (
        ragged.splits(word_lengths),
        ragged.splits(context_lengths),
    )
    numbers = ragged.ranges(np.zeros_like(context_lengths), context_lengths)
    return Documents(
        tokens=np.concatenate(ids).astype(features.INTEGER),
        splits=word_tokens[word_splits],
        token_words=np.repeat(numbers, word_lengths).astype(features.INTEGER),
        word_tokens=word_tokens,
        word_splits=word_splits,
    )


def _windows_of(rows, questions, documents, tokenizer, limits) -> Windows:
    """The windows of the questions `rows`, which are consecutive."""
    max_seq_length, doc_stride, max_query_length = limits
    query = tokenizer.tokenize(questions.texts[rows[0] : rows[-1] + 1])
    query_ids, query_starts = query.values.numpy(), query.row_starts().numpy()
    full_lengths = query.row_lengths().numpy()
    query_lengths = np.minimum(full_lengths, max_query_length)  # [Q]
    contexts = questions.context_index[rows]
    document_lengths = np.diff(documents.splits)[contexts]
    room = max_seq_length - query_lengths - 3  # [CLS] and two [SEP]
    stride = np.minimum(room, doc_stride)
    counts = 1 + -(-np.maximum(document_lengths - room, 0) // stride)
    counts[document_lengths == 0] = 0

    owner = np.repeat(np.arange(len(rows)), counts)  # [N], from here on by window
    window_index = ragged.ranges(np.zeros_like(counts), counts)
    starts = window_index * stride[owner]
    lengths = np.minimum(room[owner], document_lengths[owner] - starts)
    document_starts = documents.splits[contexts[owner]]
    tokens, splits = ragged.joined(
        (np.array([tokenizer.cls_id]), np.zeros_like(owner), np.ones_like(owner)),
        (query_ids, query_starts[owner], query_lengths[owner]),
        (np.array([tokenizer.sep_id]), np.zeros_like(owner), np.ones_like(owner)),
        (documents.tokens, document_starts + starts, lengths),
        (np.array([tokenizer.sep_id]), np.zeros_like(owner), np.ones_like(owner)),
    )
    first_lengths = query_lengths[owner] + 2
    begin = end = None
    if questions.answer_words is not None:
        spans = _answer_tokens(rows, questions, documents, tokenizer)[owner]  # [N, 2]
        inside = (spans[:, 0] >= starts) & (spans[:, 1] < starts + lengths)
        inside &= ~np.array(questions.is_impossible)[rows][owner]
        shift = (first_lengths - starts)[:, None]
        spans = np.where(inside[:, None], spans + shift, 0)
        begin, end = spans.astype(features.INTEGER).T
    return Windows(
        packed=packing.Packed(
            tokens,
            splits,
            first_lengths.astype(features.INTEGER),
            int(np.sum(full_lengths > max_query_length)),
        ),
        documents=documents,
        question_index=rows[owner].astype(features.INTEGER),
        window_index=window_index.astype(features.INTEGER),
        window_starts=starts,
        document_starts=document_starts,
        start_positions=begin,
        end_positions=end,
    )


def _answer_tokens(rows, questions, documents, tokenizer):
    """First and last token of each answer, counted in its context.

    Words are coarser than answers: of "(1895-1943)." the answer may be "1895". Of the
    words' tokens the first stretch is taken that equals the answer's own tokens, and
    all of them where none does ("Japan" in "Japanese").

    Returns:
        int64 [rows, 2]; without meaning where `is_impossible`.
    """
    contexts = questions.context_index[rows]
    words = documents.word_splits[contexts, None] + questions.answer_words[rows]
    first = documents.word_tokens[words[:, 0]]  # here counted in documents.tokens
    last = documents.word_tokens[words[:, 1] + 1] - 1
    texts = [(questions.answer_texts[row] or [""])[0] for row in rows]
    answer = tokenizer.tokenize(texts)
    ids, lengths = answer.values.numpy(), answer.row_lengths().numpy()
    answer_starts = answer.row_starts().numpy()

    places = np.maximum(last - first + 2 - lengths, 0)
    places[lengths == 0] = 0
    owner = np.repeat(np.arange(len(rows)), places)
    place = ragged.ranges(first, places)  # each place where an answer would fit
    for offset in range(lengths.max(initial=0)):
        known = offset >= lengths[owner]
        same = documents.tokens[np.where(known, 0, place + offset)]
        same = same == ids[np.where(known, 0, answer_starts[owner] + offset)]
        owner, place = owner[known | same], place[known | same]
    found, index = np.unique(owner, return_index=True)  # the first place of each
    first[found] = place[index]
    last[found] = first[found] + lengths[found] - 1
    return np.stack([first, last], axis=1) - documents.splits[contexts, None]
