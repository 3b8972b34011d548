"""The tags that a model predicts: their names, ids and scheme. Plain Python."""

import collections
import dataclasses
import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from contract import features, wording
from data_pipeline.tagging import tag_schemes

# Beside the names, in file_names.LABEL_MAP.
_PROBLEM_TYPE = "tagging"


class TaggedWords(Protocol):
    """What is needed here of a `tagged_files.Sentences`."""

    @property
    def tag_path(self) -> str:
        """Where the tags come from, for messages."""

    @property
    def tags(self) -> list[list[str]] | None:
        """The tags of each sentence; None where the file has none."""

    def tagged_words(self) -> Iterator[tuple[int, str]]:
        """Yields line and tag of each word."""


@dataclasses.dataclass(frozen=True)
class TagSet:
    """What a tagger predicts for each word.

    Lists of tags that other programs have written may begin with PAD and UNK. Such
    placeholders keep their ids; what is predicted as one of them is "O".

    Attributes:
        names: C tags, in the order of their ids.
        scheme: one of `tag_schemes.SCHEMES`.

    Raises:
        ValueError: at construction: fewer than two tags beside placeholders, one twice,
            one of another scheme, or no such scheme.
    """

    names: tuple[str, ...]
    scheme: str

    def __post_init__(self) -> None:
        """Checks that the two fit together."""
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
        name, count = collections.Counter(self.names).most_common(1)[0]
        if count > 1:
            raise ValueError(f"tag {name!r} is named {count} times; once is enough")
        if self.scheme != tag_schemes.PLAIN:
            for name in set(self.names).difference(placeholders):
                tag_schemes.parse(name, self.scheme)

    def placeholders(self) -> tuple[str, ...]:
        """Names of no scheme; none where each tag is for itself."""
        if self.scheme == tag_schemes.PLAIN:
            return ()
        return tuple(filter(tag_schemes.is_placeholder, self.names))

    def spoken(self) -> tuple[str, ...]:
        """C tags, what is said where an id is predicted: "O" for placeholders."""
        silent = self.placeholders()
        return tuple(
            tag_schemes.OUTSIDE if name in silent else name for name in self.names
        )

    def encode(
        self, sentences: TaggedWords, *, accepts_unknown: bool = False
    ) -> np.ndarray:
        """The id of each word's tag, sentence after sentence.

        Args:
            sentences: with W words in all.
            accepts_unknown: for scoring only: a tag of the scheme that is not in the
                set, which the model cannot predict, becomes features.IGNORED.

        Returns:
            int32 [W].

        Raises:
            ValueError: there are no tags, or one is not in the set; names file and
                line.
        """
        ids = {name: index for index, name in enumerate(self.names)}
        found = np.empty(sum(map(len, sentences.tags or [])), features.INTEGER)
        for word, (line, tag) in enumerate(sentences.tagged_words()):
            index = ids.get(tag)
            if index is None:
                if not accepts_unknown or not tag_schemes.fits(tag, self.scheme):
                    raise ValueError(f"{sentences.tag_path}:{line}: {self._lack(tag)}")
                index = features.IGNORED
            found[word] = index
        return found

    def _lack(self, tag: str) -> str:
        close = difflib.get_close_matches(tag, self.names, n=1)
        hint = f"; closest: {close[0]!r}" if close else ""
        return (
            f"tag {tag!r:.80} is not one of {wording.listing(self.names)}{hint}; "
            "correct it, check --tag_column, or name every tag with --labels to train "
            "(to score it as wrong: --accept_unknown_tags)"
        )

    def decode(self, ids: Iterable[Sequence[int]]) -> list[list[str]]:
        """The tags of sentences, from the ids of their words."""
        spoken = self.spoken()
        return [[spoken[index] for index in row] for row in ids]


def find(
    sentences: TaggedWords, *, names: Sequence[str] = (), scheme: str = ""
) -> TagSet:
    """The tags of the training sentences: "O" first, the others sorted.

    Args:
        sentences: for training.
        names: all tags in the order of their ids, where --labels gives them.
        scheme: where --tag_scheme gives it; "" to find it from the sentences.

    Raises:
        ValueError: they have no tags, or what is given does not fit them.
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
    content = {str(index): name for index, name in enumerate(tag_set.names)}
    content |= {"problem_type": _PROBLEM_TYPE, "tag_scheme": tag_set.scheme}
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def read_map(path: str, open_file: Callable[..., Any] = open) -> TagSet:
    """Reads the text of `map_text`.

    Args:
        path: of the file.
        open_file: opens it, as `open` does.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a file.
    """
    with open_file(path, "rb") as file:
        text = file.read()
    try:
        content = json.loads(text)
        if content.pop("problem_type") != _PROBLEM_TYPE:
            raise ValueError("it is a classifier's")
        scheme = content.pop("tag_scheme")
        names = tuple(str(content.pop(str(i))) for i in range(len(content)))
        return TagSet(names, scheme)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path}: not a map of tags ({type(error).__name__}: {error}); its keys "
            'are "0", "1", ..., "problem_type" and "tag_scheme"; restore it, or train '
            "again to write it"
        ) from None
