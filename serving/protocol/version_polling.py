"""Goes over to another version while a server runs, as TensorFlow Serving does."""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

from terminal import progress

POLL_SECONDS = 1.0  # between two looks; TensorFlow Serving's default, too


class Poller:
    """Looks for the newest version now and then.

    Args:
        version_dir: what is served.
        newest: the version that should be; "" where there is none, and then that which
            is served stays.
        serve: loads a version and answers from it from then on. Where it raises an
            error, such as a ValueError that names the version, the one before stays,
            and the version is not tried again.
    """

    def __init__(
        self,
        version_dir: str,
        newest: Callable[[], str],
        serve: Callable[[str], object],
    ):
        self._served = self._seen = version_dir
        self._newest = newest
        self._serve = serve
        self._stop = threading.Event()

    def poll(self) -> None:
        """Looks once."""
        try:
            newest = self._newest() or self._served
        except tf.errors.OpError:
            return  # a storage that does not answer now
        if newest == self._seen:
            return
        self._seen = newest
        if newest == self._served:  # what came after it is gone again
            return
        try:
            self._serve(newest)
        except Exception as error:  # whatever it is, requests are answered as before
            logging.debug("traceback", exc_info=True)
            is_known = isinstance(error, ValueError)  # whose text names the version
            reason = str(error) if is_known else f"{newest}: {error!r}"
            progress.say(f"{self._served} stays in service; " + reason.split("\n")[0])
            return
        self._served = newest
        with contextlib.suppress(BrokenPipeError):  # of who read the address alone
            print(f"serving {newest} from now on", flush=True)
        gc.collect()  # functions of the old one refer to one another and to its weights

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Looks every POLL_SECONDS, in a thread, until the block ends."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()  # TensorFlow cannot be interrupted while it loads

    def _run(self):
        while not self._stop.wait(POLL_SECONDS):
            self.poll()
