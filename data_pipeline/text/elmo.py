"""Words to the ids of ELMo: of their characters, equal to those of allenai/bilm-tf."""

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import errors, file_names
from data_pipeline.text import base, normalization, offsets

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
MAX_CHARACTERS = 50  # ids of a word, its edges included
_CHUNK_TEXTS = 4096  # split at a time
_NO_WORD = "!!!MAXTERMID"  # a line of the original's vocabularies that has no id
# Ids are the original's and 1, since 0 is padding: those of bytes, then these.
_BYTES = 256
_BEGIN, _END, _WORD_BEGIN, _WORD_END, _FILLING = range(_BYTES + 1, _BYTES + 6)


def read_vocab(vocab_file: str) -> list[str]:
    """The words of a vocabulary by id, as `base.read_vocab` reads them.

    Raises:
        ValueError: as there, or <S>, </S> and <UNK> are not the first three.

    Differs from bilm-tf: a vocabulary that does not begin with the three is refused;
    there they may stand anywhere, or be missing in extraction.
    """
    vocab = base.read_vocab(vocab_file)
    first = vocab[:3]
    if {*first} != {BEGIN, END, UNKNOWN}:
        raise errors.InputError(
            f"{vocab_file}: begins with {', '.join(map(repr, first))}, and an ELMo "
            f"vocabulary with {BEGIN}, {END} and {UNKNOWN}; put them on its first lines"
        )
    return [word for word in vocab if word != _NO_WORD]


def separate_words(texts: tf.Tensor, split_words: str) -> tf.RaggedTensor:
    """The words of texts [B], ragged [B, (words)], by one of normalization.SPLITS."""
    texts = _decodable(texts)
    if split_words == normalization.PUNCTUATION:
        cased = normalization.CASED
        return normalization.split(normalization.fold(texts, cased), cased)
    spaces = f"[{offsets.WHITESPACE}]+"
    return tf.strings.split(tf.strings.regex_replace(texts, spaces, " "))


def space_words(texts: Sequence[str], split_words: str) -> list[str]:
    """Texts whose words, by one of normalization.SPLITS, are what `str.split` finds."""
    if split_words == normalization.WHITESPACE:
        return list(texts)
    spaced: list[str] = []
    for start in range(0, len(texts), _CHUNK_TEXTS):
        words = separate_words(texts[start : start + _CHUNK_TEXTS], split_words)
        joined = tf.strings.reduce_join(words, axis=-1, separator=" ").numpy()
        spaced += [text.decode("utf-8") for text in joined.tolist()]
    return spaced


class ElmoTokenizer(base.Tokenizer):
    """Turns words into ids of their characters.

    A token is int16 [C]: where the word begins, up to C - 2 of its UTF-8 bytes, where
    it ends, filling. Ids are the original's and 1. <S> and </S> in a text are the begin
    and end of a sentence where there is a vocabulary, and else three and four
    characters. Bytes that are not UTF-8 are ignored.
    """

    def __init__(
        self,
        vocab: Sequence[str] = (),
        split_words: str = normalization.WHITESPACE,
        max_characters: int = MAX_CHARACTERS,
    ):
        """Builds the tokenizer; C is `max_characters`."""
        super().__init__(vocab, do_lower_case=False)
        if split_words not in normalization.SPLITS:
            raise errors.InputError(
                f"{file_names.SPLIT_WORDS}={split_words!r} is unknown; choose one of "
                f"{', '.join(normalization.SPLITS)}"
            )
        self.split = split_words
        self.max_characters = max_characters
        self.vocab_size = None  # every word has ids
        self.token_shape = (max_characters,)
        self.start_id = _special(_BEGIN, max_characters)
        self.end_id = _special(_END, max_characters)
        self.delimiter_ids = (self.end_id,)
        self.document_end_id = None

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """The token of each of [W] words, ragged [W, (1), ...], whatever is in it."""
        words = tf.convert_to_tensor(words, tf.string)
        with tf.device("CPU:0"):
            ids = self._ids(_decodable(words))
            return tf.RaggedTensor.from_row_lengths(
                ids, tf.ones_like(words, tf.int64), validate=False
            )

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.ones(tf.shape(ids)[:1], tf.bool)

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The words in words [W], string [W, (parts)]: by whitespace, one as a rule."""
        return separate_words(words, self.split)

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of ids [B, (S), ...]: words with a space between them."""
        with tf.device("CPU:0"):
            return tf.strings.reduce_join(self._words(ids), axis=-1, separator=" ")

    def decode(self, ids: Iterable[Any]) -> str:
        return " ".join(self.ids_to_tokens(ids))

    def ids_to_tokens(self, ids: Iterable[Any]) -> list[str]:
        """The words of tokens [S, ...], as far as their characters go."""
        with tf.device("CPU:0"):
            words = self._words(np.asarray(ids))
        return [word.decode("utf-8", "ignore") for word in words.numpy().tolist()]

    def definition(self) -> list[str]:
        return [self.split, str(self.max_characters), *self.vocab[:3]]

    def settings(self) -> dict[str, Any]:
        return {
            "tokenizer_class": type(self).__name__,
            "do_lower_case": False,
            file_names.SPLIT_WORDS: self.split,
        }

    def files(self) -> dict[str, str]:
        texts = {file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n"}
        if self.vocab:
            texts[file_names.VOCAB] = "".join(f"{word}\n" for word in self.vocab)
        return texts

    @functools.cached_property
    def _spelled(self):
        """The text of each id, string, in a word or alone."""
        table = [b"", *(bytes([byte]) for byte in range(_BYTES)), BEGIN, END]
        return base.constant(table + [b""] * (_FILLING - _END))

    def _words(self, ids):
        """The words of tokens, as far as their characters go."""
        characters = tf.gather(self._spelled, tf.cast(ids, tf.int32))
        return tf.strings.reduce_join(characters, axis=-1)

    def _rows_to_ids(self, texts):
        with tf.device("CPU:0"):  # where string operations are
            words = separate_words(texts, self.split)
            return words.with_values(self._ids(words.values))

    def _ids(self, words):
        """The tokens of words [W], [W, ...]."""
        room = self.max_characters - 2
        cut = tf.strings.substr(words, 0, room)
        codes = tf.io.decode_raw(cut, tf.uint8, fixed_length=room + 1)  # [W, room + 1]
        codes = tf.cast(codes, tf.int16) + 1
        places = tf.range(room + 1)
        lengths = tf.strings.length(cut)[:, tf.newaxis]
        edge = tf.cast(tf.where(places == lengths, _WORD_END, _FILLING), tf.int16)
        codes = tf.where(places < lengths, codes, edge)
        codes = tf.pad(codes, [[0, 0], [1, 0]], constant_values=_WORD_BEGIN)
        if self.vocab:
            for word, token in ((BEGIN, self.start_id), (END, self.end_id)):
                codes = tf.where((words == word)[:, tf.newaxis], token, codes)
        return codes


def _special(code, size):
    """The token of one code that is no byte, int16 [C]."""
    filling = [_FILLING] * (size - 3)
    return np.array([_WORD_BEGIN, code, _WORD_END, *filling], np.int16)


def _decodable(texts):
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
