"""The tags that a model predicts: their names, ids and scheme. Plain Python."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from contract import features, wording
from data_pipeline.files import label_files
from data_pipeline.tagging import tag_schemes

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
        if self.scheme not in tag_schemes.SCHEMES:
            raise ValueError(
                f"--tag_scheme={self.scheme} is not one of "
                f"{', '.join(tag_schemes.SCHEMES)}"
            )
        placeholders = self.placeholders()
        if len(self.names) - len(placeholders) < 2:
            scheme = "" if self.scheme == tag_schemes.PLAIN else f" of {self.scheme}"
            raise ValueError(
                f"a tagger needs 2 tags{scheme} or more, not "
                f"{wording.listing(self.names)}; name all with --labels"
            )
        label_files.check_distinct(self.names, "tag")
        if self.scheme != tag_schemes.PLAIN:
            for name in set(self.names).difference(placeholders):
                tag_schemes.parse(name, self.scheme)

    def placeholders(self) -> tuple[str, ...]:
        """Names of no scheme; none where the scheme is "plain"."""
        if self.scheme == tag_schemes.PLAIN:
            return ()
        return tuple(filter(tag_schemes.is_placeholder, self.names))

    def output_names(self) -> tuple[str, ...]:
        """The tag written for each of the C predicted ids."""
        placeholders = self.placeholders()
        return tuple(
            tag_schemes.OUTSIDE if name in placeholders else name for name in self.names
        )

    def encode(
        self, sentences: _Sentences, *, accepts_unknown: bool = False
    ) -> np.ndarray:
        """The id of each word's tag, sentence after sentence: int32 [words].

        `accepts_unknown`, for scoring only, gives features.IGNORED to tags of the
        scheme that the set lacks, since the model cannot predict them.

        Raises:
            ValueError: there are no tags, or one is not in the set.
        """
        ids = {name: index for index, name in enumerate(self.names)}

        def tag_id(line: int, tag: str) -> int:
            if tag in ids:
                return ids[tag]
            if accepts_unknown and tag_schemes.fits(tag, self.scheme):
                return features.IGNORED
            raise ValueError(
                f"{sentences.tag_path}:{line}: tag {tag!r:.80} is not one of "
                f"{wording.listing(self.names)}{label_files.closest(tag, self.names)}; "
                "correct it, check --tag_column, or name every tag with --labels to "
                "train (to score it as wrong: --accept_unknown_tags)"
            )

        found = itertools.starmap(tag_id, sentences.tagged_words())
        return np.fromiter(found, features.INTEGER)

    def decode(self, ids: Iterable[Sequence[int]]) -> list[list[str]]:
        """The tags of sentences, from the ids of their words."""
        names = self.output_names()
        return [[names[index] for index in row] for row in ids]


def find(
    sentences: _Sentences, *, names: Sequence[str] = (), scheme: str = ""
) -> TagSet:
    """The tags of the training sentences: "O" first, the others sorted.

    `names`, from --labels, are all tags in the order of their ids; `scheme`, from
    --tag_scheme, is "" to find it from the sentences.

    Raises:
        ValueError: the sentences have no tags, or not those of `names` and `scheme`.
    """
    if not names:
        found = {tag for _, tag in sentences.tagged_words()}
        names = sorted(found, key=lambda tag: (tag != tag_schemes.OUTSIDE, tag))
        if len(names) == 1:
            raise ValueError(
                f"{sentences.tag_path}: every word has the tag {names[0]!r:.80}, and "
                "there is nothing to learn; check --tag_column, or name the tags with "
                "--labels"
            )
    return TagSet(tuple(names), scheme or tag_schemes.find_scheme(sentences.tags or []))


def map_text(tag_set: TagSet) -> str:
    """The text of file_names.LABEL_MAP: {"0": "O", ..., "tag_scheme": "BIO"}."""
    return label_files.map_text(
        tag_set.names, problem_type=_PROBLEM_TYPE, tag_scheme=tag_set.scheme
    )


def read_map(path: str, open_file: Callable[..., Any] = open) -> TagSet:
    """Reads the text of `map_text`; ValueError for any other."""

    def make(names, problem_type="classification", tag_scheme=""):
        if problem_type != _PROBLEM_TYPE:
            raise ValueError("it is a classifier's")
        return TagSet(names, tag_scheme)

    settings = ', "problem_type" and "tag_scheme"'
    return label_files.read_map(path, open_file, make, "map of tags", settings)
