"""Text to the byte pairs of GPT-2, with ids equal to those of the original."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

from contract import file_names
from contract.tensorflow_later import tf
from data_pipeline.text import base, bpe_files, bpe_graph

# What GPT's fine-tuning puts around texts, in the order of their ids.
START, DELIMITER, END = "_start_", "_delimiter_", "_classify_"
END_OF_TEXT = "<|endoftext|>"
# Bytes for each space from which the library is faster than the graph: those of scripts
# without spaces. English has six.
_BYTES_A_SPACE = 32


class BytePairTokenizer(base.Tokenizer):
    """A tokenizer of a vocabulary and the merges from which its tokens are made."""

    def __init__(
        self, vocab: Sequence[str], merges: Sequence[tuple[str, str]], lowers: bool
    ):
        super().__init__(vocab, lowers)
        self.merges = list(merges)
        self._ids = {token: index for index, token in enumerate(self.vocab)}
        self.start_id = self._ids.get(START)
        self.delimiter_ids = tuple(i for t, i in self._ids.items() if t == DELIMITER)
        self.end_id = self._ids.get(END)
        self.document_end_id = self._ids.get(END_OF_TEXT)

    def with_special_tokens(self) -> BytePairTokenizer:
        """A tokenizer with GPT's three special tokens at the end of the vocabulary."""
        missing = [t for t in (START, DELIMITER, END) if t not in self._ids]
        if not missing or self.start_id is not None:
            return self
        longer = self._with_vocab([*self.vocab, *missing])
        longer.refuses_unknown = self.refuses_unknown
        return longer

    def definition(self) -> list[str]:
        """All that decides which ids a text becomes, but for lower-casing."""
        return [*self.vocab, *(f"{a} {b}" for a, b in self.merges)]

    def files(self) -> dict[str, str]:
        return {
            file_names.VOCAB_JSON: bpe_files.vocab_text(self.vocab),
            file_names.MERGES_TXT: bpe_files.merges_text(self.merges),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
        }

    def _with_vocab(self, vocab):
        """The same tokenizer with a longer vocabulary."""
        raise NotImplementedError


class Gpt2Tokenizer(BytePairTokenizer):
    """GPT-2's byte-level byte pairs, which lose nothing of a text.

    It consists of TensorFlow operations, so one object serves eager code, tf.data and
    an exported SavedModel. No special token is recognised in a text: "<|endoftext|>" is
    13 characters there, as in the original. What is not UTF-8 becomes U+FFFD. A byte
    that the vocabulary lacks is left out.
    """

    adds_space = False

    def __init__(self, vocab: Sequence[str], merges: Sequence[tuple[str, str]]):
        super().__init__(vocab, merges, False)

    def tokenize_inside(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Cuts texts [B] with the space that stands before each."""
        texts = tf.convert_to_tensor(texts, tf.string)
        return self.tokenize(tf.strings.join([" ", texts]))

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], begin with a whole character; bool.

        A space that is a token of its own belongs to what follows it.
        """
        is_inner, is_space = self._are_inner_or_space
        after_space = tf.concat([[False], tf.gather(is_space, ids)], axis=0)
        return ~(tf.gather(is_inner, ids) | after_space[: tf.size(ids)])

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Words [W] as their tokens cut them, string [W, (parts)]."""
        tokens = self.tokenize_words(words)
        begins = tf.cast(self.starts_pretoken(tokens.values), tf.int64)
        number = tf.cumsum(begins) - 1
        spelled = tf.gather(self._spelled, tokens.values)
        count = tf.reduce_sum(begins)
        parts = tf.strings.unsorted_segment_join(spelled, number, count)
        parts = tf.strings.regex_replace(parts, "^ ", "")
        lengths = tf.reduce_sum(tokens.with_values(begins), axis=1)
        return tf.RaggedTensor.from_row_lengths(parts, lengths)

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of int32 ids [B, (S)]; what is not UTF-8 becomes U+FFFD."""
        with tf.device("CPU:0"):
            spelled = tf.gather(self._spelled, ids)
            return bpe_graph.clean(tf.strings.reduce_join(spelled, axis=-1))

    def continues_word(self) -> np.ndarray:
        return np.array([token[:1] != BYTE_CHARS[ord(" ")] for token in self.vocab])

    def spellings(self) -> list[bytes]:
        values = {char: byte for byte, char in enumerate(BYTE_CHARS)}
        return [
            bytes(map(values.__getitem__, token))
            if values.keys() >= set(token)
            else token.encode("utf-8")
            for token in self.vocab
        ]

    def settings(self) -> dict[str, Any]:
        ends = ("bos_token", "eos_token", "unk_token")
        return {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": False,
            **(dict.fromkeys(ends, END_OF_TEXT) if END_OF_TEXT in self._ids else {}),
        }

    def _with_vocab(self, vocab):
        return Gpt2Tokenizer(vocab, self.merges)

    @functools.cached_property
    def _are_inner_or_space(self):
        tokens = self.spellings()
        is_inner = [0x80 <= (token[:1] or b" ")[0] < 0xC0 for token in tokens]
        is_space = [token == b" " for token in tokens]
        return base.constant(is_inner), base.constant(is_space)

    @functools.cached_property
    def _spelled(self):
        return base.constant(self.spellings())

    @functools.cached_property
    def _table(self):
        table = bpe_graph.table(self._ids, self.merges, BYTE_CHARS)
        return bpe_graph.Table(*map(base.constant, table))

    @functools.cached_property
    def _pairs(self):
        pairs = tokenizers.Tokenizer(models.BPE(self._ids, self.merges))
        pairs.pre_tokenizer = self._steps[1]
        return pairs

    @property
    def _steps(self):
        return None, pre_tokenizers.ByteLevel(self.adds_space)

    def _rows_to_ids(self, texts):
        if tf.executing_eagerly():
            rows = texts.numpy().tolist()
            spaces = sum(row.count(b" ") for row in rows)
            if sum(map(len, rows)) > _BYTES_A_SPACE * (spaces + 1):
                return encode(self, texts)
        with tf.device("CPU:0"):  # where string operations are
            # Compiled, once for all tokenizers.
            ids = bpe_graph.tokenize(texts, self._table)
            return ids.with_row_splits_dtype(tf.int64)


class RobertaTokenizer(Gpt2Tokenizer):
    """RoBERTa's tokenizer: GPT-2's byte pairs, and special tokens like BERT's.

    `adds_space` is whether a text that does not begin with a space gets one.
    """

    mask_takes_space = True

    def __init__(
        self, vocab: Sequence[str], merges: Sequence[tuple[str, str]], adds_space: bool
    ):
        super().__init__(vocab, merges)
        self.adds_space = adds_space
        self._set_special(bpe_files.OF_ROBERTA, 2)

    def library(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self._pairs.to_str())  # a copy to change

    def definition(self) -> list[str]:
        return [*super().definition(), f"add_prefix_space {self.adds_space}"]

    def settings(self) -> dict[str, Any]:
        settings = self._named_settings("RobertaTokenizer")
        return {**settings, "add_prefix_space": self.adds_space}

    def _rows_to_ids(self, texts):
        if self.adds_space:
            with tf.device("CPU:0"):
                texts = bpe_graph.clean(texts)
                texts = tf.strings.regex_replace(texts, "^([^ ])", r" \1", False)
        return super()._rows_to_ids(texts)


def encode(tokenizer: base.Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Cuts texts [B] by the library `tokenizers` into int32 ids [B, (S)]."""
    rows = tokenizer.to_ids([t.decode("utf-8", "replace") for t in texts.numpy()])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter((i for row in rows for i in row), np.int32, lengths.sum())
    return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)


def _byte_chars() -> str:
    """The character that stands for each byte in a byte-level vocabulary.

    Signs that can be seen stand for themselves, the others for U+0100 and following.
    """
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return "".join(chr(b if b in seen else next(hidden)) for b in range(256))


BYTE_CHARS = _byte_chars()


def to_byte_chars(text: str) -> str:
    """A text in the characters that stand for its bytes in a byte-level vocabulary."""
    return "".join(map(BYTE_CHARS.__getitem__, text.encode("utf-8")))
