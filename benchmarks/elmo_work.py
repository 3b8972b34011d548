"""What both sides of the comparison of ELMo are given; see benchmarks/elmo.py.

Each side runs in a Python of its own, so here is only NumPy.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks import sides
from contract import errors

CHARACTERS = 50  # ids of a word
# Ids of characters after those of bytes, 0 is padding; the original's training has all
# of them less 1.
_BEGIN, _END, _WORD_BEGIN, _WORD_END, _FILLING = range(257, 262)
_SPECIAL = ("<S>", "</S>", "<UNK>")
_UNKNOWN = _SPECIAL.index("<UNK>")
_RELEASED = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
# Sizes of the LSTMs and of their projection, filters, highways. "small" is a release.
SHAPES: dict[str, tuple[Any, ...]] = {
    "mini": (512, 128, _RELEASED[:5], 1),  # 3 million weights without the softmax
    "small": (1024, 128, _RELEASED, 1),  # 13.6 million
}
BATCH, UNROLL = 128, 20  # of training, as released
NEGATIVES, VOCABULARY = 8192, 30_000
RATE, CLIP_NORM = 0.2, 10.0
SENTENCES = 32  # in a batch of extraction
LONGEST = 60  # words; what is longer is cut


@dataclasses.dataclass(frozen=True)
class Job:
    """One turn of one side, as JSON on its command line."""

    # "train", "extract" or, one sentence a batch, "extract_one"; for ours "prepare",
    # which writes weights
    action: str
    directory: str  # of options.json, weights.hdf5 and work.npz
    warm_up: int = 0  # steps before those that are timed
    steps: int = 0
    original: str = ""  # directory of the original's code

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The job of `to_json`."""
        return cls(**json.loads(text))


def options(shape: str, vocab_size: int) -> dict[str, Any]:
    """The content of options.json, as it is after training."""
    dim, projection, filters, highways = SHAPES[shape]
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 16},
            "filters": filters,
            "max_characters_per_token": CHARACTERS,
            "n_characters": 262,
            "n_highway": highways,
        },
        "lstm": {
            "cell_clip": 3,
            "dim": dim,
            "n_layers": 2,
            "proj_clip": 3,
            "projection_dim": projection,
            "use_skip_connections": True,
        },
        "dropout": 0.1,
        "n_tokens_vocab": vocab_size,
        "batch_size": BATCH,
        "unroll_steps": UNROLL,
        "n_negative_samples_batch": min(NEGATIVES, vocab_size // 2),
        "all_clip_norm_val": CLIP_NORM,
        "learning_rate": RATE,
    }


@dataclasses.dataclass(frozen=True)
class Work:
    """Words, streams of them for training, and sentences.

    A word is its place in the order of frequency; the first ones are of the vocabulary.
    """

    characters: np.ndarray  # int32 [W, 50]
    vocab_size: np.ndarray  # int64 []
    streams: np.ndarray  # int32 [2, B, T], forward and backward, framed sentences
    words: np.ndarray  # int32, of the sentences to extract, end to end
    lengths: np.ndarray  # int32 [N]

    def save(self, directory: str) -> None:
        """Writes work.npz."""
        np.savez(pathlib.Path(directory, "work.npz"), **dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: str) -> "Work":
        """What `save` wrote."""
        with np.load(pathlib.Path(directory, "work.npz")) as arrays:
            return cls(**arrays)

    def sentences(self, batch_size: int) -> Iterator[np.ndarray]:
        """Batches of characters, [B, S, 50], each sentence framed; by length if B > 1.

        Sentences that do not fill a batch are left out.
        """
        starts = np.cumsum(self.lengths) - self.lengths
        order = np.arange(len(self.lengths))
        if batch_size > 1:
            order = np.argsort(self.lengths, kind="stable")
        batches = order[: len(order) // batch_size * batch_size].reshape(-1, batch_size)
        if batch_size > 1:
            batches = np.random.default_rng(0).permutation(batches)
        for rows in batches:
            longest = self.lengths[rows].max()
            found = np.zeros((batch_size, longest + 2, CHARACTERS), np.int32)
            for place, row in zip(found, rows, strict=True):
                words = self.words[starts[row] : starts[row] + self.lengths[row]]
                place[: len(words) + 2] = self.characters[[0, *words, 1]]
            yield found

    def windows(self, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each step the words that are read, and ids of those that follow.

        Both are int32 [2, B, 20].
        """
        for begin in range(0, steps * UNROLL, UNROLL):
            window = self.streams[:, :, begin : begin + UNROLL + 1]
            targets = np.where(window < self.vocab_size, window, _UNKNOWN)
            yield window[..., :-1], targets[..., 1:]


def make(
    lines: Iterable[str], num_sentences: int, num_steps: int, batch: int = BATCH
) -> Work:
    """Work of the words in lines of text, a sentence each.

    Raises:
        ValueError: there are fewer lines than sentences.
    """
    cut = (re.findall(r"\w+|[^\w\s]", line)[:LONGEST] for line in lines)
    sentences = [words for words in cut if words]
    if len(sentences) < num_sentences:
        raise errors.InputError(
            f"--text_files: has {len(sentences)} sentences, and {num_sentences} are "
            "to be extracted; name more files"
        )
    counts = collections.Counter(itertools.chain.from_iterable(sentences))
    listed = [*_SPECIAL, *(word for word, _ in counts.most_common())]
    ids = {word: number for number, word in enumerate(listed)}
    of_ids = [np.array([ids[word] for word in words]) for words in sentences]
    characters = np.array([character_ids(word) for word in listed], np.int32)
    chosen = np.random.default_rng(0).permutation(len(of_ids))[:num_sentences]
    return Work(
        characters,
        np.array(min(len(listed), VOCABULARY)),
        np.stack([_stream(of_ids, batch, num_steps, order) for order in (1, -1)]),
        np.concatenate([of_ids[i] for i in chosen]).astype(np.int32),
        np.array([len(of_ids[i]) for i in chosen], np.int32),
    )


def _stream(sentences, batch, num_steps, order):
    """Rows of framed sentences, read forward or backward, int32 [B, T]."""
    rng = np.random.default_rng(order + 1)
    wanted, found, size = batch * (num_steps * UNROLL + 1), [], 0
    while size < wanted:
        for row in rng.permutation(len(sentences)):
            found.append(np.array([0, *sentences[row], 1])[::order])
            size += len(found[-1])
    return np.concatenate(found)[:wanted].reshape(batch, -1).astype(np.int32)


def character_ids(word: str) -> list[int]:
    """Ids of the characters of a word, 0 is padding; <S> and </S> have their own."""
    inner = [byte + 1 for byte in word.encode()[: CHARACTERS - 2]]
    inner = {"<S>": [_BEGIN], "</S>": [_END]}.get(word, inner)
    found = [_WORD_BEGIN, *inner, _WORD_END]
    return found + [_FILLING] * (CHARACTERS - len(found))


def time_batches(
    call: Callable[[np.ndarray], np.ndarray], job: Job, work: Work, batch_size: int
) -> dict[str, float]:
    """Words a second, without frames, through a function [B, S, 50] -> layers.

    "check" is a sum over the last batch's layers, for the other side to have, too.
    """
    count = job.warm_up + job.steps
    batches = list(itertools.islice(work.sentences(batch_size), count))
    seconds = sum(sides.seconds_of(call, batches, job.warm_up))
    timed = batches[job.warm_up :]
    words = sum((ids[..., 0] > 0).sum() - 2 * len(ids) for ids in timed)
    check = call(batches[-1])[:, :, 0].sum()  # of words that all sentences have
    return {"tokens_per_second": float(words / seconds), "check": float(check)}
