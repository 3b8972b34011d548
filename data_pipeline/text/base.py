"""The interface of the tokenizers of all networks."""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tokenizers
from absl import logging
from tokenizers import processors

from contract import errors
from contract.tensorflow_later import tf
from data_pipeline.tables import text_rows
from data_pipeline.text import normalization

UNKNOWN_WARNED, UNKNOWN_REFUSED = 0.05, 0.5  # shares of the tokens of a text
_FEWEST_TOKENS = 100  # of which a share means something


def read_vocab(vocab_file: str) -> list[str]:
    """Reads a vocabulary: one token per line, the line number from 0 being its id.

    Lines end at LF alone and are stripped of Unicode whitespace, so a blank one becomes
    the empty string and keeps its id. Duplicates stay.

    Differs from google-research/bert: a UTF-8 byte order mark before the first token is
    dropped.
    """
    tokens = []
    for number, line in text_rows.lines(vocab_file):
        if not line.strip(string.whitespace):  # of ASCII; a released one has U+2028
            logging.warning(
                "%s:%d: the line is blank, and has an id", vocab_file, number
            )
        tokens.append(line.strip())
    if not any(tokens):
        raise errors.InputError(
            f"{vocab_file}: the vocabulary is empty (0 tokens); give the vocab.txt "
            "that lies beside the checkpoint"
        )
    return tokens


def constant(value: Any) -> tf.Tensor:
    """A tensor on the CPU that eager code and graphs share, whoever makes it first."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.constant(value)


def pretokens(text: str, steps: tuple[Any, Any]) -> list[str]:
    """The words of a text by a normalizer, or None, and a pre-tokenizer."""
    normalizer, splitter = steps
    text = normalizer.normalize_str(text) if normalizer else text
    return [word for word, _ in splitter.pre_tokenize_str(text)] if splitter else [text]


class Tokenizer:
    """The interface of tokenizers; one object serves eager code, tf.data and exports.

    Attributes:
        vocab: The V tokens by id.
        vocab_size: V; None where ids are those of characters.
        token_shape: () of ids, or (C,) where a token is a row of characters, as then
            are the special ones below.
        do_lower_case: Whether capitals of a text are lost.
        rules: How a text becomes words, as far as they are BERT's.
        refuses_unknown: Whether texts are refused of which most words are unknown.
        in_graph: Whether `tokenize` works in graphs, and so in exports.
        start_id, delimiter_ids, end_id: What packing puts before a text, between two
            of them, and after the last; None or () where the vocabulary lacks it.
        document_end_id: The separator of documents of a corpus; None for none.
        unk_id: The id of a word that cannot be spelled; None where all can be.
        mask_id: The id of a hidden token; None where there is none.
        mask_token: How a text spells it where it is to be filled in.
        mask_takes_space: Whether whitespace before it belongs to it there.
        cls_id, sep_id: As the start and the end of BERT; None of other networks.
        special_ids: Those that no random token may be, ascending.
    """

    refuses_unknown = True
    in_graph = True
    token_shape: tuple[int, ...] = ()
    vocab_size: Any  # int, or None
    start_id: Any  # int, int16 [C] or None, and so are the next two
    delimiter_ids: tuple[Any, ...]
    end_id: Any
    document_end_id: int | None
    unk_id: int | None = None
    mask_id: int | None = None
    mask_token = "[MASK]"
    mask_takes_space = False
    cls_id: Any = None
    sep_id: Any = None
    special_ids: tuple[int, ...] = ()

    def __init__(self, vocab: Sequence[str], do_lower_case: bool):
        self.vocab = list(vocab)
        self.vocab_size = len(self.vocab)
        self.do_lower_case = do_lower_case
        self.rules = normalization.WordRules.usual(do_lower_case)

    def to_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts as `tokenize` cuts them."""
        return self.tokenize(texts).to_list()

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor | tf.Tensor:
        """Cuts texts, a scalar or [B], into int32 ids, [S] or ragged [B, (S)]."""
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (0, 1):
            raise errors.InputError(
                f"texts of shape {texts.shape} cannot be tokenized; give one string or "
                "one axis of strings"
            )
        # Tracing takes most of a second, and saves nothing where texts are many.
        is_eager = tf.executing_eagerly()
        to_ids = self._rows_to_ids if is_eager else self._tokenize_rows
        if texts.shape.rank == 0:
            return to_ids(texts[tf.newaxis]).values  # [S]
        return to_ids(texts)  # [B, (S)]

    def tokenize_inside(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Cuts texts [B] as where they stand inside a text, each by itself."""
        return self.tokenize(texts)

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """As `tokenize_inside`, of words [W] that the caller has separated."""
        return self.tokenize_inside(words)

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens [T, ...] of words end to end begin a pre-token; bool [T].

        Pre-tokens are those that `pretokenize` returns.
        """
        raise NotImplementedError

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The pre-tokens of words [W] as tokens spell them, string [W, (parts)]."""
        raise NotImplementedError

    def continues_word(self) -> np.ndarray:
        """Which tokens, by id, belong to the word of the token before; bool [V]."""
        raise NotImplementedError

    def spellings(self) -> list[Any]:
        """The text that each token adds, by id; str or bytes."""
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, special tokens included; ValueError as `ids_to_tokens`."""
        row = self._checked(ids)
        return self.decode_rows(tf.constant([row], tf.int32)).numpy()[0].decode("utf-8")

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of int32 ids [B, (S)], as TensorFlow operations."""
        raise NotImplementedError

    def ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Looks up tokens; raises ValueError for an id outside 0..V-1."""
        return [self.vocab[index] for index in self._checked(ids)]

    def with_special_tokens(self) -> Tokenizer:
        """A tokenizer with start_id, delimiter_ids and end_id: itself, or a longer one.

        What it appends has the ids V, V+1, ...
        """
        return self

    def count_unknown(self, ids: Any) -> tuple[int, int]:
        """How many int ids are unknown words, and how many are no special tokens."""
        if self.unk_id is None or self.token_shape:
            return 0, 0
        ids = np.asarray(ids)
        ends = {self.start_id, self.end_id, *self.delimiter_ids} - {None}
        num_special = sum(np.count_nonzero(ids == end) for end in ends)
        unknown = np.count_nonzero(ids == self.unk_id)
        return int(unknown), int(ids.size - num_special)

    def describe_unknown(self, name: str, counts: tuple[int, int]) -> str:
        """The end of a line on the text `name`, as ", 3.1 % [UNK]"; "" without any.

        Warns of many by `counts` of `count_unknown`; ValueError if most are unknown.
        """
        unknown, total = counts
        if not unknown or self.unk_id is None:
            return ""
        share, token = unknown / total, self.vocab[self.unk_id]
        if total >= _FEWEST_TOKENS and share > UNKNOWN_WARNED:
            problem = (
                f"{name}: {share:.0%} of {total} tokens are {token}, words that the "
                "vocabulary cannot spell; give a model of this language and case"
            )
            if share > UNKNOWN_REFUSED and self.refuses_unknown:
                raise errors.InputError(f"{problem}, or --nocheck_tokenizer to go on")
            logging.warning("%s", problem)
        return f", {100 * share:.3g} % {token}"

    def definition(self) -> list[str]:
        """All that decides which ids a text becomes, but for lower-casing."""
        return self.vocab

    def pretokens(self, text: str) -> list[str]:
        """The words of a text before they are cut."""
        return pretokens(text, self._steps)

    @property
    def _steps(self) -> tuple[Any, Any]:
        """The library's normalizer, or None, and its pre-tokenizer."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """The content of tokenizer_config.json."""
        raise NotImplementedError

    def files(self) -> dict[str, str]:
        """{name: text} of the files that the same tokenizer is opened from."""
        raise NotImplementedError

    def library(self) -> Any:
        """The same as a tokenizers.Tokenizer; None where there is none."""
        return None

    def frame(self, library: tokenizers.Tokenizer) -> None:
        """Sets the special tokens that it puts around texts, as packing.pack does."""
        ids = (self.start_id, self.end_id, *self.delimiter_ids)
        start, end, *between = (self.vocab[index] for index in ids)
        first = [f"{start}:0", "$A:0"]
        library.post_processor = processors.TemplateProcessing(
            single=[*first, f"{end}:0"],
            pair=[*first, *(f"{token}:0" for token in between), "$B:1", f"{end}:1"],
            special_tokens=[(start, self.start_id), (end, self.end_id)],
        )

    def _set_special(self, names, num_delimiters):
        """Sets the ids of `names`: start, padding, end, unknown and mask."""
        ids = {token: i for i, token in enumerate(self.vocab) if token in names}
        self.start_id = self.cls_id = ids[names[0]]
        self.end_id = self.sep_id = self.document_end_id = ids[names[2]]
        self.delimiter_ids = (self.sep_id,) * num_delimiters
        self.mask_token = names[4]
        self.unk_id, self.mask_id = ids.get(names[3]), ids.get(self.mask_token)
        self.special_ids = tuple(sorted(ids.values()))

    def _named_settings(self, name):
        """Those of a class of transformers whose mask takes the space before it."""
        takes = {"lstrip": self.mask_takes_space}
        mask = {"__type": "AddedToken", "content": self.mask_token, **takes}
        return {"tokenizer_class": name, "mask_token": mask}

    def _checked(self, ids):
        ids = [int(index) for index in ids]
        for index in ids:
            if not 0 <= index < self.vocab_size:
                raise errors.InputError(
                    f"id {index} is outside 0..{self.vocab_size - 1}; the ids come "
                    "from another vocabulary"
                )
        return ids

    @functools.cached_property
    def _tokenize_rows(self):
        spec = tf.TensorSpec([None], tf.string)
        return tf.function(self._rows_to_ids, [spec], autograph=False)

    def _rows_to_ids(self, texts):
        """Texts [B] to int32 ids, ragged [B, (S)]."""
        raise NotImplementedError
