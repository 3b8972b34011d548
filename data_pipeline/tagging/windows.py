"""Sentences to windows of tokens that predict a tag for each word, and back.

A word is predicted from its first word piece (BERT section 5.3). A sentence longer than
a window is cut into several overlapping ones. `cut` and `pack` are TensorFlow
operations, which training and the exported graph share.
"""

import collections
import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, outcomes, wording
from data_pipeline import findings, label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.tagging import files, schemes
from data_pipeline.text import base
from terminal import progress

# Words tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_WORDS = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SentenceSplit(batching.WindowSplit):
    """The sentences of a file, with W words in all, and their N windows.

    Windows are [CLS] words [SEP], of segment 0; each predicts at least one word.
    `packed.num_truncated` counts words with more pieces than a window.
    """

    sentences: files.Sentences
    sentence_index: np.ndarray  # int32 [N], of each window
    word_places: np.ndarray  # int64 [W], in `packed.tokens`, where it is predicted
    word_splits: np.ndarray  # int64 [sentences + 1], the words of each sentence
    tag_ids: np.ndarray | None = None  # int32 [W]; None where unknown

    def contents(self) -> str:
        read, skipped = self.sentences, self.sentences.num_skipped
        sentences = f"{len(read)} sentences, {read.num_words} words from {self.path}"
        left_out = f"{skipped} empty sentences left out"
        return f"{sentences}, {left_out}; {len(self)} windows"

    def targets(self) -> dict[str, tf.RaggedTensor]:
        """label_ids, ragged int32 [N, (S)], IGNORED but at words; {} without tags."""
        if self.tag_ids is None:
            return {}
        num_tokens = len(self.packed.tokens)
        label_ids = np.full(num_tokens, features.IGNORED, features.INTEGER)
        label_ids[self.word_places] = self.tag_ids
        rows = tf.RaggedTensor.from_row_splits(label_ids, self.packed.splits)
        return {features.LABEL_IDS: rows}

    def target_arrays(self) -> list[Any]:
        return [self.word_places, self.tag_ids]

    @property
    def owners(self) -> np.ndarray:
        return self.sentence_index

    def owner_name(self, owner: int) -> str:
        return f":{self.sentences.lines[owner][0]}"

    def summary(self) -> outcomes.Summary:
        sentences = self.sentences
        tags = (tag for row in sentences.tags or () for tag in row)
        num_windows = np.bincount(self.sentence_index)
        return outcomes.Summary(
            path=self.path,
            count=len(sentences),
            unit="sentences",
            lengths=[len(words) for words in sentences.words],
            length_unit="words of a sentence",
            cut=int(np.sum(num_windows > 1)),
            cut_means="in several windows of --max_seq_length",
            labels=dict(collections.Counter(tags)),
            labels_title="Tags",
        )

    def by_word(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs of the windows, [N, S, ...] padded on the right, to [W, ...]."""
        longest = int(self.packed.lengths.max(initial=0))
        if len(outputs) != len(self) or outputs.shape[1] < longest:
            raise errors.InputError(
                f"outputs {outputs.shape} are not of {len(self)} windows of {longest}"
            )
        splits = self.packed.splits
        window = np.searchsorted(splits, self.word_places, side="right") - 1
        return outputs[window, self.word_places - splits[window]]

    def by_sentence(self, values: np.ndarray) -> list[list[Any]]:
        """[W] values of words, as one list a sentence."""
        flat, splits = values.tolist(), self.word_splits.tolist()
        return [flat[start:end] for start, end in itertools.pairwise(splits)]


class Cut(NamedTuple):
    """N windows, each some of the W words in a row, as tensors."""

    tokens: tf.Tensor  # int32 [T], the pieces of all words, or int16 [T, C]
    word_tokens: tf.Tensor  # int64 [W + 1], where each word begins in `tokens`
    begin: tf.Tensor  # int64 [N], first word of each window, ascending
    end: tf.Tensor  # int64 [N], the word after its last
    chosen: tf.Tensor  # int64 [W], the window that predicts each word


def make_windows(
    sentences: files.Sentences,
    tokenizer: base.Tokenizer,
    *,
    max_seq_length: int,
    stride: int = 0,
    tag_ids: np.ndarray | None = None,
    document_context: bool = False,
) -> SentenceSplit:
    """Tokenizes words and cuts their sentences into windows, by the rules of `cut`.

    With `document_context` each window is filled on both sides with the words around it
    in the document, up to max_seq_length.
    """
    room, step = limits(max_seq_length, stride)
    counts = [len(words) for words in sentences.words]
    word_splits = packing.row_splits(counts)
    sentence = np.repeat(np.arange(len(counts)), counts)  # [W]
    with tf.device("CPU:0"):  # where string operations are
        pieces = _tokenize(sentences, tokenizer)
        windows = cut(pieces, sentence, tokenizer, room, step)
        sentence = sentence[windows.begin]  # [N]
        if document_context:
            bounds = _documents(sentences.documents, word_splits)[sentence]
            windows = _widen(windows, bounds, room)
        (tokens, lengths), columns = pack(windows, tokenizer, max_seq_length)
    num_cut = np.sum(pieces.row_lengths() > room)
    packed = packing.unpad(tokens, lengths)
    return SentenceSplit(
        path=sentences.path,
        sentences=sentences,
        packed=dataclasses.replace(packed, num_truncated=int(num_cut)),
        sentence_index=sentence.astype(features.INTEGER),
        word_places=packed.splits[windows.chosen] + columns.numpy(),
        word_splits=word_splits,
        tag_ids=tag_ids,
    )


def limits(max_seq_length: int, stride: int) -> tuple[int, int]:
    """Tokens of a window without the special ones, and from one window to the next.

    A stride of 0 means half a window.
    """
    room = max_seq_length - 2  # [CLS] and [SEP]
    if room < 1:
        raise errors.InputError(
            f"--max_seq_length={max_seq_length} leaves no token; give 3 or more"
        )
    if not 0 <= stride <= room:
        raise errors.InputError(
            f"--window_stride={stride} is outside 0..{room}; give 0 for half a window"
        )
    return room, stride or (room + 1) // 2


def _tokenize(sentences, tokenizer):
    """The pieces of all words, ragged int32 [W, (pieces)]."""
    words = list(itertools.chain.from_iterable(sentences.words))
    name = f"tokenizing {os.path.basename(sentences.path)}: word"
    parts = progress.slices(len(words), _CHUNK_WORDS, name)
    chunks = [tokenizer.tokenize_words(words[part]) for part in parts]
    return tf.concat(chunks, axis=0)


def cut(
    pieces: tf.RaggedTensor,
    sentence: tf.Tensor,
    tokenizer: base.Tokenizer,
    room: int,
    step: int,
) -> Cut:
    """Cuts sentences into windows of whole words.

    Each word is predicted from the first window that maximizes min(tokens before,
    tokens after). A word that tokenizes to nothing is [UNK], or else the end token.

    Args:
        pieces: ragged int32 [W, (pieces)], of each word; or with tokens int16 [C].
        sentence: int64 [W], of each word; never decreasing.
        tokenizer: of the pieces.
        room: most tokens of a window, without the special ones.
        step: tokens from one window of a sentence to the next.
    """
    unknown = tokenizer.end_id if tokenizer.unk_id is None else tokenizer.unk_id
    tokens, word_tokens = _fitting(pieces, unknown, room)
    begin, end = _windows(word_tokens, sentence, room, step)
    chosen = _best_windows(word_tokens, begin, end)
    # Where windows follow closely, one may be the best for no word.
    counts = tf.math.bincount(tf.cast(chosen, tf.int32), minlength=tf.size(begin))
    used = tf.where(counts > 0)[:, 0]
    number = tf.cumsum(tf.cast(counts > 0, tf.int64)) - 1
    return Cut(
        tokens,
        word_tokens,
        begin=tf.gather(begin, used),
        end=tf.gather(end, used),
        chosen=tf.gather(number, chosen),
    )


def _fitting(pieces, unk_id, room):
    """Tokens of all words, 1 to `room` each, and int64 [W + 1] where each begins."""
    lengths = pieces.row_lengths()
    # Words that tokenize to nothing use the [UNK] appended at the end.
    last = tf.shape(pieces.values, tf.int64)[0]
    starts = tf.where(lengths == 0, last, pieces.row_starts())
    index = tf.ragged.range(starts, starts + tf.clip_by_value(lengths, 1, room))
    unknown = tf.convert_to_tensor(unk_id, pieces.dtype)[tf.newaxis]
    tokens = tf.concat([pieces.values, unknown], axis=0)
    return tf.gather(tokens, index.values), index.row_splits


def _windows(word_tokens, sentence, room, step):
    """All windows from left to right: first word, and the one after the last."""
    first = tf.searchsorted(sentence, sentence, "left", tf.int64)  # [W]
    last = tf.searchsorted(sentence, sentence, "right", tf.int64)
    # For each word: the end of a window that begins there, and the next beginning.
    begins = word_tokens[:-1]
    end = tf.searchsorted(word_tokens, begins + room, "right", tf.int64) - 1
    end = tf.minimum(end, last)
    # Where a long word leaves no overlap, the next window begins after this one. The
    # last window of a sentence leads to itself.
    following = tf.searchsorted(word_tokens, begins + step, "left", tf.int64)
    words = tf.range(tf.size(sentence, tf.int64))
    following = tf.where(end < last, tf.minimum(following, end), words)

    # The first windows of each sentence: 1, then up to 2, 4, 8, ...
    def find_more(begins, following, _):
        more, _ = tf.unique(tf.concat([begins, tf.gather(following, begins)], axis=0))
        return more, tf.gather(following, following), tf.size(more) > tf.size(begins)

    shape = tf.TensorShape([None])
    begin, _, _ = tf.while_loop(
        lambda begins, following, has_grown: has_grown,
        find_more,
        (tf.where(words == first)[:, 0], following, tf.constant(True)),
        shape_invariants=(shape, shape, tf.TensorShape([])),
    )
    begin = tf.sort(begin)
    return begin, tf.gather(end, begin)


def _best_windows(word_tokens, begin, end):
    """int64 [W], the window that each word is predicted from."""
    shown = tf.ragged.range(begin, end)  # [N, (words)]
    word, window = shown.values, shown.value_rowids()
    before = tf.gather(word_tokens, word)
    after = tf.gather(word_tokens, tf.gather(end, window)) - 1 - before
    before -= tf.gather(word_tokens, tf.gather(begin, window))
    count = tf.size(word_tokens, tf.int64) - 1
    return batching.best_windows(tf.minimum(before, after), word, window, count)


def pack(
    windows: Cut, tokenizer: base.Tokenizer, max_seq_length: int
) -> tuple[tuple[tf.RaggedTensor, tf.Tensor], tf.Tensor]:
    """The results of packing.pack, and int64 [W], each word's place in its window."""
    starts = tf.gather(windows.word_tokens, windows.begin)
    ends = tf.gather(windows.word_tokens, windows.end)
    index = tf.ragged.range(starts, ends)
    packed = packing.pack(
        index.with_values(tf.gather(windows.tokens, index.values)),
        None,
        special=tokenizer,
        max_seq_length=max_seq_length,
    )
    return packed, 1 + windows.word_tokens[:-1] - tf.gather(starts, windows.chosen)


def _documents(documents, word_splits):
    """int64 [sentences, 2], the first word of each one's document and its end."""
    first = np.searchsorted(documents, documents, side="left")
    last = np.searchsorted(documents, documents, side="right")
    return np.stack([word_splits[first], word_splits[last]], axis=1)


def _widen(windows, bounds, room):
    """The windows with the words around them, within `bounds` [N, 2]."""
    word_tokens = windows.word_tokens.numpy()
    first, last = word_tokens[windows.begin], word_tokens[windows.end]
    before = first - word_tokens[bounds[:, 0]]
    after = word_tokens[bounds[:, 1]] - last
    # Both sides give way as two texts do that are packed into one sequence; what whole
    # words leave unused on the left is used on the right.
    before, _ = packing.budgets(before, after, room - (last - first))
    begin = np.searchsorted(word_tokens, first - before)
    end = np.searchsorted(word_tokens, word_tokens[begin] + room, side="right") - 1
    return windows._replace(begin=begin, end=np.minimum(end, bounds[:, 1]))


def read(
    paths: Mapping[str, str],
    layout: files.Layout,
    show: findings.Show = findings.hide,
) -> dict[str, files.Sentences]:
    """Reads the sentences of each split; "test" needs no tags."""
    splits = {}
    for split, path in paths.items():
        splits[split] = files.read(path, layout, tags_required=split != "test")
        show(splits[split].noticed)
    return splits


def load(
    sentences: Mapping[str, files.Sentences],
    tag_set: schemes.TagNames,
    tokenizer: base.Tokenizer,
    *,
    accepts_unknown: bool,
    show: findings.Show = findings.hide,
    **limits: Any,
) -> dict[str, SentenceSplit]:
    """Cuts the results of `read` into windows, with the limits of `make_windows`.

    Shows how many, and the scheme. With `accepts_unknown`, tags outside the set may be
    scored, but not trained on.
    """
    tags = f"{len(tag_set.names)} tags: {wording.first_of(tag_set.names, 9)}"
    show([findings.Finding("labels", f"scheme {tag_set.scheme}, {tags}")])
    splits = {}
    for name, rows in sentences.items():
        is_training = name == "train"
        windows, notes = _tagged_windows(
            rows, tag_set, tokenizer, accepts_unknown, limits, is_training=is_training
        )
        splits[name] = windows
        cut = "words cut to fit"
        show([windows.announcement(name, tokenizer, cut, notes=notes)])
    return splits


def _tagged_windows(
    sentences, tag_set, tokenizer, accepts_unknown, limits, *, is_training
):
    """The windows of sentences, and what was done with their tags."""
    tag_ids, notes = None, ""
    if sentences.tags is not None:
        sentences, count = respell(sentences, tag_set.scheme)
        if count:
            notes += f", {count} tags respelled by the scheme {tag_set.scheme}"
        tag_ids = tag_set.encode(
            sentences.tagged_words(),
            sentences.tag_path,
            is_training=is_training,
            accepts_unknown=accepts_unknown,
        )
        if count := np.count_nonzero(tag_ids == features.IGNORED):
            notes += f", {count} tags scored that the model cannot predict"
    return make_windows(sentences, tokenizer, tag_ids=tag_ids, **limits), notes


def respell(sentences: files.Sentences, scheme: str) -> tuple[files.Sentences, int]:
    """Repairs tags that break their scheme; returns how many differ from the file's."""
    rows = sentences.tags or []
    try:
        tags = [schemes.respell(row, scheme) for row in rows]
    except ValueError as error:
        line = next(
            line
            for line, tag in sentences.tagged_words()
            if not schemes.fits(tag, scheme)
        )
        raise errors.InputError(f"{sentences.tag_path}:{line}: {error}") from error
    changes = sum(sum(map(str.__ne__, *pair)) for pair in zip(rows, tags, strict=True))
    return dataclasses.replace(sentences, tags=tags), changes


def _check_plain(train: files.Sentences) -> list[findings.Finding]:
    """Refuses plain tags that mean spans; notes a first tag that may be a header."""
    counts = collections.Counter(tag for _, tag in train.tagged_words())
    scheme, odd = schemes.odd_tags(counts)
    if odd:
        # Of equal keys the last stays, here the first line.
        lines = {tag: line for line, tag in reversed([*train.tagged_words()])}
        named = wording.first_of([f"{tag!r:.40} (line {lines[tag]})" for tag in odd])
        raise errors.InputError(
            f"{train.tag_path}:{lines[odd[0]]}: most tags mean {scheme}, but not "
            f"{named}; spell them B-type, I-type, O, or set --tag_scheme=plain"
        )
    line, tag = next(train.tagged_words())
    if counts[tag] == 1 and train.file_format == "conll":
        text, remedy = f"{tag!r:.40} is a tag of this line alone", "remove the line if "
        place = f"{train.tag_path}:{line}"
        return [findings.Finding(place, text, f"{remedy}it is a header")]
    return []


def find_tags(
    train: files.Sentences | None,
    *,
    names: Sequence[str],
    scheme: str,
    head: label_maps.Head | None,
    show: findings.Show = findings.hide,
) -> schemes.TagNames:
    """The tags of --labels, of training sentences, or of the stored `head`.

    They are in the order of the head's rows. `names` and `scheme` come from --labels
    and --tag_scheme, () and "auto" where absent.
    """
    if train is not None:
        if scheme == "auto":
            scheme = schemes.find_scheme(train.tags or [])
            if scheme == schemes.PLAIN:
                show(_check_plain(train))
        train, _ = respell(train, scheme)
        tag_set = schemes.TagNames(tuple(names), scheme) if names else None
        tags = (tag for _, tag in train.tagged_words())
        tag_set = tag_set or schemes.find_tags(tags, train.tag_path, scheme)
        if placeholders := tag_set.placeholders():
            text = f"{wording.listing(placeholders)} are not of the scheme {scheme}"
            remedy = f"{schemes.OUTSIDE} is written where one is predicted"
            show([findings.Finding("labels", text, remedy)])
        origin = "--labels" if names else train.tag_path
        return label_maps.follow(head, tag_set, origin, trains=True, show=show)
    stored: Any = head.classes if head else None
    if head and head.has_map:
        if not isinstance(stored, schemes.TagNames):
            raise errors.InputError(f"{head.source}: has no tags; give a tagger's")
        if scheme not in ("auto", stored.scheme):
            raise errors.InputError(
                f"--tag_scheme={scheme} is not what the model was trained with, "
                f"{stored.scheme} ({head.source}); leave the flag out"
            )
    if not (names or stored):
        raise errors.InputError(
            "no training sentences or label_map.json name the tags; give --labels"
        )
    stored = stored or schemes.named(names)
    scheme = stored.scheme if scheme == "auto" else scheme
    tag_set = schemes.TagNames(tuple(names) or stored.names, scheme)
    return label_maps.follow(head, tag_set, "--labels", trains=False, show=show)
