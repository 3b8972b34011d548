"""What both sides of the comparison of ELMo are given; see benchmarks/elmo.py.

Each side runs in a Python of its own, so here is only NumPy. Words are random letters,
as often as Zipf's law has them; sentences are as long as those of news.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import sides

CHARACTERS = 50  # ids of a word
# Of ours and, less 1, of the original's training: bytes come first.
_BEGIN, _END, _WORD_BEGIN, _WORD_END, _FILLING = range(257, 262)
_SPECIAL = ("<S>", "</S>", "<UNK>")
_RELEASED = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
# dim of the LSTMs and of their projection, filters, highways. "small" is a release.
SHAPES = {
    "mini": (512, 128, _RELEASED[:5], 1),  # 3.1 million weights
    "small": (1024, 128, _RELEASED, 1),  # 13.6 million
}
BATCH, UNROLL = 128, 20  # of training, as released
NEGATIVES, VOCABULARY = 8192, 30_000


@dataclasses.dataclass(frozen=True)
class Job:
    """One turn of one side, as JSON on its command line."""

    action: str  # "train", "extract" or, one sentence a batch, "extract_one"
    directory: str  # of options.json, weights.hdf5 and work.npz
    warm_up: int  # steps before those that are timed
    steps: int
    original: str = ""  # directory of the original's code

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The job of `to_json`."""
        return cls(**json.loads(text))


def options(shape: str, trains: bool) -> dict:
    """The content of options.json; the original wants another one where it trains."""
    dim, projection, filters, highways = SHAPES[shape]
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 16},
            "filters": filters,
            "max_characters_per_token": CHARACTERS,
            "n_characters": 261 if trains else 262,
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
        "n_tokens_vocab": VOCABULARY,
        "batch_size": BATCH,
        "unroll_steps": UNROLL,
        "n_negative_samples_batch": NEGATIVES,
        "all_clip_norm_val": 10.0,
        "learning_rate": 0.2,
    }


@dataclasses.dataclass(frozen=True)
class Work:
    """Words, streams of them for training, and sentences."""

    characters: np.ndarray  # int32 [V, 50], ids of each word, 0 is padding
    streams: np.ndarray  # int32 [2, B, T], forward and backward, of words
    words: np.ndarray  # int32, of all sentences, end to end
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
            batches = order[: len(order) // batch_size * batch_size]
            order = np.random.default_rng(0).permutation(
                batches.reshape(-1, batch_size)
            )
        for rows in order.reshape(-1, batch_size):
            longest = self.lengths[rows].max()
            found = np.zeros((batch_size, longest + 2, CHARACTERS), np.int32)
            for place, row in zip(found, rows, strict=True):
                words = self.words[starts[row] : starts[row] + self.lengths[row]]
                place[0] = self.characters[0]
                place[1 : len(words) + 1] = self.characters[words]
                place[len(words) + 1] = self.characters[1]
            yield found

    def windows(self, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each step the words that are read and those that follow, [2, B, 20]."""
        for step in range(steps):
            begin = step * UNROLL
            window = self.streams[:, :, begin : begin + UNROLL + 1]
            yield window[..., :-1], window[..., 1:]


def make(num_sentences: int, num_steps: int, seed: int = 0) -> Work:
    """The same words, streams and sentences for the same numbers."""
    rng = np.random.default_rng(seed)
    words = {*_SPECIAL}
    while len(words) < VOCABULARY:
        size = int(rng.integers(2, 12))
        words.add("".join(map(chr, rng.integers(ord("a"), ord("z") + 1, size))))
    listed = [*_SPECIAL, *sorted(words - {*_SPECIAL})]
    characters = np.array([word_ids(word) for word in listed], np.int32)
    shares = 1 / (np.arange(len(listed) - 2) + 1)
    shares /= shares.sum()

    def draw(*shape):
        return rng.choice(len(shares), shape, p=shares).astype(np.int32) + 2

    lengths = np.clip(rng.lognormal(3.0, 0.5, num_sentences), 3, 60).astype(np.int32)
    streams = draw(2, BATCH, num_steps * UNROLL + 1)
    return Work(characters, streams, draw(int(lengths.sum())), lengths)


def word_ids(word: str) -> list[int]:
    """Ids of the characters of a word, 0 is padding; <S> and </S> have their own."""
    inner = [byte + 1 for byte in word.encode()[: CHARACTERS - 2]]
    inner = {"<S>": [_BEGIN], "</S>": [_END]}.get(word, inner)
    found = [_WORD_BEGIN, *inner, _WORD_END]
    return found + [_FILLING] * (CHARACTERS - len(found))


def time_batches(
    call: Callable[[np.ndarray], np.ndarray], job: Job, work: Work, batch_size: int
) -> dict[str, float]:
    """Words a second, without frames, through a function [B, S, 50] -> layers.

    "sum" is that of the first word's values in all layers of the last batch.
    """
    count = job.warm_up + job.steps
    batches = list(itertools.islice(work.sentences(batch_size), count))
    seconds = sum(sides.seconds_of(call, batches, job.warm_up))
    timed = batches[job.warm_up :]
    words = sum((ids[..., 0] > 0).sum() - 2 * len(ids) for ids in timed)
    check = call(batches[-1])[:, :, 0].sum()
    return {"tokens_per_second": float(words / seconds), "sum": float(check)}
