"""The tagged sentences of a run: read, checked, cut into windows."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from contract import errors, features, outcomes, wording
from data_pipeline import label_maps
from data_pipeline.batches import splits
from data_pipeline.tagging import files, schemes
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import base


@dataclasses.dataclass(frozen=True)
class SentenceSplit(splits.Split):
    """The sentences of a split and their windows."""

    sentences: files.Sentences
    windows: sentence_windows.SentenceWindows
    unit: ClassVar[str] = "windows"

    def targets(self) -> dict[str, Any]:
        return self.windows.targets()

    def target_arrays(self) -> list[Any]:
        return [self.windows.word_places, self.windows.tag_ids]

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] windows by file and line: "train.conll:17 (window 1 of 2)"."""
        owners = self.windows.sentence_index
        parts = splits.window_names(owners, indices)
        return [
            f"{self.path}:{self.sentences.lines[owner][0]} ({part})"
            for owner, part in zip(owners[indices], parts, strict=True)
        ]

    def summary(self) -> outcomes.Summary:
        sentences = self.sentences
        tags = (tag for row in sentences.tags or () for tag in row)
        num_windows = np.bincount(self.windows.sentence_index)
        return outcomes.Summary(
            path=self.path,
            count=len(sentences),
            unit="sentences",
            lengths=[len(words) for words in sentences.words],
            length_unit="words of a sentence",
            cut=int(np.sum(num_windows > 1)),
            cut_means="in several windows of --max_seq_length",
            labels=dict(collections.Counter(tags)),
            labels_title="Tags",
        )


def read(paths: Mapping[str, str], layout: files.Layout) -> dict[str, files.Sentences]:
    """Reads the sentences of each split; "test" needs no tags."""
    return {
        split: files.read(path, layout, tags_required=split != "test")
        for split, path in paths.items()
    }


def load(
    sentences: Mapping[str, files.Sentences],
    tag_set: schemes.TagNames,
    tokenizer: base.Tokenizer,
    *,
    accepts_unknown: bool,
    **limits: Any,
) -> dict[str, SentenceSplit]:
    """Cuts the results of `read` into windows; prints how many, and the scheme.

    With `accepts_unknown`, tags outside the set may be scored, but not trained on. The
    limits are those of windows.make_windows.
    """
    tags = f"{len(tag_set.names)} tags: {wording.first_of(tag_set.names, 9)}"
    print(f"labels: scheme {tag_set.scheme}, {tags}")
    return {
        name: _cut(name, rows, tag_set, tokenizer, accepts_unknown, limits)
        for name, rows in sentences.items()
    }


def _cut(name, sentences, tag_set, tokenizer, accepts_unknown, limits) -> SentenceSplit:
    tag_ids, notes = None, ""
    if sentences.tags is not None:
        sentences, count = respell(sentences, tag_set.scheme)
        if count:
            notes += f", {count} tags respelled by the scheme {tag_set.scheme}"
        tag_ids = tag_set.encode(
            sentences, is_training=name == "train", accepts_unknown=accepts_unknown
        )
        if count := np.count_nonzero(tag_ids == features.IGNORED):
            notes += f", {count} tags scored that the model cannot predict"
    windows = sentence_windows.make_windows(
        sentences, tokenizer, tag_ids=tag_ids, **limits
    )
    counts = tokenizer.count_unknown(windows.packed.tokens)
    notes += tokenizer.describe_unknown(sentences.path, counts)
    print(
        f"{name}: {len(sentences)} sentences, {sentences.num_words} words from "
        f"{sentences.path}; {len(windows)} windows, "
        f"{windows.packed.lengths.mean():.1f} tokens on average; "
        f"{sentences.num_skipped} empty sentences left out, "
        f"{windows.packed.num_truncated} words cut to fit{notes}"
    )
    return SentenceSplit(sentences.path, windows.packed, sentences, windows)


def respell(sentences: files.Sentences, scheme: str) -> tuple[files.Sentences, int]:
    """Repairs tags that break their scheme; returns how many differ from the file's."""
    rows = sentences.tags or []
    try:
        tags = [schemes.respell(row, scheme) for row in rows]
    except ValueError as error:
        line = next(
            line
            for line, tag in sentences.tagged_words()
            if not schemes.fits(tag, scheme)
        )
        raise errors.InputError(f"{sentences.tag_path}:{line}: {error}") from error
    changes = sum(sum(map(str.__ne__, *pair)) for pair in zip(rows, tags, strict=True))
    return dataclasses.replace(sentences, tags=tags), changes


def _check_plain(train: files.Sentences) -> None:
    """Refuses tags that mean a scheme of spans; names a first tag that may be a header.

    The scheme of `train` was not given, and its tags are together of none.
    """
    counts = collections.Counter(tag for _, tag in train.tagged_words())
    lines: dict[str, int] = {}
    for line, tag in train.tagged_words():
        lines.setdefault(tag, line)
    scheme, odd = schemes.odd_tags(counts)
    if odd:
        named = wording.first_of([f"{tag!r:.40} (line {lines[tag]})" for tag in odd])
        raise errors.InputError(
            f"{train.tag_path}:{lines[odd[0]]}: most tags mean {scheme}, but not "
            f"{named}; spell them B-type, I-type, O, or set --tag_scheme=plain"
        )
    line, tag = next(train.tagged_words())
    if counts[tag] == 1 and train.file_format == "conll":
        print(
            f"{train.tag_path}:{line}: {tag!r:.40} is a tag of this line alone; if the "
            "line is a header, remove it"
        )


def find_tags(
    train: files.Sentences | None,
    *,
    names: Sequence[str],
    scheme: str,
    head: label_maps.Head | None,
) -> schemes.TagNames:
    """The tags of --labels, of training sentences, or of the stored `head`.

    They are in the order of the head's rows. `names` and `scheme` come from --labels
    and --tag_scheme, () and "" where absent. Raises as label_maps.follow.
    """
    if train is not None:
        if not scheme:
            scheme = schemes.find_scheme(train.tags or [])
            if scheme == schemes.PLAIN:
                _check_plain(train)
        train, _ = respell(train, scheme)
        tag_set = schemes.find_tags(train, names=names, scheme=scheme)
        if placeholders := tag_set.placeholders():
            print(
                f"labels: {wording.listing(placeholders)} are not of the scheme "
                f"{scheme}; they keep their ids, and where one is predicted "
                f"{schemes.OUTSIDE} is written"
            )
        origin = "--labels" if names else train.tag_path
        return label_maps.follow(head, tag_set, origin, trains=True)
    stored: Any = head.classes if head else None
    if head and head.has_map:
        stored = schemes.read_map(head.source)  # no classifier's
        if scheme not in ("", stored.scheme):
            raise errors.InputError(
                f"--tag_scheme={scheme} is not what the model was trained with, "
                f"{stored.scheme} ({head.source}); leave the flag out"
            )
    if not (names or stored):
        raise errors.InputError(
            "without training sentences nothing says what the tags are; give --labels, "
            "or a checkpoint with a label_map.json beside it (convert_checkpoint.py "
            "writes one)"
        )
    stored = stored or label_maps.named(names, "")
    names = tuple(names) or stored.names
    tag_set = schemes.TagNames(names, scheme or stored.scheme)
    return label_maps.follow(head, tag_set, "--labels", trains=False)
