"""The tagged sentences of a run: read, checked, cut into windows, scored."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contract import errors, features, wording
from data_pipeline.batches import batching, packing, padding
from data_pipeline.tagging import files, schemes
from data_pipeline.tagging import scores as tag_scores
from data_pipeline.tagging import tags as tag_sets
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import base


@dataclasses.dataclass(frozen=True)
class SentenceSet:
    """The sentences of a split and their windows."""

    sentences: files.Sentences
    windows: sentence_windows.SentenceWindows

    def digest(self) -> str:
        """A short text that differs where windows or tags differ."""
        windows = self.windows
        digest = packing.digest(windows.packed, windows.word_places, windows.tag_ids)
        return f"{len(windows)} windows, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] windows by file and line: "train.conll:17 (window 1 of 2)"."""
        owners = self.windows.sentence_index
        parts = padding.window_names(owners, indices)
        return [
            f"{self.sentences.path}:{self.sentences.lines[owner][0]} ({part})"
            for owner, part in zip(owners[indices], parts, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """What a report says of the sentences: how many, how long, of which tags."""
        sentences = self.sentences
        tags = (tag for row in sentences.tags or () for tag in row)
        windows_of = np.bincount(self.windows.sentence_index)
        return {
            "path": sentences.path,
            "count": len(sentences),
            "unit": "sentences",
            "lengths": [len(words) for words in sentences.words],
            "length_unit": "words of a sentence",
            "cut": int(np.sum(windows_of > 1)),
            "cut_means": "in several windows of --max_seq_length",
            "labels": dict(collections.Counter(tags)),
            "labels_title": "Tags",
        }

    def examples(self) -> batching.Examples:
        """The windows as training/fine_tuning.py takes them."""
        return batching.Examples(
            self.windows.packed, self.names, self.digest, self.windows.targets()
        )


@dataclasses.dataclass(frozen=True)
class Tagged:
    """Predictions of a split: tags of each word of each sentence, and scores."""

    tags: list[list[str]]
    probabilities: list[list[float]]  # of each tag, 0..1
    scores: dict[str, float]  # {} where the right tags are unknown
    type_scores: dict[str, dict[str, float]]  # the same for each type of span
    losses: np.ndarray | None = None  # float [words]; None where tags are unknown

    def results(self, prefix: str) -> dict[str, float]:
        """All scores under names such as eval_f1 and eval_f1_person."""
        return {
            **{f"{prefix}_{name}": value for name, value in self.scores.items()},
            **{
                f"{prefix}_{name}_{span_type}": value
                for span_type, scores in self.type_scores.items()
                for name, value in scores.items()
            },
        }


def read(paths: Mapping[str, str], layout: files.Layout) -> dict[str, files.Sentences]:
    """Reads the sentences of each split by tagged_files.read; "test" needs no tags."""
    return {
        split: files.read(path, layout, tags_required=split != "test")
        for split, path in paths.items()
    }


def load(
    splits: Mapping[str, files.Sentences],
    tag_set: tag_sets.TagSet,
    tokenizer: base.Tokenizer,
    *,
    accepts_unknown: bool,
    **limits: Any,
) -> dict[str, SentenceSet]:
    """Cuts what `read` returned into windows, and prints how many there are.

    With `accepts_unknown`, tags outside the set may be scored, but not trained on. The
    limits are those of sentence_windows.make_windows.

    Raises:
        ValueError: a tag is not in the set, or a limit leaves no room.
    """
    found = {}
    for split, sentences in splits.items():
        tag_ids, num_respelled = None, 0
        if sentences.tags is not None:
            sentences, num_respelled = respell(sentences, tag_set.scheme)
            tag_ids = tag_set.encode(
                sentences,
                is_training=split == "train",
                accepts_unknown=accepts_unknown,
            )
        windows = sentence_windows.make_windows(
            sentences, tokenizer, tag_ids=tag_ids, **limits
        )
        print(
            f"{split}: {len(sentences)} sentences, {sentences.num_words} words from "
            f"{sentences.path}; {len(windows)} windows, "
            f"{windows.packed.lengths.mean():.1f} tokens on average; "
            f"{sentences.num_skipped} empty sentences left out, "
            f"{windows.packed.num_truncated} words cut to fit"
            f"{_respelled(num_respelled, tag_set)}{_unpredictable(tag_ids)}"
        )
        found[split] = SentenceSet(sentences, windows)
    return found


def _respelled(count, tag_set):
    return f", {count} tags respelled by the scheme {tag_set.scheme}" if count else ""


def _unpredictable(tag_ids):
    count = 0 if tag_ids is None else np.count_nonzero(tag_ids == features.IGNORED)
    return f", {count} tags scored that the model cannot predict" if count else ""


def respell(sentences: files.Sentences, scheme: str) -> tuple[files.Sentences, int]:
    """Repairs tags that break their scheme, such as I where a span begins in BIO.

    Returns the sentences and how many of their tags differ from the file's.

    Raises:
        ValueError: a tag is of another scheme.
    """
    given = sentences.tags or []
    try:
        tags = [schemes.respell(row, scheme) for row in given]
    except ValueError as error:
        line = next(
            line
            for line, tag in sentences.tagged_words()
            if not schemes.fits(tag, scheme)
        )
        raise errors.InputError(f"{sentences.tag_path}:{line}: {error}") from error
    changes = sum(sum(map(str.__ne__, *pair)) for pair in zip(given, tags, strict=True))
    return dataclasses.replace(sentences, tags=tags), changes


def decide(
    data: SentenceSet, outputs: Mapping[str, np.ndarray], tag_set: tag_sets.TagSet
) -> Tagged:
    """Decides on a tag for each word, and scores them where the right ones are known.

    `outputs` holds "ids", int, and "probabilities", float, both [N, S], of the
    likeliest tag of each token; and "losses", float, where the right ones are known.
    """
    ids = data.windows.by_sentence(data.windows.by_word(outputs["ids"]))
    probabilities = data.windows.by_word(outputs["probabilities"])
    tags, scheme = tag_set.decode(ids), tag_set.scheme
    scores: dict[str, float] = {}
    type_scores: dict[str, dict[str, float]] = {}
    if given := data.sentences.tags:
        scores = tag_scores.score(given, tags, scheme)
        if scheme != schemes.PLAIN:
            type_scores = tag_scores.score_types(given, tags, scheme)
    by_sentence = data.windows.by_sentence(probabilities)
    losses = data.windows.by_word(outputs["losses"]) if "losses" in outputs else None
    return Tagged(tags, by_sentence, scores, type_scores, losses)


def score_names(tag_set: tag_sets.TagSet) -> tuple[str, ...]:
    """The scores by which a checkpoint can be the best, the usual one first."""
    if tag_set.scheme == schemes.PLAIN:
        return ("accuracy",)
    return "f1", "precision", "recall", "accuracy"


def find_tag_set(
    train: files.Sentences | None,
    *,
    names: Sequence[str],
    scheme: str,
    known: str,
    open_file: Callable[..., Any],
) -> tag_sets.TagSet:
    """The tags: those of a trained run, of --labels, or found in training sentences.

    `names` and `scheme` come from --labels and --tag_scheme, () and "" where absent;
    `known` is the path of a trained run's label_map.json, or "".

    Raises:
        ValueError: nothing says what the tags are, or a trained run had others.
    """
    if train is not None:
        scheme = scheme or schemes.find_scheme(train.tags or [])
        train, _ = respell(train, scheme)
        found = tag_sets.find(train, names=names, scheme=scheme)
        _announce(found)
        return found
    if not known:
        raise errors.InputError(
            "without training sentences nothing says what the tags are; give a "
            "checkpoint that has a label_map.json beside it (convert_checkpoint.py "
            "writes one)"
        )
    found = tag_sets.read_map(known, open_file)
    for flag, asked, has in (
        ("labels", ",".join(names), ",".join(found.names)),
        ("tag_scheme", scheme, found.scheme),
    ):
        if asked and asked != has:
            raise errors.InputError(
                f"--{flag}={asked:.80} is not what the model was trained with, "
                f"{has:.80} ({known}); leave the flag out"
            )
    return found


def _announce(tag_set):
    if placeholders := tag_set.placeholders():
        print(
            f"labels: {wording.listing(placeholders)} are not of the scheme "
            f"{tag_set.scheme}; they keep their ids, and where one is predicted "
            f"{schemes.OUTSIDE} is written"
        )
