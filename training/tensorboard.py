"""TensorBoard's curves, traces, HParams and projector, and the progress of training."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins import projector
from tensorboard.plugins.hparams import api, api_pb2, summary

from contract import atomic_files, remote_files
from terminal import progress
from training import inference, metrics, train_step

# Beside the progress; those of a student are what its loss is made of.
_SHOWN = ("loss", "soft_loss", "label_loss")
LAYER_MIX = "layer_mix"  # group of curves, and part of a run's record
# Ends the names of event files of HParams, which separates them from those of curves.
HPARAMS_SUFFIX = ".hparams"
MAX_PROJECTED = 5000  # a browser turns so many rows without effort
_PROJECTOR_CONFIG = "projector_config.pbtxt"  # TensorBoard's name
_VECTORS, _METADATA = "vectors.tsv", "metadata.tsv"
PROJECTOR_FILES = (_PROJECTOR_CONFIG, _VECTORS, _METADATA)
# The projector's files are read line by line and cell by cell, without quotes.
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Reporter:
    """Writes curves and texts to TensorBoard and its progress to standard error.

    If `writes`, event files appear below `directory` with the first scalar, or OSError
    is raised. `start_step`, where this process starts, serves the estimate of the time
    left. `watched` returns the numbers of a mix of layers, or {}.
    """

    def __init__(
        self,
        directory: str,
        num_train_steps: int,
        start_step: int = 0,
        *,
        writes: bool = True,
        stream: Any = None,
        watched: Callable[[], Mapping[str, float]] = dict,
    ):
        self._directory = directory
        self._writes = writes
        self._writers: dict[str, Any] = {}
        self._total = num_train_steps
        self._start_step = start_step
        self._stream = stream
        self._watched = watched
        self._last_scalars = time.monotonic()
        self._progress = progress.Progress("step", stays=True, stream=stream)

    def begin(self) -> None:
        """Shows that training begins; what comes first may take long."""
        self._last_scalars = time.monotonic()
        self._progress(self._start_step, self._total)

    def write(
        self,
        kind: str,
        step: int,
        scalars: Mapping[str, Any],
        group: str | None = None,
    ) -> None:
        """Adds numbers to the curves `<group>/<name>`, by default `<kind>/<name>`."""
        if not self._writes:
            return
        with self._events(kind, step):
            for name, value in scalars.items():
                tf.summary.scalar(f"{group or kind}/{name}", float(value))

    def show(self, kind: str, step: int, shown: Mapping[str, Any]) -> None:
        """Adds {name: (PNG, Markdown or float [K] for a histogram, description)}."""
        if not (self._writes and shown):
            return
        with self._events(kind, step):
            for name, (value, description) in shown.items():
                tag, about = f"{kind}/{name}", {"description": description}
                if isinstance(value, bytes):
                    pixels = tf.io.decode_png(value)[tf.newaxis]
                    tf.summary.image(tag, pixels, **about)
                elif isinstance(value, str):
                    tf.summary.text(tag, value, **about)
                else:
                    tf.summary.histogram(tag, value, **about)

    @contextlib.contextmanager
    def _events(self, kind, step):
        with _writing(path := os.path.join(self._directory, kind)):
            if kind not in self._writers:
                self._writers[kind] = tf.summary.create_file_writer(path)
            with self._writers[kind].as_default(step):
                yield

    def train(
        self, step: int, results: Mapping[str, float], learning_rate: float
    ) -> None:
        """Reports the results of a TrainStep for the steps up to `step`."""
        now = time.monotonic()
        seconds = max(now - self._last_scalars, 1e-9)
        self._last_scalars = now
        rates = {
            "examples_per_second": results["examples"] / seconds,
            "tokens_per_second": results["tokens"] / seconds,
        }
        scalars = {k: v for k, v in results.items() if k not in ("examples", "tokens")}
        if "next_token_loss" in results:
            scalars |= metrics.perplexities(results["next_token_loss"])
        self.write("train", step, {**scalars, **rates, "learning_rate": learning_rate})
        self.write("train", step, self._watched(), group=LAYER_MIX)
        self._progress(
            step,
            self._total,
            " ".join(f"{n} {results[n]:.4f}" for n in _SHOWN if n in results),
            f"rate {learning_rate:.2e}",
            f"{rates['examples_per_second']:.0f} examples/s",
            f"{rates['tokens_per_second']:.0f} tokens/s",
        )

    def evaluated(self, step: int, scores: Mapping[str, Any]) -> None:
        """Reports scores of an evaluation during or after training."""
        self.write("eval", step, scores)
        shown = {name: v for name, v in scores.items() if name != "batch_loss"}
        text = "  ".join(f"{name} {value:.4f}" for name, value in shown.items())
        self.say(f"evaluation at step {step}: {text}")
        if mix := self._watched():
            self.say(mix_line(mix))
        self._last_scalars = time.monotonic()  # time spent here is not training time

    def say(self, text: str) -> None:
        """Writes a line above the bar."""
        progress.print_line(text, self._stream)

    def close(self) -> None:
        """Ends the progress and writes out all events."""
        self._progress.close()
        while self._writers:
            kind, writer = self._writers.popitem()
            with _writing(os.path.join(self._directory, kind)):
                writer.close()


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raises OSError where TensorFlow cannot write below `path`."""
    try:
        yield
    except tf.errors.OpError as error:
        raise atomic_files.unwritable(path, error) from error


def mix_line(mix: Mapping[str, float]) -> str:
    """{name: number} of a mix of layers as one line, for a person."""
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in mix.items())
    return f"layer mix: {numbers}"


class TimedSteps:
    """A TrainStep that announces its first step, and traces those of --profile_steps.

    The first call does one step: it compiles, so nobody can tell before how long the
    others take. Calls have to end at both steps of a trace, as those of a Timetable do.
    Close it after the last.

    Args:
        between: the first step of the trace, counted from 0, and the one before which
            it ends; () for no trace.
        step: where the run begins or goes on.
        directory: of the run; the trace goes where its curves of training are.
        say: prints a line.
    """

    def __init__(
        self,
        train_step: train_step.TrainStep,
        between: Sequence[int],
        step: int,
        directory: str,
        say: Callable[[str], None],
    ):
        self._train_step, self._say = train_step, say
        self._between = list(between)
        self._directory = os.path.join(directory, "train")
        self._started: float | None = time.monotonic()  # None after the first step
        self._is_tracing = False
        if between and between[0] < step:
            say(
                f"profile: nothing is traced, for the run goes on from step {step}, "
                f"after the first of --profile_steps, {between[0]}"
            )

    def __call__(self, iterator, rates, count, step, scaling):
        if int(step) in self._between[:1]:
            with _writing(self._directory):
                tf.io.gfile.makedirs(self._directory)
                tf.profiler.experimental.start(self._directory)
            self._is_tracing = True
        if self._started is not None:
            count = tf.minimum(count, 1)
            with progress.waiting("compiling the first step"):
                results = self._train_step(iterator, rates, count, step, scaling)
                int(results[0]["steps"])  # once a GPU is done
            self._say(f"first step done after {time.monotonic() - self._started:.1f} s")
            self._started = None
        else:
            results = self._train_step(iterator, rates, count, step, scaling)
        if (
            self._is_tracing
            and int(step) + int(results[0]["steps"]) >= self._between[-1]
        ):
            self.close()
        return results

    def close(self) -> None:
        """Ends and writes the trace, if one is open."""
        if not self._is_tracing:
            return
        self._is_tracing = False
        with _writing(self._directory):
            tf.profiler.experimental.stop()
        first, last = self._between
        self._say(f"profile: steps {first} to {last} in {self._directory}")


def write_hparams(
    directory: str,
    values: Mapping[str, Any],
    results: Mapping[str, Any],
    parent: str,
    domains: Mapping[str, Sequence[Any]],
) -> None:
    """Shows a run in the tab HParams.

    Args:
        values: {flag: value} of the run.
        results: {name: number}, {} if it failed.
        parent: the directory of all runs to compare.
        domains: {flag: values} of these.
    """
    step = int(results.get("global_step", 0))
    scores = {k: float(v) for k, v in results.items() if k != "global_step"}
    status = api_pb2.STATUS_SUCCESS if scores else api_pb2.STATUS_FAILURE
    with _replacing_hparams(directory):
        api.hparams(dict(values))
        for name, score in scores.items():
            tf.summary.scalar(name, score, step=step)
        # Has no function in the api, without which runs seem to go on for ever.
        end = summary.session_end_pb(status).SerializeToString()
        tf.summary.experimental.write_raw_pb(end, step=0)
    if scores:
        with _replacing_hparams(parent):
            api.hparams_config(
                hparams=[api.HParam(n, api.Discrete(v)) for n, v in domains.items()],
                metrics=[api.Metric(name) for name in sorted(scores)],
            )


@contextlib.contextmanager
def _replacing_hparams(directory: str) -> Iterator[None]:
    """Writes summaries to a new file, in place of one from an earlier command."""
    with _writing(directory):
        for path in remote_files.matching(directory, f"*{HPARAMS_SUFFIX}"):
            tf.io.gfile.remove(path)
        writer = tf.summary.create_file_writer(
            directory, filename_suffix=HPARAMS_SUFFIX
        )
        with contextlib.closing(writer), writer.as_default():
            yield


def write_projector(
    predictor: inference.Predictor,
    examples: Any,
    columns: Callable[[np.ndarray], Mapping[str, Sequence[str]]],
    output_dir: str,
    *,
    writes: bool,
) -> None:
    """Writes vectors, labels and texts of all rows, or some at equal distances.

    Raises OSError if they cannot be written.

    Args:
        predictor: returns {"vectors": [N, W]}.
        examples: inference.Examples with a length.
        columns: rows, int [N] -> {column: N texts}, two columns or more.
        writes: False for a process that leaves writing to the chief.
    """
    count = len(examples)
    rows = np.linspace(0, count - 1, min(count, MAX_PROJECTED)).astype(np.int32)
    vectors = predictor.rows(examples, rows)["vectors"]
    if not writes:
        return
    cells = columns(rows)
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = "dev"
    embedding.tensor_path, embedding.metadata_path = _VECTORS, _METADATA
    embedding.tensor_shape.extend(vectors.shape)
    table = [cells, *zip(*cells.values(), strict=True)]
    directory = os.path.join(output_dir, "eval")  # with curves: TensorBoard looks there
    files = {
        embedding.tensor_path: (_line(f"{x:.6g}" for x in row) for row in vectors),
        embedding.metadata_path: (
            _line(cell.translate(_ESCAPES) for cell in row) for row in table
        ),
        _PROJECTOR_CONFIG: [str(config)],
    }
    atomic_files.write({os.path.join(directory, n): t for n, t in files.items()})
    print(f"projector: vectors of {len(rows)} of {count} dev rows in {directory}")


def _line(cells):
    return "\t".join(cells) + "\n"
