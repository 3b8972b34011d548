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
_advisory: set[int] = set()  # devices on which a lock keeps no writer out


@contextlib.contextmanager
def held(path: str, name: str, *, is_directory: bool = False) -> Iterator[None]:
    """Holds a directory, or a file that grows, which is made.

    Raises:
        InputError: another process, or thread, holds it for longer than a small file
            takes; the message begins with `name`.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    descriptor = None
    while "://" not in path:
        try:
            descriptor = _acquire(path, is_directory)
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
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # for forked processes, too
            os.close(descriptor)


def directory(path: str, name: str) -> contextlib.AbstractContextManager[None]:
    """Holds a directory, and makes it; as `held`."""
    with contextlib.suppress(OSError):  # which whoever writes there will meet
        if "://" not in path:
            os.makedirs(path, exist_ok=True)
    return held(path, name, is_directory=True)


def _acquire(path: str, is_directory: bool) -> int:
    """The descriptor with the lock; BlockingIOError where another holds it."""
    flags = os.O_DIRECTORY if is_directory else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if not os.path.samestat(status, os.stat(path)):
            raise FileNotFoundError
        if not is_directory and status.st_dev not in _advisory:
            # On SMB no other descriptor could write, that of the writer included. Once
            # a device: after it ext4 writes the file to the disk when it is closed.
            with open(path, "wb") as file:
                file.write(b"\0")
            _advisory.add(status.st_dev)
        if not is_directory and os.fstat(descriptor).st_size:
            os.truncate(descriptor, 0)  # also what a killed command has left
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, FileNotFoundError):  # whoever held it has just renamed it
            raise BlockingIOError from None
        raise
    return descriptor


def _holder(path: str) -> str:
    """The process that holds a lock, where the system tells it, as Linux does."""
    with contextlib.suppress(OSError, StopIteration):
        status = os.stat(path)
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        inode = f":{status.st_ino}"
        with open("/proc/locks") as file:
            pids = {place: pid for *_, pid, place, _, _ in map(str.split, file)}
        # btrfs has another device there.
        others = (pid for place, pid in pids.items() if place.endswith(inode))
        return f"process {pids.get(device + inode) or next(others)}"
    return "another process"
