"""What a person sees of a run: the progress line and TensorBoard."""

import contextlib
import os
import sys
import time

import tensorflow as tf

from contract import atomic_files

# Seconds between two progress lines, on a terminal and in a file.
_TERMINAL_SECONDS = 0.5
_FILE_SECONDS = 10.0


class Reporter:
    """Writes curves and texts to TensorBoard and a progress line to standard error.

    If `writes`, event files appear below `directory` with the first scalar; OSError
    says that they cannot be written.
    `start_step`, where this process starts, serves the estimate of the time left.
    """

    def __init__(
        self, directory, num_train_steps, start_step=0, *, writes=True, stream=None
    ):
        self._directory = directory
        self._writes = writes
        self._writers = {}
        self._total = num_train_steps
        self._start_step = start_step
        self._stream = stream or sys.stderr
        self._started = self._last_scalars = time.monotonic()
        self._last_line = 0.0
        self._is_line_open = False

    def write(self, kind, step, scalars):
        """Adds numbers to the curves `<kind>/<name>`, and Markdown to the texts."""
        if not self._writes:
            return
        with self._written(kind):
            if kind not in self._writers:
                path = os.path.join(self._directory, kind)
                self._writers[kind] = tf.summary.create_file_writer(path)
            with self._writers[kind].as_default(step):
                for name, value in scalars.items():
                    if isinstance(value, str):
                        tf.summary.text(f"{kind}/{name}", value)
                    else:
                        tf.summary.scalar(f"{kind}/{name}", float(value))

    @contextlib.contextmanager
    def _written(self, kind):
        try:
            yield
        except tf.errors.OpError as error:
            path = os.path.join(self._directory, kind)
            raise atomic_files.unwritable(path, error) from error

    def train(self, step, results, learning_rate):
        """Reports what steps.train_function returned for the steps up to `step`."""
        now = time.monotonic()
        seconds = max(now - self._last_scalars, 1e-9)
        self._last_scalars = now
        rates = {
            "examples_per_second": results["examples"] / seconds,
            "tokens_per_second": results["tokens"] / seconds,
        }
        scalars = {k: v for k, v in results.items() if k not in ("examples", "tokens")}
        self.write("train", step, {**scalars, **rates, "learning_rate": learning_rate})
        self._progress(now, step, results["loss"], learning_rate, rates)

    def _progress(self, now, step, loss, learning_rate, rates):
        is_terminal = self._stream.isatty()
        pause = _TERMINAL_SECONDS if is_terminal else _FILE_SECONDS
        if now - self._last_line < pause and step < self._total:
            return
        self._last_line = now
        done = step - self._start_step
        left = (now - self._started) / done * (self._total - step)
        line = (
            f"step {step}/{self._total} ({100 * step // self._total} %)  "
            f"loss {loss:.4f}  rate {learning_rate:.2e}  "
            f"{rates['examples_per_second']:.0f} examples/s  "
            f"{rates['tokens_per_second']:.0f} tokens/s  {_clock(left)} left"
        )
        self._stream.write(f"\r{line:<100}" if is_terminal else line + "\n")
        self._stream.flush()
        self._is_line_open = is_terminal

    def evaluated(self, step, scores):
        """Reports scores and texts of an evaluation during or after training."""
        self.write("eval", step, scores)
        text = "  ".join(
            f"{name} {value:.4f}"
            for name, value in scores.items()
            if not isinstance(value, str)
        )
        self.say(f"evaluation at step {step}: {text}")
        self._last_scalars = time.monotonic()  # time spent here is not training time

    def say(self, text):
        """Writes one line of its own, below an open progress line."""
        self._stream.write(("\n" if self._is_line_open else "") + text + "\n")
        self._stream.flush()
        self._is_line_open = False

    def close(self):
        """Ends the progress line and writes out all events."""
        if self._is_line_open:
            self.say("")
        while self._writers:
            kind, writer = self._writers.popitem()
            with self._written(kind):
                writer.close()


class Meter:
    """Writes a line now and then on the progress of a long piece of work."""

    def __init__(self, what, unit="batch", stream=None):
        self._what, self._unit = what, unit
        self._stream = stream or sys.stderr
        self._started = self._last_line = time.monotonic()
        self._first = None

    def __call__(self, done, total, **counts):
        """Reports `done` of `total` units if due; the first call's took no time."""
        now = time.monotonic()
        if self._first is None:
            self._first = (done, counts)
        if now - self._last_line < _FILE_SECONDS:
            return
        self._last_line = now
        seconds, new = now - self._started, done - self._first[0]
        left = seconds / new * (total - done) if new else 0.0
        line = f"{self._what}: {self._unit} {done}/{total} ({100 * done // total} %)"
        for name, count in counts.items():
            rate = (count - self._first[1].get(name, 0)) / seconds
            line += f"  {count} {name}, {rate:.0f}/s"
        self._stream.write(f"{line}  {_clock(left)} left\n")
        self._stream.flush()


def progress(batches, total, what, stream=None):
    """Yields `total` batches, with a progress line now and then."""
    meter = Meter(what, stream=stream)
    for done, batch in enumerate(batches):
        meter(done, total)
        yield batch


def _clock(seconds):
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
