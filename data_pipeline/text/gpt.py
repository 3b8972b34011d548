"""Text to the byte pairs of GPT, with ids equal to those of the original."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from contract import errors
from contract.tensorflow_later import tf
from data_pipeline.text import base, bpe_files, gpt2, normalization

UNKNOWN = "<unk>"
# How GPT's words are found: as transformers does, or as the original does.
HUGGING_FACE, ORIGINAL = "hugging_face", "original"
GPT_TOKENIZERS = (HUGGING_FACE, ORIGINAL)
SETTING = "gpt_tokenizer"  # key of tokenizer_config.json, and flag


class GptTokenizer(gpt2.BytePairTokenizer):
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
        self.has_word_offsets = words == HUGGING_FACE  # BERT's rules, too
        self._words = splitter() if words == ORIGINAL else None
        self._pairs = tokenizers.Tokenizer(
            models.BPE(
                self._ids,
                self.merges,
                unk_token=UNKNOWN,
                end_of_word_suffix=bpe_files.END_OF_WORD,
            )
        )
        if self._words is None:
            self._pairs.normalizer, self._pairs.pre_tokenizer = self._steps

    def starts_pretoken(self, ids: "tf.Tensor") -> "tf.Tensor":
        """Which tokens, int32 [T], follow one that ends a word, or none; bool."""
        has_ended = tf.gather(self._are_ends, ids)
        return tf.concat([[True], has_ended], axis=0)[: tf.size(ids)]

    def pretokenize(self, words: "tf.Tensor") -> "tf.RaggedTensor":
        """normalization.split_words, lower-cased."""
        return normalization.split_words(words, normalization.UNCASED)

    def decode_rows(self, ids: "tf.Tensor | tf.RaggedTensor") -> "tf.Tensor":
        """The texts [B] of int32 ids [B, (S)]: words with a space between them."""
        with tf.device("CPU:0"):
            spelled = tf.strings.reduce_join(tf.gather(self._spelled, ids), axis=-1)
            return tf.strings.regex_replace(spelled, " $", "")

    @property
    def _steps(self):
        normalizer = normalizers.BertNormalizer(lowercase=True)
        return normalizer, pre_tokenizers.BertPreTokenizer()

    def definition(self) -> list[str]:
        return [*super().definition(), self.words]

    def settings(self) -> dict[str, Any]:
        return {
            "tokenizer_class": "OpenAIGPTTokenizer",
            "unk_token": UNKNOWN,
            SETTING: self.words,
        }

    def _with_vocab(self, vocab):
        return GptTokenizer(vocab, self.merges, self.words)

    @functools.cached_property
    def _are_ends(self):
        end = bpe_files.END_OF_WORD
        return base.constant(
            [token.endswith(end) or token == UNKNOWN for token in self.vocab]
        )

    @functools.cached_property
    def _spelled(self):
        ends = (gpt2.START, gpt2.DELIMITER, gpt2.END)
        tokens = [f"{t} " if t in ends else t for t in self.vocab]
        spelled = [t.replace(bpe_files.END_OF_WORD, " ") for t in tokens]
        return base.constant(spelled)

    def _rows_to_ids(self, texts):
        if not tf.executing_eagerly():
            raise errors.InputError(
                "the tokenizer of GPT finds words in Python, so no graph can contain "
                "it; tokenize before, and give the graph ids"
            )
        return gpt2.encode(self, texts)


# text_utils.py, text_standardize.
_SIGNS = str.maketrans({"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"})
# A backslash was meant to be among them, but the original's pattern lost it.
_RUN = re.compile(r"(-+|~+|!+|\"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)")
_LINE_END = re.compile(r"\s*\n\s*")
_WHITESPACE = re.compile(r"[^\S\n]+")


def standardize(text: str) -> str:
    """Mends and spaces out a text, before its words are found."""
    import ftfy

    text = ftfy.fix_text(text).translate(_SIGNS)
    text = _RUN.sub(r" \1 ", text)
    text = _LINE_END.sub(" \n ", text)
    return _WHITESPACE.sub(" ", text).strip()


def splitter() -> Callable[[str], list[str]]:
    """A function from a text to its lower-cased words.

    Raises:
        ValueError: ftfy or spaCy is not installed.
    """
    try:
        import ftfy  # noqa: F401
        import spacy
    except ImportError as error:
        raise errors.InputError(
            f"--gpt_tokenizer=original needs a package that is missing ({error}): "
            "pip install ftfy spacy, or set --gpt_tokenizer=hugging_face"
        ) from error
    find_words = spacy.blank("en")

    def split(text):
        words = (str(word).lower() for word in find_words(standardize(text)))
        # Only the line feed itself is in the vocabulary.
        return ["\n" if word == "\n " else word for word in words]

    return split
