"""What a person sees of a run that trains: its progress and TensorBoard."""

import contextlib
import os
import time

import tensorflow as tf

from contract import atomic_files
from terminal import native_log, progress
from training.results import metrics

# Beside the progress; those of a student are what its loss is made of.
_SHOWN = ("loss", "soft_loss", "label_loss")
LAYER_MIX = "layer_mix"  # group of curves, and part of a run's record


class Reporter:
    """Writes curves and texts to TensorBoard and its progress to standard error.

    If `writes`, event files appear below `directory` with the first scalar; OSError
    says that they cannot be written.
    `start_step`, where this process starts, serves the estimate of the time left.
    `watched` returns the numbers of a mix of layers, or {}.
    """

    def __init__(
        self,
        directory,
        num_train_steps,
        start_step=0,
        *,
        writes=True,
        stream=None,
        watched=dict,
    ):
        self._directory = directory
        self._writes = writes
        self._writers = {}
        self._total = num_train_steps
        self._start_step = start_step
        self._stream = stream
        self._watched = watched
        self._last_scalars = time.monotonic()
        self._progress = progress.Progress("step", stays=True, stream=stream)

    def begin(self):
        """Shows that training begins; what comes first may take long."""
        self._last_scalars = time.monotonic()
        self._progress(self._start_step, self._total)

    def write(self, kind, step, scalars, group=None):
        """Adds numbers to the curves `<group>/<name>`, and Markdown to the texts.

        The group is the kind, if nothing else is given.
        """
        group = group or kind
        if not self._writes:
            return
        with self._written(kind), self._writer(kind).as_default(step):
            for name, value in scalars.items():
                if isinstance(value, str):
                    tf.summary.text(f"{group}/{name}", value)
                else:
                    tf.summary.scalar(f"{group}/{name}", float(value))

    def show(self, kind, step, shown):
        """Adds {name: (PNG, Markdown or float [K] for a histogram, description)}."""
        if not (self._writes and shown):
            return
        with self._written(kind), self._writer(kind).as_default(step):
            for name, (value, description) in shown.items():
                tag, about = f"{kind}/{name}", {"description": description}
                if isinstance(value, bytes):
                    pixels = tf.io.decode_png(value)[tf.newaxis]
                    tf.summary.image(tag, pixels, **about)
                elif isinstance(value, str):
                    tf.summary.text(tag, value, **about)
                else:
                    tf.summary.histogram(tag, value, **about)

    def _writer(self, kind):
        if kind not in self._writers:
            path = os.path.join(self._directory, kind)
            self._writers[kind] = tf.summary.create_file_writer(path)
        return self._writers[kind]

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

    def evaluated(self, step, scores):
        """Reports scores and texts of an evaluation during or after training."""
        self.write("eval", step, scores)
        text = "  ".join(
            f"{name} {value:.4f}"
            for name, value in scores.items()
            if not isinstance(value, str)
        )
        self.say(f"evaluation at step {step}: {text}")
        if mix := self._watched():
            self.say(mix_line(mix))
        self._last_scalars = time.monotonic()  # time spent here is not training time

    def say(self, text):
        """Writes one line of its own, above the bar."""
        progress.say(text, self._stream)

    def close(self):
        """Ends the progress and writes out all events."""
        self._progress.close()
        while self._writers:
            kind, writer = self._writers.popitem()
            with self._written(kind):
                writer.close()


def mix_line(mix):
    """{name: number} of a mix of layers as one line, for a person."""
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in mix.items())
    return f"layer mix: {numbers}"


def first_timed(train_steps, say):
    """`train_steps`, whose first call does one step, and says when that is done.

    It compiles, so nobody knows before how long the others take.
    """
    started = time.monotonic()
    is_said = False

    def timed(iterator, rates, count, *others):
        nonlocal is_said
        if is_said:
            return train_steps(iterator, rates, count, *others)
        is_said = True
        with progress.waiting("compiling the first step"):
            results = train_steps(iterator, rates, tf.minimum(count, 1), *others)
            int(results[0]["steps"])  # once a GPU is done
        native_log.end()  # TensorFlow is up
        say(f"first step done after {time.monotonic() - started:.1f} s")
        return results

    return timed
