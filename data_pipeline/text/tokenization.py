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

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as text

from contract import errors, file_names, json_files
from data_pipeline.text import added_token_files, normalization, token_matching

CONTINUATION = "##"  # begins a piece that continues a word
MASK = "[MASK]"  # stands for a hidden token


def is_continuation(token: str) -> bool:
    """Whether a token continues the word of the token before it."""
    return token.startswith(CONTINUATION)


def read_vocab(vocab_file: str) -> list[str]:
    """Reads a vocabulary: one token per line, the line number from 0 being its id.

    Lines end at LF alone and are stripped of Unicode whitespace, so a blank one becomes
    the empty string and keeps its id. Duplicates stay.

    Differs from google-research/bert: a UTF-8 byte order mark before the first token is
    dropped.

    Raises:
        ValueError: the file cannot be read, is empty, or is not UTF-8.
    """
    try:
        with tf.io.gfile.GFile(vocab_file, "rb") as file:
            content = file.read().removeprefix(b"\xef\xbb\xbf")
    except tf.errors.OpError as error:
        raise errors.InputError(
            f"{vocab_file}: the vocabulary cannot be read ({error.message}); give the "
            "vocab.txt that lies beside the checkpoint"
        ) from error
    if not content.strip():
        raise errors.InputError(
            f"{vocab_file}: the vocabulary is empty (0 tokens); give the vocab.txt "
            "that lies beside the checkpoint"
        )
    tokens = []
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            tokens.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise errors.InputError(
                f"{vocab_file}:{number}: {line!r} is not UTF-8; save the vocabulary as "
                "UTF-8"
            ) from error
    return tokens


def read_tokenizer_json(path: str) -> tuple[list[str], dict[str, bool]]:
    """Reads the word pieces of a tokenizer.json, as Hugging Face writes it.

    Returns the tokens by id, the added ones among them, and {added token: whether it is
    looked for in normalized text}. Lower-casing is in `pretrained.locate`.

    Raises:
        ValueError: it is no tokenizer of word pieces, or an id is missing.
    """
    raw = json_files.read_object(path)
    try:
        model = raw["model"]
        is_known = model.get("type", "WordPiece") == "WordPiece"
        added = {token["content"]: token for token in raw.get("added_tokens") or ()}
        ids = {**model["vocab"], **{key: token["id"] for key, token in added.items()}}
    except (AttributeError, KeyError, TypeError):
        is_known = False
    if not is_known:
        raise errors.InputError(
            f"{path}: not a tokenizer of word pieces; give --vocab_file=vocab.txt"
        )
    if sorted(ids.values(), key=repr) != sorted(range(len(ids)), key=repr):
        raise errors.InputError(
            f"{path}: the ids of its {len(ids)} tokens are not 0, 1, ...; give "
            "--vocab_file=vocab.txt"
        )
    vocab = sorted(ids, key=ids.__getitem__)
    return vocab, added_token_files.choose(added, added, path)


def constant(value: Any) -> tf.Tensor:
    """A tensor on the CPU that eager code and graphs share, whoever asks first."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.constant(value)


class Tokenizer:
    """What tokenizers of every network have.

    Attributes:
        vocab: The V tokens by id.
        vocab_size: V; None where ids are those of characters.
        token_spec: What the tokens of a text are: int32 [S], or a row of characters
            each, int16 [S, C]; so are the special ones below.
        do_lower_case: Whether capitals of a text are lost.
        in_graph: Whether `tokenize` works in graphs, and so in exports.
        start_id, delimiter_id, end_id: What packing puts before a text, after each but
            the last, and after the last; None where the vocabulary lacks it.
        document_end_id: What separates documents of a corpus; None where nothing does.
        unk_id: What stands for a word that cannot be spelled; None where all can be.
        mask_id: What stands for a hidden token; None where nothing does.
    """

    in_graph = True
    token_spec = tf.TensorSpec([None], tf.int32)
    vocab_size: Any  # int, or None
    start_id: Any  # int, int16 [C] or None, and so are the next two
    delimiter_id: Any
    end_id: Any
    document_end_id: int | None
    unk_id: int | None = None
    mask_id: int | None = None

    def __init__(self, vocab: Sequence[str], do_lower_case: bool):
        """Sets the tokens by id."""
        self.vocab = list(vocab)
        self.vocab_size = len(self.vocab)
        self.do_lower_case = do_lower_case
        self._tokenize_rows = tf.function(
            self._rows_to_ids,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    @property
    def token_shape(self) -> tuple[int, ...]:
        """() of ids, or (C,) where a token is a row of characters."""
        return tuple(self.token_spec.shape[1:])

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor | tf.Tensor:
        """Cuts texts, a scalar or [B], into int32 ids, [S] or ragged [B, (S)]."""
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (0, 1):
            raise errors.InputError(
                f"texts of shape {texts.shape} cannot be tokenized; give one string or "
                "one axis of strings"
            )
        to_ids = self._eager() if tf.executing_eagerly() else self._tokenize_rows
        if texts.shape.rank == 0:
            return to_ids(texts[tf.newaxis]).values  # [S]
        return to_ids(texts)  # [B, (S)]

    def tokenize_inside(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Cuts texts [B] as where they stand inside a text, each by itself."""
        return self.tokenize(texts)

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """As `tokenize_inside`, of words [W] that somebody has found."""
        return self.tokenize_inside(words)

    @property
    def knows_parts(self) -> bool:
        """Whether `begins_part` and `split_words` say what a token stands for."""
        return False

    def begins_part(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens [T, ...] of words end to end begin a part of a word; bool [T].

        Parts are those that `split_words` finds.
        """
        raise NotImplementedError

    def split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The parts of words [W] as tokens spell them, string [W, (parts)]."""
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

    def with_special_tokens(self) -> "Tokenizer":
        """A tokenizer with start_id, delimiter_id and end_id: itself, or a longer one.

        What it appends has the ids V, V+1, ...
        """
        return self

    def definition(self) -> list[str]:
        """All that decides which ids a text becomes, but for lower-casing."""
        return self.vocab

    def settings(self) -> dict[str, Any]:
        """What a tokenizer_config.json has to say."""
        raise NotImplementedError

    def files(self) -> dict[str, str]:
        """{name: text} of the files that the same tokenizer is opened from."""
        raise NotImplementedError

    def _checked(self, ids):
        ids = [int(index) for index in ids]
        for index in ids:
            if not 0 <= index < self.vocab_size:
                raise errors.InputError(
                    f"id {index} is outside 0..{self.vocab_size - 1}; the ids come "
                    "from another vocabulary"
                )
        return ids

    def _eager(self):
        """The function that cuts texts [B] outside of graphs."""
        return self._tokenize_rows

    def _rows_to_ids(self, texts):
        """Texts [B] to int32 ids, ragged [B, (S)]."""
        raise NotImplementedError


class BertTokenizer(Tokenizer):
    """Turns strings into word-piece ids, equal to google-research/bert's.

    It consists of TensorFlow operations, so one object serves eager code, tf.data and
    an exported SavedModel. No special token is added, and none is recognised in the
    text: "[MASK]" is four letters in brackets, as in the original. `vocab` has the V
    tokens by id; `mask_id` is None where the vocabulary has no [MASK]. `added_tokens`
    are those of `vocab` that were added to it: they are found anywhere in a text.
    """

    unk_id: int

    def __init__(
        self,
        vocab: Sequence[str],
        do_lower_case: bool = True,
        added_tokens: Mapping[str, bool] | None = None,
    ):
        """Builds the tokenizer of V tokens; the last of equal ones counts.

        `added_tokens` says of each whether it is looked for in normalized text.

        Raises:
            ValueError: [UNK], [CLS] or [SEP] is missing, or everything else is.
        """
        super().__init__(vocab, do_lower_case)
        self.added_tokens = dict(added_tokens or {})
        ids = {token: index for index, token in enumerate(self.vocab)}
        required = ("[UNK]", "[CLS]", "[SEP]")
        if missing := [token for token in required if token not in ids]:
            raise errors.InputError(
                f"the vocabulary of {self.vocab_size} tokens lacks "
                f"{', '.join(missing)}; give the vocab.txt of the checkpoint"
            )
        self.unk_id, self.cls_id, self.sep_id = (ids[token] for token in required)
        self.start_id = self.cls_id
        self.delimiter_id = self.end_id = self.document_end_id = self.sep_id
        self.mask_id = ids.get(MASK)
        with tf.init_scope(), tf.device("CPU:0"):
            self._entries = _distinct(self.vocab, ids, self.added_tokens)
            self._set_matched(ids)

    @classmethod
    def from_file(cls, vocab_file: str, do_lower_case: bool = True) -> "BertTokenizer":
        """Builds the tokenizer of a vocab.txt or tokenizer.json. Errors name the file.

        Differs from google-research/bert: the tokens of an added_tokens.json beside the
        vocabulary belong to it, and are found in text as Hugging Face finds them.
        """
        if vocab_file.endswith(".json"):
            vocab, added = read_tokenizer_json(vocab_file)
        else:
            vocab, added = added_token_files.read(vocab_file, read_vocab(vocab_file))
        try:
            return cls(vocab, do_lower_case, added)
        except ValueError as error:
            raise errors.InputError(f"{vocab_file}: {error}") from error

    knows_parts = True

    def begins_part(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], do not continue a word; bool."""
        continues = [is_continuation(token) for token in self.vocab]
        return ~tf.gather(continues, ids)

    def split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """normalization.split_words, where each added token is a word of its own."""
        return self._cut(
            texts, normalization.words_of, lambda found, _: self._fold(found)
        )

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of int32 ids [B, (S)]: words with a space between them."""
        with tf.device("CPU:0"):
            words = tf.strings.reduce_join(
                tf.gather(self._spelled, ids), axis=-1, separator=" "
            )
            return tf.strings.regex_replace(words, f" {CONTINUATION}", "")

    def settings(self) -> dict[str, Any]:
        """What a tokenizer_config.json has to say."""
        settings: dict[str, Any] = {"do_lower_case": self.do_lower_case}
        if self.added_tokens:
            settings["added_tokens_decoder"] = {
                str(self.vocab.index(token)): {
                    **{"content": token, "normalized": is_normalized},
                    **{"special": not is_normalized, "single_word": False},
                    **{"lstrip": False, "rstrip": False},
                }
                for token, is_normalized in self.added_tokens.items()
            }
        return settings

    def files(self) -> dict[str, str]:
        """{name: text} of the files that the same tokenizer is opened from."""
        texts = {
            file_names.VOCAB: "".join(f"{token}\n" for token in self.vocab),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
        }
        if self.added_tokens:
            ids = {token: self.vocab.index(token) for token in self.added_tokens}
            texts[file_names.ADDED_TOKENS] = json.dumps(ids) + "\n"
        return texts

    @functools.cached_property
    def _spelled(self):
        return constant(self.vocab)

    @functools.cached_property
    def _word_pieces(self):
        """Steps 3 and 4; built on first use, which takes a tenth of a second."""
        # Eagerly and on the CPU even where the caller is tracing a function.
        with tf.init_scope(), tf.device("CPU:0"):
            return text.FastWordpieceTokenizer(
                self._entries,
                max_bytes_per_word=normalization.MAX_WORD_BYTES,
                token_out_type=tf.int32,
                unknown_token=f"[{self.unk_id}]",
            )

    def _eager(self):
        # Tracing takes most of a second, and saves nothing where texts are many.
        return self._rows_to_ids

    def _rows_to_ids(self, texts):
        with tf.device("CPU:0"):  # where string operations are
            return self._cut(texts, self._word_pieces.tokenize, lambda _, ids: ids)

    def _set_matched(self, ids):
        """Sets which texts are which added token, as written and as normalized."""
        self._written: dict[bytes, int] = {}
        self._normalized: dict[bytes, int] = {}
        for token, is_normalized in self.added_tokens.items():
            if not is_normalized:
                self._written[token.encode()] = ids[token]
            elif folded := self._fold([token]).numpy()[0]:
                self._normalized[folded] = ids[token]

    def _fold(self, texts):
        return normalization.fold(tf.convert_to_tensor(texts), self.do_lower_case)

    def _cut(
        self,
        texts: tf.Tensor,
        cut_normalized: Callable[[tf.Tensor], tf.RaggedTensor],
        value: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    ) -> tf.RaggedTensor:
        """Normalizes texts [B] and cuts them, added tokens first; ragged [B, (S)]."""
        if not self.added_tokens:
            return cut_normalized(normalization.normalize(texts, self.do_lower_case))

        def cut_written(between):
            return token_matching.tokenize(
                self._fold(between),
                self._normalized,
                lambda rest: cut_normalized(normalization.hide_long_words(rest)),
                value,
            )

        return token_matching.tokenize(texts, self._written, cut_written, value)


def _distinct(
    vocab: Sequence[str], ids: dict[str, int], added: Mapping[str, bool]
) -> list[str]:
    """Replaces entries that are no word pieces; some would break the operation.

    They were added, are empty, have a later duplicate, or mix letters with characters
    that stand alone, as the stand-in "[7]" of entry 7 does; so it equals no entry kept.
    """
    found = tf.strings.regex_full_match(vocab, normalization.WORD_PIECE).numpy()
    if not found.any():
        raise errors.InputError(
            f"none of the {len(vocab)} tokens of the vocabulary can stand in a text; "
            "give the vocab.txt of the checkpoint"
        )
    return [
        token
        if found[index] and ids[token] == index and token not in added
        else f"[{index}]"
        for index, token in enumerate(vocab)
    ]
