"""Text to word-piece ids, in the graph and exactly as google-research/bert does it.

The chain, in the order in which the original works (BERT section 3 and its code):

1. delete what is not UTF-8, U+0000, U+FFFD, controls (Cc) and formats (Cf), except tab,
   newline and carriage return;
2. for uncased models: `str.lower`, NFD, delete the non-spacing marks (Mn);
3. split at whitespace, and around every punctuation mark and CJK ideograph;
4. cut each word greedily into word pieces; a word of more than 200 characters, or one
   that the vocabulary cannot spell, becomes [UNK].

Tokens that were added to the vocabulary are cut out of the text first: some before step
1, and those that are looked for in normalized text before step 3.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from contract import errors, file_names
from contract.tensorflow_later import text, tf
from data_pipeline.text import added_tokens as matching
from data_pipeline.text import base, normalization, vocabulary_files

CONTINUATION = "##"  # begins a piece that continues a word
MASK = "[MASK]"  # stands for a hidden token
_MOST_BYTES = 256  # of a token, in the operation
_ROLES = {"pad": 1, "unk": 3, "cls": 0, "sep": 2, "mask": 4}  # in BertTokenizer.special


def is_continuation(token: str) -> bool:
    """Whether a token continues the word of the token before it."""
    return token.startswith(CONTINUATION)


def are_pieces(
    tokens: Sequence[str], rules: normalization.WordRules = normalization.CASED
) -> np.ndarray:
    """Whether a text can contain each token, if the vocabulary does; bool [V]."""
    words = [f"a{t[2:]}" if is_continuation(t) and t[2:] else t for t in tokens]
    are_plain = np.array([word.isascii() and word.isalnum() for word in words], bool)
    odd = [word for word, plain in zip(words, are_plain, strict=True) if not plain]
    with tf.device("CPU:0"):  # where string operations are
        folded = normalization.fold(tf.constant(odd, tf.string), normalization.CASED)
        rows = normalization.split(folded, rules).to_list()
    are_plain[~are_plain] = [
        row == [word.encode("utf-8")] for row, word in zip(rows, odd, strict=True)
    ]
    return are_plain


def _read_tokenizer_json(
    files: vocabulary_files.VocabularyFiles,
) -> tuple[list[str], dict[str, bool]]:
    """Reads the word pieces of a tokenizer.json, as Hugging Face writes it.

    Returns the tokens by id, the added ones among them, and {added token: whether it is
    looked for in normalized text}. Lower-casing is in `model_directory.locate`.

    Raises:
        ValueError: it is no tokenizer of word pieces, or an id is missing.
    """
    path, model = files.vocab_file, files.model()
    try:
        is_known = model.get("type", "WordPiece") == "WordPiece"
        added = files.added()
        ids = {**model["vocab"], **{key: token["id"] for key, token in added.items()}}
    except (AttributeError, KeyError, TypeError):
        is_known = False
    if not is_known:
        raise errors.InputError(
            f"{path}: not a tokenizer of word pieces; give --vocab_file=vocab.txt"
        )
    vocab = matching.sort_by_id(ids, path, "give --vocab_file=vocab.txt")
    return vocab, matching.check_settings(added, added, path, _kind(vocab).never_made)


class BertTokenizer(base.Tokenizer):
    """Turns strings into word-piece ids, equal to google-research/bert's.

    No special token is added, and none is recognised in the text: "[MASK]" is four
    letters in brackets, as in the original. `added_tokens` are those of `vocab` that
    were added to it: they are found anywhere in a text.
    """

    unk_id: int
    # As base.Tokenizer's, in the order of `_set_special`, and what text never becomes.
    special: tuple[str, ...] = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", MASK)
    never_made: frozenset[str] = frozenset(matching.SPECIAL)
    num_delimiters = 1
    takes_any_token = True  # at random for a masked one, as in google-research/bert

    def __init__(
        self,
        vocab: Sequence[str],
        do_lower_case: bool = True,
        added_tokens: Mapping[str, bool] | None = None,
        rules: normalization.WordRules | None = None,
    ):
        """Builds the tokenizer of V tokens; the last of equal ones counts.

        `added_tokens` is {token: whether it is looked for in normalized text}; `rules`
        go before `do_lower_case`.

        Raises:
            ValueError: [UNK], [CLS] or [SEP] is missing, or everything else is; these
                tokens are others in subclasses.
        """
        super().__init__(vocab, rules.lowers if rules else do_lower_case)
        self.rules = rules or self.rules
        self.added_tokens = dict(added_tokens or {})
        ids = {token: index for index, token in enumerate(self.vocab)}
        start, _, end, unknown, _ = self.special
        required = unknown, start, end
        if missing := [token for token in required if token not in ids]:
            raise errors.InputError(
                f"the vocabulary of {self.vocab_size} tokens lacks "
                f"{', '.join(missing)}; give the vocab.txt of the checkpoint"
            )
        self._set_special(self.special, self.num_delimiters)
        if self.takes_any_token:
            self.special_ids = ()
        hidden = {*self.added_tokens, *self.never_made}
        self._entries = _distinct(self.vocab, ids, hidden, self.rules)
        self._set_matched(ids)

    @classmethod
    def from_file(
        cls,
        vocab_file: str,
        do_lower_case: bool = True,
        rules: normalization.WordRules | None = None,
    ) -> BertTokenizer:
        """`from_files` of a vocab.txt or tokenizer.json and what is beside it."""
        files = vocabulary_files.VocabularyFiles(vocab_file)
        return cls.from_files(files, do_lower_case, rules)

    @classmethod
    def from_files(
        cls,
        files: vocabulary_files.VocabularyFiles,
        do_lower_case: bool = True,
        rules: normalization.WordRules | None = None,
    ) -> BertTokenizer:
        """Builds the tokenizer of a vocab.txt or tokenizer.json. Errors name the file.

        Differs from google-research/bert: the tokens of an added_tokens.json beside the
        vocabulary belong to it, and are found in text as Hugging Face finds them.
        """
        if files.is_whole:
            vocab, added = _read_tokenizer_json(files)
        else:
            vocab = base.read_vocab(files.vocab_file)
            vocab, added = matching.read(files, vocab, _kind(vocab).never_made)
        try:
            return _kind(vocab, cls)(vocab, do_lower_case, added, rules)
        except ValueError as error:
            raise errors.InputError(f"{files.vocab_file}: {error}") from error

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        return ~tf.gather(self.continues_word(), ids)

    def continues_word(self) -> np.ndarray:
        return np.array([is_continuation(token) for token in self.vocab])

    def spellings(self) -> list[str]:
        return [token.removeprefix(CONTINUATION) for token in self.vocab]

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        """normalization.split_words, where each added token is a word by itself."""
        return self._cut(
            words,
            lambda texts: normalization.split_normalized(texts, self.rules),
            lambda texts, _: self._fold(texts),
        )

    def pretokens(self, text: str) -> list[str]:
        with tf.device("CPU:0"):
            (words,) = normalization.split(self._fold([text]), self.rules).to_list()
        return [word.decode("utf-8") for word in words]

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        with tf.device("CPU:0"):
            words = tf.strings.reduce_join(
                tf.gather(self._spelled, ids), axis=-1, separator=" "
            )
            return tf.strings.regex_replace(words, f" {CONTINUATION}", "")

    def definition(self) -> list[str]:
        changed = {**self._changed_rules(), "lowers": self.do_lower_case}
        return [*self.vocab, *([json.dumps(changed)] if len(changed) > 1 else [])]

    def _changed_rules(self) -> dict[str, Any]:
        """The settings that differ from google-research/bert, for Hugging Face."""
        rules = self.rules
        settings: dict[str, Any] = {}
        if rules.strips_accents != rules.lowers:
            settings["strip_accents"] = rules.strips_accents
        if not rules.split_as_usual:
            settings["tokenize_chinese_chars"] = rules.isolates_cjk
        if rules.splits_punctuation:
            return settings
        # Its own classes split at punctuation, so the whole tokenizer is written.
        settings[file_names.SPLIT_WORDS] = normalization.WHITESPACE
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        return settings | self.named_special()

    def named_special(self) -> dict[str, str]:
        """{key of tokenizer_config.json: special token}, of those that there are."""
        names = {f"{role}_token": self.special[i] for role, i in _ROLES.items()}
        return {name: token for name, token in names.items() if token in self.vocab}

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"do_lower_case": self.do_lower_case}
        settings |= self._named() | self._changed_rules()
        return settings | matching.describe(self.vocab, self.added_tokens)

    def _named(self):
        """The settings that name transformers' class, where no other file does."""
        return {}

    def files(self) -> dict[str, str]:
        texts = {
            file_names.VOCAB: "".join(f"{token}\n" for token in self.vocab),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
            **matching.files(self.vocab, self.added_tokens),
        }
        if not self.rules.splits_punctuation:
            texts[file_names.TOKENIZER] = self.whole()
        return texts

    def whole(self) -> str:
        """The text of a tokenizer.json."""
        library = self.library()
        self.frame(library)
        return library.to_str() + "\n"

    def library(self) -> tokenizers.Tokenizer:
        """The same but for sigma and what Unicode 10 and later versions define."""
        rules, last = self.rules, {token: i for i, token in enumerate(self.vocab)}
        library = tokenizers.Tokenizer(
            models.WordPiece(
                {
                    token if last[token] == index else self._entries[index]: index
                    for index, token in enumerate(self.vocab)
                },
                unk_token=self.vocab[self.unk_id],
                max_input_chars_per_word=normalization.MAX_WORD_CHARS,
            )
        )
        library.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=rules.isolates_cjk,
            strip_accents=self._changed_rules().get("strip_accents"),
            lowercase=rules.lowers,
        )
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        if not rules.splits_punctuation:
            library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        matching.add_to(library, self.added_tokens)
        return library

    @functools.cached_property
    def _spelled(self):
        return base.constant(self.vocab)

    @functools.cached_property
    def _word_pieces(self):
        """Steps 3 and 4, or 4 alone."""
        unknown = self._entries[self.unk_id]
        splits_words = self.rules.split_as_usual
        return _word_piece_operation(tuple(self._entries), unknown, splits_words)

    def _rows_to_ids(self, texts):
        with tf.device("CPU:0"):  # where string operations are
            return self._cut(texts, self._cut_normalized, lambda _, ids: ids)

    def _cut_normalized(self, texts):
        if self.rules.split_as_usual:
            return self._word_pieces.tokenize(texts)
        words = normalization.split(texts, self.rules)
        return self._word_pieces.tokenize(words).merge_dims(1, 2)

    def _set_matched(self, ids):
        """Sets which texts are which added token, as written and as normalized."""
        kinds = self.added_tokens
        self._written = {token: ids[token] for token in kinds if not kinds[token]}
        tokens = [token for token in kinds if kinds[token]]
        with tf.device("CPU:0"):
            folded = self._fold(tokens).numpy() if tokens else []
        self._normalized = {
            text.decode("utf-8"): ids[token]
            for text, token in zip(folded, tokens, strict=True)
            if text
        }

    def _fold(self, texts):
        return normalization.fold(tf.convert_to_tensor(texts), self.rules)

    def _cut(
        self,
        texts: tf.Tensor,
        cut_normalized: Callable[[tf.Tensor], tf.RaggedTensor],
        value: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    ) -> tf.RaggedTensor:
        """Normalizes and cuts texts [B], added tokens first, to ragged [B, (S)]."""
        if not self.added_tokens:
            return cut_normalized(normalization.normalize(texts, self.rules))

        def cut_written(between):
            return matching.tokenize(
                self._fold(between),
                self._normalized,
                lambda texts: cut_normalized(
                    normalization.hide_long_words(texts, self.rules)
                ),
                value,
            )

        return matching.tokenize(texts, self._written, cut_written, value)


class MPNetTokenizer(BertTokenizer):
    """MPNet's: BERT's word pieces between the special tokens of RoBERTa.

    [CLS] and the like are in the vocabulary, and have no meaning.
    """

    special = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
    never_made = frozenset({*matching.SPECIAL, *special, "<unk>"})
    num_delimiters = 2
    takes_any_token = False
    mask_takes_space = True

    def _named(self):
        return self._named_settings("MPNetTokenizer")


def _kind(vocab, usual=BertTokenizer):
    """The class of the tokenizer of a vocabulary."""
    first = MPNetTokenizer.special[:3]
    return MPNetTokenizer if (*vocab[:3],) == first else usual


@functools.lru_cache(maxsize=4)  # a program opens a vocabulary more than once
def _word_piece_operation(entries, unknown, splits_words):
    """The operation of TensorFlow Text; 30,000 entries take a third of a second."""
    # Eagerly and on the CPU even where the caller is tracing a function.
    with tf.init_scope(), tf.device("CPU:0"):
        return text.FastWordpieceTokenizer(
            entries,
            max_bytes_per_word=normalization.MAX_WORD_BYTES,
            token_out_type=tf.int32,
            unknown_token=unknown,
            no_pretokenization=not splits_words,
        )


def _distinct(
    vocab: Sequence[str],
    ids: dict[str, int],
    hidden: Collection[str],
    rules: normalization.WordRules,
) -> list[str]:
    """Replaces entries that are no word pieces; some would break the operation.

    They are hidden, empty, have a later duplicate, or mix letters with characters that
    stand alone, as the stand-in "[7]" of entry 7 does; so it equals no entry kept.
    Where a word may be "[7]", it is "[ 7]". Added tokens are hidden, and so are special
    ones, for a word may be "[MASK]" then, too.
    """
    can_stand = are_pieces(vocab, rules)
    space = "" if rules.splits_punctuation else " "
    if not can_stand.any():
        raise errors.InputError(
            f"none of the {len(vocab)} tokens of the vocabulary can stand in a text; "
            "give the vocab.txt of the checkpoint"
        )
    for index in np.flatnonzero(can_stand):
        if (
            size := len(vocab[index].removeprefix(CONTINUATION).encode())
        ) > _MOST_BYTES:
            raise errors.InputError(
                f"the token of line {index + 1} has {size} bytes, and the limit is "
                f"{_MOST_BYTES}; correct it"
            )
    return [
        token
        if can_stand[index] and ids[token] == index and token not in hidden
        else f"[{space}{index}]"
        for index, token in enumerate(vocab)
    ]
