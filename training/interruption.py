"""Signals that ask a run to stop: it saves first, and the same command resumes."""

import contextlib
import os
import select
import signal
import threading

import tensorflow as tf

from contract import errors
from terminal import progress

_PATIENCE_SECONDS = 1.0  # for Python to end the process, at a second signal


class Interruption:
    """Watches for SIGTERM, as a machine is taken away, a closed terminal, and Ctrl-C.

    A context manager. Python handles signals only between its own instructions, and one
    call of TensorFlow, many steps long, is one instruction. So a thread waits for the
    byte that Python writes at once, answers with a line, and sets `stop_requested`, a
    float32 variable read at each step, to 1. A second signal ends the process as usual,
    or, while such a call goes on, at once.
    """

    def __init__(self):
        with tf.device("CPU:0"):
            self.stop_requested = tf.Variable(0.0, trainable=False)
        self.number = None
        self._raises = False
        self._heeded: list[int] = []
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            return self  # where no signal can be handled, as in a notebook's thread
        receiver, sender = os.pipe()
        os.set_blocking(sender, False)
        thread = threading.Thread(target=self._listen, args=(receiver,), daemon=True)
        thread.start()
        self._undo.callback(thread.join)
        self._undo.callback(os.close, sender)  # ends the thread
        wakeup = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._undo.callback(signal.set_wakeup_fd, wakeup)
        # Last, and undone first: what is handled is also heard by the thread.
        self._heeded = list(errors.STOP_SIGNALS)
        if errors.is_ignored(signal.SIGHUP):
            self._heeded.remove(signal.SIGHUP)
        for number in self._heeded:
            before = signal.signal(number, self._handle)
            self._undo.callback(signal.signal, number, before)
        return self

    def __exit__(self, *_):
        self._undo.close()

    def _listen(self, receiver):
        is_first = True
        while data := os.read(receiver, 1):
            if data[0] not in self._heeded:
                continue
            if is_first:
                is_first = False
                self._answer(data[0])
                self.stop_requested.assign(1.0)
            elif not select.select([receiver], [], [], _PATIENCE_SECONDS)[0]:
                progress.print_line("ended without saving")
                os._exit(errors.SIGNALLED + data[0])
        os.close(receiver)

    def _answer(self, number):
        when = "" if self._raises else " after this step"
        again = "Ctrl-C again" if number == signal.SIGINT else "a second signal"
        progress.print_line(f"stopping{when}; {again} ends without saving")

    def _handle(self, number, _):
        self.number = number
        for each in self._heeded:
            is_interrupt = each == signal.SIGINT
            again = signal.default_int_handler if is_interrupt else signal.SIG_DFL
            signal.signal(each, again)
        if self._raises:
            raise errors.Stopped(number)

    @contextlib.contextmanager
    def raised(self):
        """Within it a signal raises Stopped at once, even one that came before."""
        self._raises = True
        try:
            if self.number is not None:
                raise errors.Stopped(self.number)
            yield
        except Exception:
            if self.number is None:
                raise
            # AutoGraph, if it was reading a function, made another error of it.
            raise errors.Stopped(self.number) from None
        finally:
            self._raises = False
