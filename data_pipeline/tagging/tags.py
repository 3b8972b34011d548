"""The tags that a model predicts: their names, ids and scheme. Plain Python."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from contract import errors, features, wording
from data_pipeline.tables import label_files
from data_pipeline.tagging import schemes

# Beside the names, in file_names.LABEL_MAP.
_PROBLEM_TYPE = "tagging"


class _Sentences(Protocol):
    @property
    def tag_path(self) -> str: ...
    @property
    def tags(self) -> list[list[str]] | None: ...
    def tagged_words(self) -> Iterator[tuple[int, str]]: ...


@dataclasses.dataclass(frozen=True)
class TagSet:
    """What a tagger predicts for each word: C tags, in the order of their ids.

    Lists of tags that other programs have written may begin with PAD and UNK. Such
    placeholders keep their ids; where one is predicted, "O" is written.

    Raises:
        ValueError: tags are too few, repeated or not of the scheme, or no such scheme.
    """

    names: tuple[str, ...]
    scheme: str

    def __post_init__(self) -> None:
        if self.scheme not in schemes.SCHEMES:
            raise errors.InputError(
                f"--tag_scheme={self.scheme} is not one of {', '.join(schemes.SCHEMES)}"
            )
        placeholders = self.placeholders()
        if len(self.names) - len(placeholders) < 2:
            scheme = "" if self.scheme == schemes.PLAIN else f" of {self.scheme}"
            raise errors.InputError(
                f"a tagger needs 2 tags{scheme} or more, not "
                f"{wording.listing(self.names)}; name all with --labels"
            )
        label_files.check_distinct(self.names, "tag")
        if self.scheme != schemes.PLAIN:
            for name in self.names:
                if name not in placeholders:
                    schemes.parse(name, self.scheme)

    def placeholders(self) -> tuple[str, ...]:
        """Names of no scheme; none where the scheme is "plain"."""
        if self.scheme == schemes.PLAIN:
            return ()
        return tuple(filter(schemes.is_placeholder, self.names))

    def output_names(self) -> tuple[str, ...]:
        """The tag written for each of the C predicted ids."""
        placeholders = self.placeholders()
        return tuple(
            schemes.OUTSIDE if name in placeholders else name for name in self.names
        )

    def encode(
        self,
        sentences: _Sentences,
        *,
        is_training: bool = True,
        accepts_unknown: bool = False,
    ) -> np.ndarray:
        """The id of each word's tag, sentence after sentence: int32 [words].

        Where the sentences are only scored, not for training, tags that the model
        cannot predict have features.IGNORED: those of a known type that are not named,
        and with `accepts_unknown` those of any type.

        Raises:
            ValueError: there are no tags, or one is not in the set.
        """
        ids = {name: index for index, name in enumerate(self.names)}
        types = self._types()

        def tag_id(line: int, name: str) -> int:
            if name in ids:
                return ids[name]
            is_known = bool(schemes.types_of([name], self.scheme) & types)
            if not is_training and (accepts_unknown or is_known):
                return features.IGNORED
            raise self._error(sentences.tag_path, line, name, is_known)

        found = itertools.starmap(tag_id, sentences.tagged_words())
        return np.fromiter(found, features.INTEGER)

    def _types(self) -> set[str]:
        names = set(self.names).difference(self.placeholders())
        return schemes.types_of(names, self.scheme)

    def _error(self, path: str, line: int, tag: str, is_known: bool) -> ValueError:
        """The error for a tag that is not in the set, of a known type or of another."""
        if is_known:
            return errors.InputError(
                f"{path}:{line}: --labels lacks {tag!r:.80}, with which {self.scheme} "
                "spells this word's tag; add it, or leave the flag out to have every "
                "tag of each type"
            )
        return errors.InputError(
            f"{path}:{line}: tag {tag!r:.80} is not one of "
            f"{wording.listing(self.names)}{label_files.closest(tag, self.names)}; "
            "correct it, check --tag_column, or name every tag with --labels to "
            "train (to score it as wrong: --accept_unknown_tags)"
        )

    def decode(self, ids: Iterable[Sequence[int]]) -> list[list[str]]:
        """The tags of sentences from the ids of their words.

        Predicted tags that break their scheme are repaired as those of files are.
        """
        names = self.output_names()
        return [
            schemes.respell([names[index] for index in row], self.scheme) for row in ids
        ]


def find(
    sentences: _Sentences,
    *,
    names: Sequence[str] = (),
    scheme: str,
) -> TagSet:
    """The tags to learn from training sentences: "O" first, the others sorted.

    Each type of span that the sentences have gets every tag of the scheme.

    Args:
        sentences: as sentence_sets.respell returns them.
        names: from --labels, all tags in the order of their ids.
        scheme: of the sentences.

    Raises:
        ValueError: the sentences have no tags, or not those of `names` and `scheme`.
    """
    if names:
        return TagSet(tuple(names), scheme)
    tags = {tag for _, tag in sentences.tagged_words()}
    if scheme == schemes.PLAIN:
        names = sorted(tags, key=lambda tag: (tag != schemes.OUTSIDE, tag))
    else:
        names = schemes.all_tags(schemes.types_of(tags, scheme), scheme)
    if len(names) == 1:
        raise errors.InputError(
            f"{sentences.tag_path}: every word has the tag {names[0]!r:.80}, and "
            "there is nothing to learn; check --tag_column, or name the tags with "
            "--labels"
        )
    return TagSet(tuple(names), scheme)


def map_text(tag_set: TagSet) -> str:
    """The text of file_names.LABEL_MAP: {"0": "O", ..., "tag_scheme": "BIO"}."""
    settings = {"problem_type": _PROBLEM_TYPE, "tag_scheme": tag_set.scheme}
    return label_files.map_text(tag_set.names, **settings)


def read_map(path: str, open_file: Callable[..., Any] = open) -> TagSet:
    """Reads the text of `map_text`; ValueError for any other."""

    # Files of earlier versions may have a "file_scheme", and IOB1 for BIO.
    def make(names, problem_type="classification", tag_scheme="", file_scheme=""):
        if problem_type != _PROBLEM_TYPE:
            raise errors.InputError("it is a classifier's")
        return TagSet(names, "BIO" if tag_scheme == "IOB1" else tag_scheme)

    settings = ', "problem_type" and "tag_scheme"'
    return label_files.read_map(path, open_file, make, "map of tags", settings)
