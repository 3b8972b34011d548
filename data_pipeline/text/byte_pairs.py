"""Byte pairs of GPT, GPT-2, RoBERTa, ModernBERT: files, and text to the original's ids.

A vocabulary lies in two files, {token: id} and the merges in the order in which they
were learned (file_names.MERGES), or in one tokenizer.json.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from contract import errors, file_names, remote_files
from contract.tensorflow_later import text as tf_text
from contract.tensorflow_later import tf
from data_pipeline.tables import text_rows
from data_pipeline.text import (
    added_tokens,
    base,
    bpe_graph,
    normalization,
    vocabulary_files,
)

END_OF_WORD = "</w>"  # ends a word's last token in GPT's vocabulary
HEADER = "#version: 0.2"
OF_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
OF_BERT = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
_SPACE = "Ġ"  # how byte-level vocabularies write a space
_COPY = "copy the file again"
_REMEDY = "give the two files of one release"
_OTHER_FILE = "give the vocab.json that belongs to it, or save it with tokenizers 0.23"
# What GPT's fine-tuning puts around texts, in the order of their ids.
START, DELIMITER, END = "_start_", "_delimiter_", "_classify_"
END_OF_TEXT = "<|endoftext|>"
# Text never becomes these, as in the originals.
SPECIAL = {*OF_ROBERTA, START, DELIMITER, END, END_OF_TEXT}
# Bytes for each space from which the library is faster than the graph: those of scripts
# without spaces. English has six.
_BYTES_A_SPACE = 32
UNKNOWN = "<unk>"
# How GPT's words are found, as earlier versions wrote it: digests of records have it.
GPT_WORDS = "hugging_face"


class BytePairs(NamedTuple):
    """A vocabulary: the tokens by id, the merges by rank, and which kind it is."""

    vocab: list[str]
    merges: list[tuple[str, str]]
    is_byte_level: bool  # GPT-2's or RoBERTa's; otherwise GPT's, of characters
    is_roberta: bool
    adds_space: bool  # before a text, by the file
    added_tokens: dict[str, bool]  # as added_tokens.read returns them
    # Of a tokenizer.json with BERT's special tokens: arguments of BertOfBytesTokenizer.
    of_bert: dict[str, bool] | None = None
    mask_takes_space: bool = True  # RoBERTa's, before it


def is_byte_pairs(files: vocabulary_files.VocabularyFiles) -> bool:
    """Whether a file of a vocabulary holds byte pairs; others hold word pieces."""
    if files.is_whole:
        return "merges" in files.model()  # old files have no type
    return files.vocab_file.endswith(".json")


def read(files: vocabulary_files.VocabularyFiles) -> BytePairs:
    """Reads a vocabulary and its merges.

    Raises:
        ValueError: a file is missing or cannot be read, the ids are not 0, 1, ..., a
            token or merge is there twice, or a merge has tokens that are not entries.
    """
    vocab_file = files.vocab_file
    if files.is_whole:
        return _read_tokenizer(files)
    ids = files.read(os.path.basename(vocab_file))
    learned = added_tokens.sort_by_id(ids, vocab_file, _COPY)
    vocab, added = added_tokens.read(files, learned, SPECIAL)
    described = added_tokens.read_settings(files)
    # Some are described alone, without an added_tokens.json.
    known = filter({*vocab}.__contains__, described)
    added |= added_tokens.check_settings(known, described, vocab_file, SPECIAL)
    merges_file = merges_of(vocab_file)
    if not remote_files.exists(merges_file):
        raise errors.InputError(
            f"{merges_file}: there is no such file, which holds the merges of "
            f"{vocab_file}; copy it beside the vocabulary"
        )
    lines = _lines(merges_file)
    first = 2 if lines and lines[0].startswith("#version") else 1
    numbered = enumerate(lines[first - 1 :], start=first)
    pairs = [(f"{merges_file}:{number}", line) for number, line in numbered]
    merges = _checked(pairs, vocab, vocab_file)
    is_byte_level = _is_byte_level(vocab)
    is_roberta = is_byte_level and _is_roberta(vocab, merges)
    mask = files.read(file_names.TOKENIZER_CONFIG).get("mask_token")
    return BytePairs(
        vocab=vocab,
        merges=merges,
        is_byte_level=is_byte_level,
        is_roberta=is_roberta,
        adds_space=False,
        added_tokens=added,
        mask_takes_space=_takes_space({OF_ROBERTA[4]: mask, **described}),
    )


def merges_of(vocab_file: str) -> str:
    """The file of the merges of a vocabulary, by the name of the vocabulary's."""
    directory, name = os.path.split(vocab_file)
    for ending, merges in file_names.MERGES.items():
        if name.endswith(ending):
            return os.path.join(directory, name.removesuffix(ending) + merges)
    known = ", ".join((*file_names.MERGES, file_names.TOKENIZER))
    raise errors.InputError(
        f"{vocab_file}: a vocabulary of byte pairs has a name that ends in {known}; "
        "rename it, and its merges"
    )


def vocab_text(vocab: Sequence[str]) -> str:
    """The text of a vocab.json."""
    ids = {token: index for index, token in enumerate(vocab)}
    return json.dumps(ids, ensure_ascii=False) + "\n"


def merges_text(merges: Iterable[tuple[str, str]]) -> str:
    """The text of a merges.txt."""
    return "".join(f"{line}\n" for line in (HEADER, *(f"{a} {b}" for a, b in merges)))


def _lines(path: str) -> list[str]:
    lines = [line.removesuffix("\r") for _, line in text_rows.lines(path)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _checked(
    places: Iterable[tuple[str, str]], vocab: Sequence[str], vocab_file: str
) -> list[tuple[str, str]]:
    """The merges of (place, line), whose parts and results are all entries."""
    entries = set(vocab)
    place_of: dict[tuple[str, str], str] = {}
    for place, line in places:
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise errors.InputError(
                f"{place}: {line!r} is no merge, which is two tokens with a space "
                f"between them; {_COPY}"
            )
        pair = (parts[0], parts[1])
        for token in (*pair, "".join(pair)):
            if token not in entries:
                raise errors.InputError(
                    f"{place}: merge {line!r} needs the token {token!r}, which "
                    f"{vocab_file} does not have; {_REMEDY}"
                )
        if pair in place_of:
            raise errors.InputError(
                f"{place}: merge {line!r} is there already, at {place_of[pair]}; "
                f"{_REMEDY}"
            )
        place_of[pair] = place
    return list(place_of)


def _is_byte_level(vocab: Sequence[str]) -> bool:
    # A byte-level vocabulary of pages of HTML may have a token that ends so, too.
    return _SPACE in vocab or not any(token.endswith(END_OF_WORD) for token in vocab)


def _is_roberta(vocab, merges) -> bool:
    """Whether <s> and </s> are special; those of pages of HTML are made by merges."""
    ends = {OF_ROBERTA[0], OF_ROBERTA[2]}
    return ends <= {*vocab} and ends.isdisjoint("".join(pair) for pair in merges)


def _read_tokenizer(files: vocabulary_files.VocabularyFiles) -> BytePairs:
    """Reads a tokenizer.json of `tokenizers`, if it is GPT's, GPT-2's or RoBERTa's."""
    path, raw = files.vocab_file, files.read(file_names.TOKENIZER)
    try:
        model = raw["model"]
        vocab = dict(model["vocab"])
        entries = files.added()
        for entry in entries.values():
            if vocab.setdefault(entry["content"], entry["id"]) != entry["id"]:
                raise errors.InputError(
                    f"{path}: {entry['content']!r} has the id {entry['id']} in "
                    f"added_tokens, and another in model.vocab; {_OTHER_FILE}"
                )
        lines = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        is_roberta = _is_roberta(vocab, (line.split(" ") for line in lines))
        # By BERT's special tokens a file is known that may have a normalizer.
        marks = [token for token in OF_BERT if entries.get(token, {}).get("special")]
        is_bert = {OF_BERT[0], OF_BERT[2]} <= {*marks}
        is_byte_level = _kind(raw, path, is_bert)
        splitter = raw["pre_tokenizer"]
        adds_space = is_byte_level and splitter.get("add_prefix_space", True)
    except (AttributeError, KeyError, TypeError) as error:
        raise errors.InputError(
            f"{path}: is not laid out as tokenizers 0.23 writes it ({error!r}); "
            f"{_OTHER_FILE}"
        ) from error
    tokens = added_tokens.sort_by_id(vocab, path, _COPY)
    places = [(f"{path}: model.merges[{i}]", line) for i, line in enumerate(lines)]
    merges = _checked(places, tokens, path)
    special: Collection[str] = SPECIAL
    of_bert = None
    if is_bert and is_byte_level:
        takes_space = bool(entries.get(OF_BERT[4], {}).get("lstrip"))
        special = BertOfBytesTokenizer.never_made
        of_bert = {"normalizes": bool(raw.get("normalizer")), "lstrip": takes_space}
    added = added_tokens.check_settings(entries, entries, path, special)
    return BytePairs(
        vocab=tokens,
        merges=merges,
        is_byte_level=is_byte_level,
        is_roberta=is_roberta,
        adds_space=adds_space,
        added_tokens=added,
        of_bert=of_bert,
        mask_takes_space=_takes_space(entries),
    )


def _takes_space(described: Mapping[str, Any]) -> bool:
    """Whether RoBERTa's mask has the space before it, which files may deny."""
    mask = described.get(OF_ROBERTA[4])
    return not isinstance(mask, Mapping) or mask.get("lstrip") is not False


def _kind(raw: Mapping[str, Any], path: str, is_bert: bool) -> bool:
    """Whether a tokenizer is of bytes; False: GPT's; ValueError: neither."""
    model = raw["model"]
    normalizer, splitter = raw.get("normalizer") or {}, raw.get("pre_tokenizer") or {}
    # (Name, value, what it must be), where it may also be absent.
    expected = [
        ("version", raw.get("version"), "1.0"),
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout") or None, None),
        ("model.byte_fallback", model.get("byte_fallback", False), False),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
        ("model.prefix", model.get("continuing_subword_prefix") or None, None),
    ]
    suffix = model.get("end_of_word_suffix") or None
    if suffix:
        expected += [
            ("model.end_of_word_suffix", suffix, END_OF_WORD),
            ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
            ("normalizer.lowercase", normalizer.get("lowercase", True), True),
            ("pre_tokenizer.type", splitter.get("type"), "BertPreTokenizer"),
        ]
    else:
        usual = "NFC" if is_bert and normalizer else None
        expected += [
            ("normalizer", normalizer.get("type"), usual),
            ("pre_tokenizer.type", splitter.get("type"), "ByteLevel"),
            ("use_regex", splitter.get("use_regex", True), True),
        ]
    for name, value, wanted in expected:
        if value != wanted:
            raise errors.InputError(
                f"{path}: {name} is {value!r}, but GPT and GPT-2 have "
                f"{wanted!r}; give a tokenizer of theirs"
            )
    return not suffix


class BytePairTokenizer(base.Tokenizer):
    """A tokenizer of a vocabulary and the merges from which its tokens are made.

    `added_tokens`, {token: whether it is looked for in normalized text}, are found
    anywhere in a text, as added_tokens.py does it. `adds_space` is whether a text, or
    what stands between two of them, gets a space if it does not begin with one.
    """

    lowers = False
    never_made: Collection[str] = SPECIAL  # of text
    _pairs: Any  # tokenizers.Tokenizer

    def __init__(
        self,
        vocab: Sequence[str],
        merges: Sequence[tuple[str, str]],
        adds_space: bool = False,
        added_tokens: Mapping[str, bool] | None = None,
    ):
        super().__init__(vocab, self.lowers)
        self.merges, self.adds_space = list(merges), adds_space
        self.added_tokens = dict(added_tokens or {})
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
        kind: Any = type(self)
        vocab = [*self.vocab, *missing]
        longer = kind(vocab, self.merges, self.adds_space, self.added_tokens)
        longer.refuses_unknown = self.refuses_unknown
        return longer

    def definition(self) -> list[str]:
        added = (f"added {token} {kind}" for token, kind in self.added_tokens.items())
        return [*self.vocab, *(f"{a} {b}" for a, b in self.merges), *added]

    def files(self) -> dict[str, str]:
        described = added_tokens.describe(self.vocab, self.added_tokens)
        return {
            file_names.VOCAB_JSON: vocab_text(self.vocab),
            file_names.MERGES_TXT: merges_text(self.merges),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings() | described) + "\n",
            **added_tokens.files(self.vocab, self.added_tokens),
        }


class Gpt2Tokenizer(BytePairTokenizer):
    """GPT-2's byte-level byte pairs, which lose nothing of a text.

    No special token is recognised in a text: "<|endoftext|>" is 13 characters there, as
    in the original. What is not UTF-8 becomes U+FFFD. A byte that the vocabulary lacks
    is left out.
    """

    def definition(self) -> list[str]:
        unusual = ["add_prefix_space True"] if self.adds_space else []
        return [*super().definition(), *unusual]

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
            if values.keys() >= set(token) and token not in self.added_tokens
            else token.encode("utf-8")
            for token in self.vocab
        ]

    def settings(self) -> dict[str, Any]:
        ends = ("bos_token", "eos_token", "unk_token")
        return {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": self.adds_space,
            **(dict.fromkeys(ends, END_OF_TEXT) if END_OF_TEXT in self._ids else {}),
        }

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
        pairs.normalizer, pairs.pre_tokenizer = self._steps
        added_tokens.add_to(pairs, self.added_tokens)
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
            written, normalized = map(self._added, (False, True))

            def cut_others(between):
                between = self._normalize(between)
                return added_tokens.tokenize(between, normalized, self._cut)

            return added_tokens.tokenize(texts, written, cut_others)

    def _added(self, is_normalized):
        tokens = self.added_tokens.items()
        return {t: self._ids[t] for t, kind in tokens if kind == is_normalized}

    def _normalize(self, texts):
        """Texts [B] in which the tokens are looked for that are normalized."""
        return texts

    def _cut(self, texts):
        """The ids of texts [B] that stand between added tokens."""
        if self.adds_space:
            texts = bpe_graph.clean(texts)
            texts = tf.strings.regex_replace(texts, "^([^ ])", r" \1", False)
        # Compiled, once for all tokenizers.
        ids = bpe_graph.tokenize(texts, self._table)
        return ids.with_row_splits_dtype(tf.int64)


class RobertaTokenizer(Gpt2Tokenizer):
    """RoBERTa's tokenizer: GPT-2's byte pairs, and special tokens like BERT's."""

    ends, num_delimiters = OF_ROBERTA, 2

    def __init__(self, *args: Any, mask_takes_space: bool = True, **kwargs: Any):
        """`mask_takes_space` is whether whitespace before <mask> belongs to it."""
        super().__init__(*args, **kwargs)
        self.mask_takes_space = mask_takes_space
        self._set_special(self.ends, self.num_delimiters)

    def library(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self._pairs.to_str())  # a copy to change

    def definition(self) -> list[str]:
        plain = BytePairTokenizer.definition(self)
        kept = [] if self.mask_takes_space else ["mask beside its space"]
        return [*plain, f"add_prefix_space {self.adds_space}", *kept]

    def settings(self) -> dict[str, Any]:
        settings = self._named_settings("RobertaTokenizer")
        return {**settings, "add_prefix_space": self.adds_space}


class BertOfBytesTokenizer(RobertaTokenizer):
    """GPT-2's byte pairs with BERT's special tokens, in a tokenizer.json: ModernBERT's.

    Added tokens, such as runs of spaces, are found in texts.

    Args:
        normalizes: whether texts are brought into the form NFC.
        lstrip: whether whitespace before [MASK] belongs to it.
    """

    ends, num_delimiters = OF_BERT, 1
    never_made = frozenset({*SPECIAL, *OF_BERT})

    def __init__(
        self, *args: Any, normalizes: bool = True, lstrip: bool = True, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        self.normalizes, self.mask_takes_space = normalizes, lstrip

    @property
    def _steps(self):
        normalizer = normalizers.NFC() if self.normalizes else None
        return normalizer, super()._steps[1]

    def _normalize(self, texts):
        if not self.normalizes:
            return texts
        return tf_text.normalize_utf8(bpe_graph.clean(texts), "NFC")

    def definition(self) -> list[str]:
        return [*super().definition(), "[CLS] of bytes", f"NFC {self.normalizes}"]

    def settings(self) -> dict[str, Any]:
        names = ("cls", "pad", "sep", "unk", "mask")
        known = ((f"{n}_token", t) for n, t in zip(names, OF_BERT, strict=True))
        settings = {name: token for name, token in known if token in self._ids}
        return {**settings, "tokenizer_class": "PreTrainedTokenizerFast"}

    def files(self) -> dict[str, str]:
        """A tokenizer.json alone: a vocab.json would lose the normalizer."""
        library = self.library()
        special = [token for token in self.vocab if token in OF_BERT]
        library.add_special_tokens(
            [
                tokenizers.AddedToken(
                    token,
                    lstrip=self.mask_takes_space and token == self.mask_token,
                    normalized=False,
                )
                for token in special
            ]
        )
        library.decoder = decoders.ByteLevel()
        self.frame(library)
        return {
            file_names.TOKENIZER: library.to_str(pretty=True),
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
        }


def encode(tokenizer: BytePairTokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Cuts texts [B] by the library `tokenizers` into int32 ids [B, (S)]."""
    decoded = [text.decode("utf-8", "replace") for text in texts.numpy()]
    encoded = tokenizer._pairs.encode_batch_fast(decoded, add_special_tokens=False)
    rows = [row.ids for row in encoded]
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


class GptTokenizer(BytePairTokenizer):
    """GPT's byte pairs of BERT's words: lower-cased, no accents, cut at punctuation.

    So does transformers where ftfy and spaCy are absent. The library `tokenizers` does
    it, in no graph.
    """

    in_graph = False
    lowers = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if UNKNOWN not in self._ids:
            raise errors.InputError(
                f"the vocabulary of {self.vocab_size} tokens lacks {UNKNOWN}; give "
                "the one of the checkpoint"
            )
        self.unk_id = self._ids[UNKNOWN]
        self._pairs = tokenizers.Tokenizer(
            models.BPE(
                self._ids,
                self.merges,
                unk_token=UNKNOWN,
                end_of_word_suffix=END_OF_WORD,
            )
        )
        self._pairs.normalizer, self._pairs.pre_tokenizer = self._steps
        added_tokens.add_to(self._pairs, self.added_tokens)

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], follow one that ends a word, or none; bool."""
        has_ended = tf.gather(self._are_ends, ids)
        return tf.concat([[True], has_ended], axis=0)[: tf.size(ids)]

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        return normalization.split_words(words, normalization.UNCASED)

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        with tf.device("CPU:0"):
            spelled = tf.strings.reduce_join(tf.gather(self._spelled, ids), axis=-1)
            return tf.strings.regex_replace(spelled, " $", "")

    @property
    def _steps(self):
        normalizer = normalizers.BertNormalizer(lowercase=True)
        return normalizer, pre_tokenizers.BertPreTokenizer()

    def definition(self) -> list[str]:
        return [*super().definition(), GPT_WORDS]

    def settings(self) -> dict[str, Any]:
        return {"tokenizer_class": "OpenAIGPTTokenizer", "unk_token": UNKNOWN}

    @functools.cached_property
    def _are_ends(self):
        end = END_OF_WORD
        return base.constant(
            [token.endswith(end) or token == UNKNOWN for token in self.vocab]
        )

    @functools.cached_property
    def _spelled(self):
        ends = (START, DELIMITER, END)
        tokens = [f"{t} " if t in ends else t for t in self.vocab]
        spelled = [t.replace(END_OF_WORD, " ") for t in tokens]
        return base.constant(spelled)

    def _rows_to_ids(self, texts):
        if not tf.executing_eagerly():
            raise errors.InputError(
                "the tokenizer of GPT finds words in Python, so no graph can contain "
                "it; tokenize before, and give the graph ids"
            )
        return encode(self, texts)
