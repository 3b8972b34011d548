"""A vocabulary and the JSON files of Hugging Face beside it, each of them read once."""

import collections
import os
from typing import Any

from contract import errors, file_names, json_files, remote_files


class VocabularyFiles:
    """The file of a vocabulary, and those that lie beside it.

    Attributes:
        vocab_file: of any kind; also a tokenizer.json.
        directory: where it lies.
    """

    def __init__(self, vocab_file: str):
        self.vocab_file, self.directory = vocab_file, os.path.dirname(vocab_file)
        self._read: dict[str, dict[str, Any]] = {}

    def know(self, path: str, values: dict[str, Any]) -> None:
        """Takes the values of a file that somebody else has read."""
        self._read.setdefault(path, values)

    @property
    def is_whole(self) -> bool:
        """Whether the vocabulary is in a tokenizer.json."""
        return self.vocab_file.endswith(file_names.TOKENIZER)

    def path(self, name: str) -> str:
        """The file of this name beside the vocabulary, or the vocabulary."""
        if self.vocab_file.endswith(name):
            return self.vocab_file
        return os.path.join(self.directory, name)

    def read(self, name: str) -> dict[str, Any]:
        """The object in a file; {} where there is none beside the vocabulary.

        Raises:
            InputError: it cannot be read, or the vocabulary has a key twice.
        """
        path = self.path(name)
        if path not in self._read:
            if path == self.vocab_file:
                self._read[path] = json_files.read_object(path, _unique)
            else:
                is_there = remote_files.exists(path)
                self._read[path] = json_files.read_object(path) if is_there else {}
        return self._read[path]

    def model(self) -> dict[str, Any]:
        """The settings of tokens in a tokenizer.json that is the vocabulary, or {}."""
        model = self.read(file_names.TOKENIZER).get("model") if self.is_whole else None
        return model if isinstance(model, dict) else {}

    def added(self) -> dict[str, dict[str, Any]]:
        """{token: entry} of the added tokens in the tokenizer.json.

        An entry of another form raises AttributeError, KeyError or TypeError.
        """
        entries = self.read(file_names.TOKENIZER).get("added_tokens") or ()
        return {entry["content"]: entry for entry in entries}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        ((twice, _),) = collections.Counter(key for key, _ in pairs).most_common(1)
        raise errors.InputError(f"{twice!r} is there twice")
    return dict(pairs)
