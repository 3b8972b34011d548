"""What a word is for a network that predicts words from characters, or from words."""

import hashlib
from collections.abc import Sequence

import numpy as np

from contract import errors, features
from data_pipeline.text import elmo_tokenizer


class WordIds:
    """Ids of words as lookups in a table of the whole vocabulary.

    Args:
        tokenizer: an ELMo tokenizer, whose `tokenize_words` gives what the network
            reads of a word, int [50] or an int, 0 being padding.

    Raises:
        ValueError: the tokenizer has no vocabulary.
    """

    def __init__(self, tokenizer) -> None:
        if not (tokenizer and tokenizer.vocab):
            raise errors.InputError(
                "--vocab_file is missing; its words are what is predicted: see "
                "docs/elmo.md on how to count them"
            )
        self.split_words = tokenizer.split
        self._rows = {word: row for row, word in enumerate(tokenizer.vocab)}
        self._read = lambda words: tokenizer.tokenize_words(words).values.numpy()
        self._table = self._read(list(tokenizer.vocab))  # [V, 50] or [V]

    @property
    def count(self) -> int:
        """How many words the vocabulary has."""
        return len(self._rows)

    def digest(self) -> str:
        """Tells these words from others."""
        return hashlib.sha256("\n".join(self._rows).encode("utf-8")).hexdigest()[:16]

    def target_ids(self, words: Sequence[str]) -> np.ndarray:
        """Their rows of the vocabulary, that of <UNK> for others: int32 [N]."""
        other = self._rows[elmo_tokenizer.UNKNOWN]
        return np.array([self._rows.get(w, other) for w in words], features.INTEGER)

    def input_ids(self, words: Sequence[str]) -> np.ndarray:
        """What the network reads, [N, 50] or [N]; others have characters of their own.

        The words are distinct.
        """
        found = self._table[self.target_ids(words)]
        places = [i for i, word in enumerate(words) if word not in self._rows]
        if places:
            found[places] = self._read([words[i] for i in places])
        return found
