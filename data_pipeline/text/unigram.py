"""SentencePiece's unigrams of several networks, in graphs and eagerly.

Ids are those of transformers 5. One operation of SentencePiece, without pieces, maps
characters. Another, without a map, cuts words; its pieces are in the network's order.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from google.protobuf import descriptor_pb2, message, message_factory, text_format
from tokenizers import models, normalizers, pre_tokenizers

from contract import errors, file_names, remote_files
from contract.tensorflow_later import text, tf
from data_pipeline.text import (
    base,
    bpe_graph,
    byte_pairs,
    normalization,
    vocabulary_files,
)

SPACE = "▁"  # begins the first piece of a word
_XLM_ROBERTA = byte_pairs.OF_ROBERTA
_ALBERT = ("[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]")
_DEBERTA = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
_MARK, _PART = "\x01", "\ufffe"
# What CamemBERT's vocabulary begins with, of fairseq. The last one counts as a piece:
# the library gives <unk> 10 less than the least score.
_CAMEMBERT = dict.fromkeys(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>"), 0.0)
_CAMEMBERT["<unk>NOTUSED"] = -100.0
_BLANKS = f"[{bpe_graph.ALL_WHITESPACE}]+"
# The fields of SentencePiece's files that are used.
_SCHEMA = """
name: "unigram.proto" message_type { name: "Piece"
  field { name: "piece" number: 1 type: TYPE_STRING }
  field { name: "score" number: 2 type: TYPE_FLOAT }
  field { name: "type" number: 3 type: TYPE_INT32 }
} message_type { name: "Training"
  field { name: "model_type" number: 3 type: TYPE_INT32 default_value: "1" }
} message_type { name: "Normalization"
  field { name: "charsmap" number: 2 type: TYPE_BYTES }
  field { name: "add_dummy_prefix" number: 3 type: TYPE_BOOL }
  field { name: "remove_extra_whitespaces" number: 4 type: TYPE_BOOL }
  field { name: "escape_whitespaces" number: 5 type: TYPE_BOOL }
} message_type { name: "Model"
  field { name: "pieces" number: 1 label: LABEL_REPEATED type_name: "Piece" }
  field { name: "training" number: 2 type_name: "Training" }
  field { name: "normalization" number: 3 type_name: "Normalization" }
}"""
_FILE = text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto())
_Model: Any = message_factory.GetMessages([_FILE])["Model"]
_NORMAL, _UNKNOWN, _CONTROL, _UNUSED = 1, 2, 3, 5  # types of pieces
_UNIGRAM = 1  # a type of models
_DAMAGED = message.DecodeError, OSError
_IDENTITY = struct.pack("<I", 1024) + bytes(1025)  # a map; without any, there is a log


class Unigrams(NamedTuple):
    """The V pieces with their scores, by id, and SentencePiece's map of characters."""

    pieces: list[tuple[str, float]]
    charsmap: bytes
    source: bytes = b""  # the file of SentencePiece, if they are from one


class UnigramTokenizer(base.Tokenizer):
    """Cuts words into the likeliest pieces; no special token is recognised in text."""

    mask_takes_space = True

    def __init__(
        self,
        unigrams: Unigrams,
        is_albert: bool,
        lowers: bool,
        accents: bool,
        special: Sequence[str] = (),
    ):
        """`lowers` is whether text is lower-cased, `accents` whether it keeps them."""
        super().__init__([piece for piece, _ in unigrams.pieces], lowers)
        self.unigrams, self.is_albert, self.keeps_accents = unigrams, is_albert, accents
        usual = _ALBERT if is_albert else _XLM_ROBERTA
        self._special: tuple[str, ...] = tuple(special or usual)
        self._set_special(self._special, 1 if is_albert or special else 2)
        self.is_camembert = self.vocab[:5] == [*_CAMEMBERT]
        if self.is_camembert:
            self._special = *self._special, "<s>NOTUSED", "</s>NOTUSED"
            self.special_ids = tuple(sorted({*range(5), *self.special_ids}))
        self._pieces = _serialize(unigrams.pieces, self._special)
        self._map = _serialize([("<unk>", 0), ("\uffff", 0)], (), unigrams.charsmap)

    def starts_pretoken(self, ids: tf.Tensor) -> tf.Tensor:
        """Which tokens, int32 [T], are not after a space that is a token; bool."""
        is_space = tf.gather([token == SPACE for token in self.vocab], ids)
        return ~tf.concat([[False], is_space], axis=0)[: tf.size(ids)]

    def pretokenize(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The tokens of words [W] as normalized text has them, string [W, (parts)]."""
        pieces = _operation(self._pieces, tf.string).tokenize(self._prepare(words))
        joined = tf.strings.reduce_join(pieces, axis=-1, separator=_MARK)
        joined = tf.strings.regex_replace(joined, f"^{SPACE}{_MARK}?", "")
        return tf.strings.split(joined, _MARK)

    def decode_rows(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """The texts [B] of int32 ids [B, (S)], without a space at the beginning."""
        with tf.device("CPU:0"):
            spelled = tf.gather(tf.constant(self.spellings()), ids)
            joined = tf.strings.reduce_join(spelled, axis=-1)
            return tf.strings.regex_replace(joined, "^ ", "")

    def continues_word(self) -> np.ndarray:
        return np.array([not token.startswith(SPACE) for token in self.vocab])

    def spellings(self) -> list[str]:
        return [token.replace(SPACE, " ") for token in self.vocab]

    def definition(self) -> list[str]:
        scored = [f"{piece} {score:.6g}" for piece, score in self.unigrams.pieces]
        digest = hashlib.sha256(self.unigrams.charsmap).hexdigest()
        return [*scored, digest, f"keep_accents {self.keeps_accents}"]

    def settings(self) -> dict[str, Any]:
        if not self.is_albert:
            name = "Camembert" if self.is_camembert else "XLMRoberta"
            return self._named_settings(f"{name}Tokenizer")
        case = {"do_lower_case": self.do_lower_case, "keep_accents": self.keeps_accents}
        return {**self._named_settings("AlbertTokenizer"), **case}

    def files(self) -> dict[str, Any]:
        library = self._library(self.unigrams.pieces)
        library.add_special_tokens([*self._special])
        self.frame(library)
        texts: dict[str, Any] = {
            file_names.TOKENIZER: library.to_str() + "\n",
            file_names.TOKENIZER_CONFIG: json.dumps(self.settings()) + "\n",
        }
        source = self.unigrams.source
        return {self._source_file: source, **texts} if source else texts

    @property
    def _source_file(self):
        return file_names.SENTENCEPIECE[self.is_albert]

    def _library(self, pieces):
        library = tokenizers.Tokenizer(models.Unigram(pieces, self.unk_id))
        library.normalizer, library.pre_tokenizer = self._steps
        return library

    @property
    def _steps(self):
        charsmap = self.unigrams.charsmap
        quotes = ("``", "''") if self.is_albert else ()
        steps: list[Any] = [normalizers.Replace(each, '"') for each in quotes]
        if not self.keeps_accents:
            steps += [normalizers.NFKD(), normalizers.StripAccents()]
        steps += [normalizers.Lowercase()] * self.do_lower_case
        steps += [normalizers.Precompiled(charsmap)] if charsmap else []
        splitter = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE)]
        return normalizers.Sequence(steps), pre_tokenizers.Sequence(splitter)

    def _rows_to_ids(self, texts):
        with tf.device("CPU:0"):  # where string operations are
            ids = _operation(self._pieces, tf.int32).tokenize(self._prepare(texts))
            return ids.with_row_splits_dtype(tf.int64)

    def _prepare(self, texts):
        """Normalizes texts [B], and puts SPACE before words that do not begin so."""
        texts = bpe_graph.clean(texts)
        if self.is_albert:
            texts = tf.strings.regex_replace(texts, "``|''", '"')
            texts = _hide_ends(texts)
        if not self.keeps_accents:
            texts = text.normalize_utf8(texts, "NFKD")
            texts = tf.strings.regex_replace(texts, _accents(), "")
        if self.do_lower_case:
            texts = normalization.lower(texts)
        texts = tf.strings.join([" ", self._map_characters(texts)])
        texts = tf.strings.regex_replace(texts, f"{_BLANKS}$", "")
        return tf.strings.regex_replace(texts, f"{_BLANKS}{SPACE}?", SPACE)

    def _map_characters(self, texts):
        if not self.unigrams.charsmap:
            return texts
        parts = _operation(self._map, tf.string).tokenize(texts)
        return tf.strings.reduce_join(parts, axis=-1)


class DebertaTokenizer(UnigramTokenizer):
    """DeBERTa-v2's and v3's: spaces alone separate words.

    Without a map of characters a text is normalized as transformers 5 does it, whatever
    the file of SentencePiece has, and with one as transformers 4 has written it.
    """

    def __init__(self, unigrams: Unigrams, lowers: bool, splits_marks: bool):
        """`splits_marks` is whether each mark of punctuation is a word."""
        super().__init__(unigrams, False, lowers, True, _DEBERTA)
        self.splits_marks = splits_marks

    def definition(self) -> list[str]:
        return [*super().definition(), f"split_by_punct {self.splits_marks}"]

    def settings(self) -> dict[str, Any]:
        return {
            "tokenizer_class": "DebertaV2Tokenizer",
            "do_lower_case": self.do_lower_case,
            "split_by_punct": self.splits_marks,
        }

    @property
    def _source_file(self):
        return file_names.SENTENCEPIECE[2]

    @property
    def _steps(self):
        charsmap = self.unigrams.charsmap
        steps: list[Any] = [normalizers.Lowercase()] * self.do_lower_case
        if charsmap:
            steps += [normalizers.Strip(), normalizers.Precompiled(charsmap)]
            steps += [normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
        else:
            blanks = tokenizers.Regex(r"\s{2,}|[\n\r\t]")
            steps += [normalizers.Replace(blanks, " "), normalizers.NFC()]
            steps += [normalizers.Strip(left=False)]
        splitters: list[Any] = []
        if self.splits_marks:
            splitters.append(pre_tokenizers.Punctuation("isolated"))
        splitters += [pre_tokenizers.Metaspace(SPACE)]
        return normalizers.Sequence(steps), pre_tokenizers.Sequence(splitters)

    def _prepare(self, texts):
        texts = _hide_ends(bpe_graph.clean(texts))
        if self.do_lower_case:
            texts = normalization.lower(texts)
        if self.unigrams.charsmap:
            texts = tf.strings.regex_replace(texts, f"^{_BLANKS}|{_BLANKS}$", "")
            texts = self._map_characters(texts)
            texts = tf.strings.regex_replace(texts, " {2,}", " ")
        else:
            blanks = f"[{bpe_graph.ALL_WHITESPACE}]{{2,}}|[\n\r\t]"
            texts = tf.strings.regex_replace(texts, blanks, " ")
            texts = text.normalize_utf8(texts, "NFC")
            texts = tf.strings.regex_replace(texts, f"{_BLANKS}$", "")
        texts = tf.strings.regex_replace(texts, " ", SPACE)
        if self.splits_marks:
            marks = rf"[\p{{P}}{normalization.SIGNS}]"
            texts = tf.strings.regex_replace(texts, marks, rf"{_PART}\0{_PART}")
        # Each part begins with one SPACE, where it has none.
        texts = tf.strings.join([_PART, texts])
        texts = tf.strings.regex_replace(texts, f"{_PART}+$", "")
        return tf.strings.regex_replace(texts, f"{_PART}+{SPACE}?", SPACE)


def is_unigrams(files: vocabulary_files.VocabularyFiles) -> bool:
    """Whether a vocabulary is a file of SentencePiece, or its tokenizer.json."""
    is_model = files.vocab_file.endswith(".model")
    return is_model or files.model().get("type") == "Unigram"


def _hide_ends(texts):
    """Texts without a character where operations would end; no piece has either."""
    return tf.strings.regex_replace(texts, rf"[\x00{_PART}]", "\uffff")


def open_file(
    files: vocabulary_files.VocabularyFiles, lowers: bool, keeps_accents: bool
) -> UnigramTokenizer:
    """Opens a vocabulary; ValueError if it is no unigrams of either network."""
    path = files.vocab_file
    try:
        unigrams = _read_json(files) if files.is_whole else _read_model(files)
        _check_map(unigrams.charsmap)
        names = [piece for piece, _ in unigrams.pieces]
        if len({*names, ""}) <= len(names):
            raise ValueError("a piece is empty, or there twice")
        if not all(math.isfinite(score) for _, score in unigrams.pieces):
            raise ValueError("a score is not finite")
        if {*_DEBERTA} <= {*names, _DEBERTA[-1]}:
            return _open_deberta(files, unigrams, lowers)
        if files.is_whole:
            _check_added(files, unigrams.pieces)
        if {*_ALBERT} <= {*names}:
            return UnigramTokenizer(unigrams, True, lowers, keeps_accents)
        is_camembert = names[:5] == [*_CAMEMBERT] and {*_XLM_ROBERTA} <= {*names}
        if is_camembert or (*names[:4], *names[-1:]) == _XLM_ROBERTA:
            return UnigramTokenizer(unigrams, False, False, True)
        problem = f"it begins with {', '.join(names[:4])}"
    except (*_DAMAGED, AttributeError, LookupError, TypeError, ValueError) as error:
        problem = repr(error)[:80]
    raise errors.InputError(
        f"{path}: is no unigram model of XLM-RoBERTa, CamemBERT, ALBERT or DeBERTa "
        f"({problem}); "
        "copy it again, or give the vocabulary that belongs to the config"
    )


def _open_deberta(files, unigrams, lowers):
    """The tokenizer of pieces to which the mask may be added, by the files beside."""
    settings, mask = files.read(file_names.TOKENIZER_CONFIG), (_DEBERTA[-1], 0.0)
    pieces = unigrams.pieces
    pieces = pieces if mask[0] in dict(pieces) else [*pieces, mask]
    _check_added(files, pieces)
    if settings.get("add_prefix_space", True) is not True:
        raise ValueError("add_prefix_space is not true")
    kinds = [step["type"] for step in _steps_of(files.read(file_names.TOKENIZER))]
    charsmap = unigrams.charsmap if "Precompiled" in kinds else b""
    lowers = lowers and settings.get("do_lower_case", "Lowercase" in kinds)
    splits = settings.get("split_by_punct", False)
    unigrams = unigrams._replace(pieces=pieces, charsmap=charsmap)
    return DebertaTokenizer(unigrams, bool(lowers), bool(splits))


def _steps_of(raw):
    steps = raw.get("normalizer") or {}
    steps = steps.get("normalizers", [steps])
    return [step for step in steps if "type" in step]


def _check_added(files, pieces):
    """Raises LookupError for an added token that is no piece with the same id."""
    added = {token: entry["id"] for token, entry in files.added().items()}
    for token, index in {**files.read(file_names.ADDED_TOKENS), **added}.items():
        if pieces[index][0] != token:
            raise LookupError(f"{token!r} is no piece")


def _read_model(files):
    with remote_files.open_file(files.vocab_file) as file:
        source = file.read()
    model = _Model.FromString(source)
    if model.training.model_type != _UNIGRAM:
        raise TypeError(f"model_type is {model.training.model_type}")
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    if [piece for piece, _ in pieces[:3]] == ["<unk>", "<s>", "</s>"]:  # as in fairseq
        *first, mask = ((token, 0.0) for token in _XLM_ROBERTA)
        if _is_camembert(files):
            first = [*_CAMEMBERT.items(), *pieces[1:3]]
        pieces = [*first, *pieces[3:], mask]
    return Unigrams(pieces, model.normalization.charsmap, source)


def _is_camembert(files):
    """Whether the files beside name CamemBERT; its own is made as XLM-RoBERTa's."""
    network = files.read(file_names.HUGGING_FACE_CONFIG)
    settings = files.read(file_names.TOKENIZER_CONFIG), network
    classes = [str(each.get("tokenizer_class")) for each in settings]
    names = " ".join([*classes, str(network.get("model_type"))]).lower()
    return "camembert" in names and "xlm" not in names


def _read_json(files):
    raw = files.read(file_names.TOKENIZER)
    maps = [
        base64.b64decode(step["precompiled_charsmap"], validate=True)
        for step in _steps_of(raw)
        if step["type"] == "Precompiled"
    ]
    pieces = [(str(piece), float(score)) for piece, score in raw["model"]["vocab"]]
    return Unigrams(pieces, b"".join(maps))


def _check_map(charsmap):
    """Raises ValueError for a map whose trie points beyond it; SentencePiece trusts it.

    It is the size of the trie in bytes, the trie as Darts-clone lays it out (uint32),
    and the texts, of which the leaves of the trie are places.
    """
    if not charsmap:
        return
    size, damage = int.from_bytes(charsmap[:4], "little"), "its map is damaged"
    if size % 4 or not 0 < size <= len(charsmap) - 4:
        raise ValueError(damage)
    units, texts = np.frombuffer(charsmap[4 : 4 + size], "<u4"), charsmap[4 + size :]
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    nodes, is_new = np.zeros(1, np.uint32), np.ones(len(units), bool)
    while len(nodes):
        is_new[nodes] = False
        bases = nodes ^ offsets[nodes]
        if bases.max() | 255 >= len(units):
            raise ValueError(damage)
        places = units[bases[units[nodes] >> 8 & 1 == 1]] & 0x7FFFFFFF
        if places.max(initial=0) >= len(texts):
            raise ValueError(damage)
        children = bases[:, np.newaxis] ^ np.arange(256, dtype=np.uint32)
        is_child = units[children] & 0x800000FF == np.arange(256)
        nodes = np.unique(children[is_child & is_new[children]])


def _serialize(pieces, special, charsmap=_IDENTITY):
    """A file of SentencePiece, in which nothing is done with spaces."""
    model = _Model()
    for piece, score in pieces:
        kind = _CONTROL if piece in special else _NORMAL
        kind = _UNKNOWN if piece in ("<unk>", *special[3:4]) else kind
        kind = _UNUSED if SPACE in piece[1:] else kind  # the library joins no words
        model.pieces.add(piece=piece, score=score, type=kind)
    model.normalization.charsmap = charsmap
    for name in ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        setattr(model.normalization, name, False)
    return model.SerializeToString()


@functools.cache
def _accents():
    """A pattern of what the library takes for accents; its tables are of Unicode 9."""
    points = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    left = normalizers.StripAccents().normalize_str(points)
    return f"[{''.join(sorted({*points} - {*left}))}]+"


def _operation(model, out_type):
    """One for all eager calls; a graph has its own, so that no export tracks any."""
    if not tf.executing_eagerly():
        return text.SentencepieceTokenizer(model, out_type)
    operation = _eager_operation(model, out_type)
    try:
        operation.vocab_size()
    except tf.errors.NotFoundError:  # Keras' clear_session has taken the model away
        _eager_operation.cache_clear()
        operation = _eager_operation(model, out_type)
    return operation


@functools.lru_cache(8)
def _eager_operation(model, out_type):
    return text.SentencepieceTokenizer(model, out_type)
