"""Text to the byte pairs of GPT and GPT-2, with ids equal to those of the originals."""

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from contract import errors, file_names
from data_pipeline.text import (
    bpe_files,
    bpe_graph,
    gpt_words,
    normalization,
    tokenization,
)

# What GPT's fine-tuning puts around texts, in the order of their ids.
START, DELIMITER, END = "_start_", "_delimiter_", "_classify_"
END_OF_TEXT = "<|endoftext|>"
UNKNOWN = "<unk>"
# How GPT's words are found: as transformers does, or as the original does.
HUGGING_FACE, ORIGINAL = "hugging_face", "original"
GPT_TOKENIZERS = (HUGGING_FACE, ORIGINAL)
SETTING = "gpt_tokenizer"  # key of tokenizer_config.json, and flag
# Bytes for each space from which the library is faster than the graph: those of scripts
# without spaces. English has six.
_BYTES_A_SPACE = 32


class _BytePairTokenizer(tokenization.Tokenizer):
    """A tokenizer of a vocabulary and the merges from which its tokens are made."""

    def __init__(
        self, vocab: Sequence[str], merges: Sequence[tuple[str, str]], lowers: bool
    ):
        super().__init__(vocab, lowers)
        self.merges = list(merges)
        self._ids = {token: index for index, token in enumerate(self.vocab)}
        self.start_id = self._ids.get(START)
        self.delimiter_id = self._ids.get(DELIMITER)
        self.end_id = self._ids.get(END)
        self.document_end_id = self._ids.get(END_OF_TEXT)

    def with_special_tokens(self) -> "_BytePairTokenizer":
        """A tokenizer with GPT's three special tokens at the end of the vocabulary."""
        missing = [t for t in (START, DELIMITER, END) if t not in self._ids]
        return self._of([*self.vocab, *missing]) if missing else self

    def definition(self) -> list[str]:
        """All that decides which ids a text becomes, but for lower-casing."""
        return [*self.vocab, *(f"{a} {b}" for a, b in self.merges)]

    def files(self) -> dict[str, str]:
        """{name: text} of the files that the same tokenizer is opened from."""
        return {
            file_names.VOCAB_JSON: bpe_files.vocab_text(self.vocab),
            file_names.MERGES_TXT: bpe_files.merges_text(self.merges),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
        }

    def _of(self, vocab):
        """The same tokenizer with a longer vocabulary."""
        raise NotImplementedError


class Gpt2Tokenizer(_BytePairTokenizer):
    """GPT-2's byte-level byte pairs, which lose nothing of a text.

    It consists of TensorFlow operations, so one object serves eager code, tf.data and
    an exported SavedModel. No special token is recognised in a text: "<|endoftext|>" is
    13 characters there, as in the original. What is not UTF-8 becomes U+FFFD. A byte
    that the vocabulary lacks, as a vocabulary of its own training may, is left out.
    """

    def __init__(self, vocab: Sequence[str], merges: Sequence[tuple[str, str]]):
        super().__init__(vocab, merges, False)

    def tokenize_inside(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Cuts texts [B] with the space that stands before each."""
        texts = tf.convert_to_tensor(texts, tf.string)
        return self.tokenize(tf.strings.join([" ", texts]))

    knows_parts = True

    def begins_part(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], begin with a whole character; bool.

        A space that is a token of its own belongs to what follows it.
        """
        is_inner, is_space = self._are_inner_or_space
        after_space = tf.concat([[False], tf.gather(is_space, ids)], axis=0)
        return ~(tf.gather(is_inner, ids) | after_space[: tf.size(ids)])

    def split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Words [W] as their tokens cut them, string [W, (parts)]."""
        tokens = self.tokenize_words(texts)
        begins = tf.cast(self.begins_part(tokens.values), tf.int64)
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

    def token_bytes(self) -> list[bytes]:
        """The bytes that each token stands for, by id."""
        values = {char: byte for byte, char in enumerate(BYTE_CHARS)}
        return [
            bytes(map(values.__getitem__, token))
            if values.keys() >= set(token)
            else token.encode("utf-8")
            for token in self.vocab
        ]

    def settings(self) -> dict[str, Any]:
        """What a tokenizer_config.json has to say."""
        ends = ("bos_token", "eos_token", "unk_token")
        return {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": False,
            **(dict.fromkeys(ends, END_OF_TEXT) if END_OF_TEXT in self._ids else {}),
        }

    def _of(self, vocab):
        return Gpt2Tokenizer(vocab, self.merges)

    @functools.cached_property
    def _are_inner_or_space(self):
        tokens = self.token_bytes()
        is_inner = [0x80 <= (token[:1] or b" ")[0] < 0xC0 for token in tokens]
        is_space = [token == b" " for token in tokens]
        return tokenization.constant(is_inner), tokenization.constant(is_space)

    @functools.cached_property
    def _spelled(self):
        return tokenization.constant(self.token_bytes())

    @functools.cached_property
    def _table(self):
        table = bpe_graph.table(self._ids, self.merges, BYTE_CHARS)
        return bpe_graph.Table(*map(tokenization.constant, table))

    @functools.cached_property
    def _pairs(self):
        pairs = tokenizers.Tokenizer(models.BPE(self._ids, self.merges))
        pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return pairs

    def _eager(self):
        return self._rows_to_ids  # which is compiled, once for all tokenizers

    def _rows_to_ids(self, texts):
        if tf.executing_eagerly():
            rows = texts.numpy().tolist()
            spaces = sum(row.count(b" ") for row in rows)
            if sum(map(len, rows)) > _BYTES_A_SPACE * (spaces + 1):
                return _encode(
                    self._pairs, [row.decode("utf-8", "replace") for row in rows]
                )
        with tf.device("CPU:0"):  # where string operations are
            found = bpe_graph.tokenize(texts, self._table)
            return found.with_row_splits_dtype(tf.int64)


class GptTokenizer(_BytePairTokenizer):
    """GPT's byte pairs of lower-cased words, with ids equal to those of `words`.

    `hugging_face` finds words as transformers does, which strips accents and splits at
    punctuation; `original` as openai/finetune-transformer-lm did, with ftfy and spaCy,
    which the extra `gpt` installs. Both work through Python, and so in no graph.
    """

    in_graph = False

    def __init__(
        self,
        vocab: Sequence[str],
        merges: Sequence[tuple[str, str]],
        words: str = HUGGING_FACE,
    ):
        """Builds the tokenizer.

        Raises:
            ValueError: the vocabulary has no <unk>, `words` is not known, or what
                "original" needs is not installed.
        """
        super().__init__(vocab, merges, True)
        if words not in GPT_TOKENIZERS:
            raise errors.InputError(
                f"{SETTING}={words!r} is unknown; choose one of "
                f"{', '.join(GPT_TOKENIZERS)}"
            )
        if UNKNOWN not in self._ids:
            raise errors.InputError(
                f"the vocabulary of {self.vocab_size} tokens lacks {UNKNOWN}; give "
                "the one of the checkpoint"
            )
        self.unk_id = self._ids[UNKNOWN]
        self.words = words
        self._split = gpt_words.splitter() if words == ORIGINAL else None
        self._pairs = tokenizers.Tokenizer(
            models.BPE(
                self._ids,
                self.merges,
                unk_token=UNKNOWN,
                end_of_word_suffix=bpe_files.END_OF_WORD,
            )
        )
        if self._split is None:
            self._pairs.normalizer = normalizers.BertNormalizer(lowercase=True)
            self._pairs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    @property
    def knows_parts(self) -> bool:
        """True of the words that BERT's rules find as well."""
        return self.words == HUGGING_FACE

    def begins_part(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], follow one that ends a word, or none; bool."""
        has_ended = tf.gather(self._are_ends, ids)
        return tf.concat([[True], has_ended], axis=0)[: tf.size(ids)]

    def split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """normalization.split_words, lower-cased."""
        return normalization.split_words(texts, True)

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of int32 ids [B, (S)]: words with a space between them."""
        with tf.device("CPU:0"):
            spelled = tf.strings.reduce_join(tf.gather(self._spelled, ids), axis=-1)
            return tf.strings.regex_replace(spelled, " $", "")

    def definition(self) -> list[str]:
        """All that decides which ids a text becomes, but for lower-casing."""
        return [*super().definition(), self.words]

    def settings(self) -> dict[str, Any]:
        """What a tokenizer_config.json has to say."""
        return {
            "tokenizer_class": "OpenAIGPTTokenizer",
            "unk_token": UNKNOWN,
            SETTING: self.words,
        }

    def _of(self, vocab):
        return GptTokenizer(vocab, self.merges, self.words)

    @functools.cached_property
    def _are_ends(self):
        end = bpe_files.END_OF_WORD
        return tokenization.constant(
            [token.endswith(end) or token == UNKNOWN for token in self.vocab]
        )

    @functools.cached_property
    def _spelled(self):
        ends = (START, DELIMITER, END)
        tokens = [f"{t} " if t in ends else t for t in self.vocab]
        spelled = [t.replace(bpe_files.END_OF_WORD, " ") for t in tokens]
        return tokenization.constant(spelled)

    def _eager(self):
        return self._rows_to_ids

    def _rows_to_ids(self, texts):
        if not tf.executing_eagerly():
            raise errors.InputError(
                "the tokenizer of GPT finds words in Python, so no graph can contain "
                "it; tokenize before, and give the graph ids"
            )
        strings = [text.decode("utf-8", "replace") for text in texts.numpy()]
        if self._split is None:
            return _encode(self._pairs, strings)
        words = [self._split(text) for text in strings]
        return _encode(self._pairs, words, is_pretokenized=True)


def _encode(pairs, rows, **settings):
    """What the library `tokenizers` makes of texts [B]: int32 ids [B, (S)]."""
    found = pairs.encode_batch_fast(rows, add_special_tokens=False, **settings)
    rows = [row.ids for row in found]
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


def spelled(text: str) -> str:
    """A text in the characters that stand for its bytes in a byte-level vocabulary."""
    return "".join(map(BYTE_CHARS.__getitem__, text.encode("utf-8")))
