"""A trace of some steps, for TensorBoard's profiler."""

import os

import tensorflow as tf

from contract import atomic_files

_NEVER = -1  # no step


class TracedSteps:
    """steps.train_function's function, of which calls within two steps are traced.

    Calls have to end at both steps, as those of loop.Plan do. Close it after the last.

    Args:
        train_steps: the function; its fourth argument is the step that it begins with.
        between: the first step, counted from 0, and the one before which tracing ends;
            () for no trace.
        step: where the run begins or goes on.
        directory: of the run; the trace goes where its curves of training are.
        say: prints a line.
    """

    def __init__(self, train_steps, between, step, directory, say):
        self._train_steps = train_steps
        self._first: int = between[0] if between else _NEVER
        self._last: int = between[-1] if between else _NEVER
        self._directory = os.path.join(directory, "train")
        self._say = say
        self._is_tracing = False
        if _NEVER < self._first < step:
            say(
                f"profile: nothing is traced, for the run goes on from step {step}, "
                f"after the first of --profile_steps, {self._first}"
            )

    def __call__(self, iterator, rates, count, step, *others):
        if int(step) == self._first:
            self._start()
        results = self._train_steps(iterator, rates, count, step, *others)
        if self._is_tracing and int(step) + int(results[0]["steps"]) >= self._last:
            self.close()
        return results

    def _start(self):
        try:
            tf.io.gfile.makedirs(self._directory)
            tf.profiler.experimental.start(self._directory)
        except tf.errors.OpError as error:
            raise atomic_files.unwritable(self._directory, error) from error
        self._is_tracing = True

    def close(self):
        """Ends and writes the trace, if one is open."""
        if not self._is_tracing:
            return
        self._is_tracing = False
        try:
            tf.profiler.experimental.stop()
        except tf.errors.OpError as error:
            raise atomic_files.unwritable(self._directory, error) from error
        self._say(f"profile: steps {self._first} to {self._last} in {self._directory}")
