"""Cuts contexts into overlapping windows of tokens, each after its question.

    tokens of a context      a b c d e f g h
    window 0    [CLS] q [SEP] a b c d [SEP]
    window 1    [CLS] q [SEP]     c d e f [SEP]            doc_stride=2
    window 2    [CLS] q [SEP]         e f g h [SEP]

A window's share of the context is its *excerpt*. The rules are the original's
(convert_examples_to_features, _improve_answer_span, _check_is_max_context), for
thousands of questions at a time.
"""

import collections
import dataclasses
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, file_names, outcomes
from data_pipeline import findings
from data_pipeline.batches import batching, excerpts, packing, tf_records
from data_pipeline.squad import files
from data_pipeline.text import base
from terminal import progress

FIRST_UNIQUE_ID = 1_000_000_000
# Contexts or questions handled at a time: enough to keep NumPy busy, little to hold.
_CHUNK_ROWS = 4096


@dataclasses.dataclass(frozen=True, repr=False)
class ContextTokens:
    """The tokens of C contexts, end to end; each word is tokenized by itself."""

    tokens: np.ndarray  # int32 [T], or int16 [T, C]
    splits: np.ndarray  # int64 [C + 1]; context c is tokens[splits[c]:splits[c + 1]]
    token_words: np.ndarray  # int32 [T], the word of each token, counted in its context
    word_tokens: np.ndarray  # int64 [W + 1], where each word begins in `tokens`
    word_splits: np.ndarray  # int64 [C + 1], where each context's words begin


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class QuestionSplit(batching.WindowSplit):
    """The Q questions of a file and their N windows, in the order of the questions.

    Segment 1 is the excerpt and the last [SEP]; `packed.num_truncated` counts questions
    that were cut. Positions of the answer's first and last token are 0, the [CLS],
    where the window lacks part of it, and None for prediction.
    """

    questions: files.Questions
    contexts: ContextTokens
    question_index: np.ndarray  # int32 [N]
    window_index: np.ndarray  # int32 [N], counted from 0 for each question
    excerpt_starts: np.ndarray  # int64 [N], indices into `contexts.tokens`
    start_positions: np.ndarray | None  # int32 [N]
    end_positions: np.ndarray | None  # int32 [N]

    def contents(self) -> str:
        questions = f"{len(self.questions)} questions from {self.path}"
        return f"{questions}, {len(self)} windows"

    @property
    def unique_ids(self) -> np.ndarray:
        """int32 [N], as the original numbers its features."""
        return FIRST_UNIQUE_ID + np.arange(len(self), dtype=features.INTEGER)

    @property
    def excerpt_lengths(self) -> np.ndarray:
        """int64 [N], tokens of the context in each window."""
        return self.packed.lengths - self.packed.first_lengths - 1

    def targets(self) -> dict[str, Any]:
        """start_positions and end_positions, int32 [N] each; {} for prediction."""
        start, end = self.start_positions, self.end_positions
        if start is None or end is None:
            return {}
        return {features.START_POSITIONS: start, features.END_POSITIONS: end}

    @property
    def owners(self) -> np.ndarray:
        return self.question_index

    def owner_name(self, owner: int) -> str:
        return f": question {self.questions.ids[owner]}"

    def summary(self) -> outcomes.Summary:
        kinds = (
            "no answer" if none else "answer" for none in self.questions.is_impossible
        )
        return outcomes.Summary(
            path=self.path,
            count=len(self.questions),
            unit="questions",
            lengths=np.bincount(self.owners, minlength=len(self.questions)),
            length_unit="windows of a question",
            cut=self.packed.num_truncated,
            cut_means="cut to --max_query_length",
            labels=dict(collections.Counter(kinds)),
            labels_title="Answers",
        )


class TokenGrids(NamedTuple):
    """Where the tokens of windows come from, [N, S] in padded rows."""

    word_index: np.ndarray  # int32, in its context, or -1 (`token_to_orig_map`)
    is_max_context: np.ndarray  # bool, whether it counts here (`token_is_max_context`)


def token_grids(windows: QuestionSplit, length: int) -> TokenGrids:
    """Lays out windows in rows of `length` tokens; no window may be longer."""
    lengths = windows.excerpt_lengths
    # Windows that show one token for one question have a place in common. A question's
    # excerpts cover its context, so their lengths leave room for all of its places.
    first_window = np.arange(len(windows)) - windows.window_index
    starts = windows.excerpt_starts - windows.excerpt_starts[first_window]
    starts += packing.row_splits(lengths)[first_window]
    before, count = windows.packed.first_lengths, lengths.sum()
    is_context, _, is_max_context = place_excerpts(
        starts, starts + lengths, before, length, count
    )
    word_index = np.full(is_context.shape, -1, features.INTEGER)
    tokens = packing.ranges(windows.excerpt_starts, lengths)
    word_index[is_context.numpy()] = windows.contexts.token_words[tokens]
    return TokenGrids(word_index, is_max_context.numpy())


def place_excerpts(
    starts: Any, stops: Any, first_lengths: Any, length: Any, count: Any
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Which of `count` places each token of N windows shows, [N, length].

    Places starts[i] .. stops[i] - 1, int64, follow first_lengths[i] other tokens. Each
    counts in one window only: the one that maximizes min(tokens before, tokens after)
    + 0.01 * excerpt length, the first of equal ones.

    Returns:
        Whether a token shows a place; which, int64, or 0; whether it counts here.
    """
    before = tf.range(length, dtype=tf.int64)
    before -= tf.cast(first_lengths, tf.int64)[:, tf.newaxis]  # [N, S]
    place = starts[:, tf.newaxis] + before
    after = stops[:, tf.newaxis] - 1 - place
    is_shown = (before >= 0) & (after >= 0)
    place = tf.where(is_shown, place, 0)
    scores = tf.cast(tf.minimum(before, after), tf.float64)
    scores += 0.01 * tf.cast(stops - starts, tf.float64)[:, tf.newaxis]
    shown = tf.where(is_shown)  # [K, 2]
    scores, items = tf.gather_nd(scores, shown), tf.gather_nd(place, shown)
    best = batching.best_windows(scores, items, shown[:, 0], count)
    window = tf.range(tf.size(starts, tf.int64))[:, tf.newaxis]  # [N, 1]
    return is_shown, place, is_shown & (tf.gather(best, place) == window)


def check_lengths(
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> int:
    """Tokens of a window that are not special; some are left for a context."""
    if doc_stride < 1:
        raise errors.InputError(
            f"--doc_stride={doc_stride} is not positive; give one such as 128"
        )
    num_special = packing.num_special(tokenizer, is_pair=True)
    limit = max_seq_length - num_special - 1
    if not 0 <= max_query_length <= limit:
        raise errors.InputError(
            f"--max_query_length={max_query_length} is outside 0..{limit}; lower it, "
            f"or raise --max_seq_length={max_seq_length}"
        )
    return max_seq_length - num_special


def make_windows(
    questions: files.Questions,
    tokenizer: base.Tokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> QuestionSplit:
    """Cuts the contexts of all questions; one without tokens has no window.

    Lengths are in tokens: of a window, from one window to the next (at most an
    excerpt), and of a question after truncation.
    """
    limits = (max_seq_length, doc_stride, max_query_length)
    check_lengths(tokenizer, *limits)
    contexts = tokenize_contexts(
        questions.contexts,
        tokenizer,
        questions.path,
        at_ideographs=questions.at_ideographs,
    )
    chunks = []
    name = f"cutting {os.path.basename(questions.path)}: question"
    for part in progress.slices(len(questions), _CHUNK_ROWS, name):
        rows = np.arange(part.start, part.stop)
        chunks.append(_windows_of(rows, questions, contexts, tokenizer, limits))
    packed = packing.concatenate([chunk.pop("packed") for chunk in chunks])
    columns: dict[str, Any] = {
        name: None if first is None else np.concatenate([c[name] for c in chunks])
        for name, first in chunks[0].items()
    }
    return QuestionSplit(
        path=questions.path,
        packed=packed,
        questions=questions,
        contexts=contexts,
        **columns,
    )


def tokenize_contexts(
    contexts: Sequence[str],
    tokenizer: base.Tokenizer,
    path: str = "",
    *,
    at_ideographs: bool = False,
) -> ContextTokens:
    """Tokenizes all words of all contexts; `path` is where they are from."""
    ids, pieces, words = [], [], []
    name = f"tokenizing {os.path.basename(path)}: context"
    for part in progress.slices(len(contexts), _CHUNK_ROWS, name):
        split = [
            files.split_words(context, at_ideographs=at_ideographs)
            for context in contexts[part]
        ]
        pieces_of_words = tokenizer.tokenize_inside(
            [word for context in split for word in context]
        )
        ids.append(pieces_of_words.values.numpy())
        pieces.append(pieces_of_words.row_lengths().numpy())
        words.append(list(map(len, split)))
    tokens = np.concatenate(ids)
    word_lengths, context_lengths = np.concatenate(pieces), np.concatenate(words)
    word_tokens = packing.row_splits(word_lengths)
    word_splits = packing.row_splits(context_lengths)
    numbers = packing.ranges(np.zeros_like(context_lengths), context_lengths)
    return ContextTokens(
        tokens=tokens,
        splits=word_tokens[word_splits],
        token_words=np.repeat(numbers, word_lengths).astype(features.INTEGER),
        word_tokens=word_tokens,
        word_splits=word_splits,
    )


def _windows_of(rows, questions, contexts, tokenizer, limits) -> dict[str, Any]:
    """The fields of a QuestionSplit of some questions."""
    max_seq_length, doc_stride, max_query_length = limits
    query = tokenizer.tokenize(questions.texts[rows[0] : rows[-1] + 1])
    full_lengths = query.row_lengths().numpy()
    query_lengths = np.minimum(full_lengths, max_query_length)
    context_index = questions.context_index[rows]
    cuts = excerpts.cut(
        query_lengths,
        contexts.splits[context_index],
        contexts.splits[context_index + 1],
        max_seq_length - packing.num_special(tokenizer, is_pair=True),
        doc_stride,
    )
    question, window_index, starts, stops = (each.numpy() for each in cuts)
    packed = packing.unpad(
        *packing.pack(
            tf.gather(query[:, :max_query_length], question),
            tf.gather(contexts.tokens, tf.ragged.range(starts, stops)),
            special=tokenizer,
            max_seq_length=max_seq_length,
        )
    )
    num_truncated = int(np.sum(full_lengths > max_query_length))
    begin = end = None
    if questions.answer_words is not None:
        answers = _answer_tokens(rows, questions, contexts, tokenizer)[question]
        inside = (answers[:, 0] >= starts) & (answers[:, 1] < stops)
        inside &= ~np.array(questions.is_impossible)[rows][question]
        shift = (packed.first_lengths - starts)[:, None]
        answers = np.where(inside[:, None], answers + shift, 0)  # [N, 2]
        begin, end = answers.astype(features.INTEGER).T
    return {
        "packed": dataclasses.replace(packed, num_truncated=num_truncated),
        "question_index": rows[question].astype(features.INTEGER),
        "window_index": window_index.astype(features.INTEGER),
        "excerpt_starts": starts,
        "start_positions": begin,
        "end_positions": end,
    }


def _answer_tokens(rows, questions, contexts, tokenizer):
    """First and last token of each answer in `contexts.tokens`; int64 [rows, 2].

    Words are coarser than answers ("1895" in "(1895-1943)."): the first tokens that
    equal the answer's own are taken, else ("Japan" in "Japanese") all of the words.
    """
    words = contexts.word_splits[questions.context_index[rows], None]
    words = words + questions.answer_words[rows]
    first = contexts.word_tokens[words[:, 0]]
    last = contexts.word_tokens[words[:, 1] + 1] - 1
    texts = [(questions.answer_texts[row] or [""])[0] for row in rows]
    answer = tokenizer.tokenize_inside(texts)
    ids, lengths = answer.values.numpy(), answer.row_lengths().numpy()
    answer_starts = answer.row_starts().numpy()

    places = np.maximum(last - first + 2 - lengths, 0)
    places[lengths == 0] = 0
    owner = np.repeat(np.arange(len(rows)), places)
    place = packing.ranges(first, places)  # each place where an answer would fit
    for offset in range(lengths.max(initial=0)):
        ended = offset >= lengths[owner]
        equal = contexts.tokens[np.where(ended, 0, place + offset)]
        equal = equal == ids[np.where(ended, 0, answer_starts[owner] + offset)]
        if equal.ndim > 1:  # a token is a row of characters
            equal = equal.all(axis=1)
        owner, place = owner[ended | equal], place[ended | equal]
    row, index = np.unique(owner, return_index=True)  # the first place of each
    first[row] = place[index]
    last[row] = first[row] + lengths[row] - 1
    return np.stack([first, last], axis=1)


def load(
    name: str,
    questions: files.Questions,
    tokenizer: base.Tokenizer,
    show: findings.Show = findings.hide,
    **limits: int,
) -> QuestionSplit:
    """Cuts the split `name` as windows.make_windows, and shows how much there is."""
    show(questions.noticed)
    windows = make_windows(questions, tokenizer, **limits)
    if not len(windows):
        raise errors.InputError(
            f"{questions.path}: no context has a token that the model reads; correct it"
        )
    cut = f"questions cut to {limits['max_query_length']}"
    show([windows.announcement(name, tokenizer, cut)])
    return windows


def write_records(directory: str, data: QuestionSplit, max_seq_length: int) -> None:
    """Writes train.tf_record where there are targets, else eval.tf_record.

    They are the original's; rows of characters have no place in them.
    """
    if data.packed.tokens.ndim > 1:
        return
    columns = {features.UNIQUE_IDS: data.unique_ids}
    name = "eval"
    if targets := data.targets():
        name = "train"
        is_impossible = np.array(data.questions.is_impossible, features.INTEGER)
        columns |= targets
        columns[features.IS_IMPOSSIBLE] = is_impossible[data.question_index]
    path = os.path.join(directory, f"{name}{file_names.TF_RECORD_ENDING}")
    tf_records.write(path, data.packed, columns, max_seq_length)
