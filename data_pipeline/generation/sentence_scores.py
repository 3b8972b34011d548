"""How likely whole sentences are to a network, token by token.

A network from left to right predicts each token from those before it, so the sum of the
logarithms is that of the probability of the sentence. One that fills masks predicts a
token from both sides; there the sum is the pseudo-log-likelihood (Salazar et al., 2020,
arXiv:1910.14659, section 2).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, features
from contract.tensorflow_later import tf
from data_pipeline.batches import packing

# What is hidden while a network that fills masks predicts a token: the token; with it
# those after it in its word (Kauf and Ivanova, 2023, arXiv:2305.10588); or nothing, and
# all tokens are predicted in one pass (Huebner et al., 2021).
TOKEN, WORD, NONE = MASKINGS = ("token", "word", "none")
_TEXTS = 1024  # in memory, of which those of similar length are read together
_PREDICTIONS = 1024  # of a batch, each of which has a row of logits

# input_ids and so on, int32 [B, S], masked_lm_positions and masked_lm_ids int32 [B, P],
# to the natural logarithms of the probabilities of these ids, float32 [B, P].
Score = Callable[[dict[str, Any]], np.ndarray]


class _Row(NamedTuple):
    """A sequence: ids int [S], of which those at places [P] are predicted."""

    text: int
    ids: np.ndarray
    places: np.ndarray
    wanted: np.ndarray


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Scores sentences.

    Attributes:
        max_seq_length: tokens that it reads.
        is_left_to_right: whether it predicts from what stands before alone.
        masking: one of MASKINGS, for a network of both directions.
        batch_size: sequences that are read together.
    """

    tokenizer: Any
    max_seq_length: int
    is_left_to_right: bool
    masking: str = TOKEN
    batch_size: int = 64

    def __post_init__(self) -> None:
        if self.masking not in MASKINGS:
            raise errors.InputError(
                f"masking={self.masking!r} is none of {', '.join(MASKINGS)}"
            )
        if self.is_left_to_right and self.masking != TOKEN:
            raise errors.InputError(
                f"--masking={self.masking}: the network reads from left to right, "
                "without masks; leave it out"
            )
        hides = not self.is_left_to_right and self.masking != NONE
        if hides and self.tokenizer.mask_id is None:
            raise errors.InputError(
                f"the vocabulary has no {self.tokenizer.mask_token} to hide tokens "
                "with; give that of the checkpoint"
            )

    def cut(self, texts: Sequence[tuple[str, str]]) -> list[list[int]]:
        """The ids of texts, without special tokens, in their order.

        Texts come with their places, for InputErrors: those of no token that could be
        predicted, and those that are longer than the network reads.
        """
        ids = self.tokenizer.to_ids([text for text, _ in texts])
        for each, (_, place) in zip(ids, texts, strict=True):
            self._check(each, place)
        return ids

    def __call__(
        self,
        texts: Sequence[Sequence[int]],
        score: Score,
        track: Callable[[Iterable[Any], int], Iterable[Any]] = lambda each, _: each,
    ) -> list[np.ndarray]:
        """Logarithms, float32 [T], of the last T tokens of each text of `cut`.

        Those are all but a first one that nothing predicts. Equal texts are scored
        once: rounding, which depends on the batch, would decide between them. `track`
        passes on what is computed, and how much that is.
        """
        distinct = list(dict.fromkeys(map(tuple, texts)))
        each = track(self._scored(distinct, score), len(distinct))
        known = dict(zip(distinct, each, strict=True))
        return [known[tuple(ids)] for ids in texts]

    def _scored(self, texts, score):
        texts = iter(texts)
        while cut := list(itertools.islice(texts, _TEXTS)):
            order = np.argsort([-len(ids) for ids in cut], kind="stable")
            rows = (self._rows(text, cut[text]) for text in order)
            values: list[list[np.ndarray]] = [[] for _ in cut]
            for batch in self._batches(itertools.chain.from_iterable(rows)):
                scores = score(_padded(batch))
                for row, scored in zip(batch, scores, strict=True):
                    values[row.text].append(scored[: len(row.places)])
            yield from map(np.concatenate, values)

    def _around(self) -> tuple[list[int], list[int]]:
        """Tokens before and behind those of a text."""
        special = self.tokenizer
        if self.is_left_to_right:
            end = special.document_end_id
            return ([] if end is None else [end]), []
        return [special.start_id], [special.end_id]

    def _check(self, ids: Sequence[int], place: str) -> None:
        before, behind = self._around()
        count = len(before) + len(ids) + len(behind)
        errors.refuse(
            (
                count - len(behind) < 2,
                f"{place}: has no token that the network could predict; leave it out",
            ),
            (
                count > self.max_seq_length,
                f"{place}: is {count} tokens long, and the network reads "
                f"{self.max_seq_length}; shorten it",
            ),
        )

    def _rows(self, text: int, ids: Sequence[int]) -> Iterator[_Row]:
        before, behind = self._around()
        row = np.array([*before, *ids, *behind], np.int32)
        places = np.arange(max(len(before), 1), len(row) - len(behind), dtype=np.int32)
        if self.is_left_to_right or self.masking == NONE:
            yield _Row(text, row, places, row[places])
            return
        ends: np.ndarray = places + 1
        if self.masking == WORD:
            begins = np.append(~self._continues[row[places[1:]]], True)
            ends = np.minimum.accumulate(np.where(begins, ends, len(row))[::-1])[::-1]
        for place, end in zip(places.tolist(), ends.tolist(), strict=True):
            hidden = row.copy()
            hidden[place:end] = self.tokenizer.mask_id
            yield _Row(text, hidden, np.array([place]), row[[place]])

    @functools.cached_property
    def _continues(self) -> np.ndarray:
        return self.tokenizer.continues_word()

    def _batches(self, rows: Iterable[_Row]) -> Iterator[list[_Row]]:
        batch: list[_Row] = []  # the first has most places
        for row in rows:
            size = len(batch) + 1
            if batch and (
                size > self.batch_size or size * len(batch[0].places) > _PREDICTIONS
            ):
                yield batch
                batch = []
            batch.append(row)
        yield batch


def totals(scores: Iterable[np.ndarray], mean: bool) -> np.ndarray:
    """The sums or means of the scores of texts, float64 [N]."""
    return np.array([each.mean() if mean else each.sum() for each in scores], float)


def _padded(batch: Sequence[_Row]) -> dict[str, Any]:
    shape = len(batch), max(len(row.places) for row in batch)
    places, wanted = np.ones(shape, np.int32), np.zeros(shape, np.int32)
    for number, row in enumerate(batch):
        places[number, : len(row.places)] = row.places
        wanted[number, : len(row.places)] = row.wanted
    return packing.pad_rows([row.ids for row in batch]) | {
        features.MASKED_LM_POSITIONS: tf.constant(places),
        features.MASKED_LM_IDS: tf.constant(wanted),
    }
