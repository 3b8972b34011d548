"""TensorBoard's HParams: the values that several runs had, and what came of each."""

import contextlib
import os

import tensorflow as tf
from tensorboard.plugins.hparams import api, api_pb2, summary

from contract import atomic_files

# Ends the names of its event files, which can so be told from those of curves.
SUFFIX = ".hparams"


class Experiment:
    """The runs below a directory, as TensorBoard shows them when it is opened there.

    Args:
        domains: {name: values that the runs have}.
        writes: False for a process that leaves writing to the chief.
    """

    def __init__(self, directory, domains, *, writes):
        self._directory = directory
        self._domains = domains
        self._writes = writes
        self._is_described = False

    def add(self, directory, values, results):
        """Shows a run: its {name: value} and {result: number}, {} if it failed.

        Raises OSError if that cannot be written.
        """
        if not self._writes:
            return
        step = int(results.get("global_step", 0))
        scores = {k: float(v) for k, v in results.items() if k != "global_step"}
        ended = api_pb2.STATUS_SUCCESS if scores else api_pb2.STATUS_FAILURE
        with _replaced_events(directory):
            api.hparams(dict(values))
            for name, score in scores.items():
                tf.summary.scalar(name, score, step=step)
            # Has no function in the api, without which runs seem to go on for ever.
            end = summary.session_end_pb(ended).SerializeToString()
            tf.summary.experimental.write_raw_pb(end, step=0)
        if scores and not self._is_described:
            self._describe(sorted(scores))

    def _describe(self, names):
        with _replaced_events(self._directory):
            api.hparams_config(
                hparams=[
                    api.HParam(name, api.Discrete(values))
                    for name, values in self._domains.items()
                ],
                metrics=[api.Metric(name) for name in names],
            )
        self._is_described = True


@contextlib.contextmanager
def _replaced_events(directory):
    """Writes summaries to a new file, in place of one from an earlier command."""
    try:
        if tf.io.gfile.isdir(directory):
            for name in tf.io.gfile.listdir(directory):
                if name.endswith(SUFFIX):
                    tf.io.gfile.remove(os.path.join(directory, name))
        writer = tf.summary.create_file_writer(directory, filename_suffix=SUFFIX)
        with contextlib.closing(writer), writer.as_default():
            yield
    except tf.errors.OpError as error:
        raise atomic_files.unwritable(directory, error) from error
