"""Goes over to another version while a server runs, as TensorFlow Serving does."""

import contextlib
import gc
import threading
import time
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from terminal import progress

POLL_SECONDS = 1.0  # between two looks; TensorFlow Serving's default, too


class Poller:
    """Looks for the newest version now and then.

    Args:
        version_dir: the version in service.
        newest: returns the newest version, or "" where there is none.
        serve: loads a version and answers from it from then on. If it raises an error,
            such as a ValueError that names the version, the one before stays in
            service, and this version is not tried again.
        seen: a version that was tried before, if not the one in service.
    """

    def __init__(
        self,
        version_dir: str,
        newest: Callable[[], str],
        serve: Callable[[str], object],
        seen: str = "",
    ):
        self._served, self._seen = version_dir, seen or version_dir
        self._newest, self._serve = newest, serve

    def poll(self) -> None:
        """Looks once."""
        try:
            newest = self._newest() or self._served
        except tf.errors.OpError:
            return  # a storage that does not answer now
        if newest == self._seen:
            return
        self._seen = newest
        if newest == self._served:  # a later version has come and gone
            return
        try:
            self._serve(newest)
        except Exception as error:  # whatever it is, requests are answered as before
            logging.debug("traceback", exc_info=True)
            names_version = isinstance(error, ValueError)
            reason = str(error) if names_version else f"{newest}: {error!r}"
            with contextlib.suppress(OSError):  # nobody reads the log any more
                progress.print_line(
                    f"{self._served} stays in service; " + reason.split("\n")[0]
                )
            return
        self._served = newest
        with contextlib.suppress(OSError):  # the reader wanted the address only
            print(f"serving {newest} from now on", flush=True)
        gc.collect()  # functions of the old one refer to one another and to its weights

    def start(self) -> None:
        """Looks every POLL_SECONDS, in a thread, until the process ends."""

        def poll_forever() -> None:
            while True:
                time.sleep(POLL_SECONDS)
                self.poll()

        threading.Thread(target=poll_forever, daemon=True).start()
