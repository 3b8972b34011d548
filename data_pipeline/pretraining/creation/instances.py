"""What an objective makes of the text of a unit: the interface of tasks.py to it."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from data_pipeline.pretraining.creation import job as creation_job

Arrays = Mapping[str, np.ndarray]


class Instances(abc.ABC):
    """The instances of a unit, in random order; a chunk is cut, then all are joined.

    What comes of a job, a unit and a chunk follows from these alone.

    Attributes:
        counts: {name of COUNTS: number} of the text of the unit.
    """

    COUNTS: ClassVar[tuple[str, ...]]  # of the text
    RECORD_COUNTS: ClassVar[tuple[str, ...]] = ()  # of records, as they are written
    IN_METADATA: ClassVar[tuple[str, ...]] = ()  # counts of a file in its metadata
    counts: dict[str, int]

    @staticmethod
    @abc.abstractmethod
    def cut(
        job: creation_job.Job, unit: int, chunk: int, texts: Sequence[bytes]
    ) -> dict[str, np.ndarray]:
        """Tokenizes the ranges of a chunk, and cuts them; {name: array} for `join`."""

    @classmethod
    @abc.abstractmethod
    def join(
        cls, job: creation_job.Job, unit: int, chunks: Sequence[Arrays]
    ) -> "Instances":
        """The instances of the unit whose chunks `cut` has made."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The instances of the unit."""

    @abc.abstractmethod
    def records(
        self, job: creation_job.Job, chosen: np.ndarray, rng: np.random.Generator
    ) -> tuple[Iterator[bytes], tuple[int, ...]]:
        """Serialized tf.train.Examples of `chosen` ones, int [K], and RECORD_COUNTS."""

    def in_metadata(self, chosen: np.ndarray, first: int) -> tuple[int, ...]:
        """The values of IN_METADATA for `chosen` ones, after `first` others."""
        return ()
