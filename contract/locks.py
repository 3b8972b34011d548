"""One writer of a file or a directory at a time, by locks that the kernel keeps.

A lock ends with its process, however that ends, and is no file that could stay. Where
there are no locks, as on remote paths and some network file systems, work goes on
without.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from contract import errors

PATIENCE_SECONDS = 1.0  # a small file is written in less
_PAUSE_SECONDS = 0.02
_held: set[int] = set()  # descriptors


@contextlib.contextmanager
def held(
    path: str, name: str, *, flags: int = os.O_RDWR | os.O_CREAT
) -> Iterator[None]:
    """Holds a file that grows; `flags` are those it is opened with.

    Raises:
        InputError: another process, or thread, holds it for longer than a small file
            takes; the message begins with `name`.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    descriptor = None
    while "://" not in path:
        try:
            descriptor = _acquire(path, flags)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise errors.InputError(
                    f"{name}: {_holder(path)} writes it; wait for it, or name another "
                    "place"
                ) from None
        except OSError:  # no locks, or a place that cannot be written, as will be seen
            break
        time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        if descriptor in _held:  # no more in a process that was forked meanwhile
            _held.remove(descriptor)
            os.close(descriptor)


def directory(path: str, name: str) -> contextlib.AbstractContextManager[None]:
    """Holds a directory, and makes it; as `held`."""
    with contextlib.suppress(OSError):  # which whoever writes there will meet
        if "://" not in path:
            os.makedirs(path, exist_ok=True)
    return held(path, name, flags=os.O_RDONLY | os.O_DIRECTORY)


def _acquire(path: str, flags: int) -> int:
    """The descriptor with the lock; BlockingIOError where another holds it."""
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if not os.path.samestat(status, os.stat(path)):
            raise FileNotFoundError
        if flags & os.O_RDWR:
            # On SMB no other descriptor could write, that of the writer included.
            with open(path, "wb") as file:
                file.write(b"\0")
            os.truncate(descriptor, 0)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, FileNotFoundError):  # whoever held it has just renamed it
            raise BlockingIOError from None
        raise
    _held.add(descriptor)
    return descriptor


def _holder(path: str) -> str:
    """Who holds a lock, as far as the system tells; of Linux the process."""
    with contextlib.suppress(OSError, StopIteration):
        status = os.stat(path)
        with open("/proc/locks") as file:
            pids = {place: int(pid) for *_, pid, place, _, _ in map(str.split, file)}
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        places = [f"{device}:{status.st_ino}"]  # but btrfs has other devices there
        places += [place for place in pids if place.endswith(f":{status.st_ino}")]
        pid = next(pids[place] for place in places if place in pids)
        is_own = pid == os.getpid()
        who = "a thread of this command" if is_own else "another command"
        return f"{who}, process {pid},"
    return "another command"


def _forget() -> None:
    """In a forked process, which may outlive the one that holds the locks."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget)
