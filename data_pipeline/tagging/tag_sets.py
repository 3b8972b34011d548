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
_LEARNED = "BIO"  # two tags a type, and each span says where it begins
AS_FILES = "file"  # what --train_scheme says for the scheme of the training file


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

    Files may spell the same spans by another scheme than the ids: `file_scheme`, which
    is `scheme` where it is left out.

    Raises:
        ValueError: tags are too few, repeated or not of the scheme, or no such scheme.
    """

    names: tuple[str, ...]
    scheme: str
    file_scheme: str = ""

    def __post_init__(self) -> None:
        if not self.file_scheme:
            object.__setattr__(self, "file_scheme", self.scheme)
        for scheme in (self.scheme, self.file_scheme):
            if scheme not in tag_schemes.SCHEMES:
                raise ValueError(
                    f"--tag_scheme={scheme} is not one of "
                    f"{', '.join(tag_schemes.SCHEMES)}"
                )
        if tag_schemes.PLAIN in {self.scheme, self.file_scheme} and (
            self.scheme != self.file_scheme
        ):
            raise ValueError(
                f"tags of the scheme {self.scheme} cannot be spelled by "
                f"{self.file_scheme}; give both a scheme of spans, or both "
                f"{tag_schemes.PLAIN}"
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
            for name in self.names:
                if name not in placeholders:
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

        def tag_id(place: tuple[int, str], name: str) -> int:
            if name in ids:
                return ids[name]
            is_known = bool(tag_schemes.types_of([name], self.scheme) & types)
            if not is_training and (accepts_unknown or is_known):
                return features.IGNORED
            raise self._error(sentences.tag_path, *place, name if is_known else "")

        names = itertools.chain.from_iterable(
            tag_schemes.respell(tags, self.file_scheme, self.scheme)
            for tags in sentences.tags or ()
        )
        found = map(tag_id, sentences.tagged_words(), names)
        return np.fromiter(found, features.INTEGER)

    def _types(self) -> set[str]:
        names = set(self.names).difference(self.placeholders())
        return tag_schemes.types_of(names, self.scheme)

    def _error(self, path: str, line: int, tag: str, name: str) -> ValueError:
        """Of a tag that is not in the set; `name` spells that of a known type."""
        if name:
            return ValueError(
                f"{path}:{line}: --labels lacks {name!r:.80}, by which its scheme, "
                f"{self.scheme}, spells the tag {tag!r:.80}; add it, or leave the flag "
                "out to have every tag of each type"
            )
        known = self.names
        if self.file_scheme != self.scheme:
            known = tag_schemes.all_tags(self._types(), self.file_scheme)
        return ValueError(
            f"{path}:{line}: tag {tag!r:.80} is not one of "
            f"{wording.listing(known)}{label_files.closest(tag, known)}; "
            "correct it, check --tag_column, or name every tag with --labels to "
            "train (to score it as wrong: --accept_unknown_tags)"
        )

    def decode(self, ids: Iterable[Sequence[int]]) -> list[list[str]]:
        """The tags of sentences as files spell them, from the ids of their words.

        Predicted tags may break their scheme; the spans that conlleval reads in them
        are spelled.
        """
        names = self.output_names()
        return [
            tag_schemes.respell(
                [names[index] for index in row], self.scheme, self.file_scheme
            )
            for row in ids
        ]


def find(
    sentences: _Sentences,
    *,
    names: Sequence[str] = (),
    scheme: str = "",
    train_scheme: str = "",
) -> TagSet:
    """The tags to learn from training sentences: "O" first, the others sorted.

    Of spans the types are found, and each has every tag of the scheme of the ids.

    Args:
        names: from --labels, all tags in the order of their ids.
        scheme: of the sentences, from --tag_scheme; "" to find it.
        train_scheme: of the ids, from --train_scheme; "" for BIO, or that of `names`.

    Raises:
        ValueError: the sentences have no tags, or not those of `names` and `scheme`.
    """
    found = {tag for _, tag in sentences.tagged_words()}
    tags = sentences.tags or []
    file_scheme = scheme or tag_schemes.find_scheme(tags)
    if file_scheme == tag_schemes.PLAIN or train_scheme == AS_FILES:
        learned = file_scheme
    else:
        learned = train_scheme or (
            _scheme_of(names, tags, file_scheme) if names else _LEARNED
        )
    if names:
        _check_scheme(names, learned, train_scheme)
        return TagSet(tuple(names), learned, file_scheme)
    if file_scheme == tag_schemes.PLAIN:
        names = sorted(found, key=lambda tag: (tag != tag_schemes.OUTSIDE, tag))
    else:
        names = tag_schemes.all_tags(tag_schemes.types_of(found, file_scheme), learned)
    if len(names) == 1:
        raise ValueError(
            f"{sentences.tag_path}: every word has the tag {names[0]!r:.80}, and "
            "there is nothing to learn; check --tag_column, or name the tags with "
            "--labels"
        )
    return TagSet(tuple(names), learned, file_scheme)


def _scheme_of(
    names: Sequence[str], tags: Sequence[Sequence[str]], file_scheme: str
) -> str:
    """The scheme of the names in --labels, with which they spell all training tags.

    Several may fit: I-x alone is of IOB1 as much as of BIO, which needs B-x as well.
    """
    fitting = tag_schemes.schemes_of(
        name for name in names if not tag_schemes.is_placeholder(name)
    )
    fitting.sort(key=lambda scheme: (scheme != _LEARNED, scheme != file_scheme))

    def is_whole(scheme):
        spelled = (tag_schemes.respell(row, file_scheme, scheme) for row in tags)
        return all(map(set(names).issuperset, spelled))

    return next(filter(is_whole, fitting), [*fitting, file_scheme][0])


def _check_scheme(names, scheme, train_scheme):
    for name in names if train_scheme else ():
        if not tag_schemes.is_placeholder(name) and not tag_schemes.fits(name, scheme):
            raise ValueError(
                f"--train_scheme={train_scheme}: tag {name!r:.80} of --labels is not "
                f"of the scheme {scheme}; leave --train_scheme or --labels out"
            )


def map_text(tag_set: TagSet) -> str:
    """The text of file_names.LABEL_MAP: {"0": "O", ..., "tag_scheme": "BIO"}.

    Where files spell spans by another scheme than the ids, "file_scheme" says which.
    """
    settings = {"tag_scheme": tag_set.scheme}
    if tag_set.file_scheme != tag_set.scheme:
        settings["file_scheme"] = tag_set.file_scheme
    return label_files.map_text(tag_set.names, problem_type=_PROBLEM_TYPE, **settings)


def read_map(path: str, open_file: Callable[..., Any] = open) -> TagSet:
    """Reads the text of `map_text`; ValueError for any other."""

    def make(names, problem_type="classification", tag_scheme="", file_scheme=""):
        if problem_type != _PROBLEM_TYPE:
            raise ValueError("it is a classifier's")
        return TagSet(names, tag_scheme, file_scheme)

    settings = ', "problem_type", "tag_scheme" and, if it has another, "file_scheme"'
    return label_files.read_map(path, open_file, make, "map of tags", settings)
