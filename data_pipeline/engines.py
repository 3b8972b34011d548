"""Pipelines of Apache Beam, and errors of work that goes on when it is run again."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from contract import errors


def open_beam(options: Sequence[str]) -> Callable[..., None]:
    """Returns each(function, job, items), which calls function(job, item) for items.

    A runner, which the options name as in --runner=DataflowRunner, chooses the process
    of each call; all are pickled. Without apache-beam, this raises ValueError.
    """
    try:
        import apache_beam as beam
        from apache_beam.options import pipeline_options
    except ImportError as error:
        raise errors.InputError(
            "--engine=beam needs a package: pip install apache-beam, or its extra for "
            "the runner, such as apache-beam[gcp]"
        ) from error

    def each(function, job, items):
        if not items:
            return
        settings = pipeline_options.PipelineOptions(list(options))
        with beam.Pipeline(options=settings) as pipeline:
            begun = pipeline | beam.Create(list(items)) | beam.Reshuffle()
            _ = begun | function.__name__ >> beam.Map(functools.partial(function, job))

    return each


@contextlib.contextmanager
def failures_explained(place: str) -> Iterator[None]:
    """Adds to TensorFlow's errors about files, and to Ctrl-C, how to go on."""
    remedy = (
        f"what is done stays in {place}: run the same command again to go on from there"
    )
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, "message", str(error))
        raise OSError(f"{reason}; {remedy}") from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"({remedy})") from error
